"""Trains one run of a sweep of a module.

The sweep, which the user started with ``--trust``, passes the names of the classes. Only their
arguments are read from the folder, so that a changed file there cannot run other code. A run that
was interrupted starts from the beginning.
"""

import time
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.loggers import CSVLogger

from tfzoo.base import adapters
from tfzoo.base.memory import keep_freed_memory
from tfzoo.base.scores import logged_scores
from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.errors import BadRecipe, did_you_mean, listing
from tfzoo.runs.folder import read_config, write_summary
from tfzoo.runs.machine import environment, peak_memory
from tfzoo.swapping.swap import SWAPPED
from tfzoo.swapping.swap_parts import SwapParts
from tfzoo.sweep.plan.load import load_class


class LogsMetrics(L.Callback):
    """Raises BadRecipe at the first epoch after a validation, unless all of these metrics were
    logged by then.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = metrics
        self.validated = False

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.validated |= not trainer.sanity_checking

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.validated:
            check_metrics(self.metrics, logged_scores(trainer))


def check_metrics(metrics: Sequence[str], known: Collection[str]) -> None:
    """Raise BadRecipe if one of the metrics is not known."""
    for name in metrics:
        if name not in known:
            raise BadRecipe(
                f"the module logs no metric {name!r}.{did_you_mean(name, known)} It has logged: "
                f"{listing(known, 30)}"
            )


def main(words: Sequence[str]) -> int:
    """Train, validate, and write the run's summary; returns 0.

    Args:
        words: the run's folder, the module, its data (may be ``""``) and the metrics.
    """
    folder, (module, data, *metrics) = Path(words[0]), words[1:]
    settings = read_config(folder)
    fit: dict[str, Any] = {"ended": "running", **environment(["sweep"])}
    write_summary(folder, "fit", fit)
    keep_freed_memory()
    silence_lightning()
    warnings.filterwarnings("ignore", ".*Experiment logs directory.*")  # the sweep made it
    L.seed_everything(settings["seed"], workers=True, verbose=False)
    task = load_class(module, L.LightningModule)(**settings["module"]["arguments"])
    loaded = (
        load_class(data, L.LightningDataModule)(**settings["data"]["arguments"]) if data else None
    )
    swapped = settings["swap"]
    parts = [SwapParts(**swapped)] if any(swapped.get(kind) for kind in SWAPPED) else []
    trainer = L.Trainer(
        **{"enable_progress_bar": False, "enable_model_summary": False, **settings["trainer"]},
        default_root_dir=folder,
        logger=CSVLogger(folder, name="", version=""),
        callbacks=[*parts, LogsMetrics(metrics)],
        enable_checkpointing=False,
    )
    adapters.log_steps_from_one(trainer)
    started = time.perf_counter()
    trainer.fit(task, datamodule=loaded)
    seconds = round(time.perf_counter() - started, 3)
    for part in parts:
        notify(str(part.report))
    scores = logged_scores(trainer)
    if trainer.enable_validation:  # the last validation may have been before the last step
        trainer.validate(task, datamodule=loaded, verbose=False)
        scores |= logged_scores(trainer)
    check_metrics(metrics, scores)
    fit |= {"ended": "completed", "scores": scores, "steps": trainer.global_step}
    fit |= {"seconds": seconds, "train_seconds": seconds, "peak_memory": peak_memory()}
    fit["parameters"] = sum(parameter.numel() for parameter in task.parameters())
    write_summary(folder, "fit", fit)
    return 0
