"""The tests catch mistakes: each is made in the source, one by one, and the test that it names
turns from green to red.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testing.bugs import BUGS, Bug
from tests.testing.patching import SOURCE
from tests.testing.seeded import changed, passes
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry


def seeded() -> Iterator[Any]:
    """Nightly are those inside a component, of which each run has one for each, below, and those
    whose check starts pytest, which takes seconds.
    """
    for bug in BUGS:
        nightly = bug.file.partition("/")[0] in KINDS or "::" in bug.caught_by
        marks = [pytest.mark.nightly] if nightly else []
        yield pytest.param(bug, id=bug.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("bug", list(seeded()))
def test_a_bug_is_caught_by_the_test_that_it_names(bug: Bug) -> None:
    source = changed((SOURCE / bug.file).read_text("utf-8"), bug.fragment, bug.replacement)
    green, said = passes(bug.caught_by)
    assert green, f"red without the bug: {said}"
    still_green, _ = passes(bug.caught_by, bug.file, source)
    assert not still_green, f"{bug.caught_by} does not notice it"


def test_every_bug_can_be_made_in_the_source_as_it_is() -> None:
    """Also those that are caught nightly."""
    for bug in BUGS:
        changed((SOURCE / bug.file).read_text("utf-8"), bug.fragment, bug.replacement)


def test_there_are_enough_bugs_and_no_two_alike() -> None:
    names = {bug.name for bug in BUGS}
    changes = {(bug.file, bug.fragment, bug.replacement) for bug in BUGS}
    assert len(names) == len(changes) == len(BUGS)
    assert len(BUGS) + len(components()) >= 80


IDLE = {
    "scores": "0 * ({0} @ {0}.mT)[..., :1] * {1}[..., :1].mT",
    "prepared_scores": "0 * {0}[..., :1] * {1}[..., :1].mT",
    "forward": "{0}",
    "embed": "{0}",
    "angles": "None",
    "bias": "None",
    "factor": "0.0",
    "configure": "__import__('torch').optim.SGD({0}.parameters(), lr=0.0)",
    "encode": "[[] for _ in {0}]",
    "splits": "{{}}",
    "training_step": "self.summed(0 * sum(p.sum() for p in self.parameters()), 1)",
}
"""What a component's defining method returns instead, of its first and second argument."""

DEFINING = {
    "attention": ("scores", "prepared_scores"),
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


def components() -> list[tuple[str, str]]:
    return [(kind, name) for kind in sorted(DEFINING) for name in registry(kind).own_names()]


def test_every_kind_has_a_defining_method() -> None:
    assert DEFINING.keys() == KINDS.keys()


@pytest.mark.parametrize(
    ("kind", "name"), components(), ids=["-".join(pair) for pair in components()]
)
def test_a_component_that_does_nothing_is_caught(kind: str, name: str) -> None:
    """One bug for every component: its defining method does nothing; one that does nothing already
    does something.
    """
    file = KINDS[kind].package.removeprefix("tfzoo.").replace(".", "/") + f"/{name}.py"
    still_green, said = passes(f"{kind} {name} *", file, made_idle(file, kind, name))
    assert not still_green
    assert said, "the contract that noticed it, or the example in the docstring"


def made_idle(file: str, kind: str, name: str) -> str:
    """A component's source with one method changed by the rule."""
    tree = ast.parse((SOURCE / file).read_text("utf-8"))
    (cls,) = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == registry(kind).entry(name).cls.__name__
    ]
    methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
    defining = [methods[one] for one in DEFINING[kind] if one in methods]
    if not defining:  # inherited, or a position without hooks
        new = {
            "feedforward": "def forward(self, x, dropout=0.0):\n    return x",
            "position": "def embed(self, x, pos, length=None):\n    return x + pos[..., None]",
            "tokenizer": "def encode(self, texts):\n    return [[] for _ in texts]",
        }[kind]
        cls.body.append(ast.parse(new).body[0])
        return ast.unparse(ast.fix_missing_locations(tree))
    method = defining[0]
    arguments = [argument.arg for argument in method.args.args[1:]]
    idle = IDLE[method.name].format(*arguments)
    already = ast.unparse(method.body[-1]) == f"return {idle}"
    method.body = ast.parse(f"return 2 * {idle}" if already else f"return {idle}").body
    return ast.unparse(ast.fix_missing_locations(tree))
