"""Training step against `transformers`' MarianMTModel of equal weights: target tokens per second,
and peak memory.

    python benchmarks/training_step.py --dim 256 --layers 3      # prints a row of training_step.md

Steps of the two alternate, batch by batch, so that a busy machine slows both; each peak is of a
process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from marian import batches, our_loss, pair, their_loss
from scipy import stats

VOCAB, TOKENS, MEAN = 8000, 4096, 14.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--memory",
        choices=("ours", "theirs", "neither"),
        help="only run this one and print its peak memory",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        print(peak(options.memory, options.dim, options.layers))
        return
    ours, theirs = pair(VOCAB, options.dim, options.dim // 64, options.layers, dropout=0.1)
    made = batches(20, VOCAB, TOKENS, MEAN)
    same(ours, theirs, made[0])
    step_of = {"ours": stepper(ours, our_loss), "theirs": stepper(theirs, their_loss)}
    for name in step_of:  # warm up
        step_of[name](*made[0])
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for index in range(options.pairs):
        source, target = made[index % len(made)]
        for name in ("ours", "theirs") if index % 2 else ("theirs", "ours"):
            began = time.perf_counter()
            step_of[name](source, target)
            speeds[name].append(int((target[:, 1:] != 0).sum()) / (time.perf_counter() - began))
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["theirs"], strict=True)]
    low, high = stats.t.interval(0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios))
    memory = {
        name: int(
            subprocess.check_output([sys.executable, __file__, *sys.argv[1:], "--memory", name])
        )
        for name in ("ours", "theirs", "neither")
    }
    used = {name: memory[name] - memory["neither"] for name in ("ours", "theirs")}
    median = {name: statistics.median(values) for name, values in speeds.items()}
    print(
        "| dim | layers | tfzoo, tokens/s | MarianMT, tokens/s | ratio (95 % interval) | peak memory, MiB | ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {options.dim} | {options.layers}+{options.layers} | {median['ours']:.0f} | {median['theirs']:.0f} "
        f"| {statistics.mean(ratios):.2f} ({low:.2f} to {high:.2f}) "
        f"| {used['ours']} / {used['theirs']} | {used['ours'] / used['theirs']:.2f} |"
    )


def stepper(model, loss):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(source, target):
        loss(model, source, target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def same(ours, theirs, batch) -> None:
    ours.eval(), theirs.eval()
    torch.testing.assert_close(
        our_loss(ours, *batch), their_loss(theirs, *batch), rtol=1e-5, atol=1e-5
    )


def peak(name: str, dim: int, layers: int) -> int:
    """MiB of this process at its highest; of ``neither``: after all imports and batches, before any
    model.
    """
    made = batches(20, VOCAB, TOKENS, MEAN)
    if name != "neither":
        ours, theirs = pair(VOCAB, dim, dim // 64, layers, dropout=0.1)
        step = stepper(ours, our_loss) if name == "ours" else stepper(theirs, their_loss)
        del ours, theirs  # the other model goes; the step holds its own
        for source, target in made[:6]:
            step(source, target)
    status = Path("/proc/self/status").read_text()  # getrusage would still know the parent's peak
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        // 1024
    )


if __name__ == "__main__":
    main()
