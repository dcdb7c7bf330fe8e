"""Matrix products in fp32 by MKL, as `F.linear` and `@` compute them on x86, and by oneDNN.

    OMP_NUM_THREADS=1 python benchmarks/products.py     # prints the table of products.md

Forward, the gradient of the input, and that of the weight, each the best of so many, in billions of
operations a second; both take turns.
"""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.adapters import onednn_linear

TIMES = 9
SHAPES = [
    (32, 256, 256),
    (32, 1024, 256),
    (32, 8000, 256),
    (160, 1024, 256),
    (160, 8000, 256),
    (512, 8000, 256),
    (4096, 256, 256),
    (4096, 1024, 256),
    (4096, 512, 512),
    (4096, 2048, 512),
]
"""Rows, width of the output, width of the input."""


def rates(*products: Callable[[], Tensor], operations: int) -> list[str]:
    best = [float("inf")] * len(products)
    for _ in range(TIMES):
        for index, product in enumerate(products):
            began = time.perf_counter()
            product()
            best[index] = min(best[index], time.perf_counter() - began)
    return [f"{operations / one / 1e9:.0f}" for one in best]


def row_of(rows: int, out: int, width: int) -> str:
    x, weight, bias = torch.randn(rows, width), torch.randn(out, width), torch.randn(out)
    grad = torch.randn(rows, out)
    found = rates(
        lambda: F.linear(x, weight, bias),
        lambda: onednn_linear(x, weight, bias),
        lambda: grad @ weight,
        lambda: onednn_linear(grad, weight.T, None),
        lambda: grad.T @ x,
        lambda: onednn_linear(grad.T, x.T, None),
        operations=2 * rows * out * width,
    )
    return f"| {rows:,} | {out:,} | {width} | {' | '.join(found)} |"


@torch.no_grad()
def main() -> None:
    print("| rows | output | input | forward: MKL | oneDNN | input: MKL | oneDNN ", end="")
    print("| weight: MKL | oneDNN |", "|---" * 9 + "|", sep="\n")
    for shape in SHAPES:
        print(row_of(*shape), flush=True)


if __name__ == "__main__":
    main()
