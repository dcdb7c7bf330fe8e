"""What batched products are worth on a CPU: training steps with them and with plain products.

    python benchmarks/attention_kernels.py --pairs 16 > benchmarks/attention_kernels.md

Steps of the two ways alternate, batch by batch, in one process and on one model. Time is that of
the processor on one thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from marian import batches, our_loss
from scipy import stats

import tfzoo
from tfzoo.attention import _inner_products
from tfzoo.models.initialise import initialise

WAYS = {"batched": _inner_products.batched_products_apply, "plain": lambda *_: False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--mean", type=float, default=14.0)
    parser.add_argument("--attention-dropout", type=float, nargs="+", default=[0.0, 0.1])
    options = parser.parse_args()
    print("# Batched products in attention, training step\n")
    print(
        f"Model of `benchmarks/training_step.py`, batches of {options.tokens} target tokens; "
        f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), {options.pairs} pairs.\n"
    )
    print("    python benchmarks/attention_kernels.py --pairs", options.pairs, "\n")
    print("| dim | layers | mean length | attention dropout | plain / batched, time | interval |")
    print("|---|---|---|---|---|---|")
    for dropout in options.attention_dropout:
        print(row(options, dropout), flush=True)


def row(options: argparse.Namespace, dropout: float) -> str:
    model = tfzoo.Transformer(
        8000,
        options.dim,
        options.dim // 64,
        options.layers,
        residual="post",
        dropout=0.1,
        attention_dropout=dropout,
    )
    initialise(model, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    made = batches(20, 8000, options.tokens, options.mean)

    def seconds(way: str, index: int) -> float:
        _inner_products.batched_products_apply = WAYS[way]
        began = time.process_time()
        our_loss(model, *made[index % len(made)]).backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.process_time() - began

    for way in WAYS:  # warm up
        seconds(way, 0)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for index in range(options.pairs):
        for way in sorted(WAYS, reverse=bool(index % 2)):
            times[way].append(seconds(way, index))
    ratios = [
        plain / batched for plain, batched in zip(times["plain"], times["batched"], strict=True)
    ]
    low, high = stats.t.interval(0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios))
    return (
        f"| {options.dim} | {options.layers}+{options.layers} | {options.mean:g} | {dropout:g} "
        f"| {statistics.median(ratios):.3f} | {low:.3f} to {high:.3f} |"
    )


if __name__ == "__main__":
    main()
