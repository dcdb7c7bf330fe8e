"""Additive attention against its formula written plainly: time forward and backward, and peak
memory.

    python benchmarks/additive.py --pairs 5     # the table of additive.md

Both run in turn in one process, each with the same weights, mask and dropout, after their outputs
and gradients without dropout were compared. The plain formula is taken in the best eager form that
was found: tanh in place, then one product with v. Peak memory is measured apart, in a process of
its own for each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from tfzoo.base.registry import create
from tfzoo.masks import Mask

BATCH, HEADS, WIDTH, DROPOUT = 4, 8, 64, 0.1


class Case:
    """One call and its gradients, ours or the plain formula's."""

    def __init__(self, length: int) -> None:
        torch.manual_seed(0)
        self.attention = create("attention", "additive", heads=HEADS, head_dim=WIDTH)
        for parameter in self.attention.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        shape = BATCH, HEADS, length, WIDTH
        self.q, self.k, self.v = (torch.randn(shape, requires_grad=True) for _ in range(3))
        self.grad = torch.randn(shape)
        real = torch.arange(length) < torch.linspace(length * 0.75, length, BATCH)[:, None]
        self.mask = Mask(causal=True, keys=real)
        self.hidden = ~self.mask.boolean(length, length, real.device)

    def ours(self, dropout: float) -> Tensor:
        return self.attention(self.q, self.k, self.v, mask=self.mask, dropout=dropout)

    def plain(self, dropout: float) -> Tensor:
        a, b = self.q @ self.attention.query, self.k @ self.attention.key
        hidden = (a[..., :, None, :] + b[..., None, :, :]).tanh_()
        scores = (hidden @ self.attention.score[:, None, :, None]).squeeze(-1)
        weights = scores.masked_fill(self.hidden, float("-inf")).softmax(-1)
        return torch.nn.functional.dropout(weights, dropout) @ self.v

    def step(self, forward: Callable[[float], Tensor], dropout: float = DROPOUT) -> list[Tensor]:
        out = forward(dropout)
        inputs = [self.q, self.k, self.v, *self.attention.parameters()]
        return [out.detach(), *torch.autograd.grad(out, inputs, self.grad)]


def highest() -> float:
    """The most memory that this process has held, in gigabytes (Linux)."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 2**20


def peak(length: int, name: str, report: multiprocessing.Queue[float]) -> None:
    """Gigabytes that one step needs beyond what stands before it."""
    case = Case(length)
    before = highest()
    case.step(getattr(case, name))
    report.put(highest() - before)


def memory(length: int, name: str) -> float:
    context = multiprocessing.get_context("spawn")
    report: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=peak, args=(length, name, report))
    process.start()
    needed = report.get()
    process.join()
    return needed


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(length: int, pairs: int) -> str:
    case = Case(length)
    for got, wanted in zip(case.step(case.ours, 0.0), case.step(case.plain, 0.0), strict=True):
        torch.testing.assert_close(got, wanted, atol=2e-4, rtol=1e-3)
    case.step(case.ours)
    times = [
        (seconds(lambda: case.step(case.plain)), seconds(lambda: case.step(case.ours)))
        for _ in range(pairs)
    ]
    ratios = sorted(plain / ours for plain, ours in times)
    plain, ours = (statistics.median(column) for column in zip(*times, strict=True))
    cells = [
        f"{length}",
        f"{plain * 1e3:.0f} ms",
        f"{ours * 1e3:.0f} ms",
        f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})",
    ]
    cells += [f"{memory(length, name):.2f} GB" for name in ("plain", "ours")]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    print(
        "| length | plain | tfzoo | plain / tfzoo | peak plain | peak tfzoo "
        "|\n|---|---|---|---|---|---|"
    )
    for length in options.lengths:
        print(compare(length, options.pairs), flush=True)


if __name__ == "__main__":
    main()
