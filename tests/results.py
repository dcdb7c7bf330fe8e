"""What a training writes: the folder of its run, and a checkpoint."""

import csv
import json
from pathlib import Path

import torch


def summary(run):
    """The sections of ``summary.json``, one a command."""
    return json.loads(Path(run, "summary.json").read_text("utf-8"))


def rows(run):
    """Those of ``metrics.csv``."""
    with Path(run, "metrics.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def saved(task, path):
    """A file with the checkpoint of a task that no training has made."""
    checkpoint = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, path)
    return path
