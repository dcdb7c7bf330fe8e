"""tfzoo export RUN: a trained run in the format of another program."""

from argparse import Namespace
from pathlib import Path

from tfzoo.base.terminal import notify, print_result, relative_path, silence_lightning
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError
from tfzoo.exporting import FORMATS

EXPORT_HELP = """\
  --to safetensors  a folder to be shared, without pickles: weights, recipe, tokenizer and a model
                    card; all commands can use it, but training cannot be resumed from it, and the
                    Hugging Face Hub holds such folders
  --to onnx         a folder for ONNX Runtime: a classifier, a language model or a translator
  --to ctranslate2  a folder for CTranslate2: a translator whose parts it has
  --to transformers
                    a folder for Hugging Face's transformers, AutoModel...from_pretrained: a model
                    of a published architecture, with its tokenizer
  --to peft         the adapter of such a model alone, which PeftModel.from_pretrained adds to the
                    model that training began with

An adapter is merged in all other formats.
What is written for another program is compared with the run before it gets its name.
"""
OWN = "safetensors"
"""The format that tfzoo itself reads."""


def export_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "export",
        run_export,
        "Write a trained run, or one checkpoint of it, in another format.",
        EXPORT_HELP,
    )
    parser.add_run()
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        choices=(OWN, *FORMATS),
        default=OWN,
        help="%(choices)s; default: %(default)s",
    )
    parser.add_argument("--output", metavar="FOLDER", help="what to write; default: RUN/FORMAT")
    return parser


def run_export(given: Namespace) -> int:
    """Read a checkpoint, and write it in the format asked for."""
    from tfzoo.base import files
    from tfzoo.learning.trained_run import TrainedRun

    trained = TrainedRun(given.run)
    path, folder = trained.path, trained.folder
    if given.output is None and folder is None:
        raise TfzooError(f"{path} lies in no run's folder; say where to write: --output FOLDER")
    output = Path(given.output) if given.output else (folder or Path()) / given.to
    files.check_new(output)
    notify(f"checkpoint: {relative_path(path)}")
    task = trained.load(keep_adapter=given.to == "peft")
    silence_lightning()
    if given.to == OWN:
        task.save_pretrained(output)
    else:
        from tfzoo.exporting import export

        export(task, output, to=given.to)
    print_result(str(relative_path(output)))
    return 0
