"""When does the square of the length matter? Products as formulas, counted by
``tfzoo.training.cost``.

    python -m benchmarks.claims.quadratic --write
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from benchmarks.claims.shared import Found, arguments, publish, table
from tfzoo import Transformer, TransformerClassifier
from tfzoo.plots.style import SOFT, line_style, new_figure, styled
from tfzoo.training.cost import BACKWARD, OUTPUT, example_loss, step_cost

LENGTHS, DIMS = (14, 128, 512, 2048, 8192, 32768), (64, 512, 2048)
"""Of the table of shares."""
COUNTED = (64, 128, 256)
"""From which the growth of FLOPs is found."""
BOTH = "encoder layer and decoder layer"


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
    publish(find(), arguments(__doc__).write)
