"""The tests catch mistakes: each is made in the source, one by one, and the test that it names
turns from green to red.
"""

from __future__ import annotations

import ast

import pytest

from tests.testing.bugs import BUGS, Bug
from tests.testing.seeded import SOURCE, changed, passes
from tfzoo.registry import registry
from tfzoo.testing.component import MODULES
from tfzoo.testing.subject import hooks


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_bug_is_caught_by_the_test_that_it_names(bug: Bug) -> None:
    source = changed((SOURCE / bug.file).read_text("utf-8"), bug.fragment, bug.replacement)
    green, said = passes(bug.caught_by)
    assert green, f"red without the bug: {said}"
    still_green, _ = passes(bug.caught_by, bug.file, source)
    assert not still_green, f"{bug.caught_by} does not notice it"


def test_there_are_enough_bugs_and_no_two_alike() -> None:
    assert (
        len({bug.name for bug in BUGS})
        == len({(bug.file, bug.replacement) for bug in BUGS})
        == len(BUGS)
        >= 20
    )


DEFINING = {
    "attention": ("scores",),
    "norm": ("forward",),
    "feedforward": ("forward",),
    "pooling": ("forward",),
    "position": ("embed", "angles", "bias"),
}


def components() -> list[tuple[str, str]]:
    return [(kind, name) for kind in MODULES for name in registry(kind).names()]


@pytest.mark.parametrize(
    ("kind", "name"), components(), ids=["-".join(pair) for pair in components()]
)
def test_a_component_that_does_nothing_is_caught(kind: str, name: str) -> None:
    """The rule: its defining method gives back what it gets (scores: nothing but zeros); one that
    does so already, twice as much.
    """
    green, said = passes(f"{kind} {name} *")
    assert green, f"red without the bug: {said}"
    still_green, _ = passes(f"{kind} {name} *", f"{kind}/{name}.py", made_idle(kind, name))
    assert not still_green


def made_idle(kind: str, name: str) -> str:
    """A component's source with one method changed by the rule."""
    tree = ast.parse((SOURCE / kind / f"{name}.py").read_text("utf-8"))
    (cls,) = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == registry(kind).entry(name).cls.__name__
    ]
    methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
    defining = [methods[one] for one in DEFINING[kind] if one in methods]
    if not defining:  # a position without hooks: it gets one
        assert hooks(name) == set()
        hook = ast.parse(
            "def embed(self, x, pos, length=None):\n    return x + pos[..., None]"
        ).body[0]
        cls.body.append(hook)
        return ast.unparse(ast.fix_missing_locations(tree))
    method = defining[0]
    first, *others = [argument.arg for argument in method.args.args[1:]]
    second = next(iter(others), "")
    idle = {
        "scores": f"0 * ({first} @ {first}.mT)[..., :1] * {second}[..., :1].mT",
        "angles": "None",
        "bias": "None",
    }.get(method.name, first)
    already = ast.unparse(method.body[-1]) == f"return {first}"
    method.body = [ast.parse(f"return 2 * {first}" if already else f"return {idle}").body[0]]
    return ast.unparse(ast.fix_missing_locations(tree))
