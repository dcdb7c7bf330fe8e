"""Each mistake, made in the source, turns the test that it names red."""

import ast
import copy
import inspect
import re

import pytest

from tests.daily import sampled
from tests.testing.bugs import BUGS
from tests.testing.changes import changed, find, names_of, returns
from tests.testing.patching import ROOT
from tests.testing.seeded import passes
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry


def seeded():
    """Nightly are those inside a component, of which each run has one for each, below, and those
    whose check starts pytest, which takes seconds.
    """
    for bug in BUGS:
        nightly = find(bug.where)[0].partition("/")[0] in KINDS or "::" in bug.caught_by
        marks = [pytest.mark.nightly] if nightly else []
        yield pytest.param(bug, id=bug.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("bug", list(seeded()))
def test_a_bug_is_caught_by_the_test_that_it_names(bug):
    green, said = passes(bug.caught_by)
    assert green, f"red without the bug: {said}"
    still_green, _ = passes(bug.caught_by, changed(bug.where, bug.change))
    assert not still_green, f"{bug.caught_by} does not notice it"


def test_every_bug_can_be_made_whatever_local_variables_are_called():
    """Also those that are caught nightly; and no two are alike, and the test of each is there."""
    trees = set()
    for bug in BUGS:
        file, tree, definition = find(bug.where)
        renamed = RenameLocals(definition).visit(copy.deepcopy(definition))
        bug.change(renamed, names_of(tree))
        bug.change(definition, names_of(tree))
        trees.add((file, ast.unparse(definition)))
        file, _, test = bug.caught_by.partition("::")
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / file).read_text("utf-8")
    assert len(trees) == len({bug.name for bug in BUGS}) == len(BUGS) >= 165


class RenameLocals(ast.NodeTransformer):
    """Give arguments and variables of a function other names."""

    def __init__(self, definition: ast.AST) -> None:
        nodes = list(ast.walk(definition))
        stored = (x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store))
        arguments = (node.arg for node in nodes if isinstance(node, ast.arg))
        self.names = {*stored, *arguments} - {"self"}

    def visit_Name(self, node):
        return ast.Name(f"{node.id}_renamed", node.ctx) if node.id in self.names else node

    def visit_arg(self, node):
        return ast.arg(f"{node.arg}_renamed") if node.arg in self.names else node


IDLE = {
    "scores": "0 * (arg_0 @ arg_0.mT)[..., :1] * arg_1[..., :1].mT",
    "prepared_scores": "0 * arg_0[..., :1] * arg_1[..., :1].mT",
    "factors": "0 * arg_0, arg_1, 1.0",
    "forward": "arg_0",
    "embed": "arg_0",
    "angles": "None",
    "bias": "None",
    "factor": "0.0",
    "configure": "__import__('torch').optim.SGD(arg_0.parameters(), lr=0.0)",
    "encode": "[[]] * len(arg_0)",
    "splits": "{}",
    "training_step": "self.summed(0 * sum(p.sum() for p in self.parameters()), 1)",
}
"""What a component's defining method returns instead."""

WITHOUT_HOOKS = "def embed(self, x, pos, length=None):\n    return x + pos[..., None]"
"""The method that a position without any gets."""

DEFINING = {
    "attention": ("scores", "prepared_scores", "factors"),
    "weighting": ("forward",),
    "mixer": ("forward",),
    "residual": ("forward",),
    "norm": ("forward",),
    "feedforward": ("forward",),
    "pooling": ("forward",),
    "position": ("embed", "angles", "bias"),
    "schedule": ("factor",),
    "optimizer": ("configure",),
    "tokenizer": ("encode",),
    "dataset": ("splits",),
    "task": ("training_step",),
}


def components():
    parts = [(kind, name) for kind in sorted(DEFINING) for name in registry(kind).own_names()]
    return [one for one in parts if "published" not in registry(one[0]).entry(one[1]).traits]


def test_every_kind_has_a_defining_method():
    assert DEFINING.keys() == KINDS.keys()


@pytest.mark.parametrize("part", sampled(components(), components()[::6]), ids="-".join)
def test_a_component_that_does_nothing_is_caught(part):
    """Its defining method does nothing, or something where it did nothing."""
    still_green, said = passes(f"{' '.join(part)} *", made_idle(*part))
    assert not still_green
    assert said, "the contract that noticed it, or the example in the docstring"


def made_idle(kind, name):
    """A component with one method changed by the rule."""
    entry = registry(kind).entry(name)
    where = f"{entry.cls.__module__.removeprefix('tfzoo.')}:{entry.cls.__name__}"
    own = [method for method in DEFINING[kind] if method in vars(entry.cls)]
    if not own:
        file, tree, cls = find(where)
        method = next(one for one in DEFINING[kind] if hasattr(entry.cls, one))
        names = list(inspect.signature(getattr(entry.cls, method)).parameters)[1:]
        result = re.sub(r"arg_(\d)", lambda found: names[int(found[1])], IDLE[method])
        head = f"def {method}(self, {', '.join(f'{name}=None' for name in names)})"
        added = WITHOUT_HOOKS if kind == "position" else f"{head}:\n    return {result}"
        cls.body += ast.parse(added).body
        return file, ast.fix_missing_locations(tree)
    method, result = f"{where}.{own[0]}", IDLE[own[0]]
    _, tree, definition = find(method)
    before = ast.unparse(definition.body[-1])
    returns(result)(definition, names_of(tree))
    again = ast.unparse(definition.body[-1]) == before
    return changed(method, returns(f"2 * ({result})" if again else result))
