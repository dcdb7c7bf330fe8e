"""The picture of docs/architecture.md, from the imports: ``python -m benchmarks.house`` writes
docs/images/house.svg. Rooms stand on their floors, as wide as they have lines; an arrow leads to a
room on the next floor below that is imported.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from benchmarks.structure import HERE, Source, floors, room

PICTURE = HERE / "docs/images/house.svg"
GAP, HEIGHT = 0.012, 0.52
LEAST = 0.075
"""The width of a room in which its name can be read."""


def lines_of(source: Source, folder: Path) -> dict[str, int]:
    """How many lines each room has."""
    found: dict[str, int] = {}
    for file in source.trees:
        count = len((folder / file).read_text("utf-8").splitlines())
        found[room(file)] = found.get(room(file), 0) + count
    return found


def places(
    floor_of: dict[str, int], lines: dict[str, int]
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
    """Write the picture."""
    graph = {name: used for name, used in source.rooms().items() if not name.startswith("__")}
    floor_of = {name: floor for name, floor in floors(graph).items() if name in graph}
    place = places(floor_of, lines_of(source, folder))
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


if __name__ == "__main__":
    SOURCE = HERE / "src/tfzoo"
    draw(Source(SOURCE), SOURCE)
    print(PICTURE.relative_to(HERE))
