"""tfzoo cost RECIPE: what a training step of a recipe's model costs, by part."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import SECTIONS, CommandParser
from tfzoo.config.config import Config
from tfzoo.config.recipe import read
from tfzoo.config.sources import load_recipe
from tfzoo.errors import BadOption

if TYPE_CHECKING:
    from tfzoo.training.step_cost import Cost, Growth

EPILOG = """\
Nothing is trained, no data is read. --SECTION.KEY V overrides a value of the recipe, as in
tfzoo fit.

Columns, of the forward pass in training mode on a CPU:
  parameters    trained numbers; a shared matrix is counted where it stands first
  products      operations of matrix products; a multiplication and an addition are two
  values        numbers that all other operations compute
  saved         bytes that are kept for the backward pass
  products of a text    as a formula of its length L, the width D and the vocabulary V

  tfzoo cost translation/wmt14_base --length 25
  tfzoo cost translation/numbers --model.attention additive
"""
LEAST = 4
"""Of a length, because formulas are found from three; of a vocabulary, for the special tokens."""
LENGTH = 32
OPTIONS = {
    "length": f"tokens of a text, of source and target each (default: {LENGTH})",
    "batch": "texts of a batch; default: as many as data.max_tokens allows",
    "vocabulary": "number of tokens; default: the recipe's data.tokenizer.vocab_size",
}
LONGEST = 256
"""The longest text that the formulas are found from."""
COLUMNS = ("part", "parameters", "products", "values", "saved", "products of a text")


def make_parser() -> CommandParser:
    """The arguments of the command."""
    what = "Print what a training step of a recipe's model takes, by part."
    parser = CommandParser("cost", what, EPILOG)
    parser.add_recipe()
    for name, text in OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="N", help=text)
    parser.takes_recipe(*SECTIONS)
    return parser


def run(given: Namespace) -> int:
    """Print the costs of a recipe's parts."""
    length, batch, vocabulary = (whole_number(name, getattr(given, name)) for name in OPTIONS)
    config = Config.parse(read(load_recipe(given.recipe), given.arguments), make_data=False)
    length = length or LENGTH
    rows = batch or max(1, config.recipe["data"]["max_tokens"] // length)
    for line in report(config, length, rows, vocabulary or vocabulary_of(config)):
        print_result(line)
    return 0


def whole_number(name: str, text: str | None) -> int | None:
    """The value of an option; None if it is not given."""
    if text is None:
        return None
    least = LEAST if name != "batch" else 1
    if not text.isdecimal() or int(text) < least:
        raise BadOption(f"--{name} {text}: must be a whole number of at least {least}")
    return int(text)


def vocabulary_of(config: Config) -> int:
    """The size of the vocabulary that the recipe asks of its tokenizer."""
    entry, options = registry("tokenizer").options(config.recipe["data"]["tokenizer"])
    default = entry.options["vocab_size"].default if "vocab_size" in entry.options else None
    size = options.get("vocab_size", default)
    if size is None:
        raise BadOption(
            "the recipe does not say how many tokens its vocabulary has; give --vocabulary N"
        )
    return int(size)


def report(config: Config, length: int, rows: int, vocabulary: int) -> list[str]:
    """The lines of the table, and the length from which on products with ``L^2`` are most."""
    from tfzoo.training.step_cost import BACKWARD, OUTPUT, Cost, Sizes, count, growth

    sizes = config.task.model_arguments(data=config.recipe["data"])
    sizes |= {key: vocabulary for key, size in sizes.items() if size and "vocab" in key}
    options = config.recipe["model"]
    dim = options["dim"]

    def build() -> Any:
        return config.task.Model(**sizes, **options)

    costs = count(build, Sizes(rows, length))
    backward = costs.pop(BACKWARD, Cost())
    grown = growth(build, max(LEAST, min(LONGEST, options["max_length"])))
    total = Cost(*(sum(getattr(one, name) for one in costs.values()) for name in vars(backward)))
    table: list[tuple[str, ...]] = [COLUMNS]
    for part, cost in costs.items():
        if not any(vars(cost).values()):
            continue
        width = vocabulary if part == OUTPUT else dim
        table.append((part, *cells(cost), formula(grown[part], width, dim)))
    table += [("forward", *cells(total), ""), ("backward", *cells(backward), "")]
    return [
        f"{config.name}: {rows:,} texts of {length:,} tokens, vocabulary of {vocabulary:,}, fp32",
        "",
        *aligned(table),
        "",
        *crossover(grown, length, dim),
    ]


def cells(cost: Cost) -> tuple[str, ...]:
    """What a row says of a cost."""
    return (
        f"{cost.parameters:,}" if cost.parameters else "",
        *map(scaled, (cost.products, cost.values)),
        f"{scaled(cost.saved)}B" if cost.saved else "",
    )


def scaled(number: float) -> str:
    """With three digits and a prefix: ``12.6 M``.

    >>> scaled(12_582_912), scaled(0)
    ('12.6 M', '')
    """
    if not number:
        return ""
    for power, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.3g} {prefix}"
    return f"{number:.3g} "


def formula(grown: Growth, width: int, dim: int) -> str:
    """The products of a text of a part that maps ``dim`` to ``width`` channels: ``12 D^2 L + 4 D
    L^2``, or, of the output, ``6 V D L``.
    """
    terms = (
        (grown.constant / dim, "D"),
        (grown.linear / (width * dim), "D^2 L" if width == dim else "V D L"),
        (grown.quadratic / dim, "D L^2"),
    )
    return " + ".join(f"{factor:.3g} {text}" for factor, text in terms if abs(factor) > 1e-3)


def aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines with columns of one width each: the first and the last to the left."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def crossover(grown: Mapping[str, Growth], length: int, dim: int) -> list[str]:
    """The share of the products that grow with the square of the length, and where it is half;
    output and loss are left out.
    """
    from tfzoo.training.step_cost import OUTPUT

    inside = [one for part, one in grown.items() if part != OUTPUT]
    linear, quadratic = (
        sum(getattr(one, name) for one in inside) for name in ("linear", "quadratic")
    )
    if quadratic <= 0:
        return ["no products grow with the square of the length"]
    share, half = quadratic * length / (linear + quadratic * length), linear / quadratic
    return [
        f"Products with L^2 are {100 * share:.3g} % of the layers' at {length:,} tokens, and half "
        f"at {half:,.0f} tokens ({half / dim:.3g} D)."
    ]
