"""``tfzoo attention`` writes one page of one text, or says in one line why not."""

import pytest

from tests.pages.test_attention import data_of
from tests.results import saved
from tests.tasks.test_attention import translator
from tfzoo.commands.main import main
from tfzoo.plots import attention

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_a_translators_page_and_a_classifiers(two_runs, capsys):
    assert main(["attention", "numbers.ckpt", "one two"]) == 0
    assert capsys.readouterr().out == "attention.html\n"
    page = (two_runs / "attention.html").read_text("utf-8")
    assert all(f'value="{side}"' in page for side in ("encoder", "decoder", "cross"))
    assert "scaled_dot_product" in page
    assert main(["attention", "toy.ckpt", "one two"]) == 0
    page = (two_runs / "attention.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert 'value="decoder"' not in page
    assert "probabilities" in page


def test_layers_are_chosen_and_a_page_that_is_too_large_is_not_written(
    two_runs, capsys, monkeypatch
):
    assert main(["attention", "numbers.ckpt", "one two", "--layers", "1"]) == 0
    page = (two_runs / "attention.html").read_text("utf-8")
    assert '"layer": 1' in page
    assert '"layer": 0' not in page
    monkeypatch.setattr(attention, "MAX_BYTES", len(page))
    assert main(["attention", "numbers.ckpt", "one two", "--output", "large.html"]) == 2
    assert "a shorter text, or fewer layers (--layers 0, or" in capsys.readouterr().err
    assert not (two_runs / "large.html").exists()


def test_two_runs_of_other_sizes_are_side_by_side(two_runs, capsys):
    saved(translator(heads=4, layers=1, position="rotary"), two_runs / "other.ckpt")
    assert main(["attention", "numbers.ckpt", "one two", "--compare", "other.ckpt"]) == 0
    page = (two_runs / "attention.html").read_text("utf-8")
    assert "Attention of numbers.ckpt and other.ckpt" in page
    first, second = data_of(page)
    assert [one["heads"] for one in first["maps"]] == [2] * 6
    assert [one["heads"] for one in second["maps"]] == [4] * 3
    assert "position rotary" in page
    words = ["attention", "numbers.ckpt", "one two", "--compare", "other.ckpt", "--layers", "1"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "other.ckpt has no such attention map; layers with one: 0" in said
    assert main([*words, "--layers", "0", "--output", "both.html"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["numbers.ckpt", ""], "the text is empty"),
        (["nothing", "one"], "no run at nothing"),
        (["numbers.ckpt", "one", "--layers", "0,x"], "--layers: invalid numbers value: '0,x'"),
        (["numbers.ckpt", "one", "--layers", "0,7"], "no such attention map; layers with"),
        (["numbers.ckpt", "one", "--output", "numbers.ckpt/a.html"], "cannot write numbers.ckpt/"),
        (["nothing", "one", "--output", "map.png"], "a page is written, whose name ends in .html"),
        (["numbers.ckpt", "one", "--compare", "toy.ckpt"], "'classification', not 'translation'"),
        (["numbers.ckpt", "one", "two"], "one word too many: 'two'"),
        (["numbers.ckpt"], "TEXT is missing"),
    ],
)
def test_a_mistake_is_one_line(words, message, two_runs, capsys):
    assert main(["attention", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len([line for line in said.splitlines() if not line.startswith("checkpoint:")]) == 1
    assert not list(two_runs.glob("*.[hpsj]*"))
