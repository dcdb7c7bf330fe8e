"""What a training has written into the folder of its run."""

import csv
import json
from pathlib import Path


def summary(run):
    """The sections of ``summary.json``, one a command."""
    return json.loads(Path(run, "summary.json").read_text("utf-8"))


def rows(run):
    """Those of ``metrics.csv``."""
    with Path(run, "metrics.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
