"""The rules of the house: imports point down, names live in the registry, pages stay short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfzoo
from benchmarks.structure import cycles, packages
from tfzoo.registry import KINDS, registry

ROOT = Path(tfzoo.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLOORS = {
    0: ("errors", "registry", "special_ids", "values", "__init__"),
    1: ("contracts", "masks", "dropout"),
    2: ("attention", "norm", "position", "feedforward", "pooling"),
    3: ("blocks",),
    4: ("models", "search", "testing"),
    5: ("data", "tasks", "runs"),
    6: ("config", "terminal"),
    7: ("training",),
    8: ("sweep",),
    9: ("commands", "__main__"),
}
HEAVY = ("lightning", "torchmetrics", "wandb", "pytorch_lightning")


def inside(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def floor(module: str) -> int:
    """Of ``blocks.stack``; what lies beside the contracts and is named nowhere above serves
    components.
    """
    first = module.partition(".")[0]
    return next((level for level, names in FLOORS.items() if first in names), 1)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether only for type checkers."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                yield from ((alias.name, typing_only) for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module:
                yield inner.module, typing_only
                if inner.module == "tfzoo":
                    yield from ((f"tfzoo.{alias.name}", typing_only) for alias in inner.names)


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_imports_point_down(path: Path) -> None:
    """Lazily loaded names of the package itself are what it is for."""
    own = floor(inside(path).removesuffix(".py").replace("/", "."))
    for module, typing_only in imports(path):
        if module.startswith("tfzoo.") and inside(path) != "__init__.py":
            assert floor(module.removeprefix("tfzoo.")) <= own, (
                f"{inside(path)} (floor {own}) imports {module}"
            )
        if own < 5 and not typing_only:
            assert module.partition(".")[0] not in HEAVY, (
                f"{inside(path)} (floor {own}) imports {module}"
            )
        if own == 0 and not typing_only:
            assert module.partition(".")[0] != "torch", f"{inside(path)} imports torch"


def names() -> set[str]:
    """Of components, but for words that mean something else as well."""
    ordinary = {
        "none",
        "layer",
        "batch",
        "index",
        "linear",
        "constant",
        "numbers",
        "learned",
        "instance",
    }
    ordinary |= {"mean", "sum", "first", "max", "word", "bytes"}
    return {name for kind in KINDS for name in registry(kind).names()} - ordinary


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_names_of_components_live_in_the_registry_alone(path: Path) -> None:
    """A component says its own name, a constructor has its defaults, and nothing else knows any."""
    tree = ast.parse(path.read_text("utf-8"))
    known = names()
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            entries = node.values if isinstance(node, ast.Dict) else node.elts
            keys = (
                [key for key in node.keys if key is not None] if isinstance(node, ast.Dict) else []
            )
            said = {
                entry.value for entry in [*entries, *keys] if isinstance(entry, ast.Constant)
            } & known
            assert len(said) < 2, f"{inside(path)}:{node.lineno} lists {sorted(map(str, said))}"
        if isinstance(node, ast.Compare):
            said = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} & known
            assert not said, f"{inside(path)}:{node.lineno} compares with {said}"


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = [
                statement
                for statement in node.body
                if not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
            ]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= 50, f"{inside(path)}: {node.name} has {lines} lines"


def test_no_file_is_long_but_the_registry() -> None:
    assert {inside(path) for path in FILES if len(path.read_text("utf-8").splitlines()) > 300} <= {
        "registry.py"
    }


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_there_are_no_asserts_no_keyword_collectors_and_no_stray_todos(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            kwarg = node.args.kwarg  # Unpack names and types every keyword
            assert kwarg is None or "Unpack[" in ast.unparse(kwarg), (
                f"{inside(path)}:{node.lineno}: **kwargs in a constructor"
            )


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_everything_public_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), f"{inside(path)} has no docstring"
    if inside(path).startswith("testing/"):
        return  # a promise is named after what it promises
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), (
                f"{inside(path)}:{node.lineno}: {node.name} has no docstring"
            )


def test_no_two_packages_import_each_other() -> None:
    """Also not through others, and not within functions; imports for type checkers are left out."""
    graph = packages(ROOT)
    assert len(graph) > 15
    assert cycles(graph) == []
