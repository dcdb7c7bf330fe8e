"""``tfzoo fit RECIPE --help`` describes every key."""

import pytest

from tfzoo.base.registry import registry
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.main import main
from tfzoo.config.config import descriptions, sections
from tfzoo.config.recipe import TOP
from tfzoo.errors import TfzooError


@pytest.mark.parametrize("task", registry("task").own_names())
def test_every_key_is_described(task):
    for section in sections(registry("task").entry(task).cls).values():
        texts = descriptions(section.cls)
        assert [key for key in section.hints if not texts.get(key)] == []


def test_the_help_has_all_sections_and_fits_a_screen(capsys):
    assert main(["fit", "--help"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 80
    for task in registry("task").own_names():
        assert all(name in out for name in sections(registry("task").entry(task).cls))
    assert all(f"--{key}" in out for key in TOP)


def test_the_help_of_a_section_describes_its_keys(capsys):
    assert main(["fit", "translation/numbers", "--help", "model"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model: An encoder")
    assert "--model.kv_heads int or None\n      number of heads of keys" in out
    assert "--model.norm NORM = layer\n      components" in out
    assert main(["fit", "translation/numbers", "--help", "optim"]) == 0
    assert "--optim.lr float = 0.002\n      peak learning rate" in capsys.readouterr().out
    assert main(["fit", "translation/numbers", "--help", "optimm"]) == 2
    assert "no section named 'optimm'. Did you mean 'optim'?" in capsys.readouterr().err


def test_hyphens_and_underscores_are_the_same_in_options(capsys):
    underscored = "--print_config --train_tokens 9 --model.kv_heads=2"
    for words in (underscored, underscored.replace("_", "-")):
        names = ["--data.test.my-set", "x", "--data.test.my_set", "y"]
        assert main(["fit", "translation/files", *words.split(), *names]) == 0
        out = capsys.readouterr().out
        for line in ("my-set: ", "my_set: ", "kv_heads: 2\n", "train_tokens: 9\n"):
            assert line in out


def test_words_and_options_stand_in_any_order():
    parser = CommandParser("it", lambda given: 0, "does something")
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
