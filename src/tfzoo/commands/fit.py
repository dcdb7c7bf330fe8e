"""tfzoo fit RECIPE: train."""

from argparse import Namespace

from tfzoo.base.memory import keep_freed_memory
from tfzoo.base.terminal import print_result
from tfzoo.base.yaml_files import as_yaml
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config.config import Config
from tfzoo.config.recipe import load_recipe
from tfzoo.errors import TfzooError, UnknownName
from tfzoo.training.start import begin

EPILOG = """\
Values of the recipe are set by --SECTION.KEY VALUE. What is set most:
  --model.dim, --model.layers, --model.heads       its size
  --model.norm, --model.attention, ...             its parts: tfzoo list, tfzoo show norm rms
  --model.norm.eps 1e-6                            an option of a part
  --data.train, --data.val, --data.test            files of text, or --data.root FOLDER
  --data.max_tokens                                the size of a batch
  --optim.lr                                       the peak learning rate
  --trainer.max_steps                              how long it trains
  --trainer.devices, --trainer.precision           on what
  --trainer.logger                                 WandbLogger, TensorBoardLogger, ...
  --checkpoint.monitor                             the score of the best checkpoint
and of no section:
  --from      start with the weights of another run or checkpoint, as far as they fit, and with
              its tokenizer; a folder of transformers, or hf://owner/name, also gives the recipe
              its model, and options on top change parts of it
  --seed          of parameters, batches and dropout
  --task          what is trained: tfzoo list task
  --train_tokens  training ends at the first step with at least this many tokens of training
                  data, unless another limit ends it earlier
  --explain       log diagnostics of attention and embeddings
  --timeout       seconds without progress after which one of several processes counts as hung

Sections, of which tfzoo fit RECIPE --help SECTION has all keys with type and value:
  model, data, optim, compute; trainer (Lightning's Trainer), checkpoint (its ModelCheckpoint);
  adapter (LoRA), search (of a translator), loss (of a classifier)

  tfzoo fit translation/numbers --model.attention additive --model.position relative_bias
  tfzoo fit translation/numbers --help optim
"""


def fit_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("fit", run, "Train a recipe.", EPILOG, add_help=False)
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="?",
        help="a packaged name (see tfzoo recipes) or the path of a YAML file",
    )
    parser.add_argument(
        "-h",
        "--help",
        nargs="?",
        const="",
        metavar="SECTION",
        help="print this, or the keys of a section of RECIPE",
    )
    parser.add_argument(
        "--run",
        metavar="FOLDER",
        help="the folder of this run; default runs/<recipe>/<n>. If it holds a run with the same "
        "recipe and options, training resumes from its last checkpoint, unless the run is "
        "complete. One process at a time trains in a folder",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the resolved recipe and exit"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="train a few steps, print parameters, batches, and estimates of the whole training's "
        "memory and time, and exit; nothing is kept",
    )
    parser.takes_recipe("RECIPE")
    return parser


def run(given: Namespace) -> int:
    """Train a recipe, or print it resolved, or print the keys of a section."""
    if given.help == "" or (given.help and given.recipe is None):
        fit_parser().print_help()
        return 0
    if given.recipe is None:
        raise TfzooError(
            "fit needs a recipe: tfzoo fit translation/numbers (tfzoo recipes lists all)"
        )
    files = load_recipe(given.recipe, given.trust)
    config = Config.parse(*begin(files, given.overrides, given.run))
    if given.print_config:
        print_result(as_yaml(config.recipe).rstrip())
        return 0
    if given.help in config.sections:
        print_result(config.sections[given.help].help(given.help, config.recipe[given.help]))
        return 0
    if given.help:
        raise UnknownName("section", given.help, config.sections)
    keep_freed_memory()
    from tfzoo.training.train import dry_run, train  # after the checks: it takes seconds

    if given.dry_run:
        return dry_run(config, given.command)
    return train(config, given.run, given.command)
