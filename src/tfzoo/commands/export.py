"""tfzoo export RUN: one file to use and to hand on."""

from __future__ import annotations

from pathlib import Path

from tfzoo.commands.words import Words
from tfzoo.errors import TfzooError
from tfzoo.terminal import notify, print_result, relative_path

EPILOG = """\
The file holds weights, recipe and tokenizer, not the optimiser: every command can use it, none can train on with it. A run of several
machines, or of --trainer.strategy fsdp2, keeps each checkpoint as a folder; this makes one file of it.
"""
FILE = "export.ckpt"
KEPT = ("state_dict", "tfzoo", "epoch", "global_step", "pytorch-lightning_version")


def run(args: list[str]) -> int:
    """Read a checkpoint, file or folder, and write what is needed to use it."""
    parser = Words("export", "Write a trained run, or one checkpoint of it, to one file.", EPILOG)
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
    )
    parser.add_argument(
        "--output", metavar="PATH", help=f"the file to write; default: {FILE} in the run's folder"
    )
    given = parser.read(args)
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
            f"{output} is a place of the checkpoints that training goes on from; write elsewhere: --output PATH"
        )
    notify(f"checkpoint: {relative_path(path)}")
    write(checkpoints.read(path), output)
    print_result(str(relative_path(output)))
    return 0


def write(checkpoint: dict[str, object], output: Path) -> None:
    """Put what is needed into a file, under its name once all of it is there."""
    import torch

    draft = output.with_name(f"{output.name}.tmp")
    try:
        torch.save({key: checkpoint[key] for key in KEPT if key in checkpoint}, draft)
        draft.replace(output)
    except (OSError, RuntimeError) as error:  # torch.save says both
        draft.unlink(missing_ok=True)
        raise TfzooError(
            f"cannot write {output}: {getattr(error, 'strerror', None) or error}"
        ) from None
