"""The estimate of the memory that a training step takes, beside what it takes.

    python benchmarks/peak.py --write            # every configuration; writes peak.md
    python benchmarks/peak.py additive gru       # some of them

Each configuration is measured in a process of its own: a step on a batch of two short texts, then
two steps on the batch of the table, forward and backward. What is measured is the most memory that
is resident during these two, less what was before them. Memory that is freed stays with glibc
where tensors are under 32 MiB; with ``MALLOC_TRIM_THRESHOLD_=131072`` in the environment it goes
back, and what is measured is what tensors hold, the estimate divided by ``OVERHEAD``. Texts have no
padding; the vocabulary has 8,000 tokens, dropout is 0.1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfzoo import LanguageModel, Transformer, TransformerClassifier
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.learning.settings import Compute
from tfzoo.training.cost import OVERHEAD, step_cost

HERE = Path(__file__)
VOCABULARY = 8000
CLASSIFIER, TRANSLATOR, WRITER = "classifier", "translator", "language model"

Row = tuple[str, int, int, int, int, dict[str, Any]]
CASES: dict[str, Row] = {
    # the model, dim, layers, texts, tokens of each, options
    "translator": (TRANSLATOR, 256, 3, 64, 32, {}),
    "translator, long": (TRANSLATOR, 256, 2, 4, 512, {}),
    "translator, wide": (TRANSLATOR, 512, 2, 16, 64, {}),
    "translator, deep": (TRANSLATOR, 128, 6, 32, 64, {}),
    "additive": (TRANSLATOR, 128, 2, 32, 64, {"attention": "additive"}),
    "additive, long": (CLASSIFIER, 128, 2, 8, 384, {"attention": "additive"}),
    "euclidean": (CLASSIFIER, 256, 3, 8, 256, {"attention": "euclidean"}),
    "cosine": (TRANSLATOR, 256, 2, 16, 128, {"attention": "cosine"}),
    "bilinear": (CLASSIFIER, 256, 3, 32, 64, {"attention": "bilinear"}),
    "differential": (CLASSIFIER, 256, 3, 16, 128, {"attention": "differential"}),
    "entmax": (CLASSIFIER, 256, 2, 16, 128, {"weighting": "entmax"}),
    "sparsemax": (TRANSLATOR, 128, 2, 16, 128, {"weighting": "sparsemax"}),
    "sigmoid": (CLASSIFIER, 256, 3, 8, 256, {"weighting": "sigmoid"}),
    "sink": (WRITER, 256, 3, 16, 128, {"weighting": "sink"}),
    "gru": (CLASSIFIER, 256, 2, 64, 64, {"mixer": "gru", "position": "none"}),
    "fourier": (CLASSIFIER, 256, 4, 32, 128, {"mixer": "fourier"}),
    "linear_attention": (CLASSIFIER, 256, 3, 8, 512, {"mixer": "linear_attention"}),
    "convolution": (WRITER, 256, 4, 32, 128, {"mixer": "convolution"}),
    "mixture": (CLASSIFIER, 256, 3, 32, 64, {"feedforward": "mixture"}),
    "batch norm, swiglu": (CLASSIFIER, 256, 4, 32, 64, {"norm": "batch", "feedforward": "swiglu"}),
    "relative_bias": (TRANSLATOR, 256, 2, 16, 128, {"position": "relative_bias"}),
    "classifier, small": (CLASSIFIER, 64, 1, 256, 64, {}),
    "classifier, large": (CLASSIFIER, 512, 4, 64, 256, {}),
    "classifier, recompute": (CLASSIFIER, 256, 6, 32, 128, {"recompute": True}),
    "translator, recompute": (TRANSLATOR, 256, 4, 64, 32, {"recompute": True}),
    "classifier, bf16": (CLASSIFIER, 256, 4, 32, 128, {"bf16": True}),
    "translator, bf16": (TRANSLATOR, 256, 3, 64, 32, {"bf16": True}),
    "language model": (WRITER, 256, 4, 16, 128, {"norm": "rms", "position": "rotary"}),
    "language model, bf16": (WRITER, 256, 2, 8, 256, {"bf16": True}),
}
CLASSES: dict[str, Any] = {
    CLASSIFIER: TransformerClassifier,
    TRANSLATOR: Transformer,
    WRITER: LanguageModel,
}


def build(row: Row) -> Any:
    kind, dim, layers, _, _, options = row
    options = {key: one for key, one in options.items() if key not in ("recompute", "bf16")}
    sizes = (VOCABULARY, 4) if kind == CLASSIFIER else (VOCABULARY,)
    model = CLASSES[kind](*sizes, dim, 4, layers, **{"dropout": 0.1, **options})
    Compute(activation_checkpointing="recompute" in row[-1]).apply(model)
    return model


def loss(model: Any, row: Row, texts: int, tokens: int) -> Tensor:
    ids = torch.ones(texts, tokens, dtype=torch.int64)
    half = torch.autocast("cpu", torch.bfloat16) if "bf16" in row[-1] else nullcontext()
    with half:
        if isinstance(model, Transformer):
            hidden = model.hidden(ids, ids)
            return cross_entropy(hidden.flatten(0, 1), model.output_weight, ids.flatten())[0]
        logits = model(ids).flatten(0, -2)
        return torch.nn.functional.cross_entropy(logits, ids.flatten()[: len(logits)] % 4)


def resident(name: str) -> int:
    """The bytes of memory of this process: VmRSS, or VmHWM, the most so far."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def measured(row: Row) -> int:
    """The bytes that two steps take at their peak."""
    model = build(row).train()
    loss(model, row, 2, 4).backward()
    model.zero_grad()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the most so far is what is now
    for _ in range(2):
        loss(model, row, row[3], row[4]).backward()
        model.zero_grad()
    return resident("VmHWM") - before


