"""tfzoo import and tfzoo export: models of other programs, and runs for them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tfzoo.base.terminal import notify, print_result, relative_path, silence_lightning
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import BadRun, TfzooError, UnknownName

if TYPE_CHECKING:
    from tfzoo.learning.trained_run import TrainedRun

EXPORT_HELP = """\
  --to ckpt         a file with weights, recipe and tokenizer but without the state of the
                    optimiser: all commands can use it, but training cannot be resumed from it
  --to safetensors  a folder to be shared, without pickles: weights, recipe, tokenizer and a model
                    card; all commands can use it, and the Hugging Face Hub holds such folders
  --to onnx         a folder for ONNX Runtime: a classifier, a language model or a translator
  --to ctranslate2  a folder for CTranslate2: a translator whose parts it has
  --to transformers
                    a folder for Hugging Face's transformers, AutoModel...from_pretrained: a model
                    of a published architecture, with its tokenizer
  --to peft         the adapter of such a model alone, which PeftModel.from_pretrained adds to the
                    model that training began with

An adapter is merged in all other formats but ckpt.
What is written for another program is compared with the run before it gets its name.
"""
KEPT = ("state_dict", "tfzoo", "epoch", "global_step", "pytorch-lightning_version")
"""What is written of a checkpoint."""
OUTPUTS = {
    name: name for name in ("safetensors", "onnx", "ctranslate2", "transformers", "peft")
} | {"ckpt": "export.ckpt"}
"""The formats, and the name of what is written to the run's folder if no other place is given."""


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
        "--to", metavar="FORMAT", default="ckpt", help=f"{', '.join(OUTPUTS)}; default: ckpt"
    )
    parser.add_argument(
        "--output", metavar="PATH", help="what to write; default: a place in the run's folder"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file at --output")
    return parser


def run_export(given: Namespace) -> int:
    """Read a checkpoint, file or folder, and write it in the format asked for."""
    from tfzoo.base import files
    from tfzoo.learning.trained_run import TrainedRun

    if given.to not in OUTPUTS:
        raise UnknownName("format", given.to, OUTPUTS, "tfzoo export --help")
    if given.to == "ckpt" and given.output and Path(given.output).suffix == ".safetensors":
        raise TfzooError(
            f"--output {given.output}: a safetensors file holds weights alone, an export also "
            f"recipe and tokenizer; write a folder: --to safetensors --output {given.output[:-12]}"
        )
    trained = TrainedRun(given.run)
    output = output_path(given, trained)
    files.check_output(output, given.overwrite)
    notify(f"checkpoint: {relative_path(trained.path)}")
    if given.to == "ckpt":
        import torch

        content = {key: trained.content[key] for key in KEPT if key in trained.content}
        try:
            with files.output(output) as place, place.open("wb") as stream:
                torch.save(content, stream)
        except RuntimeError as error:  # of torch.save, where a full disk cut it off
            why = getattr(error.__context__, "strerror", None) or error
            raise TfzooError(f"cannot write {output}: {why}") from None
    else:
        files.check_new(output)
        task = trained.load(keep_adapter=given.to == "peft")
        silence_lightning()
        if given.to == "safetensors":
            task.save_pretrained(output)
        else:
            from tfzoo.exporting import export

            export(task, output, to=given.to)
    print_result(str(relative_path(output)))
    return 0


def output_path(given: Namespace, trained: TrainedRun) -> Path:
    """Where to write: ``--output``, or a place in the run's folder."""
    from tfzoo.runs.checkpoints import FOLDER

    path, folder = trained.path, trained.folder
    if given.output is None and folder is None:
        raise TfzooError(f"{path} lies in no run's folder; say where to write: --output PATH")
    output = Path(given.output) if given.output else (folder or Path()) / OUTPUTS[given.to]
    if (
        folder and output.resolve().is_relative_to((folder / FOLDER).resolve())
    ) or output.resolve() == path.resolve():
        raise TfzooError(
            f"{output} is a place of the checkpoints that training goes on from; "
            "write elsewhere: --output PATH"
        )
    return output


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
