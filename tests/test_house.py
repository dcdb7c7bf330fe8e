"""The rules of the house: imports point down, names live in the registry, pages stay short."""

import ast
from functools import cache
from pathlib import Path

import tfzoo
from benchmarks.structure import Source, below, circles, is_typing
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry

ROOT = Path(tfzoo.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FLOORS = {
    0: ("errors", "__init__"),
    1: ("base", "contracts", "masks"),
    2: ("runs",),
    3: ("models", "search"),
    4: ("components",),
    5: ("data", "learning", "swapping", "tasks", "plots"),
    6: ("config", "exporting", "testing"),
    7: ("training", "serving"),
    8: ("sweep",),
    9: ("commands", "__main__"),
}
HEAVY = ("lightning", "torchmetrics", "wandb", "pytorch_lightning")


def inside(path):
    return path.relative_to(ROOT).as_posix()


@cache
def source():
    return Source(ROOT)


def tree(path):
    return source().trees[inside(path)]


def floor(module):
    """What is named on no floor serves components."""
    first = module.partition(".")[0]
    return next((level for level, names in FLOORS.items() if first in names), 1)


def imports(path):
    """Every module that a file imports, and whether only for type checkers."""
    for node in tree(path).body:
        typing_only = isinstance(node, ast.If) and is_typing(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                yield from ((alias.name, typing_only) for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module:
                yield inner.module, typing_only
                if inner.module == "tfzoo":
                    yield from ((f"tfzoo.{alias.name}", typing_only) for alias in inner.names)


def test_imports_point_down():
    """Lazily loaded names of the package itself are what it is for."""
    wrong = []
    for path in FILES:
        own = floor(inside(path).removesuffix(".py").replace("/", "."))
        for module, typing_only in imports(path):
            package, _, rest = module.partition(".")
            up = package == "tfzoo" and rest and floor(rest) > own
            heavy = own < 5 and not typing_only and package in HEAVY
            torch = own == 0 and not typing_only and package == "torch"
            if (up and inside(path) != "__init__.py") or heavy or torch:
                wrong.append(f"{inside(path)} (floor {own}) imports {module}")
    assert wrong == []


def names():
    """Of components, but for words that mean something else as well."""
    ordinary = {"none", "layer", "batch", "index", "linear", "constant", "numbers", "instance"}
    ordinary |= {"mean", "sum", "first", "last", "max", "word", "bytes", "pre", "post", "identity"}
    ordinary |= {"learned", "softmax"}  # the latter is also a trait
    return {name for kind in KINDS for name in registry(kind).names()} - ordinary


def test_names_of_components_live_in_the_registry_alone():
    """A component says its own name, a constructor has its defaults, and nothing else knows any."""
    known, wrong = names(), []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
                parts = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
                said = {part.value for part in parts if isinstance(part, ast.Constant)} & known
                if len(said) > 1:
                    wrong.append(f"{inside(path)}:{node.lineno} lists {sorted(map(str, said))}")
            if isinstance(node, ast.Compare):
                parts = list(ast.walk(node))
                said = {part.value for part in parts if isinstance(part, ast.Constant)} & known
                if said:
                    wrong.append(f"{inside(path)}:{node.lineno} compares with {said}")
    assert wrong == []


def test_a_function_fits_on_a_screen():
    """Without its docstring."""
    wrong = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > 50:
                    wrong.append(f"{inside(path)}: {node.name} has {lines} lines")
    assert wrong == []


def test_no_two_rooms_import_each_other():
    """Also not through others, and not within functions; imports for type checkers are left out."""
    graph = source().rooms()
    assert len(graph) > 15
    assert circles(graph) == []


def test_no_two_files_import_each_other():
    """Nor through others, within functions or for type checkers."""
    graph = source().files()
    assert graph["sweep/judge/verdicts.py"] >= {"sweep/judge/paired.py", "sweep/judge/effects.py"}
    assert circles(graph) == []


def test_a_configuration_opens_no_run():
    assert "learning" not in below(source().rooms(), "config")
