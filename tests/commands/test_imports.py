"""Commands that answer at once load nothing that takes its time."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("lightning", "wandb", "transformers", "jsonargparse", "torchmetrics")


LIGHT = [["--help"], ["--version"], ["list"], ["show", "norm", "rms"], ["recipes"], ["cache"]]
HELP = [["fit", "--help"], ["sweep", "--help"], ["report", "--help"]]


@pytest.mark.parametrize("args", [*LIGHT, *HELP])
def test_simple_commands_load_no_lightning(args: list[str]) -> None:
    code = (
        f"import sys; from tfzoo.commands.main import main; code = main({args});"
        f"print([m for m in {HEAVY} if m in sys.modules]); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
    assert ended.stderr == ""


def test_importing_tfzoo_loads_neither_torch_nor_lightning() -> None:
    code = (
        "import sys, tfzoo; print([m for m in ('torch', 'lightning', 'wandb') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_training_loads_no_wandb_unless_it_logs_there() -> None:
    code = (
        "import sys; from tfzoo.commands.main import main; code = main(['fit', "
        "'translation/numbers', '--print_config']);"
        "print([m for m in ('wandb', 'tensorboard') if m in sys.modules]); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
