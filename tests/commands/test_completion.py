"""Tab completes what can follow, in bash and in zsh."""

import shutil
import subprocess
from functools import cache

import pytest

from tfzoo.base.registry import registry
from tfzoo.commands.argument_parser import SECTIONS
from tfzoo.commands.completion import script
from tfzoo.commands.main import main, summaries
from tfzoo.config import sources
from tfzoo.config.sections import sections

bash = cache(script)


def completed(words, folder):
    """What bash offers for the last of these words."""
    count = len(words.split(" ")) - 1
    code = (
        f"{bash()}\nCOMP_WORDS=({words!s} ''); COMP_CWORD={count}; _tfzoo; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_what_can_follow_is_offered(tmp_path):
    for run in ("numbers/1", "mine"):
        (tmp_path / "runs" / run / "checkpoints").mkdir(parents=True)
        (tmp_path / "runs" / run / "config.yaml").touch()
    (tmp_path / "runs/small").mkdir()
    (tmp_path / "runs/small/cells.json").touch()
    (tmp_path / "mine.yaml").touch()
    assert completed("tfzoo ", tmp_path) == set(summaries())
    assert completed("tfzoo tran", tmp_path) == {"translate"}
    assert completed("tfzoo fit ", tmp_path) >= {*sources.packaged_recipes(), "mine.yaml"}
    assert completed("tfzoo cost ", tmp_path) >= {*sources.packaged_recipes(), "mine.yaml"}
    for command in ("plot", "predict", "serve"):
        assert completed(f"tfzoo {command} ", tmp_path) >= {"runs/mine", "runs/numbers/1"}
    assert completed("tfzoo fit translation/n", tmp_path) == {
        name for name in sources.packaged_recipes() if name.startswith("translation/n")
    }
    assert completed("tfzoo fit x --model.norm ", tmp_path) == set(registry("norm").names())
    assert completed("tfzoo show norm ", tmp_path) == set(registry("norm").names())
    assert completed("tfzoo fit x --", tmp_path) >= {"--run", "--print_config", "--model."}
    here = {"runs", "mine.yaml"}
    assert completed("tfzoo translate ", tmp_path) == {"runs/mine", "runs/numbers/1"} | here
    assert completed("tfzoo report ", tmp_path) == {"runs/small"} | here
    assert completed("tfzoo translate x --n", tmp_path) == {"--n-best"}


def test_the_sections_that_are_offered_are_those_of_all_tasks():
    tasks = [sections(registry("task").entry(name).cls) for name in registry("task").names()]
    assert sorted(SECTIONS) == sorted(set().union(*tasks))


def test_zsh_takes_the_same_script(capsys):
    assert main(["completion", "bash"]) == 0
    bash = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == (
        f"autoload -Uz compinit bashcompinit && compinit && bashcompinit\n{bash}"
    )
    assert main(["completion", "fish"]) == 2
