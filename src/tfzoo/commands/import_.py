"""tfzoo import SOURCE: make a run of a published model."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tfzoo.base.terminal import notify, print_result, relative_path
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import BadRun

EPILOG = """\
SOURCE is a folder that save_pretrained of Hugging Face's transformers wrote, with config.json,
weights in safetensors and tokenizer.json, or a repository of the Hub, hf://owner/name[@revision].
Pickles are not read, and code that it asks for is not run.

The folder that is written is a run of tfzoo: predict, attention, serve, export and
fit --from take it. They take SOURCE itself, too, and read it anew each time.
"""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("import", "Make a run of a published model.", EPILOG)
    parser.add_argument("source", metavar="SOURCE", help="a folder, or hf://owner/name[@revision]")
    parser.add_argument(
        "--run", metavar="FOLDER", help="what to write; default: runs/<name of SOURCE>"
    )
    return parser


def run(given: Namespace) -> int:
    """Read a published model, and write it as a run."""
    from tfzoo.runs import files
    from tfzoo.runs.folder import RUNS
    from tfzoo.runs.run import Run

    name = Path(given.source.partition("@")[0]).expanduser().resolve().name
    output = Path(given.run) if given.run else RUNS / name
    files.check_new(output)
    source = Run(given.source)
    if not source.is_published:
        raise BadRun(
            f"{given.source} has no config.json of transformers that can be read and names a "
            "model_type; a run of tfzoo needs no import"
        )
    source.load().save_pretrained(output)
    notify(f"use it: tfzoo predict {relative_path(output)}")
    print_result(str(relative_path(output)))
    return 0
