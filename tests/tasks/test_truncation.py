"""A text that is longer than a model reads is truncated, and whoever gives it is told."""

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.results import saved
from tests.tasks.test_attention import classifier, translator
from tfzoo.commands.main import main

LINES = ["one", "one two three", "", "four five"]
READ = ["one", "one two", "", "four fi"]
"""What a model with 8 positions reads of each: 7 bytes and EOS."""
TOLD = "{} longer than the 7 tokens that the model reads: the rest is ignored"
TASKS: dict[str, Callable[..., Any]] = {"translate": translator, "classify": classifier}


@pytest.fixture(params=TASKS)
def task(request):
    return TASKS[request.param](position="learned", max_length=8).eval()


def test_a_call_counts_truncated_texts_in_one_warning(task):
    with pytest.warns(UserWarning, match=TOLD.format("2 texts are")) as caught:
        found = task.predict(LINES)
    assert len(caught) == 1
    assert [one.truncated for one in found] == [False, True, False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = task.predict(READ)
    assert [task.output_line(one) for one in found] == [task.output_line(one) for one in whole]


def test_who_asks_is_told_which_texts_are_truncated_instead(task):
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task.predict(LINES, on_truncated=lambda *given: told.append(given))
        task.predict(READ, on_truncated=lambda *given: told.append(given))
    assert told == [([1, 3], 7)]


def test_the_attention_of_a_truncated_text_says_so(task):
    with pytest.warns(UserWarning, match=TOLD.format("1 text is")):
        maps = task.attention("one two three")
    assert maps.notes == [TOLD.format("1 text is")]
    assert maps[0].keys == [*"one two", "<eos>"]
    assert task.attention("one two").notes == []


def test_a_command_says_how_many_lines_are_truncated(task, own_folder, monkeypatch, capsys):
    saved(task, Path("toy.ckpt"))
    monkeypatch.setattr("tfzoo.commands.predict.CHUNK", 2)
    for lines, told in (LINES, [TOLD.format("2 texts are")]), (READ, []):
        stream = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["predict", "toy.ckpt"]) == 0
        out, err = capsys.readouterr()
        assert out.count("\n") == len(lines)
        assert err.splitlines()[1:] == told  # after the checkpoint's name
    assert main(["attention", "toy.ckpt", "one two three"]) == 0
    assert f"toy.ckpt: {TOLD.format('1 text is')}" in capsys.readouterr().err
