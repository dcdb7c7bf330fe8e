"""``tfzoo fit RECIPE --help`` describes every key."""

import inspect

import pytest

from tfzoo.base.registry import registry
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.main import main
from tfzoo.config import help
from tfzoo.config.sections import sections
from tfzoo.errors import TfzooError


@pytest.mark.parametrize("task", registry("task").own_names())
def test_every_key_is_described(task):
    rows = [
        row for _, found in help.keys(sections(registry("task").entry(task).cls)) for row in found
    ]
    assert len(rows) > 100
    assert [key for key, _, _, text in rows if not text] == []
    assert [key for key, kind, _, _ in rows if "Annotated" in kind] == []


def test_the_help_is_grouped_by_section(capsys):
    assert main(["fit", "translation/numbers", "-h"]) == 0
    short = capsys.readouterr().out
    assert main(["fit", "translation/numbers", "--help"]) == 0
    out = capsys.readouterr().out
    assert short == out
    model, data = out.index("\nmodel: An encoder"), out.index("\ndata: Batches of")
    assert model < out.index("--model.kv_heads int or None\n      number of heads of keys") < data
    assert "--optim.schedule SCHEDULE = inverse_sqrt\n      name and options" in out
    assert "--optim.lr float = 0.0005\n      peak learning rate" in out


def test_a_description_is_the_first_sentences_of_the_docstring():
    doc = f"""Something.

    - ``a``: a list's item,
      of two lines;

    Args:
        b, c: see below. Default: ``3``.

            More: not this.
        d: ``x`` of :class:`~tfzoo.Search`.
        e: one. {"long " * 40}. Three.

    Raises:
        f: not an argument.
    """
    found = {key: help.short_description(text) for key, text in help.entries(inspect.cleandoc(doc))}
    assert found == {
        "a": "a list's item, of two lines",
        "b": "see below",
        "c": "see below",
        "d": "x of Search",
        "e": "one",
    }


def test_words_and_options_stand_in_any_order():
    parser = CommandParser("it", "does something")
    parser.add_run()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--beam", type=int)
    orders = (["a", "b", "--beam", "2"], ["a", "--beam", "2", "b"], ["--beam", "2", "a", "b"])
    assert {str(parser.parse_intermixed_args(order)) for order in orders} == {
        "Namespace(beam=2, run='a', file='b')"
    }
    with pytest.raises(TfzooError, match="RUN is missing: tfzoo it "):
        parser.parse_intermixed_args(["--beam", "2"])
    with pytest.raises(TfzooError, match="one word too many: 'c'"):
        parser.parse_intermixed_args(["a", "--beam", "2", "b", "c"])