def line(name: str) -> tuple[str, float]:
    """A row of the table, and the ratio."""
    row = CASES[name]
    began = time.perf_counter()
    cost = step_cost(lambda: build(row), lambda model: loss(model, row, row[3], row[4]))
    estimate = OVERHEAD * (cost.peak - cost.parameters)
    seconds = time.perf_counter() - began
    command = [sys.executable, str(HERE), "--measure", name]
    taken = int(subprocess.check_output(command, env={**os.environ, "OMP_NUM_THREADS": "1"}))
    ratio = estimate / taken
    kind, dim, layers, texts, tokens, _ = row
    return (
        f"| {name} | {kind} | {dim} | {layers} | {texts} x {tokens} | {estimate / 1e6:.0f} "
        f"| {taken / 1e6:.0f} | {ratio:.2f} | {seconds:.2f} s |"
    ), ratio


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure")
    options = parser.parse_args()
    if options.measure:
        print(measured(CASES[options.measure]))
        return
    lines, ratios = [], []
    for name in options.cases:
        made, ratio = line(name)
        print(made, flush=True)
        lines.append(made)
        ratios.append(ratio)
    inside = sum(0.7 <= one <= 1.5 for one in ratios)
    summary = (
        f"{inside} of {len(ratios)} estimates are within 0.7 to 1.5 of what was measured; the "
        f"lowest is {min(ratios):.2f}, the highest {max(ratios):.2f}."
    )
    print(summary)
    if options.write:
        page = HERE.with_suffix(".md")
        before, _, _ = page.read_text("utf-8").partition("| |")
        before = before.rpartition("\n\n")[0].rpartition("\n\n")[0]
        head = "| | model | dim | layers | texts x tokens | estimate, MB | measured, MB | ratio "
        table = [head + "| takes |", "|---|---|---|---|---|---|---|---|---|", *lines]
        page.write_text("\n".join([before, "", summary, "", *table, ""]), "utf-8")


if __name__ == "__main__":
    main()
