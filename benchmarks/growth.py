"""How a start, a step, a save and a resume of a training grow: the tables of scaling.md.

Each line is two trainings in a folder: one that starts and saves, and one that goes on from there.
A callback measures them in the first of their processes. Seconds of CPU are those of that process:
other work on the machine changes them least. What is sent is counted by Linux, of all that goes
through the machine's own network (``lo``), from one step to the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
from preparation import generate

HERE = Path(__file__)
STEPS = 6
LOG = "GROWTH_LOG"
"""The variable that names the file to which :class:`Clock` writes."""
COLUMNS = ("start", "step", "save", "resume")
SHAPES = ((128, 2), (320, 3), (512, 4), (768, 6)), ((32, 1), (64, 1))
"""Widths and layers of the models, and of small ones."""


class Clock(L.Callback):
    """Writes seconds on the clock and of the CPU, and the bytes sent, of the first process."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float, int]] = []

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        trainer.strategy.barrier()
        self.marks.append((time.time(), time.process_time(), sent()))
        trainer.strategy.barrier()

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        saves = []
        for _ in range(2):
            begun = time.time(), time.process_time()
            trainer.save_checkpoint(Path(trainer.default_root_dir, "measured.ckpt"))
            saves.append((time.time() - begun[0], time.process_time() - begun[1]))
        if trainer.is_global_zero:
            parameters = sum(one.numel() for one in module.parameters())
            found = {"marks": self.marks, "save": min(saves), "parameters": parameters}
            Path(os.environ[LOG]).write_text(json.dumps(found))


