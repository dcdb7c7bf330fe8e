"""tfzoo fit RECIPE: train."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfzoo.config.arguments import FLAGS, parse_arguments
from tfzoo.config.config import resolve
from tfzoo.config.loader import read_yaml
from tfzoo.config.packaged import find
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
    path = find(arguments.words[0])
    tree = read_yaml(path)
    if {"recipe", "axes"} & tree.keys():
        raise BadRecipe(
            f"{path} varies a recipe, which one training cannot: tfzoo sweep {arguments.words[0]}"
        )
    untried = None if helps is not None else {"data"} if shows is not None else set()
    job = resolve([(tree, _shown(path, arguments.words[0]))], arguments, trust, path, untried)
    if helps is not None:
        print_result(job.parser.format_help())
        return 0
    if shows is not None:
        import yaml

        print_result(yaml.safe_dump(job.recipe, sort_keys=False, allow_unicode=True).rstrip())
        return 0
    from tfzoo.training.fit import train

    return train(job, folder, list(args), source)


def _shown(path: Path, asked: str) -> str:
    return str(path) if Path(asked).is_file() else f"{asked.removesuffix('.yaml')}.yaml"
