"""``fit --dry-run`` says what a training takes, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfzoo.commands.main import main
from tfzoo.training import dry_run

TINY = [
    "translation/numbers",
    *("--data.dataset.train", "400", "--data.dataset.val", "4", "--data.dataset.test", "4"),
    *("--data.dataset.long", "4", "--model.dim", "16", "--model.layers", "1", "--model.heads", "2"),
    *("--trainer.accelerator", "cpu", "--trainer.devices", "1", "--search.max_length", "0.1"),
]


def test_time_and_memory_are_those_of_the_training_up_to_a_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    monkeypatch.setattr(dry_run, "print_table", lambda rows, title: found.append(dict(rows)))
    monkeypatch.setattr(dry_run, "MAX_SECONDS", 1.0)
    estimates = []
    own = dry_run.rows
    monkeypatch.setattr(dry_run, "rows", lambda one: [estimates.append(one), own(one)][1])
    ratios = []
    for attempt in range(3):  # another process may take the processor for a while
        assert main(["fit", *TINY, "--trainer.max_steps", "150", "--dry-run"]) == 0
        if not attempt:
            assert list(tmp_path.iterdir()) == []
        assert main(["fit", *TINY, "--trainer.max_steps", "150", "--run", f"run{attempt}"]) == 0
        fit = json.loads(Path(f"run{attempt}/summary.json").read_text("utf-8"))["fit"]
        assert estimates[-1].parameters == fit["parameters"]
        assert estimates[-1].steps == fit["steps"] == 150
        memory = estimates[-1].memory["process"] / fit["peak_memory"]["process"]
        ratios.append((estimates[-1].seconds / fit["train_seconds"], memory))
        if all(2 / 3 <= one <= 4 / 3 for one in ratios[-1]):
            break
    else:
        raise AssertionError(f"time and memory, estimated / measured: {ratios}")
    assert found[0]["steps"] == "150"
    assert "validation comes on top" in found[0]["time"]


def test_a_training_of_unknown_length_has_a_time_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(["fit", *TINY, "--trainer.max_steps", "-1", "--trainer.max_epochs", "-1", "--dry-run"])
        == 0
    )
    out = capsys.readouterr().out
    assert "until it is stopped" in out
    assert "s a step" in out
