"""A new part is one file: refusals follow from its traits, and the contracts name who is guilty."""

import re
from dataclasses import replace

import pytest
import torch

from tests.commands.test_swap import refused_in_decoder
from tests.testing.rules import can_be_allowed, refusals, refused_by
from tfzoo.base.registry import register, registry
from tfzoo.commands.main import main
from tfzoo.contracts import Attention, Component, Norm
from tfzoo.testing.component import invalid_values_are_refused
from tfzoo.testing.contract import Result, Violation, run_contract
from tfzoo.testing.gradients import assert_gradients
from tfzoo.testing.norm import mixes_tokens_says_the_truth
from tfzoo.testing.runner import contracts, rules_of_style
from tfzoo.testing.stack_contracts import STACK_CONTRACTS
from tfzoo.testing.stacks import PLAIN, SIDES, Choice, Combination, neighbours, others, results


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
    """It holds its contracts, and is refused where its traits say so, here and in test_swap."""
    found = [run_contract(one, text_norm) for one in contracts("norm")]
    assert [result for result in found if not result.ok] == []
    assert refused_in_decoder("norm", "text") == "leaky-norm"
    for side in SIDES:
        for residual in registry("residual").names():
            stack = vars(Combination(side, residual=residual, norm="text"))
            assert refusals(stack) == (sorted(refused_by(stack)), can_be_allowed(stack))
    assert refusals(vars(Choice(norm="text"))) == ([], True)


def test_a_trait_that_is_not_declared_is_named_as_it_is_written(text_norm):
    result = run_contract(mixes_tokens_says_the_truth, replace(text_norm, traits=frozenset()))
    assert result.message.endswith(
        ": declare 'mixes_tokens:training' or 'mixes_tokens:always' in the traits of @register"
    )


def test_a_value_that_is_not_refused_is_named_with_what_comes_of_it(power):
    with pytest.raises(Violation, match=r"p=0\.0 is accepted, then ZeroDivisionError"):
        invalid_values_are_refused(power)


def test_another_package_takes_part_only_where_asked(unfinished):
    entry = registry("attention").entry("dot_product")
    assert "unfinished" not in {stack.norm for stack in neighbours(entry, Combination)}
    assert "unfinished" in {stack.norm for stack in neighbours(entry, Combination, "all")}


def test_an_unfinished_partner_is_named_and_fails_nobody_else(unfinished):
    entry = registry("attention").entry("dot_product")
    stack = Combination("encoder", attention=entry.name, norm="unfinished")
    found = list(results(entry, [stack], STACK_CONTRACTS[:1], "in stacks"))
    assert all(result.ok for result in found)
    (named,) = [result for result in found if "fault of a partner" in result.name]
    assert "norm 'unfinished' with tfzoo's own components" in named.message
    assert "to do" in named.message
    itself = list(results(unfinished, [stack], STACK_CONTRACTS[:1], "in stacks"))
    assert not all(result.ok for result in itself)


@pytest.mark.parametrize(("kind", "name"), [("attention", "additive"), ("mixer", "gru")])
def test_it_meets_every_other_part_on_each_side_in_few_models(kind, name):
    entry = registry(kind).entry(name)
    found = list(neighbours(entry, Combination))
    for side in SIDES:
        rows = [vars(stack).items() for stack in found if stack.side == side]
        assert all((kind, name) in row for row in rows)
        for part in others(entry, PLAIN, "own"):
            assert any(part in row for row in rows), part
    assert len(found) < 0.6 * len(SIDES) * len(list(others(entry, PLAIN, "own")))


def test_of_several_partners_the_one_at_fault_is_named(unfinished):
    entry = registry("attention").entry("dot_product")
    stack = Combination("encoder", entry.name, "unfinished", "learned", feedforward="gelu")
    found = list(results(entry, [stack], STACK_CONTRACTS[:1], "in stacks"))
    (named,) = [result for result in found if "fault of a partner" in result.name]
    assert named.message.startswith("norm 'unfinished' with tfzoo's own components")


