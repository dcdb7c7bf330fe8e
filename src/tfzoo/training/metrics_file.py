"""``metrics.csv`` in the run's folder: every number that training logs, one line a step, which are
counted from 1.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from tfzoo.runs.files import replacing
from tfzoo.runs.logged import FILE


class MetricsFile(Logger):
    """A Lightning logger that appends each row to ``metrics.csv`` at once, so that a run that is
    killed loses none. A new metric adds a column.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / FILE
        self.columns: list[str] = ["step"]
        self.rows = 0

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``config.yaml`` holds them."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if metrics.keys() <= {"epoch"}:  # Lightning's at the end of an epoch; not after a resume
            return
        numbers = {key: float(f"{float(value):.6g}") for key, value in metrics.items()}
        self._append({"step": step, **numbers})
        self.rows += 1

    def go_on(self, rows: int) -> None:
        """Keep the first ``rows``, which were written before the checkpoint."""
        kept = self._read()[:rows]
        self._rewrite(kept, list(kept[0]) if kept else ["step"])
        self.rows = len(kept)

    def _append(self, row: Mapping[str, Any]) -> None:
        new = [key for key in row if key not in self.columns]
        if new or not self.path.exists():
            self._rewrite(self._read(), [*self.columns, *new])
        with self.path.open("a", newline="", encoding="utf-8") as stream:
            csv.DictWriter(stream, self.columns).writerow(row)

    def _read(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))

    def _rewrite(self, rows: list[dict[str, str]], columns: list[str]) -> None:
        with (
            replacing(self.path) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
        self.columns = columns
