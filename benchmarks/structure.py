"""Structure of the source in figures: rooms, floors, circles, size.

    python -m benchmarks.structure
    python -m benchmarks.structure --draw                  # docs/images/house.svg as well
    python -m benchmarks.structure --source OTHER/src      # of another checkout

- *Rooms* are the folders and files directly under ``src/tfzoo``; *floors* the rooms on the longest
  chain of imports between them. Imports within functions count, those for type checkers do not.
- *Circles* are files of which each imports each, directly or through others; imports within
  functions and for type checkers count, too: who reads one file has to read the other.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
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
    print(f"{len(source.trees)} files")
    print(f"{lines(root / 'src'):,} lines of source, {lines(root / 'tests'):,} of tests")


PICTURE = HERE / "docs/images/house.svg"
GAP, HEIGHT = 0.012, 0.52
LEAST = 0.075
"""The width of a room in which its name can be read."""


def places(
    floor_of: dict[str, int], lines: Mapping[str, int]
) -> dict[str, tuple[float, float, float]]:
    """Left edge, floor and width of each room; the widest floor has width 1."""
    rows: dict[int, list[str]] = {}
    for name, floor in sorted(floor_of.items()):
        rows.setdefault(floor, []).append(name)
    widths = {name: max(LEAST, (lines[name] / 60_000) ** 0.5 / 2) for name in floor_of}
    found = {}
    for floor, names in rows.items():
        left = 0.5 - (sum(widths[name] + GAP for name in names) - GAP) / 2
        for name in names:
            found[name] = (left, float(floor), widths[name])
            left += widths[name] + GAP
    return found


def draw(source: Source, folder: Path) -> None:
    """Write docs/images/house.svg: rooms stand on their floors, as wide as they have lines; an
    arrow leads to a room on the next floor below that is imported.
    """
    import matplotlib as mpl
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    graph = {name: used for name, used in source.rooms().items() if not name.startswith("__")}
    floor_of = {name: floor for name, floor in floors(graph).items() if name in graph}
    count: Counter[str] = Counter()
    for file in source.trees:
        count[room(file)] += len((folder / file).read_text("utf-8").splitlines())
    place = places(floor_of, count)
    mpl.rcParams["svg.hashsalt"] = "house"
    figure, axes = plt.subplots(figsize=(11, 6.5))
    for name, (left, floor, width) in sorted(place.items()):
        box = FancyBboxPatch(
            (left, floor), width, HEIGHT, "round,pad=0,rounding_size=0.008", fc="#e8eef7", ec="#345"
        )
        axes.add_patch(box)
        axes.text(left + width / 2, floor + HEIGHT / 2, name, ha="center", va="center", size=8)
        for other in sorted(graph[name] & place.keys()):
            x, below, w = place[other]
            if floor - below == 1:
                ends = (left + width / 2, floor), (x + w / 2, below + HEIGHT)
                style = {"arrowstyle": "-|>", "mutation_scale": 7, "lw": 0.6, "color": "#8a97a8"}
                axes.add_patch(FancyArrowPatch(*ends, **style))
    left = min(x for x, _, _ in place.values())
    right = max(x + width for x, _, width in place.values())
    axes.set_xlim(left - GAP, right + GAP)
    axes.set_ylim(0.8, max(floor_of.values()) + 1)
    axes.set_axis_off()
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, default=HERE / "src", help="the folder of tfzoo")
    parser.add_argument("--draw", action="store_true", help=f"write {PICTURE.name}")
    given = parser.parse_args()
    source = Source(given.source / "tfzoo")
    show(source, given.source.parent)
    if given.draw:
        draw(source, given.source / "tfzoo")


if __name__ == "__main__":
    main()
