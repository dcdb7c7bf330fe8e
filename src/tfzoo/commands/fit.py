"""tfzoo fit RECIPE: train."""

from __future__ import annotations

from collections.abc import Sequence

from tfzoo.config.arguments import FLAGS, parse_arguments
from tfzoo.config.config import help_text, load_recipe, resolve
from tfzoo.config.loader import as_yaml
from tfzoo.errors import BadRecipe
from tfzoo.terminal import print_result

HELP = """\
usage: tfzoo fit RECIPE [--run FOLDER] [--from RUN] [--SECTION.KEY VALUE ...] [--config FILE] [--print_config] [--trust]

Train what a recipe describes. RECIPE is a packaged name (tfzoo recipes) or the path of a YAML file.

  --run FOLDER      where everything about this training lies; default runs/<recipe>/<n>. The folder of a run that was stopped, with the
                    same recipe and options: it goes on where its last checkpoint stood
  --from RUN        begin with the weights of another run, or of one of its checkpoints, as far as they fit
  --SECTION.KEY V   any value of the recipe: --model.norm rms --model.norm.eps 1e-6 --trainer.max_steps 1000
                    sections: model, data, optim, compute, trainer (Lightning's Trainer), checkpoint (its ModelCheckpoint),
                    and search (of a translator) or loss (of a classifier)
  --seed N          of parameters, batches and dropout
  --config FILE     a YAML laid over the recipe; may be repeated
  --print_config    print the resolved recipe, train nothing
  --trust           let the recipe name classes outside Lightning: that runs their code

tfzoo fit RECIPE --help    every key with its type and default
tfzoo list / show          the components that a slot can take

  tfzoo fit translation/numbers --model.attention additive --model.position relative_bias
"""


def run(args: Sequence[str]) -> int:
    """Train, or print the resolved recipe or its keys."""
    arguments = parse_arguments(args, FLAGS)
    if not arguments.words:
        if arguments.take("help") is not None:
            print_result(HELP.rstrip())
            return 0
        raise BadRecipe(
            "fit needs a recipe: tfzoo fit translation/numbers (tfzoo recipes lists all)"
        )
    if len(arguments.words) > 1:
        raise BadRecipe(f"one recipe a time, but also given: {' '.join(arguments.words[1:])}")
    folder, source = arguments.take("run"), arguments.take("from")
    shows, helps = arguments.take("print_config"), arguments.take("help")
    trust = arguments.take("trust") is not None
    recipe = load_recipe(arguments.words[0])
    if {"recipe", "axes"} & recipe.tree.keys():
        raise BadRecipe(
            f"{recipe.origin} varies a recipe, which one training cannot: tfzoo sweep {arguments.words[0]}"
        )
    if helps is not None:
        print_result(help_text(recipe, arguments))
        return 0
    if shows is not None:
        print_result(as_yaml(resolve(recipe, arguments, trust, unchecked={"data"}).recipe))
        return 0
    from tfzoo.training.fit import train

    return train(resolve(recipe, arguments, trust), folder, list(args), source)
