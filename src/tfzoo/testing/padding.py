"""Contracts about padding and the other texts of a batch: one for all kinds, and what each of them
computes of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tfzoo.base.registry import Entry
from tfzoo.contracts import Residual
from tfzoo.masks import Mask
from tfzoo.testing import mixer, norm
from tfzoo.testing.contract import assert_same, contract
from tfzoo.testing.samples import LEFT, RIGHT, B, D, N, build_randomized

LARGE = 1e4
Found = tuple[list[Tensor], list[Tensor]]
"""The output of each text, at its real tokens; and what is computed of all of them."""


@dataclass(frozen=True)
class Case:
    """What a component computes of texts.

    Args:
        name: for messages.
        compute: of tokens ``(b n d)``, of which some are real, ``(b n)``; None: all.
        places: which tokens are real.
        junk: what stands at padding.
        mixes_texts: whether a text may see the others of its batch.
    """

    name: str
    compute: Callable[[Tensor, Tensor | None], Found]
    places: tuple[Tensor, ...] = (RIGHT, LEFT)
    junk: tuple[float, ...] = (LARGE, float("nan"), float("inf"), float("-inf"))
    mixes_texts: bool = False


def real(out: Tensor, valid: Tensor | None) -> list[Tensor]:
    """The output of each text, ``(b n ...)``, at its real tokens."""
    return [*out] if valid is None else [row[each] for row, each in zip(out, valid, strict=True)]


def of_norm(entry: Entry) -> Iterator[Case]:
    """With the running statistics that are left. In training, a norm that mixes tokens then alone
    may mix texts as well.
    """

    def compute(training: bool, x: Tensor, valid: Tensor | None) -> Found:
        out, statistics = norm.apply(module.train(training), x, valid)
        return real(out, valid), statistics

    module, may_mix = build_randomized(entry), "mixes_tokens:training" in entry.traits
    for training in norm.MODES:
        mixes_texts = training and may_mix
        yield Case(f"training={training}", partial(compute, training), mixes_texts=mixes_texts)


def of_residual(entry: Entry) -> Iterator[Case]:
    """With norms that mix tokens, which have to be told what is padding."""

    def compute(module: Residual, x: Tensor, valid: Tensor | None) -> Found:
        return real(module(x, valid), valid), []

    for name in ("instance", "batch"):
        module = build_randomized(entry, norm=name)
        yield Case(f"norm {name}", partial(compute, module), mixes_texts=name == "batch")


def of_mixer(entry: Entry) -> Iterator[Case]:
    """In an encoder and a decoder that hold nothing else. NaN is kept from it by the layer."""

    def compute(module: nn.Module, x: Tensor, valid: Tensor | None) -> Found:
        return real(module(x, mask=Mask(keys=valid)), valid), []

    for module in mixer.sides(entry):
        places = (RIGHT, LEFT, mixer.BETWEEN)
        yield Case(type(module).__name__, partial(compute, module), places, (LARGE,))


def of_weighting(entry: Entry) -> Iterator[Case]:
    """The weights of each key for four queries of two heads. A number of keys that divides is that
    of the keys that a query may look at.
    """

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        scores = 2.0 * x[..., :8].reshape(*x.shape[:2], 2, 4).permute(0, 2, 3, 1)
        return real(module(scores, Mask(keys=valid)).permute(0, 3, 1, 2), valid), []

    module = build_randomized(entry)
    yield Case("weights", compute, (RIGHT, LEFT, mixer.BETWEEN))


def of_pooling(entry: Entry) -> Iterator[Case]:
    """Of tokens less than zero, which would be the largest number."""

    def compute(training: bool, x: Tensor, valid: Tensor | None) -> Found:
        return [*module.train(training)(x - 4.0, valid)], []

    module = build_randomized(entry)
    for training in (True, False):
        yield Case(f"training={training}", partial(compute, training))


def of_feedforward(entry: Entry) -> Iterator[Case]:
    """With an auxiliary loss, and the gradients of both: others know no tokens but one."""
    if "auxiliary_loss" not in entry.traits:
        return
    module = build_randomized(entry)

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        texts = real(module(x, 0.0, valid), valid)
        loss = torch.cat(texts).square().sum() + module.auxiliary_loss
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        return texts, [module.auxiliary_loss, *gradients]

    yield Case("in training", compute)


CASES: Mapping[str, Callable[[Entry], Iterator[Case]]] = {
    "mixer": of_mixer,
    "residual": of_residual,
    "weighting": of_weighting,
    "norm": of_norm,
    "feedforward": of_feedforward,
    "pooling": of_pooling,
}


def compare(found: Found, wanted: Found, what: str) -> None:
    """Raise a violation where anything differs."""
    for one, other in zip(chain(*found), chain(*wanted), strict=True):
        assert_same(one, other, what)


@contract(*CASES)
def padding_has_no_influence(entry: Entry) -> None:
    """Other padding, NaN too, more padding, and padding on either side or between tokens change
    nothing at real tokens, and no running statistic, loss or gradient. No mask is the same as one
    that hides nothing.
    """
    for case in CASES[entry.kind](entry):
        x = torch.randn(B, N, D)
        for valid in case.places:
            wanted = case.compute(x, valid)
            for junk in case.junk:
                other = torch.where(valid[..., None], x, junk)
                compare(case.compute(other, valid), wanted, f"padding of {junk}, {case.name}")
            other = pad(torch.where(valid[..., None], x, LARGE), (0, 0, 2, 3), value=LARGE)
            found = case.compute(other, pad(valid, (2, 3)))
            compare(found, wanted, f"more padding on both sides, {case.name}")
        everything = torch.ones(B, N, dtype=torch.bool)
        compare(case.compute(x, None), case.compute(x, everything), f"no mask, {case.name}")


@contract(*CASES)
def a_text_does_not_see_the_others_of_its_batch(entry: Entry) -> None:
    """Another order of the batch gives the same outputs, and so does a text alone without padding:
    that not where a norm takes statistics of a batch.
    """
    for case in CASES[entry.kind](entry):
        x = torch.randn(B, N, D)
        for valid in case.places:
            texts, _ = case.compute(x, valid)
            flipped, _ = case.compute(x.flip(0), valid.flip(0))
            compare((flipped[::-1], []), (texts, []), f"another order of the batch, {case.name}")
            for row, text in enumerate([] if case.mixes_texts else texts):
                alone, _ = case.compute(x[row][valid[row]][None], None)
                assert_same(alone[0], text, f"alone and without padding, {case.name}")