@pytest.mark.parametrize(("bad", "told"), [({"rms"}, 1), ({"rms", "gelu"}, 0)])
def test_of_several_partners_each_one_counts(bad, told):
    """What only several of them do together fails nobody, and is said."""

    def some_parts_are_bad(subject):
        parts = [one for one in subject.module.modules() if isinstance(one, Component)]
        if {"dot_product", *bad} <= {part.entry.name for part in parts}:
            raise Violation("bad")

    entry = registry("attention").entry("dot_product")
    stack = Combination("encoder", entry.name, "rms", "learned", feedforward="gelu")
    found = list(results(entry, [stack], [some_parts_are_bad], "in stacks"))
    messages = [result.message for result in found if not result.ok]
    assert messages == ["encoder-attention=dot_product-norm=rms: bad"] * told
    said = [result.message for result in found if "several partners" in result.name]
    assert said == [f"{stack}: some parts are bad: bad"] * (1 - told)


def test_a_small_gradient_is_a_gradient_and_rounding_is_none():
    assert_gradients({"a": torch.tensor(1.0), "b": torch.tensor(6e-6)})
    for nothing in (torch.tensor(1e-13), torch.tensor(0.0), None):
        with pytest.raises(Violation, match="b"):
            assert_gradients({"a": torch.tensor(1.0), "b": nothing})


def test_style_is_told_apart_from_contracts(text_norm, monkeypatch, capsys):
    plain = replace(text_norm, cls=type("Plain", (TextNorm,), {}))
    broken = [run_contract(rule, plain) for rule in rules_of_style("norm")]
    assert [result.name for result in broken if not result.ok] == [
        "the docstring holds the formula"
    ]
    some = [Result("a", True), Result("b", False, "how", style=True)]
    monkeypatch.setattr("tfzoo.testing.check", lambda *args, **named: iter(some))
    assert main(["check", "norm", "rms"]) == 0
    assert "style   b: how" in capsys.readouterr().out
    assert main(["check", "norm", "rms", "--style"]) == 1
    some[0] = Result("a", False, "why")
    assert main(["check", "norm", "rms"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED  a: why" in printed
    assert "norm rms: 0 of 1 contracts hold, 1 rule of style broken" in printed


class Wrong(Attention):
    """Scores of another shape: ``q k``."""

    def scores(self, q, k):
        return q @ k


wrong = part("attention", "wrong", Wrong)


def test_a_check_says_the_cause_first_and_how_to_see_all(wrong, monkeypatch, capsys):
    monkeypatch.setattr("tfzoo.testing.runner.neighbours", lambda *_: [])  # the part alone
    assert main(["check", "attention", "wrong"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    cause = r"RuntimeError: Expected size .*test_new_part.py, line \d+.*; the same in \d+ more"
    assert re.search(cause, lines[0])
    assert lines[-1] == "tfzoo check attention wrong --all prints every contract"
    assert main(["check", "attention", "wrong", "--all"]) == 1
    assert len(capsys.readouterr().out.splitlines()) > 20


def test_a_part_that_holds_has_two_lines(monkeypatch, capsys):
    some = [Result("style", True, style=True), *(Result(f"contract {n}", True) for n in range(30))]
    monkeypatch.setattr("tfzoo.testing.check", lambda *args, **named: iter(some))
    assert main(["check", "norm", "rms"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "norm rms: 30 of 30 contracts hold, 0 rules of style broken",
        "tfzoo check norm rms --all prints every contract",
    ]


def test_many_causes_are_counted(monkeypatch, capsys):
    some = [Result("style", False, "how", style=True), Result("held", True)]
    some += [Result(f"contract {n}", False, f"off by {n}") for n in range(30)]
    monkeypatch.setattr("tfzoo.testing.check", lambda *args, **named: iter(some))
    assert main(["check", "norm", "rms"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[0] == "FAILED  contract 0: off by 0"
    assert lines[-3:] == [
        "        and 24 more",
        "norm rms: 1 of 31 contracts hold, 1 rule of style broken",
        "tfzoo check norm rms --all prints every contract",
    ]
