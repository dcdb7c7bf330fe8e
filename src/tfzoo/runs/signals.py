"""Stopping well: a signal ends training at the end of the step, with a checkpoint; a second Ctrl-C
at once.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

import lightning.pytorch as L
import torch

from tfzoo.runs.last_checkpoint import LastCheckpoint, step_is_over

STOPPED = 75
"""Exit code after SIGTERM or SIGUSR1: stopped from outside, can go on."""
INTERRUPTED = 130

CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: STOPPED}
if hasattr(signal, "SIGUSR1"):
    CODES[signal.SIGUSR1] = STOPPED


class Signals(L.Callback):
    """Takes signals during training. ``code`` is the exit code that all processes agreed on, 0
    while training goes on.

    After Ctrl-C training ends as it would at its last step, with a validation; after SIGTERM or
    SIGUSR1, which give little time, with a checkpoint alone. All processes agree on it at the end
    of each step, for a signal may reach one of them or all. A step of several accumulated batches
    ends with the last of them.
    """

    def __init__(self, finish: LastCheckpoint) -> None:
        self.finish = finish
        self.code = 0
        self.asked = (
            0  # by the signals of this process; it may change at any moment, also while they agree
        )
        self.asks_again = False  # SIGUSR1 is SLURM's word for "your time is nearly over"
        self.before: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for number in CODES:  # after Lightning's own were installed
            try:
                self.before[number] = signal.signal(number, self._arrived)
            except ValueError:  # not in the main thread: whoever owns it keeps its signals
                return

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if not step_is_over(trainer, batch_idx):
            return
        self.code = self.asked
        if trainer.world_size > 1:
            self.code = int(
                trainer.strategy.reduce(
                    torch.tensor(self.asked, device=pl_module.device), reduce_op="max"
                )
            )
        if self.code == 0:
            return
        self.finish.save(trainer)
        if self.code == STOPPED:
            raise SystemExit(STOPPED)
        self.finish.stop(trainer)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before.clear()
        self.code = max(self.code, self.asked)  # one that came after the last step

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and INTERRUPTED in (self.asked, self.code):
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        self.asks_again |= signal.Signals(number).name == "SIGUSR1"
        self.asked = max(self.asked, CODES[signal.Signals(number)])
