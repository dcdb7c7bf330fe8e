"""``--from``: what a training takes from the run that it begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfzoo
from tfzoo.commands.main import main
from tfzoo.runs import checkpoints
from tfzoo.runs.checkpoints import read

RECIPE = """\
task: classification
data: {{root: {name}, tokenizer: {{name: bpe, vocab_size: {size}}}, max_tokens: 64}}
model: {{layers: 1, dim: 8, heads: 2, position: sinusoidal}}
optim: {{schedule: {{name: constant, warmup: 0}}}}
trainer: {{max_steps: 1, accelerator: cpu}}
"""
TEXTS = {"first": "a small cat sat on the mat", "second": "warm bread, cold butter and tea"}


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, and the text of another training."""
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / name).mkdir()
        for split in ("train", "val"):
            rows = [f"{text} {word}\t{index % 2}" for index, word in enumerate(text.split() * 3)]
            table = "text\tlabel\n" + "\n".join(rows) + "\n"
            (tmp_path / name / f"{split}.tsv").write_text(table, "utf-8")
        recipe = RECIPE.format(name=name, size=260 + len(name))
        (tmp_path / f"{name}.yaml").write_text(recipe, "utf-8")
    assert main(["fit", "first.yaml", "--run", "one"]) == 0


def state(run: str) -> str:
    return tfzoo.ClassificationTask.load(run).tokenizer.tokenizer.state()


@pytest.mark.usefixtures("first")
def test_another_text_is_read_with_the_tokenizer_of_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["fit", "second.yaml", "--from", "one", "--run", "two"]
    assert main(given) == 0
    found = capsys.readouterr()
    assert "tokenizer: that of one/checkpoints" in found.err
    assert "another one" not in found.out
    assert state("two") == state("one")
    assert main([*given, "--trainer.max_steps", "2"]) == 0, "it is the same when training goes on"
    assert state("two") == state("one")


@pytest.mark.usefixtures("first")
def test_a_tokenizer_that_is_named_by_hand_is_made_anew(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = ["--data.tokenizer.name", "bpe", "--data.tokenizer.vocab_size", "270"]
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two", *named]) == 0
    assert "another one" in capsys.readouterr().out
    assert state("two") != state("one")


@pytest.mark.usefixtures("first")
def test_the_run_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[Path] = []
    monkeypatch.setattr(checkpoints, "read", lambda path: paths.append(path) or read(path))
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two"]) == 0
    assert paths == [Path("one/checkpoints/best.ckpt")]


@pytest.mark.usefixtures("first")
def test_another_task_takes_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--model.layers", "1", "--model.dim", "8", "--model.heads", "2"]
    given = ["fit", "language_modeling/agreement", *few, "--trainer.max_steps", "1"]
    assert main([*given, "--from", "one", "--run", "two"]) == 0
    assert "tokenizer: that of one" in capsys.readouterr().err