def sent() -> int:
    """The bytes that went through ``lo`` so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.lstrip().startswith("lo:"))


def recipe(text: Path, dim: int, layers: int, processes: int, strategy: str) -> dict[str, Any]:
    return {
        "task": "translation",
        "data": {
            **{"root": str(text), "max_tokens": 512, "max_length": 100},
            "tokenizer": {"name": "bpe", "vocab_size": 1000},
        },
        "model": {"dim": dim, "layers": layers, "heads": 4, "tie": "all"},
        "trainer": {
            **{"accelerator": "cpu", "devices": processes, "strategy": strategy},
            **{"max_steps": STEPS, "limit_val_batches": 0, "log_every_n_steps": 1},
            **{"enable_progress_bar": False, "callbacks": [{"class_path": "growth.Clock"}]},
        },
    }


def fit(folder: Path, made: dict[str, Any], steps: int) -> dict[str, Any]:
    """Train up to a step in a new process; what was measured."""
    made["trainer"]["max_steps"] = steps
    (folder / "growth.yaml").write_text(json.dumps(made))
    log = folder / "log.json"
    command = [sys.executable, "-m", "tfzoo", "fit", "growth.yaml", "--run", "run", "--trust"]
    places = {LOG: str(log), "PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"}
    begun = time.time()
    done = subprocess.run(
        [*command, "--trainer.max_steps", str(steps)],
        cwd=folder,
        env=os.environ | places,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return {**json.loads(log.read_text()), "begun": begun}


def line(text: Path, dim: int, layers: int, processes: int, strategy: str) -> dict[str, Any]:
    """Seconds on the clock and of the CPU by part, bytes a step and process, and parameters."""
    with tempfile.TemporaryDirectory() as scratch:
        made = recipe(text, dim, layers, processes, strategy)
        first = fit(Path(scratch), made, STEPS)
        again = fit(Path(scratch), made, STEPS + 1)
    # what is measured is not lost where a later line breaks off
    print(strategy, processes, dim, layers, json.dumps([first, again]), file=sys.stderr, flush=True)
    marks = np.array(first["marks"])
    later = np.median(np.diff(marks, axis=0)[1:], axis=0)
    clock = marks[0, 0] - first["begun"], later[0], first["save"][0]
    cpu = marks[0, 1], later[1], first["save"][1]
    resumed = again["marks"][0]
    return {
        "clock": [*clock, resumed[0] - again["begun"]],
        "cpu": [*cpu, resumed[1]],
        "sent": later[2] / processes,
        "parameters": first["parameters"],
    }


def first_step(text: Path, dim: int, layers: int) -> float:
    """Seconds to the first step of a start on text that may not be prepared yet."""
    with tempfile.TemporaryDirectory() as scratch:
        found = fit(Path(scratch), recipe(text, dim, layers, 1, "auto"), 2)
    return float(found["marks"][0][0] - found["begun"])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> str:
    """The slope of a line through the logarithms."""
    return f"{np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0]:.2f}"


def table(what: str, sizes: Sequence[int], found: Sequence[dict[str, Any]]) -> list[str]:
    """Seconds on the clock, those of the CPU in brackets, and how they grow."""
    rows = [
        [f"{size:,}"]
        + [f"{a:.2f} ({b:.2f})" for a, b in zip(one["clock"], one["cpu"], strict=True)]
        for size, one in zip(sizes, found, strict=True)
    ]
    slopes = [
        " ".join(
            form.format(exponent(sizes, [one[kind][part] for one in found]))
            for kind, form in (("clock", "{}"), ("cpu", "({})"))
        )
        for part in range(len(COLUMNS))
    ]
    lines = [[what, *COLUMNS], ["---"] * 5, *rows, ["**exponent**", *slopes]]
    return ["", *(f"| {' | '.join(cells)} |" for cells in lines)]


def must(strategy: str, parameters: int, processes: int) -> float:
    """The bytes that each of so many processes has to send in a step, in fp32: gradients reduced
    and handed back; or parameters gathered twice and gradients scattered.
    """
    passes = 2 if strategy == "ddp" else 3
    return passes * (processes - 1) / processes * 4 * parameters


def traffic(found: Sequence[tuple[str, int, dict[str, Any]]]) -> list[str]:
    """What each process sends beside what it must."""
    lines = [
        "",
        "| strategy | processes | MB a step and process | must be sent, MB | ratio |",
        "|---|---|---|---|---|",
    ]
    for strategy, processes, one in found:
        need = must(strategy, one["parameters"], processes)
        lines.append(
            f"| {strategy} | {processes} | {one['sent'] / 1e6:.2f} | {need / 1e6:.2f} "
            f"| {one['sent'] / need:.2f} |"
        )
    return lines


def of_processes(folder: Path, small: bool) -> list[str]:
    """A process, two and four that each hold the whole model, and what they send."""
    return spread("ddp", (1, 2) if small else (1, 2, 4), folder, small)


def of_shards(folder: Path, small: bool) -> list[str]:
    """Two processes and four that each hold a part of the model, and what they send."""
    return spread("fsdp2", (2,) if small else (2, 4), folder, small)


def spread(strategy: str, processes: Sequence[int], folder: Path, small: bool) -> list[str]:
    """So many processes, with as many tokens each."""
    text, shape = text_of(folder, 500 if small else 10_000), SHAPES[small][0]
    first_step(text, *shape)  # prepares the text
    found = [line(text, *shape, count, strategy if count > 1 else "auto") for count in processes]
    several = [(strategy, *one) for one in zip(processes, found, strict=True) if one[0] > 1]
    return table(f"processes ({strategy})", processes, found) + traffic(several)


def of_parameters(folder: Path, small: bool) -> list[str]:
    """Models of 1 to 100 million parameters, in one process."""
    text, shapes = text_of(folder, 500 if small else 10_000), SHAPES[small]
    first_step(text, *shapes[0])
    deep = [line(text, *shape, 1, "auto") for shape in shapes]
    return table("parameters", [one["parameters"] for one in deep], deep)


def of_pairs(folder: Path, small: bool) -> list[str]:
    """Texts, in one process."""
    pairs, shape = (500, 1000) if small else (10_000, 100_000), SHAPES[small][0]
    texts = [text_of(folder, count) for count in pairs]
    cold = [first_step(text, *shape) for text in texts]
    warm = [line(text, *shape, 1, "auto") for text in texts]
    said = ", ".join(f"{one:.1f} s" for one in cold)
    return [
        *table("pairs, prepared before", pairs, warm),
        "",
        f"The first step from text, which is prepared first: {said} "
        f"(exponent {exponent(pairs, cold)}).",
    ]


PARTS = {
    "processes": of_processes,
    "shards": of_shards,
    "parameters": of_parameters,
    "pairs": of_pairs,
}
"""What grows, and how its tables are measured, in a folder; small or not."""


def text_of(folder: Path, pairs: int) -> Path:
    """A folder with so many pairs."""
    text = folder / str(pairs)
    text.mkdir()
    generate(text, pairs)
    return text


def grow(part: str, small: bool) -> list[str]:
    """The tables of a part."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TFZOO_CACHE"] = f"{scratch}/cache"
        return PARTS[part](Path(scratch), small)
