"""tfzoo report: says what a sweep showed, writes it, and loads nothing that it does not need."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep.made import make
from tfzoo.commands.main import main


@pytest.fixture
def folder(own_folder):
    return make(Path("norms"), (1, 2, 3), ("layer", "rms"), ("sinusoidal", "rotary"))


def test_it_says_what_the_sweep_showed_without_loading_torch(folder):
    code = (
        "import sys; from tfzoo.commands.main import main; code = main(['report', 'norms']);"
        "print([m for m in ('torch', 'lightning', 'pandas') if m in "
        "sys.modules]); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()
    assert lines[0] == (
        "norm (layer, rms); position (sinusoidal, rotary): which has the lower val/loss, "
        "with 3 seeds a cell?"
    )
    assert lines[1] == "norm: keep layer: nothing is known to be better; not yet known: rms"
    assert lines[2].startswith("position: take rotary, which is ")
    assert lines[3] == "12 of 12 completed"
    assert lines[4].endswith(": tfzoo sweep norms.yaml --jobs 2 --seeds 4-6 --run norms_seeds_4-6")
    assert "val/loss, lower is better" in lines
    assert "3 seeds detect a difference of 0." in lines[4]
    assert any("whether the effect of norm depends on position: " in line for line in lines)
    assert any(re.match("  position rotary.*better than sinusoidal", line) for line in lines)
    assert lines[-4:] == ["norms/runs.csv", "norms/report.html", "norms/report.md", "[]"]
    assert ended.stderr == ""


def test_another_metric_can_be_judged_by(folder, capsys):
    assert main(["report", "norms", "--metric", "test/loss"]) == 0
    assert "\ntest/loss, lower is better\n" in capsys.readouterr().out
    assert "## test/loss, lower is better" in Path("norms/report.md").read_text("utf-8")


def test_a_report_that_cannot_be_written_names_the_folder(folder, capsys, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("tfzoo.sweep.report.files.replace_text", full)
    assert main(["report", "norms"]) == 2
    assert "cannot write the report into norms: No space left" in capsys.readouterr().err


def test_mistakes_are_named_with_what_to_do(folder, capsys):
    for words, said in (
        (["report"], "FOLDER"),
        (["report", "."], "Did you mean norms?"),
        (["report", "norms", "--metric", "exact"], "no metric named 'exact'"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert error.startswith("tfzoo: ")
        assert said in error
    assert main(["report", "--help"]) == 0
    assert "--metric NAME" in capsys.readouterr().out
