"""A language model of a million parameters on 5 MB of generated text: tfzoo's training beside a
plain PyTorch loop of the same model over the same batches, and packed rows beside padded ones.

    OMP_NUM_THREADS=1 python benchmarks/language_modeling.py      # about 8 minutes

Each line has the bits per byte of the test set after the steps, and the tokens that are no padding
per second of training: the median over rounds of a few steps, in which loops and rows take turns.
The plain loop has the same first weights, AdamW, clipping and schedule; its loss is
``F.cross_entropy`` of all logits, and it scores one document at a time. Packed and padded rows hold
the same tokens a batch at most.

Measured on one thread of an AMD EPYC that did nothing else, 7 rounds: packed rows 0.4957 bits per
byte in both, tfzoo at 1.01 of the plain loop's speed (0.95 to 1.11); padded rows 0.4977 in both,
0.98 (0.93 to 1.04); tfzoo's packed rows at 0.93 of the speed of its padded ones (0.85 to 1.00).
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from statistics import median
from typing import Any

import lightning.pytorch as L
import torch
import torch.nn.functional as F

from tfzoo.base.terminal import silence_lightning
from tfzoo.data.documents import DocumentData
from tfzoo.tasks.language_modeling import LanguageModelingTask, size_of

WARMUP = 100
TIMED = 30
"""Steps of a round."""


def data_of(packed: bool, documents: int) -> DocumentData:
    data = DocumentData(
        dataset={"name": "agreement", "train": documents, "val": 100, "test": 300},
        tokenizer={"name": "word", "cut": "spaces"},
        packed=packed,
        max_tokens=2048,
        max_length=256,
    )
    data.prepare_data()
    return data


def task_of(data: DocumentData) -> LanguageModelingTask:
    recipe = {
        "task": "language_modeling",
        "model": {
            **{"dim": 160, "heads": 4, "layers": 3, "dropout": 0.0},
            **{"position": "rotary", "feedforward": "gelu"},
        },
        "optim": {
            **{"lr": 1e-3, "label_smoothing": 0.0},
            "schedule": {"name": "cosine", "warmup": WARMUP},
        },
    }
    return LanguageModelingTask.build(recipe, data.vocabulary)


class Clock(L.Callback):
    """The seconds of training after the first step."""

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == 1:
            self.begun = time.perf_counter()
        self.seconds = time.perf_counter() - self.begun


def ours(task: LanguageModelingTask, data: DocumentData, steps: int) -> float:
    """Train; return the seconds after the first step."""
    clock = Clock()
    trainer = L.Trainer(
        **{"max_steps": steps, "accelerator": "cpu", "devices": 1, "gradient_clip_val": 1.0},
        **{"logger": False, "enable_checkpointing": False, "enable_progress_bar": False},
        **{"limit_val_batches": 0, "enable_model_summary": False},
        callbacks=[clock],
    )
    trainer.fit(task.train(), datamodule=data)
    return clock.seconds


def plain(task: LanguageModelingTask, batches: list[Any]) -> float:
    """Train the task's model in a loop without tfzoo and Lightning; return the seconds after the
    first step.
    """
    model, optim = task.model.train(), task.optim
    optimizer = torch.optim.AdamW(model.parameters(), optim.lr, (0.9, 0.98), 1e-9, weight_decay=0.0)
    begun = time.perf_counter()
    for step, batch in enumerate(batches, 1):
        for group in optimizer.param_groups:
            after = max(0.0, (step - 1 - WARMUP) / max(1, len(batches) - WARMUP))
            group["lr"] = optim.lr * min(step / WARMUP, (1 + math.cos(math.pi * after)) / 2)
        positions = None if batch.part is None else batch.positions
        logits = model(batch.tokens, mask=batch.mask(), positions=positions).flatten(0, 1)
        F.cross_entropy(logits[batch.non_padding], batch.labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            begun = time.perf_counter()
    return time.perf_counter() - begun


@torch.no_grad()
def bits_per_byte(task: LanguageModelingTask, data: DocumentData) -> float:
    """Of the test set, one document at a time, without tfzoo's scores."""
    model, rows = task.model.eval(), data.sets["test"]
    bits = size = 0.0
    for item in range(len(rows)):
        batch = rows[[item]]
        nll = F.cross_entropy(model(batch.tokens).flatten(0, 1), batch.labels, reduction="sum")
        bits += float(nll) / math.log(2)
        size += size_of(batch.source_text[0])
    return bits / size


def batches_of(data: DocumentData, steps: int) -> list[Any]:
    """The batches that training takes, epoch by epoch."""
    loader, found, epoch = data.train_dataloader(), [], 0
    while len(found) < steps:
        loader.batch_sampler.set_epoch(epoch)
        found += loader
        epoch += 1
    return found[:steps]


Side = tuple[DocumentData, LanguageModelingTask, list[Any]]
"""Data, the task before training, and the batches of its steps."""


def side(packed: bool, documents: int, steps: int) -> Side:
    data = data_of(packed, documents)
    return data, task_of(data), batches_of(data, steps)


def speeds(sides: dict[str, Side], rounds: int) -> dict[tuple[str, str], list[float]]:
    """Tokens a second of each loop on rows of each kind, round by round, in turns."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for rows, (data, start, batches) in sides.items():
            tokens = sum(len(batch.labels) for batch in batches[1:TIMED])
            seconds = ours(copy.deepcopy(start), data, TIMED)
            found.setdefault((rows, "tfzoo"), []).append(tokens / seconds)
            seconds = plain(copy.deepcopy(start), batches[:TIMED])
            found.setdefault((rows, "plain"), []).append(tokens / seconds)
    return found


def beside(what: str, one: list[float], other: list[float]) -> str:
    ratios = sorted(a / b for a, b in zip(one, other, strict=True))
    return f"{what} {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--documents", type=int, default=55_000)
    parser.add_argument(
        "--rounds", type=int, default=7, help=f"of {TIMED} steps of each, to time them"
    )
    given = parser.parse_args()
    silence_lightning()
    steps = max(given.steps, TIMED)
    sides = {rows: side(rows == "packed", given.documents, steps) for rows in ("packed", "padded")}
    data, start, _ = sides["packed"]
    text = sum(size_of(text) for text, _ in data.splits["train"])
    count = sum(one.numel() for one in start.model.parameters())
    print(f"{count:,} parameters, {text:,} bytes, {steps:,} steps, {given.rounds} rounds")
    speed = speeds(sides, given.rounds)
    for rows in sides:
        print(beside(f"{rows}: tfzoo / plain", speed[rows, "tfzoo"], speed[rows, "plain"]))
    print(beside("tfzoo: packed / padded", speed["packed", "tfzoo"], speed["padded", "tfzoo"]))
    for (rows, name), each in speed.items():
        data, start, batches = sides[rows]
        task = copy.deepcopy(start)
        if name == "tfzoo":
            ours(task, data, steps)
        else:
            plain(task, batches)
        bits = bits_per_byte(task, data)
        print(f"{rows} {name}: {bits:.4f} bits per byte, {median(each):,.0f} tokens/s")


if __name__ == "__main__":
    main()
