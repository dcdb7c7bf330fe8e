"""tfzoo import and tfzoo export: models of other programs, and runs for them."""

from argparse import Namespace
from pathlib import Path

from tfzoo.base.terminal import notify, print_result, relative_path, silence_lightning
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import BadRun, TfzooError, UnknownName

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
FORMATS = ("safetensors", "onnx", "ctranslate2", "transformers", "peft")


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
        default=FORMATS[0],
        help=f"{', '.join(FORMATS)}; default: %(default)s",
    )
    parser.add_argument("--output", metavar="FOLDER", help="what to write; default: RUN/FORMAT")
    return parser


def run_export(given: Namespace) -> int:
    """Read a checkpoint, and write it in the format asked for."""
    from tfzoo.base import files
    from tfzoo.learning.trained_run import TrainedRun

    if given.to not in FORMATS:
        raise UnknownName("format", given.to, FORMATS, "tfzoo export --help")
    trained = TrainedRun(given.run)
    path, folder = trained.path, trained.folder
    if given.output is None and folder is None:
        raise TfzooError(f"{path} lies in no run's folder; say where to write: --output FOLDER")
    output = Path(given.output) if given.output else (folder or Path()) / given.to
    files.check_new(output)
    notify(f"checkpoint: {relative_path(path)}")
    task = trained.load(keep_adapter=given.to == "peft")
    silence_lightning()
    if given.to == FORMATS[0]:
        task.save_pretrained(output)
    else:
        from tfzoo.exporting import export

        export(task, output, to=given.to)
    print_result(str(relative_path(output)))
    return 0


IMPORT_HELP = """\
SOURCE is a folder that save_pretrained of Hugging Face's transformers wrote, with config.json,
weights in safetensors and tokenizer.json, or a repository of the Hub, hf://owner/name[@revision].
Pickles are not read, and code that it asks for is not run.

The folder that is written is a run of tfzoo: predict, attention, serve, export and
fit --from take it. They take SOURCE itself, too, and read it anew each time.
"""


def import_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("import", run_import, "Make a run of a published model.", IMPORT_HELP)
    parser.add_argument("source", metavar="SOURCE", help="a folder, or hf://owner/name[@revision]")
    parser.add_argument(
        "--run", metavar="FOLDER", help="what to write; default: runs/<name of SOURCE>"
    )
    return parser


def run_import(given: Namespace) -> int:
    """Read a published model, and write it as a run."""
    from tfzoo.base import files
    from tfzoo.learning.trained_run import TrainedRun
    from tfzoo.runs.folder import RUNS

    name = Path(given.source.partition("@")[0]).expanduser().resolve().name
    output = Path(given.run) if given.run else RUNS / name
    files.check_new(output)
    source = TrainedRun(given.source)
    if not source.is_published:
        raise BadRun(
            f"{given.source} has no config.json of transformers that can be read and names a "
            "model_type; a run of tfzoo needs no import"
        )
    source.load().save_pretrained(output)
    notify(f"use it: tfzoo predict {relative_path(output)}")
    print_result(str(relative_path(output)))
    return 0
