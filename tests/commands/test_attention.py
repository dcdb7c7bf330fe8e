"""``tfzoo attention`` writes one page of one text, or says in one line why not."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import torch

from tests.tasks.test_attention import classifier, translator
from tfzoo.commands import attention
from tfzoo.commands.main import main
from tfzoo.tasks.task import Task


def saved(task: Task, path: Path) -> None:
    checkpoint = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    saved(translator(), tmp_path / "numbers.ckpt")
    saved(classifier(), tmp_path / "toy.ckpt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_translators_page_and_a_classifiers(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["attention", "numbers.ckpt", "one two"]) == 0
    assert capsys.readouterr().out == "attention.html\n"
    page = (here / "attention.html").read_text("utf-8")
    assert all(f'value="{side}"' in page for side in ("encoder", "decoder", "cross"))
    assert "scaled_dot_product" in page
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\none two\n")))
    assert main(["attention", "toy.ckpt", "--output", "-"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert 'value="decoder"' not in page
    assert "(probability 0." in page


def test_layers_are_chosen_and_a_page_that_is_too_large_is_not_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["attention", "numbers.ckpt", "one two", "--layers", "1"]) == 0
    page = (here / "attention.html").read_text("utf-8")
    assert '"layer": 1' in page
    assert '"layer": 0' not in page
    for most, advice in (
        (len(page), "choose layers, such as --layers 0, or give"),
        (9, "MB: give"),
    ):
        monkeypatch.setattr(attention, "MOST_BYTES", most)
        assert main(["attention", "numbers.ckpt", "one two", "--output", "large.html"]) == 2
        assert f"{advice} a shorter text" in capsys.readouterr().err
        assert not (here / "large.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["numbers.ckpt", ""], "the text is empty"),
        (["numbers.ckpt", " "], "the text is empty"),
        (["nothing", "one"], "no run at nothing"),
        (["numbers.ckpt", "one", "--layers", "0,x"], "--layers 0,x: write the numbers of layers"),
        (["numbers.ckpt", "one", "--layers", "0,7"], "no attention map of layer 7; layers with"),
        (["numbers.ckpt", "one", "--output", "no/where.html"], "cannot write no/where.html"),
        (["numbers.ckpt", "one", "two"], "one word too many: 'two'"),
        (["numbers.ckpt"], "standard input has 2 lines"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str],
    message: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert main(["attention", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len([line for line in said.splitlines() if not line.startswith("checkpoint:")]) == 1
    assert not list(here.glob("*.html"))
