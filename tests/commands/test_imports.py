"""Commands that answer at once load nothing that takes its time."""

import subprocess
import sys

from tests import forked

HEAVY = ("lightning", "wandb", "transformers", "torchmetrics")


LIGHT = ["--help", "--version", "list", "show norm rms", "recipes", "architectures"]
LIGHT += ["fit --help", "sweep --help", "report --help"]


def test_simple_commands_load_no_lightning_and_a_mistake_no_torch(tmp_path):
    """All in one process."""
    code = (
        "import sys; from tfzoo.commands.main import main\n"
        "print('=', main(['serve', 'nothing']), 'torch' in sys.modules)\n"
        f"for line in {LIGHT}:\n"
        f"    print('=', main(line.split()), [m for m in {HEAVY} if m in sys.modules], line)"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    told = [line for line in ended.stdout.splitlines() if line.startswith("= ")]
    assert told == ["= 2 False", *(f"= 0 [] {line}" for line in LIGHT)]
    assert ended.stderr == "tfzoo: no run at nothing. tfzoo fit RECIPE makes one\n"


def test_what_is_imported_loads_only_what_it_needs():
    code = (
        "import sys, tfzoo\n"
        "def loaded(*names): return [name for name in names if name in sys.modules]\n"
        "print(loaded('torch', 'lightning', 'wandb'))\n"
        "tfzoo.Transformer(vocab_size=8, dim=8, heads=2)\n"
        "print(loaded('torch._dynamo', 'lightning', 'sympy', 'wandb'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "[]"]


def loaded_by(*args):
    """The exit code of a command, and which trackers have been imported after it."""
    from tfzoo.commands.main import main

    code = main(list(args))
    return code, [name for name in ("wandb", "tensorboard") if name in sys.modules]


@forked.requires_fork
def test_training_loads_no_wandb_unless_it_logs_there():
    command = ("fit", "translation/numbers", "--print_config")
    assert forked.call(loaded_by, *command, fresh=True) == (0, [])
