"""The folder of a sweep with all its files, nothing of it trained."""

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import yaml

from tfzoo.sweep.plan.sweep_file import folder_name

EFFECTS = {"rms": 0.01, "batch": 0.2, "none": 1.2, "rotary": -0.3, "alibi": -0.12}
NORMS, POSITIONS = ("layer", "rms", "batch"), ("sinusoidal", "none", "rotary", "alibi")
LEAKY = "norm 'batch' sees the future while training in a causal stack"


def make(
    folder: Path,
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    norms: tuple[str, ...] = NORMS,
    positions: tuple[str, ...] = POSITIONS,
) -> Path:
    """A grid of norms and positions with a cell refused, a run failed and one half done."""
    cells = {}
    for norm, position in itertools.product(norms, positions):
        labels = {"model.norm": norm, "model.position": position}
        refused = LEAKY if (norm, position) == ("batch", "rotary") else ""
        name = folder_name(labels)
        cells[name] = refused
        for seed in () if refused else seeds:
            run = folder / name / f"seed-{seed}"
            if (norm, position, seed) == ("rms", "none", seeds[-1]):
                diverged(run, "training stopped: loss or gradient was not finite in 10 steps")
            elif (norm, position, seed) == ("layer", "alibi", seeds[-1]):
                half(run)
            else:
                completed(run, EFFECTS.get(norm, 0.0) + EFFECTS.get(position, 0.0), seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cells.json").write_text(
        json.dumps({"command": "tfzoo sweep norms.yaml --jobs 2", "cells": cells}), "utf-8"
    )
    file = {
        "recipe": "translation/numbers",
        "overrides": {"model.dim": 64},
        "axes": {"model.norm": list(norms), "model.position": list(positions)},
        "mode": "grid",
        "baseline": {"model.norm": "layer", "model.position": "sinusoidal"},
        "seeds": list(seeds),
        "metric": {"name": "val/loss", "mode": "min"},
        "also": [{"name": "test/long/exact_match", "mode": "max"}],
        "budget": {"steps": 300},
        "threads": 1,
        "tune": None,
        "claim": "RMS norm is as good as layer norm (Zhang and Sennrich 2019), "
        "and rotary positions extrapolate.",
    }
    (folder / "sweep.yaml").write_text(yaml.safe_dump(file, sort_keys=False), "utf-8")
    return folder


def completed(run: Path, effect: float, seed: int) -> None:
    """A run folder of a training that came to its end."""
    luck = random.Random(f"{effect} {seed}")
    loss = 2.0 + effect + 0.05 * math.sin(seed) + luck.gauss(0, 0.03)
    exact = max(0.0, 60 - 40 * effect + luck.gauss(0, 3))
    curve(run, loss, luck)
    fit = {
        "ended": "completed",
        "attempts": [{"from": 0, "ended": "completed"}],
        "scores": {"val/loss": loss, "val/exact_match": exact, "val/items": 1000.0},
        "steps": 300,
        "tokens": 301_000,
        "seconds": 21.5,
        "train_seconds": 15.25,
        "tokens_per_second": round(19_700 - 3000 * effect + luck.gauss(0, 200)),
        "peak_memory": {"process": 520_646_656 + seed},
        "parameters": 87_000,
        "checkpoint": f"/gone/{run.parent.name}/{run.name}/checkpoints/best.ckpt",
        **surroundings(run),
    }
    scores = {"test/loss": loss + 0.1, "test/long/exact_match": exact / 3}
    test = {"scores": scores, "ended": "completed", **surroundings(run)}
    write(run, {"fit": fit, "test": test})
    (run / "checkpoints").mkdir(exist_ok=True)
    (run / "checkpoints/best.ckpt").touch()


def diverged(run: Path, reason: str) -> None:
    """A training that diverged."""
    write(run, {"fit": {"ended": f"diverged: {reason}", "steps": 40, **surroundings(run)}})


def half(run: Path) -> None:
    """A training that was interrupted."""
    scored = {"ended": "interrupted", "scores": {"val/loss": 9.0}, "steps": 150}
    write(run, {"fit": {**scored, **surroundings(run)}})


def write(run: Path, summary: dict[str, Any]) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / "summary.json").write_text(json.dumps(summary), "utf-8")


def surroundings(run: Path) -> dict[str, Any]:
    return {
        "command": f"tfzoo fit translation/numbers --run {run.name}",
        "versions": {"python": "3.11.7", "tfzoo": "0.2.0", "torch": "2.13.0+cpu"},
        "hardware": {"cpu": "AMD EPYC", "cores": 2, "threads": 1},
        "hostname": "maple",
    }


def curve(run: Path, loss: float, luck: random.Random) -> None:
    """``metrics.csv`` of a training, its columns filled now and then."""
    run.mkdir(parents=True, exist_ok=True)
    lines = ["step,train/loss,train/tokens_per_second,val/loss,val/exact_match"]
    for step in range(20, 301, 20):
        level = loss + 4 * math.exp(-step / 60) + luck.gauss(0, 0.03)
        lines += [f"{step},{level + 0.1:.6g},19000,,", f"{step},,,{level:.6g},1.0"]
    (run / "metrics.csv").write_text("\n".join([*lines, ""]), "utf-8")
