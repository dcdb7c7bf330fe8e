"""When does the square of the length matter: products as formulas, time and memory as measured.

    python -m benchmarks.claims.quadratic --write              # the formulas
    python -m benchmarks.claims.quadratic --measure --write    # time and memory too

Formulas are counted by ``tfzoo.training.cost``. Time and memory are those of one encoder
layer, forward and backward, in fp32 on one thread; memory is that of a process for each size.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from benchmarks.additive import highest, seconds
from benchmarks.claims.shared import Found, arguments, publish, table
from tfzoo import EncoderLayer, Transformer, TransformerClassifier
from tfzoo.plots.style import SOFT, line_style, new_figure, styled
from tfzoo.runs.machine import processor
from tfzoo.training.cost import BACKWARD, OUTPUT, example_loss, step_cost

LENGTHS, DIMS = (14, 128, 512, 2048, 8192, 32768), (64, 512, 2048)
"""Of the table of shares."""
COUNTED = (64, 128, 256)
"""From which the growth of FLOPs is found."""
TIMED = (256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512)
"""Lengths and widths that are measured."""
HEAD = 64
KINDS: Mapping[str, Mapping[str, Any]] = {"fused kernel": {}, "weights kept": {"cap": 50.0}}
"""A soft cap needs the whole matrix of scores, which the kernel of PyTorch never holds."""
BOTH = "encoder layer and decoder layer"
PROCESSES = multiprocessing.get_context("forkserver")
PAGE_SIZE = 4096 / 2**30
"""In GB: what cannot be seen is not 0, which has no logarithm."""
Costs = dict[tuple[int, int], float]
"""By length and width."""


@dataclass(frozen=True)
class Growth:
    """``constant + linear L + quadratic L^2``: the FLOPs of a text of ``L`` tokens."""

    constant: float
    linear: float
    quadratic: float


def growth(build: Callable[[], nn.Module]) -> dict[str, Growth]:
    """How the FLOPs of each part grow with the length, found from three; the backward pass last."""
    found = []
    for length in COUNTED:
        cost = step_cost(build, lambda model: example_loss(model, 1, length))  # noqa: B023
        flops = {part: one.flops for part, one in cost.parts.items()}
        found.append({**flops, BACKWARD: cost.backward})
    fits = {part: np.polyfit(COUNTED, [one[part] for one in found], 2) for part in found[0]}
    return {part: Growth(*(float(one) for one in reversed(fit))) for part, fit in fits.items()}


def models(dim: int = 128) -> dict[str, Callable[[], nn.Module]]:
    """One layer each, with a plain feed-forward layer of ``4 D``."""
    shape: dict[str, Any] = {"dim": dim, "heads": 4, "layers": 1}
    return {
        "encoder layer": lambda: TransformerClassifier(50, classes=2, **shape),
        "decoder layer": lambda: Transformer(50, encoder={"layers": 0}, **shape),
        BOTH: lambda: Transformer(50, **shape),
    }


def products(build: Callable[[], nn.Module], dim: int = 128) -> dict[str, Growth]:
    """The products of one text by part, without output and loss, in units of ``D^2 L`` and
    ``D L^2``; the backward pass last.
    """
    return {
        part: Growth(0.0, one.linear / dim**2, one.quadratic / dim)
        for part, one in growth(build).items()
        if part != OUTPUT and one.linear + one.quadratic > 1
    }


def total(parts: Mapping[str, Growth], backward: bool = False) -> Growth:
    """The sum over parts, of the forward pass or of both."""
    summed = [one for part, one in parts.items() if backward or part != BACKWARD]
    return Growth(0.0, sum(one.linear for one in summed), sum(one.quadratic for one in summed))


def formula(one: Growth) -> str:
    """``24 D^2 L + 4 D L^2``"""
    terms = ((one.linear, "D^2 L"), (one.quadratic, "D L^2"))
    return " + ".join(f"{factor:.3g} {text}" for factor, text in terms if abs(factor) > 1e-3)


def formulas() -> list[list[str]]:
    """For each kind of layer, the products of its parts, their sum, and where half is reached."""
    rows = []
    for name, build in models().items():
        parts = products(build)
        if name != BOTH:
            rows += [[part, formula(one), ""] for part, one in parts.items() if part != BACKWARD]
        for when, backward in (("forward", False), ("forward and backward", True)):
            whole = total(parts, backward)
            half = f"{whole.linear / whole.quadratic:.3g} D"
            rows.append([f"**{name}, {when}**", formula(whole), half])
    return rows


def share(whole: Growth, length: int, dim: int) -> float:
    """Of the products that grow with the square of the length."""
    return whole.quadratic * length / (whole.linear * dim + whole.quadratic * length)


def shares() -> list[list[str]]:
    """By width and length, of the forward pass of an encoder layer."""
    whole = total(products(models()["encoder layer"]))
    return [
        [f"D {dim:,}", *(f"{100 * share(whole, length, dim):.2g} %" for length in LENGTHS)]
        for dim in DIMS
    ]


class Step:
    """Forward and backward of one encoder layer, as a text of a batch of its own."""

    def __init__(self, length: int, dim: int, kind: str) -> None:
        torch.manual_seed(0)
        heads = max(1, dim // HEAD)
        self.layer = EncoderLayer(dim, heads=heads, feedforward="relu", **KINDS[kind])
        self.x = torch.randn(1, length, dim, requires_grad=True)

    def __call__(self) -> Tensor:
        y: Tensor = self.layer(self.x)
        y.sum().backward()
        return y


def time_of(length: int, dim: int, kind: str, repeats: int) -> float:
    """Seconds of a step, the median."""
    step = Step(length, dim, kind)
    step()
    return statistics.median(seconds(step) for _ in range(repeats))


def report_peak(length: int, dim: int, kind: str, report: multiprocessing.Queue[float]) -> None:
    torch.set_num_threads(1)
    step = Step(length, dim, kind)
    Step(16, dim, kind)()  # what the first call of any size needs
    before = highest()
    step()
    report.put(max(highest() - before, PAGE_SIZE))


def memory_of(length: int, dim: int, kind: str) -> float:
    """GB that a step needs beyond what stands before it."""
    report: multiprocessing.Queue[float] = PROCESSES.Queue()
    process = PROCESSES.Process(target=report_peak, args=(length, dim, kind, report))
    process.start()
    needed = report.get()
    process.join()
    return needed


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> str:
    """The slope of a straight line through the logarithms, with its 95 % interval.

    >>> exponent([1, 2, 4, 8], [3, 12, 48, 192])
    '2.00 (2.00 to 2.00)'
    """
    fit = stats.linregress([math.log(one) for one in sizes], [math.log(one) for one in costs])
    half = stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr
    return f"{fit.slope:.2f} ({fit.slope - half:.2f} to {fit.slope + half:.2f})"


def fits(costs: Costs, lengths: Sequence[int], dims: Sequence[int]) -> list[list[str]]:
    """Exponents in the length at each width, and in the width at each length."""
    by_length = [
        [f"L, at D {dim}", exponent(lengths, [costs[length, dim] for length in lengths])]
        for dim in (dims[0], dims[-1])
    ]
    by_width = [
        [f"D, at L {length:,}", exponent(dims, [costs[length, dim] for dim in dims])]
        for length in (lengths[0], lengths[-1])
    ]
    return by_length + by_width


def measure(
    lengths: Sequence[int], dims: Sequence[int], repeats: int
) -> tuple[dict[str, Costs], dict[str, Costs]]:
    """Seconds and GB by kind, length and width."""
    torch.set_num_threads(1)
    # Each process says that this module, which is preloaded, is loaded once more as its main one.
    os.environ.setdefault("PYTHONWARNINGS", "ignore::RuntimeWarning:runpy")
    PROCESSES.set_forkserver_preload([__spec__.name])
    sizes = [(length, dim) for length in lengths for dim in dims]
    times = {kind: {size: time_of(*size, kind, repeats) for size in sizes} for kind in KINDS}
    memory = {kind: {size: memory_of(*size, kind) for size in sizes} for kind in KINDS}
    return times, memory


def measured_tables(
    times: Mapping[str, Costs],
    memory: Mapping[str, Costs],
    lengths: Sequence[int],
    dims: Sequence[int],
) -> dict[str, list[str]]:
    """Time and memory by length, and the fitted exponents."""
    columns = [
        f"{what}, {kind}, D {dim}"
        for dim in (dims[0], dims[-1])
        for what in ("s", "GB")
        for kind in KINDS
    ]
    rows = [
        [
            f"{length:,}",
            *(
                f"{costs[kind][length, dim]:.3g}"
                for dim in (dims[0], dims[-1])
                for costs in (times, memory)
                for kind in KINDS
            ),
        ]
        for length in lengths
    ]
    names = [row[0] for row in fits(times["fused kernel"], lengths, dims)]
    columns_of_fits = [
        [fit for _, fit in fits(costs[kind], lengths, dims)]
        for costs in (times, memory)
        for kind in KINDS
    ]
    fitted = [[name, *cells] for name, *cells in zip(names, *columns_of_fits, strict=True)]
    heads = [f"{what}, {kind}" for what in ("time", "memory") for kind in KINDS]
    said = f"torch {torch.__version__}, one thread of {processor()}; exponents with 95 % intervals:"
    return {
        "time and memory": table(["L", *columns], rows),
        "exponents": [said, "", *table(["exponent of", *heads], fitted)],
    }


def draw() -> Any:
    """The share of the products with L^2, by the length."""
    lengths = [2**power for power in range(3, 18)]
    with styled():
        figure = new_figure(8.0, 3.2)
        axes = figure.subplots()
        kinds = {name: total(products(build)) for name, build in models().items()}
        for dash, name in (("-", "encoder layer"), (":", "decoder layer")):
            whole = kinds[name]
            for index, dim in enumerate(DIMS):
                line = [100 * share(whole, length, dim) for length in lengths]
                style = {**line_style(index), "linestyle": dash}
                axes.plot(lengths, line, label=f"{name}, D {dim:,}", **style)
        axes.axhline(50, color=SOFT, linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths[::2], [f"{length:,}" for length in lengths[::2]])
        axes.set(title="products that grow with L^2", xlabel="length L (tokens)")
        axes.set(ylabel="share of the layer's products, %", ylim=(0, 100))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def find() -> Found:
    """The tables of formulas and the picture."""
    return Found(
        {
            "products of layers": table(["part", "products of a text", "half at L"], formulas()),
            "share of the square": table(
                ["encoder layer", *(f"L {length:,}" for length in LENGTHS)], shares()
            ),
        },
        {"claims_quadratic.png": draw()},
    )


if __name__ == "__main__":
    given = arguments(
        __doc__,
        measure={"action": "store_true", "help": "time and memory, on a quiet machine"},
        repeats={"type": int, "default": 5, "help": "steps, of which the median is taken"},
    )
    everything = find()
    if given.measure:
        everything.tables |= measured_tables(*measure(TIMED, WIDTHS, given.repeats), TIMED, WIDTHS)
    publish(everything, given.write)
