"""tfzoo cost: what a training step of a recipe's model, or a run's, costs, by part."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result
from tfzoo.base.values import check_range, readable
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config.config import Config
from tfzoo.config.recipe import FROM, Source, load_recipe
from tfzoo.errors import BadOption, TfzooError
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.runs.folder import SCHEME
from tfzoo.training.start import begin

EPILOG = """\
Nothing is trained, no data is read. --SECTION.KEY V overrides a value of the recipe, as in
tfzoo fit.

Columns, of the forward pass in training mode on a CPU:
  parameters    a shared matrix is counted where it stands first
  MFLOPs        of matrix products; a multiplication and an addition are two
  activations   bytes that a part computes and the backward pass needs

  tfzoo cost translation/wmt14_base --length 25
  tfzoo cost translation/numbers --model.attention additive
"""
LENGTH = 32
OPTIONS = {
    "length": f"tokens of a text, of source and target each (default: {LENGTH})",
    "batch": "texts of a batch; default: as many as data.max_tokens allows",
    "vocabulary": "number of tokens; default: those of the run, or of data.tokenizer.vocab_size",
}


def cost_parser() -> CommandParser:
    """The arguments of the command."""
    what = "Print what a training step of a recipe's model, or of a run's, takes, by part."
    parser = CommandParser("cost", run, what, EPILOG)
    about = "a packaged name, a YAML file, or a run: its folder or a checkpoint"
    parser.add_argument("recipe", metavar="RECIPE", help=about)
    for name, text in OPTIONS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.takes_recipe("RECIPE")
    return parser


def run(given: Namespace) -> int:
    """Print the costs of a recipe's parts."""
    for name in OPTIONS:
        check_range(f"--{name}", getattr(given, name), ge=1, whole=True, optional=True)
    name, tokenizer = given.recipe, None
    if Path(name).is_dir() or name.startswith(SCHEME) or name.endswith(".ckpt"):
        task = TrainedRun(name).load(keep_adapter=True)
        tokenizer = task.tokenizer
        values = {**task.recipe, "trainer": {}, "checkpoint": {}, FROM: None}
        values.pop("options", None)
        files = [Source(values, name, given.trust)]
    else:
        files = load_recipe(name, given.trust)
    config = Config.parse(*begin(files, given.overrides))
    length = given.length or LENGTH
    rows = given.batch or max(1, config.recipe["data"]["max_tokens"] // length)
    sizes = config.task.model_arguments(tokenizer, config.recipe["data"])
    if given.vocabulary or tokenizer is None:
        vocabulary = given.vocabulary or vocabulary_of(config)
        sizes |= {key: vocabulary for key, size in sizes.items() if size and "vocab" in key}
    for line in report(given.recipe, config, length, rows, sizes):
        print_result(line)
    return 0


def vocabulary_of(config: Config) -> int:
    """The size of the vocabulary that the recipe asks of its tokenizer."""
    entry, options = registry("tokenizer").options(config.recipe["data"]["tokenizer"])
    if "vocab_size" not in entry.options:
        raise BadOption(
            "the recipe does not say how many tokens its vocabulary has; give --vocabulary N"
        )
    return int(options.get("vocab_size", entry.options["vocab_size"].default))


def report(
    name: str, config: Config, length: int, rows: int, sizes: Mapping[str, Any]
) -> list[str]:
    """The lines of the table, and the memory of a step."""
    from tfzoo.training.cost import Cost, cost_of

    if (cost := cost_of(config, sizes, None, rows, length)) is None:
        raise TfzooError(
            "not known of a model with an adapter, or with a part that looks at data to know what "
            "to do"
        )
    costs = {**cost.parts, "forward": cost.forward, "backward": Cost(flops=cost.backward)}
    table = [("part", "parameters", "MFLOPs", "activations")] + [
        (part, f"{one.parameters:,}", f"{one.flops / 1e6:,.1f}", readable(one.activations))
        for part, one in costs.items()
        if any(vars(one).values())
    ]
    first, *widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        f"{name}: {rows:,} texts of {length:,} tokens, vocabulary of {sizes['vocab_size']:,}, fp32",
        "",
        *(
            "  ".join([part.ljust(first), *map(str.rjust, numbers, widths)])
            for part, *numbers in table
        ),
        "",
        f"memory  {cost}",
    ]
