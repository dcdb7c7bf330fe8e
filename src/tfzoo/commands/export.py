"""tfzoo export RUN: write a checkpoint without training state to one file."""

from __future__ import annotations

from pathlib import Path

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError
from tfzoo.terminal import notify, print_result, relative_path

EPILOG = """\
The file holds weights, recipe and tokenizer but not the state of the optimiser: all commands can
use it, but training cannot be resumed from it. A checkpoint that is a folder, of a run on several
machines or with --trainer.strategy fsdp2, becomes one file.
"""
FILE = "export.ckpt"
KEPT = ("state_dict", "tfzoo", "epoch", "global_step", "pytorch-lightning_version")


def run(args: list[str]) -> int:
    """Read a checkpoint, file or folder, and write what inference needs to a file."""
    parser = CommandParser(
        "export", "Write a trained run, or one checkpoint of it, to one file.", EPILOG
    )
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
    )
    parser.add_argument(
        "--output", metavar="PATH", help=f"the file to write; default: {FILE} in the run's folder"
    )
    given = parser.parse(args)
    if given is None:
        return 0
    from tfzoo.runs import checkpoints

    if given.output and Path(given.output).suffix == ".safetensors":
        raise TfzooError(
            f"--output {given.output}: a safetensors file holds weights alone, an export also "
            f"recipe and tokenizer; name it {Path(given.output).with_suffix('.ckpt')}"
        )
    path = checkpoints.resolve(given.run)
    folder = checkpoints.folder_of(path)
    if given.output is None and folder is None:
        raise TfzooError(f"{path} lies in no run's folder; say where to write: --output PATH")
    output = Path(given.output) if given.output else (folder or Path()) / FILE
    if (
        folder and output.resolve().is_relative_to((folder / "checkpoints").resolve())
    ) or output.resolve() == path.resolve():
        raise TfzooError(
            f"{output} is a place of the checkpoints that training goes on from; "
            "write elsewhere: --output PATH"
        )
    notify(f"checkpoint: {relative_path(path)}")
    write(checkpoints.read(path), output)
    print_result(str(relative_path(output)))
    return 0


def write(checkpoint: dict[str, object], output: Path) -> None:
    """Write the keys :data:`KEPT` of a checkpoint to a temporary file, then rename it."""
    import torch

    temporary = output.with_name(f"{output.name}.tmp")
    try:
        torch.save({key: checkpoint[key] for key in KEPT if key in checkpoint}, temporary)
        temporary.replace(output)
    except (OSError, RuntimeError) as error:  # torch.save raises both
        temporary.unlink(missing_ok=True)
        raise TfzooError(
            f"cannot write {output}: {getattr(error, 'strerror', None) or error}"
        ) from None
