"""The keys of a sweep file: each of the type that it should be, and none unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from tfzoo.config.sections import TOP
from tfzoo.errors import BadRecipe, did_you_mean, listing
from tfzoo.sweep import layout

KEYS = (
    "recipe",
    "overrides",
    "axes",
    "mode",
    "baseline",
    "seeds",
    "metric",
    "also",
    "budget",
    "threads",
    "devices",
    "tune",
    "claim",
)
KEY = re.compile(r"\w+(\.\w+)+")
MOST_CELLS = 1000
MOST_SEEDS = 1000
SEED = 2**32


class Fields:
    """A sweep file's tree, asked for one key at a time.

    Raises:
        BadRecipe: naming the file and the key.
    """

    def __init__(self, file: Path, tree: Mapping[str, Any]) -> None:
        self.file, self.tree = file, tree
        self.known("", tree, KEYS)
        if "recipe" not in tree:
            self.refuse("no recipe; a sweep begins with recipe: translation/numbers")

    def refuse(self, why: str) -> NoReturn:
        """Raise the error."""
        raise BadRecipe(f"{self.file}: {why}")

    def known(self, where: str, tree: Any, keys: Sequence[str]) -> Mapping[str, Any]:
        """A mapping of these keys alone."""
        if not isinstance(tree, Mapping):
            self.refuse(f"{where} is a mapping of {listing(keys)}, not {tree!r}")
        for key in tree:
            if key not in keys:
                close = did_you_mean(key, keys) or (
                    f" Keys of the recipe stand under overrides: {{{key}: ...}}"
                    if "." in str(key)
                    else ""
                )
                self.refuse(
                    f"{where or 'a sweep'} has no key {key!r}.{close} Known: {listing(keys, 20)}"
                )
        return tree

    def recipe(self) -> str:
        """A packaged name, or the absolute path of a file, which may lie beside the sweep's."""
        given = self.text("recipe")
        for path in (self.file.parent / given, Path(given)):
            if path.is_file():
                return str(path.resolve())
        return given

    def text(self, key: str) -> str:
        found = self.tree.get(key)
        if not isinstance(found, str | None):
            self.refuse(f"{key} is a text, not {found!r}")
        return found or ""

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of these words, the first if none is given."""
        found = self.tree.get(key) or choices[0]
        if found not in choices:
            self.refuse(
                f"{key} is {' or '.join(choices)}, not {found!r}.{did_you_mean(str(found), choices)}"
            )
        return str(found)

    def count(self, path: str) -> int | None:
        """A whole number from 1 on, if it is given."""
        found = self._budget(path)
        if found is not None and (type(found) is not int or found < 1):
            self.refuse(f"{path} is a whole number from 1 on, not {found!r}")
        return found

    def time(self, path: str) -> str | None:
        """A time as Lightning's Trainer takes it, if it is given."""
        found = self._budget(path)
        if found is not None and not (
            isinstance(found, str) and re.fullmatch(r"(\d+:)?\d\d:\d\d:\d\d", found)
        ):
            self.refuse(
                f"{path} is a time such as 00:10:00 (hours, minutes, seconds), not {found!r}"
            )
        return found

    def _budget(self, path: str) -> Any:
        section, _, key = path.rpartition(".")
        tree = self.tree if not section else self.tree.get(section) or {}
        return (self.known(section, tree, ("steps", "tokens", "time")) if section else tree).get(
            key
        )

    def seeds(self) -> list[int]:
        found = self.tree.get("seeds")
        if (
            not isinstance(found, list)
            or not found
            or any(type(one) is not int or not 0 <= one < SEED for one in found)
        ):
            self.refuse(f"seeds is a list of whole numbers such as [1, 2, 3], not {found!r}")
        if len(set(found)) < len(found) or len(found) > MOST_SEEDS:
            self.refuse(f"seeds: each once, at most {MOST_SEEDS}")
        return found

    def metrics(self) -> list[tuple[str, Any]]:
        """The metric, and what is judged too: names and modes."""
        if "metric" not in self.tree:
            self.refuse("no metric; the sweep is judged by metric: {name: val/loss, mode: min}")
        also = self.tree.get("also") or []
        if not isinstance(also, list):
            self.refuse(
                f"also is a list of metrics such as [{{name: val/loss, mode: min}}], not {also!r}"
            )
        found = []
        for where, one in [("metric", self.tree["metric"]), *(("also", one) for one in also)]:
            tree = self.known(where, one, ("name", "mode"))
            if not isinstance(tree.get("name"), str) or tree.get("mode") not in ("min", "max"):
                self.refuse(
                    f"{where} needs a name and a mode, min or max: {{name: val/loss, mode: min}}, not {dict(tree)!r}"
                )
            found.append((tree["name"], tree["mode"]))
        if len({name for name, _ in found}) < len(found):
            self.refuse("metric and also: each name once")
        return found

    def settings(self, where: str, tree: Any = None) -> dict[str, Any]:
        """Values by dotted keys of the recipe."""
        found = self.tree.get(where) or {} if tree is None else tree
        if not isinstance(found, Mapping):
            self.refuse(
                f"{where} is a mapping of the recipe's keys such as {{model.norm: rms}}, not {found!r}"
            )
        return {self.key(where, key): value for key, value in found.items()}

    def key(self, where: str, key: Any) -> str:
        """A key that a recipe may have, and that the sweep leaves to others."""
        if key == "seed":
            self.refuse(f"{where}: seed is varied by seeds: [1, 2, 3]")
        if not isinstance(key, str) or not (KEY.fullmatch(key) or key in TOP):
            self.refuse(f"{where}: {key!r} is no dotted key of a recipe, such as model.norm")
        return key

    def axes(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The settings of each label of each axis."""
        found = self.tree.get("axes")
        if not isinstance(found, Mapping) or not found:
            self.refuse(f"axes is a mapping such as {{model.norm: [layer, rms]}}, not {found!r}")
        return {str(axis): self._axis(str(axis), values) for axis, values in found.items()}

    def _axis(self, axis: str, values: Any) -> dict[str, dict[str, Any]]:
        where = f"axes: {axis}"
        if axis in {*layout.BEFORE, *layout.TOLD, *layout.MEASURED} or "/" in axis:
            self.refuse(f"{where}: so is a column of runs.csv named; name the axis otherwise")
        if isinstance(values, Mapping) and values:
            found = {
                layout.label(label): self.settings(f"{where}: {label}", sets or {})
                for label, sets in values.items()
            }
        elif isinstance(values, list) and values and ("." in axis or axis in TOP):
            key = self.key("axes", axis)
            labels = [layout.label(value) for value in values]
            if twice := next((one for one in labels if labels.count(one) > 1), None):
                self.refuse(f"{where}: {twice} stands twice")
            found = {label: {key: value} for label, value in zip(labels, values, strict=True)}
        else:
            self.refuse(
                f"{where} is a list of values of a dotted key, or a mapping {{name: {{dotted key: value}}}}, not {values!r}"
            )
        names = [layout.safe(label).lower() for label in found]
        if len(set(names)) < len(names) or "" in names:
            self.refuse(
                f"{where}: two of {listing(found)} would have one folder. Name them otherwise"
            )
        return found

    def baseline(self, axes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The label of each axis that all others are compared with: the first, where none is given."""
        given = self.known("baseline", self.tree.get("baseline") or {}, list(axes))
        found = {
            axis: layout.label(given[axis]) if axis in given else next(iter(labels))
            for axis, labels in axes.items()
        }
        for axis, label in found.items():
            if label not in axes[axis]:
                self.refuse(
                    f"baseline: {axis} has no value {label!r}.{did_you_mean(label, axes[axis])} Known: {listing(axes[axis])}"
                )
        return found

    def tune(self, seeds: Sequence[int]) -> tuple[str, dict[str, Any], int]:
        """Key, values by label and seed of what is tuned; ``""`` where nothing is."""
        if not self.tree.get("tune"):
            return "", {}, 0
        tree = self.known("tune", self.tree["tune"], ("key", "values", "seed"))
        key, values, seed = (
            self.key("tune", tree.get("key")),
            tree.get("values"),
            tree.get("seed", 0),
        )
        if not isinstance(values, list) or len({layout.label(one) for one in values}) < 2:
            self.refuse(f"tune.values is a list of two values or more, not {values!r}")
        if type(seed) is not int or not 0 <= seed < SEED or seed in seeds:
            self.refuse(
                f"tune.seed is a whole number that is none of seeds, so that nothing is judged by what it was chosen for: {seed!r}"
            )
        return key, {layout.label(one): one for one in values}, seed

    def once(self, places: Mapping[str, Iterable[str]]) -> None:
        """See that no key is set in two places."""
        seen: dict[str, str] = {}
        for place, keys in places.items():
            for key in keys:
                if key in seen:
                    self.refuse(f"{key} is set by {seen[key]} and by {place}; leave one out")
                seen[key] = place

    def combined(
        self, axes: layout.Axes, mode: str, baseline: Mapping[str, str]
    ) -> list[dict[str, str]]:
        """The labels of each cell, of which there are not too many and no two with one folder."""
        found = list(islice(layout.combine(axes, mode, baseline), MOST_CELLS + 1))
        if len(found) > MOST_CELLS:
            self.refuse(
                f"more than {MOST_CELLS} cells; vary less at once, or take mode: one_at_a_time"
            )
        if len({layout.name(labels).lower() for labels in found}) < len(found):
            self.refuse("two cells would have one folder; name axes and values otherwise")
        return found
