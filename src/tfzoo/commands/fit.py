"""tfzoo fit RECIPE: train."""

from __future__ import annotations

from collections.abc import Sequence

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.terminal import print_result, print_verbatim
from tfzoo.config.help import help_text
from tfzoo.config.resolve import resolve
from tfzoo.config.sections import find_task
from tfzoo.config.sources import FLAGS, load_recipe, parse_arguments
from tfzoo.errors import BadRecipe
from tfzoo.runs.folder import as_yaml

OWN = (*FLAGS, "run")
"""The options that are not of a recipe."""

HELP = """\
usage: tfzoo fit RECIPE [--run FOLDER] [--from RUN] [--SECTION.KEY VALUE ...]
                        [--config FILE] [--print_config] [--dry-run] [--trust]

Train a recipe. RECIPE is a packaged name (see tfzoo recipes) or the path of a YAML file.

  --run FOLDER      the folder of this run; default runs/<recipe>/<n>. If it holds a run with the
                    same recipe and options, training resumes from its last checkpoint, unless the
                    run is complete. One process at a time trains in a folder
  --from RUN        start with the weights of another run or checkpoint, as far as they fit, and
                    with its tokenizer; a folder of transformers, or hf://owner/name, also gives
                    the recipe its model, and options on top change parts of it
  --SECTION.KEY V   override a value of the recipe:
                    --model.norm rms --model.norm.eps 1e-6 --trainer.max_steps 1000
                    sections: model, data, optim, compute, trainer (Lightning's Trainer),
                    checkpoint (its ModelCheckpoint), adapter (LoRA), search (of a translator),
                    loss (of a classifier)
  --seed N          the seed of parameters, batches and dropout
  --config FILE     a YAML file that overrides the recipe; may be repeated
  --print_config    print the resolved recipe and exit
  --dry-run         train a few steps, print parameters, batches, and estimates of the whole
                    training's memory and time, and exit; nothing is kept
  --trust           allow the recipe to name classes outside Lightning; this runs their code

tfzoo fit RECIPE --help    every key with its type and default
tfzoo list / show          the components that the model can be built from

  tfzoo fit translation/numbers --model.attention additive --model.position relative_bias
"""


def run(args: Sequence[str]) -> int:
    """Train a recipe, or print it resolved, or print its keys."""
    arguments = parse_arguments(args, OWN)
    own = arguments.own
    if "help" in own and not arguments.positional:
        print_result(HELP.rstrip())
        return 0
    files = load_recipe(arguments.recipe("fit", (*OWN, "config")))
    if {"recipe", "axes"} & files[-1].values.keys():
        raise BadRecipe(
            f"{files[-1].origin} varies a recipe, which one training cannot: "
            f"tfzoo sweep {arguments.positional[0]}"
        )
    if "help" in own:
        task = find_task(arguments.over(files))
        print_result(help_text(task))
        return 0
    config = resolve(files, arguments, make_data="print_config" not in own)
    if "print_config" in own:
        print_verbatim(as_yaml(config.recipe).rstrip())
        return 0
    keep_freed_memory()
    command = ["fit", *args]
    if "dry-run" in own:
        from tfzoo.training.dry_run import dry_run

        return dry_run(config, command)
    from tfzoo.training.train import train  # imports lightning, so only after the checks

    return train(config, own.get("run"), command)
