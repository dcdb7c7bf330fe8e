"""tfzoo fit RECIPE: train."""

from __future__ import annotations

import textwrap
from argparse import Namespace

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import SECTIONS, CommandParser
from tfzoo.config.config import Config
from tfzoo.config.help import help_text
from tfzoo.config.recipe import find_task, read
from tfzoo.config.sources import load_recipe
from tfzoo.runs.folder import as_yaml

EPILOG = """\
  --SECTION.KEY V  override a value of the recipe:
                   --model.norm rms --model.norm.eps 1e-6 --trainer.max_steps 1000
                   sections: {sections}

tfzoo fit RECIPE --help    every key with its type and default
tfzoo list / show          the components that the model can be built from

  tfzoo fit translation/numbers --model.attention additive --model.position relative_bias
"""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    listed = ", ".join(f"{name} ({said})" if said else name for name, said in SECTIONS.items())
    sections = textwrap.fill(listed, 70).replace("\n", "\n" + " " * 19)
    epilog = EPILOG.format(sections=sections)
    parser = CommandParser("fit", "Train a recipe.", epilog, add_help=False)
    parser.add_recipe()
    parser.add_argument(
        "-h", "--help", action="store_true", help="print this, or the keys of RECIPE"
    )
    parser.add_argument(
        "--run",
        metavar="FOLDER",
        help="the folder of this run; default runs/<recipe>/<n>. If it holds a run with the same "
        "recipe and options, training resumes from its last checkpoint, unless the run is "
        "complete. One process at a time trains in a folder",
    )
    parser.add_key(
        "from",
        "RUN",
        "start with the weights of another run or checkpoint, as far as they fit, and with its "
        "tokenizer; a folder of transformers, or hf://owner/name, also gives the recipe its "
        "model, and options on top change parts of it",
    )
    parser.add_key("seed", "N", "the seed of parameters, batches and dropout")
    parser.add_argument(
        "--print_config", action="store_true", help="print the resolved recipe and exit"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="train a few steps, print parameters, batches, and estimates of the whole training's "
        "memory and time, and exit; nothing is kept",
    )
    parser.takes_recipe(*SECTIONS)
    return parser


def run(given: Namespace) -> int:
    """Train a recipe, or print it resolved, or print its keys."""
    files = load_recipe(given.recipe)
    if given.help:
        print_result(help_text(find_task([*files, *given.overrides])))
        return 0
    recipe = read(files, given.overrides, given.trust, given.run)
    config = Config.parse(recipe, make_data=not given.print_config)
    if given.print_config:
        print_result(as_yaml(config.recipe).rstrip())
        return 0
    keep_freed_memory()
    if given.dry_run:
        from tfzoo.training.dry_run import dry_run

        return dry_run(config, given.words)
    from tfzoo.training.train import train  # imports lightning, so only after the checks

    return train(config, given.run, given.words)
