"""What is said before the first step of a training from which little or nothing can come."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L

from tfzoo.base.terminal import notify
from tfzoo.errors import BadRecipe


class Checks(L.Callback):
    """Refuses a training that would stop with an error after some steps, and warns of one that does
    less than it seems to be asked for.
    """

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check how often training validates.

        Raises:
            BadRecipe: less often than once in an epoch.
        """
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # a Trainer has it
        interval = getattr(trainer, "val_check_interval", None)  # there is none of a time
        if trainer.limit_val_batches == 0:
            notify(
                "trainer.limit_val_batches is 0: nothing is validated, so that no best checkpoint "
                "is kept and no val/ score is known"
            )
        elif type(interval) is int and trainer.check_val_every_n_epoch:
            batches = data.training_batches()
            if interval > batches:
                raise BadRecipe(
                    f"trainer.val_check_interval {interval:,} is above the "
                    f"{batches:,} batches of an epoch: lower it, or set "
                    "trainer.check_val_every_n_epoch to null, which counts on over epochs"
                )
