"""Old names of arguments are accepted for one release, with a hint."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import tfzoo
from tfzoo.errors import BadOption
from tfzoo.renamed import metric_name, renamed, renamed_keys


class Thing:
    """Has an argument that was renamed."""

    @renamed(old="new")
    def __init__(self, *, new: int = 0) -> None:
        self.new = new


def test_an_old_name_is_accepted_with_a_hint() -> None:
    with pytest.warns(FutureWarning, match="`old` is now called `new`"):
        assert Thing(old=3).new == 3  # type: ignore[call-arg]
    assert Thing(new=4).new == 4
    assert list(inspect.signature(Thing).parameters) == ["new"]
    assert renamed_keys(Thing) == {"old": "new"}


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(BadOption, match="give new alone"):
        Thing(old=3, new=4)  # type: ignore[call-arg]


def test_word_dropout_is_token_dropout() -> None:
    with pytest.warns(FutureWarning, match="token_dropout"):
        data = tfzoo.ClassificationData(dataset="listops", word_dropout=0.2)  # type: ignore[call-arg]
    assert data.token_dropout == 0.2


def test_a_recipe_of_0_1_is_read_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfzoo.commands.main import main

    recipe = tmp_path / "old.yaml"
    recipe.write_text("task: classification\ndata: {dataset: listops, word_dropout: 0.2}\n")
    assert main(["fit", str(recipe), "--print_config"]) == 0
    captured = capsys.readouterr()
    assert "token_dropout: 0.2" in captured.out
    assert "word_dropout" not in captured.out
    assert captured.err.count("old.yaml: `word_dropout` is now called `token_dropout`") == 1
    assert main(["fit", str(recipe), "--data.word_dropout", "0.3", "--print_config"]) == 0
    assert "token_dropout: 0.3" in capsys.readouterr().out


def test_exact_is_exact_match() -> None:
    assert metric_name("test/long/exact") == "test/long/exact_match"
    assert metric_name("val/loss") == "val/loss"
    assert metric_name("exact") == "exact"
    with pytest.warns(FutureWarning, match="`val/exact` is now called `val/exact_match`"):
        assert metric_name("val/exact", warn=True) == "val/exact_match"
