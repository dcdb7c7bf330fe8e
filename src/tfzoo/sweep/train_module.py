"""Trains one run of a sweep of a module: ``python -m tfzoo.sweep.train_module FOLDER MODULE DATA``.

The sweep, which the user started with ``--trust``, passes the names of the classes on the command
line. Only their arguments are read from the folder, so that a changed file there cannot run other
code. A run that was interrupted starts from the beginning.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.loggers import CSVLogger

from tfzoo.errors import TfzooError
from tfzoo.runs import config, summary
from tfzoo.sweep.module import load_class
from tfzoo.terminal import notify, print_error, silence_lightning
from tfzoo.training.swap_parts import SwapParts

QUIET = {"enable_progress_bar": False, "enable_model_summary": False}


def main(folder: Path, module: str, data: str) -> int:
    """Train, validate, and write the run's summary; returns the exit code."""
    settings = config.read(folder)
    fit: dict[str, Any] = {"ended": "running"}
    write = {**fit, **summary.environment(["sweep"])}
    summary.write(folder, "fit", write)
    code = 0
    try:
        fit = train(folder, settings, module, data)
    except TfzooError as error:
        fit, code = {"ended": f"failed: {error}"}, error.code
        print_error(error)
    except Exception as error:  # of any kind: it is somebody else's
        traceback.print_exc()
        fit, code = {"ended": f"failed: {type(error).__name__}: {error}"}, 1
        print_error(fit["ended"])
    summary.write(folder, "fit", {**write, **fit})
    return code


def train(folder: Path, settings: dict[str, Any], module: str, data: str) -> dict[str, Any]:
    """Train one module; return the entry ``fit`` of the run's summary."""
    silence_lightning()
    warnings.filterwarnings("ignore", ".*Experiment logs directory.*")  # the sweep made it
    L.seed_everything(settings["seed"], workers=True, verbose=False)
    task = load_class(module, L.LightningModule)(**settings["module"]["arguments"])
    loaded = (
        load_class(data, L.LightningDataModule)(**settings["data"]["arguments"]) if data else None
    )
    swapped = settings["swap"]
    parts = [SwapParts(**swapped)] if swapped.get("norm") or swapped.get("attention") else []
    trainer = L.Trainer(
        **{**QUIET, **settings["trainer"]},
        default_root_dir=folder,
        logger=CSVLogger(folder, name="", version=""),
        callbacks=list(parts),
        enable_checkpointing=False,
    )
    started = time.perf_counter()
    trainer.fit(task, datamodule=loaded)
    seconds = time.perf_counter() - started
    for part in parts:
        notify(str(part.report))
    scores = logged(trainer)
    steps = trainer.global_step
    if trainer.enable_validation:  # the last validation may have been before the last step
        trainer.validate(task, datamodule=loaded, verbose=False)
        scores |= logged(trainer)
    return {
        "ended": "completed",
        "scores": scores,
        "steps": steps,
        "seconds": round(seconds, 3),
        "train_seconds": round(seconds, 3),
        "parameters": sum(parameter.numel() for parameter in task.parameters()),
        "peak_memory": summary.peak_memory(),
    }


def logged(trainer: L.Trainer) -> dict[str, float]:
    """The last value of each metric that the module has logged."""
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), *sys.argv[2:4]))
