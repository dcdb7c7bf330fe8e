"""Structure of the source in figures: rooms, floors, circles, size.

python -m benchmarks.structure
python -m benchmarks.structure --source OTHER/src                  # of another checkout

- *Rooms* are the folders and files directly under ``src/tfzoo``; *floors* the rooms on the longest
  chain of imports between them. Imports within functions count, those for type checkers do not.
- *Circles* are files of which each imports each, directly or through others; imports within
  functions and for type checkers count, too: who reads one file has to read the other.
- *Statements* are ``ast.stmt`` without docstrings.
"""

from __future__ import annotations

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Graph = Mapping[str, set[str]]
Function = tuple[str, str]
"""A file, and a name in it: ``Class.method``, ``function``."""


class Source:
    """All files of a package, parsed; each is named by its path inside."""

    def __init__(self, folder: Path) -> None:
        self.trees = {
            path.relative_to(folder).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in sorted(folder.rglob("*.py"))
        }
        self.package = folder.name

    @cached_property
    def definitions(self) -> dict[Function, ast.AST]:
        """Functions, methods and classes, but for those within functions."""
        found: dict[Function, ast.AST] = {}
        for file, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    found[file, node.name] = node
                    inner = node.body if isinstance(node, ast.ClassDef) else []
                    for method in inner:
                        if isinstance(method, FUNCTIONS):
                            found[file, f"{node.name}.{method.name}"] = method
        return found

    def file(self, module: str) -> str | None:
        """``tfzoo.models.stack`` -> ``blocks/stack.py``."""
        package, _, rest = module.partition(".")
        inside = rest.replace(".", "/")
        places = (f"{inside}.py", f"{inside}/__init__.py".lstrip("/"))
        return next((one for one in places if package == self.package and one in self.trees), None)

    def imports(self, file: str, typing: bool = False) -> Iterator[tuple[str, str, str]]:
        """The name that each import binds, the file of this package that it is taken from, and what
        is taken ("" for the file itself).
        """
        skipped = {
            id(inner)
            for node in ast.walk(self.trees[file])
            if isinstance(node, ast.If) and is_typing(node)
            for inner in ast.walk(node)
            if not typing
        }
        for node in ast.walk(self.trees[file]):
            if id(node) in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                if isinstance(node, ast.Import):
                    other, taken = self.file(alias.name), ""
                else:
                    submodule = self.file(f"{node.module}.{alias.name}")
                    other = submodule or self.file(node.module or "")
                    taken = "" if submodule else alias.name
                if other is not None:
                    yield alias.asname or alias.name, other, taken

    def files(self) -> dict[str, set[str]]:
        """The files that each imports, also for type checkers."""
        return {
            file: {other for _, other, _ in self.imports(file, typing=True)} - {file}
            for file in self.trees
        }

    def rooms(self) -> dict[str, set[str]]:
        """The rooms that each imports when it runs."""
        graph: dict[str, set[str]] = defaultdict(set)
        for file in self.trees:
            graph[room(file)] |= {room(other) for _, other, _ in self.imports(file)}
        return {name: used - {name} for name, used in graph.items()}


def is_typing(branch: ast.If) -> bool:
    """Whether a branch is for type checkers alone."""
    return isinstance(branch.test, ast.Name) and branch.test.id == "TYPE_CHECKING"


def room(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def below(graph: Graph, name: str) -> set[str]:
    """All that one imports, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for other in graph.get(waiting.pop(), set()) - found:
            found.add(other)
            waiting.append(other)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Groups of names of which each imports each, directly or through others."""
    reach = {name: below(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
        for name in graph
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def floors(graph: Graph) -> dict[str, int]:
    """The names on the longest way down from each; those of a circle lie on one floor."""
    reach = {name: below(graph, name) for name in graph}
    level = dict.fromkeys(graph, 1)
    for _ in graph:
        for name, used in graph.items():
            for other in used & graph.keys():
                if name not in reach[other]:
                    level[name] = max(level[name], level[other] + 1)
    return level


def own_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def sizes(source: Source) -> dict[str, int]:
    """Files, functions and statements."""
    nodes = [node for tree in source.trees.values() for node in ast.walk(tree)]
    return {
        "files": len(source.trees),
        "functions": sum(isinstance(node, FUNCTIONS) for node in nodes),
        "statements": sum(isinstance(node, ast.stmt) and not own_text(node) for node in nodes),
    }


def lines(folder: Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py"))


def show(source: Source, root: Path) -> None:
    """Print everything that is one figure, and the rooms."""
    rooms, files = source.rooms(), circles(source.files())
    level = floors(rooms)
    for name in sorted(rooms, key=lambda name: (level[name], name)):
        used = sorted(rooms[name], key=lambda other: (-level[other], other))
        print(f"  {level[name]:>2}  {name:<18} {', '.join(used)}")
    print(f"{len(rooms)} rooms on {max(level.values())} floors")
    print(f"circles of rooms: {len(circles(rooms))}; of files: {len(files)}")
    for group in files:
        print("  " + ", ".join(group))
    print(", ".join(f"{count:,} {name}" for name, count in sizes(source).items()))
    print(f"{lines(root / 'src'):,} lines of source, {lines(root / 'tests'):,} of tests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, default=HERE / "src", help="the folder of tfzoo")
    given = parser.parse_args()
    show(Source(given.source / "tfzoo"), given.source.parent)


if __name__ == "__main__":
    main()
