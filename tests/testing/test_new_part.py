"""A new part is one file: refusals follow from its traits, and the contracts name what is wrong."""

import re
from dataclasses import replace

import pytest
import torch

from tests.testing.classifiers import Choice
from tests.testing.rules import can_be_allowed, refusals, refused_by
from tfzoo.base.registry import register, registry
from tfzoo.commands.main import main
from tfzoo.contracts import Attention, Norm
from tfzoo.data.sets import Drawn
from tfzoo.errors import BadOption
from tfzoo.testing import check, contracts
from tfzoo.testing.component import invalid_values_are_refused
from tfzoo.testing.contract import Violation, assert_gradients, run_contract
from tfzoo.testing.stacks import SIDES, Combination
from tfzoo.testing.training import splits_of


class TextNorm(Norm):
    """Each text by the root mean square of all its numbers: ``x / sqrt(mean(x^2) + 1)``."""

    def forward(self, x, valid=None):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if valid is None:
            return (wide / (wide.square().mean((1, 2), keepdim=True) + 1).sqrt()).to(x.dtype)
        wide = wide.masked_fill(~valid[..., None], 0.0)
        count = valid.sum(1)[:, None, None].clamp(min=1) * x.shape[2]
        size = wide.square().sum((1, 2), keepdim=True) / count
        return (wide / (size + 1).sqrt()).to(x.dtype)


class Unfinished(Norm):
    """Not written yet."""

    def forward(self, x, valid=None):
        raise NotImplementedError("to do")


class PowerNorm(Norm):
    """By a power mean, of which 0 is none: ``x / mean(|x|^p)^(1/p)``."""

    def __init__(self, *, p: float = 2.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, x, valid=None):
        return x / x.abs().pow(self.p).mean(-1, keepdim=True).pow(1 / self.p)


def part(kind, name, cls, **options):
    """A fixture: the class is registered as another package would do it, for one test."""

    @pytest.fixture
    def registered():
        register(kind, name, **options)(cls)
        yield registry(kind).entry(name)
        del registry(kind).registered[name]

    return registered


text_norm = part("norm", "text", TextNorm, traits={"mixes_tokens:always"})
unfinished = part("norm", "unfinished", Unfinished)
power = part("norm", "power", PowerNorm)


def test_a_norm_that_mixes_tokens_needs_no_edit(text_norm):
    """It holds its contracts, and is refused where its traits say so."""
    found = [run_contract(one, text_norm) for one in contracts("norm")]
    assert [result for result in found if not result.ok] == []
    for side in SIDES:
        for residual in registry("residual").names():
            stack = vars(Combination(side, residual=residual, norm="text"))
            assert refusals(stack) == (sorted(refused_by(stack)), can_be_allowed(stack))
    assert refusals(vars(Choice(norm="text"))) == ([], True)


def test_a_trait_that_is_kept_quiet_or_claimed_falsely_is_named(text_norm):
    for declared in ((), ("mixes_tokens:always", "centres_texts")):
        lying = replace(text_norm, traits=frozenset(declared))
        said = [run_contract(one, lying).message for one in contracts("norm")]
        trait = "centres_texts" if declared else "mixes_tokens:always"
        assert any(re.match(rf"it (has|declares) the trait '{trait}'", one) for one in said)


def test_a_value_that_is_not_refused_is_named_with_what_comes_of_it(power):
    with pytest.raises(Violation, match=r"p=0\.0 is accepted, then ZeroDivisionError"):
        invalid_values_are_refused(power)


def test_a_small_gradient_is_a_gradient_and_rounding_is_none():
    assert_gradients({"a": torch.tensor(1.0), "b": torch.tensor(6e-6)})
    for nothing in (torch.tensor(1e-13), torch.tensor(0.0), None):
        with pytest.raises(Violation, match="b"):
            assert_gradients({"a": torch.tensor(1.0), "b": nothing})


def test_an_unfinished_part_is_named_with_its_line(unfinished):
    said = [result.message for result in check("norm", "unfinished") if not result.ok]
    assert any("NotImplementedError: to do (test_new_part.py, line" in one for one in said)


class Wrong(Attention):
    """Scores of another shape: ``q k``."""

    def scores(self, q, k):
        return q @ k


wrong = part("attention", "wrong", Wrong)


def test_a_check_says_what_does_not_hold_and_how_to_see_all(wrong, capsys):
    assert main(["check", "attention", "wrong"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"RuntimeError: Expected size .*test_new_part.py, line \d+", " ".join(lines))
    assert re.search(r"attention wrong: \d+ of \d+ contracts hold \(.*--all", lines[-1])
    assert main(["check", "attention", "wrong", "--all"]) == 1
    assert len(capsys.readouterr().out.splitlines()) > len(lines)


@pytest.mark.parametrize(
    ("labels", "drawn", "said"),
    [
        ((), "6", None),  # of regression
        (("very good", "bad"), "very good", "the label 'bad' has no row"),
        (("very good",), "very good", None),
        (("a", "b"), "c", "the label 'c' is not in labels"),
        (None, "c", "it has neither labels nor a pair of languages"),
        ((), 6.0, "a label is text, a number too: '6.0'"),
        ((), ..., "has no method draw"),
    ],
)
def test_of_a_data_set_what_is_wrong_with_its_labels_is_named(labels, drawn, said):
    """A row that is no pair of texts is refused where it is drawn, so that a training says it."""

    class Sums(Drawn):
        def draw(self, split, random):
            return str(random.random()), drawn

    if labels is not None:
        Sums.labels = labels
    if drawn is ...:
        del Sums.draw
    register("dataset", "sums")(Sums)
    splits_of.cache_clear()
    try:
        wrong = [result.message for result in check("dataset", "sums") if not result.ok]
        if drawn in (6.0, ...):
            with pytest.raises(BadOption, match=said):
                Sums().splits(1)
    finally:
        del registry("dataset").registered["sums"]
    assert bool(wrong) == bool(said)
    assert all(said in one for one in wrong)
