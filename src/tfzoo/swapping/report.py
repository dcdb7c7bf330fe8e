"""The report of a swap: which modules were replaced, kept and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

Outcome = Literal["replaced", "kept", "refused"]


@dataclass(frozen=True)
class SwappedModule:
    """A norm or an attention of a model: what it was, what became of it, and why.

    Args:
        name: the path of the module in the model.
        was: its class.
        outcome: ``replaced``; ``kept``, because of ``only`` or ``skip``; or ``refused``.
        now: the component's name; the class, if it was not replaced.
        reason: why it was kept or refused; of a replaced one, what did not carry over.
    """

    name: str
    was: str
    outcome: Outcome
    now: str
    reason: str = ""


@dataclass(frozen=True)
class SwapReport:
    """What :func:`tfzoo.swap` replaced, kept and refused. Prints as a table, with one row for
    modules whose names differ in numbers alone.
    """

    modules: tuple[SwappedModule, ...]

    @property
    def replaced(self) -> list[str]:
        """The names of the modules that were replaced."""
        return self._names("replaced")

    @property
    def kept(self) -> list[str]:
        """The names of those that ``only`` or ``skip`` left as they were."""
        return self._names("kept")

    @property
    def refused(self) -> list[str]:
        """The names of those that could not be replaced."""
        return self._names("refused")

    def _names(self, outcome: Outcome) -> list[str]:
        return [one.name for one in self.modules if one.outcome == outcome]

    def __str__(self) -> str:
        rows = [("", "modules", "", "was", "now", ""), *self._rows()]
        widths = [max(map(len, column)) for column in zip_longest(*rows)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        alike: dict[tuple[str, ...], list[str]] = {}
        for one in self.modules:
            pattern = re.sub(r"(?<![^.])\d+(?![^.])", "*", one.name)
            key = (pattern, one.outcome, one.was, one.now, one.reason)
            alike.setdefault(key, []).append(one.name)
        for (pattern, outcome, *rest), names in alike.items():
            several = len(names) > 1
            yield outcome, pattern if several else names[0], f"x {len(names)}" * several, *rest
