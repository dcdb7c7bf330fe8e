"""Tab completes what can follow, in bash and in zsh."""

import shutil
import subprocess
from functools import cache

import pytest

from tfzoo.base.registry import registry
from tfzoo.commands.completion import every_command
from tfzoo.commands.main import COMMANDS
from tfzoo.config.recipe import packaged_recipes


@cache
def script():
    import shtab

    return shtab.complete(every_command(), "bash")


def completed(words):
    """What bash offers for the last of these words."""
    count = len(words.split(" ")) - 1
    code = (
        f"{script()}\nCOMP_WORDS=({words!s} ''); COMP_CWORD={count}; _shtab_tfzoo; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_what_can_follow_is_offered():
    assert completed("tfzoo ") == set(COMMANDS)
    assert completed("tfzoo fit translation/n") == {
        name for name in packaged_recipes() if name.startswith("translation/n")
    }
    assert completed("tfzoo fit x --model.norm ") == set(registry("norm").names())
    assert completed("tfzoo fit x --optim.l") == {"--optim.lr", "--optim.label_smoothing"}
    assert completed("tfzoo sweep ablations/pos") == {"ablations/position"}
    assert completed("tfzoo export --ov") == {"--overwrite"}
    assert completed("tfzoo export run --to o") == {"onnx"}
    assert completed("tfzoo show norm rm") == {"rms"}
    assert "WandbLogger" in completed("tfzoo fit x --trainer.logger W")
