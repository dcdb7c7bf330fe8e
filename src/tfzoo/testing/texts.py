"""Contracts about texts and their padding: each is one for all kinds, beside what a component of a
kind computes of texts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf, nan

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tfzoo.base.registry import Entry
from tfzoo.contracts import Residual
from tfzoo.masks import Mask
from tfzoo.testing.attention import BETWEEN, sides
from tfzoo.testing.contract import (
    NOTHING,
    Violation,
    assert_finite,
    assert_gradients,
    assert_gradients_finite,
    assert_same,
    contract,
    gradients_of,
)
from tfzoo.testing.samples import (
    LEFT,
    RIGHT,
    B,
    D,
    N,
    apply_norm,
    build_randomized,
    lengths_to_valid,
)

LARGE = 1e4
Found = tuple[list[Tensor], list[Tensor]]
"""The output of each text, at its real tokens; and what is computed of all of them."""


@dataclass(frozen=True)
class Case:
    """What a component computes of texts.

    Args:
        name: for messages.
        module: it, or what holds it.
        compute: of tokens ``(b n d)``, of which some are real, ``(b n)``; None: all.
        places: which tokens are real.
        junk: what stands at padding.
        mixes_texts: whether a text may see the others of its batch.
        learns: whether every parameter has influence.
    """

    name: str
    module: nn.Module
    compute: Callable[[Tensor, Tensor | None], Found]
    places: tuple[Tensor, ...] = (RIGHT, LEFT)
    junk: tuple[float, ...] = (LARGE, nan, inf, -inf)
    mixes_texts: bool = False
    learns: bool = True


def real(out: Tensor, valid: Tensor | None) -> list[Tensor]:
    """The output of each text, ``(b n ...)``, at its real tokens."""
    return [*out] if valid is None else [row[each] for row, each in zip(out, valid, strict=True)]


def of_attention(entry: Entry) -> Iterator[Case]:
    """Queries, keys and values are the tokens. Hidden ones must be finite."""

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return real(module(heads, heads, heads, mask=Mask(keys=valid)).transpose(1, 2), valid), []

    module = build_randomized(entry)
    yield Case("as queries, keys and values", module, compute, junk=(LARGE,))


def of_norm(entry: Entry) -> Iterator[Case]:
    """With the running statistics that are left. In training, a norm that mixes tokens then alone
    may mix texts as well.
    """

    def compute(training: bool, x: Tensor, valid: Tensor | None) -> Found:
        out, statistics = apply_norm(module.train(training), x, valid)
        return real(out, valid), statistics

    module, may_mix = build_randomized(entry), "mixes_tokens:training" in entry.traits
    for training in (True, False):
        mixes = training and may_mix
        yield Case(f"training={training}", module, partial(compute, training), mixes_texts=mixes)


def of_residual(entry: Entry) -> Iterator[Case]:
    """With norms that mix tokens, too, which have to be told what is padding: they take influence
    away from what is added to all tokens.
    """

    def compute(module: Residual, x: Tensor, valid: Tensor | None) -> Found:
        return real(module(x, valid), valid), []

    for name in ("layer", "instance", "batch"):
        module = build_randomized(entry, norm=name)
        yield Case(
            f"norm {name}",
            module,
            partial(compute, module),
            mixes_texts=name == "batch",
            learns=name == "layer",
        )


def of_mixer(entry: Entry) -> Iterator[Case]:
    """In an encoder and a decoder that hold nothing else. NaN is kept from it by the layer."""

    def compute(module: nn.Module, x: Tensor, valid: Tensor | None) -> Found:
        return real(module(x, mask=Mask(keys=valid)), valid), []

    for module in sides(entry):
        places = (RIGHT, LEFT, BETWEEN)
        yield Case(type(module).__name__, module, partial(compute, module), places, (LARGE,))


def of_weighting(entry: Entry) -> Iterator[Case]:
    """The weights of each key for four queries of two heads. A number of keys that divides is that
    of the keys that a query may look at. Weights may have no slope.
    """

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        scores = 2.0 * x.detach()[..., :8].unflatten(-1, (2, 4)).permute(0, 2, 3, 1)
        return real(module(scores, Mask(keys=valid)).permute(0, 3, 1, 2), valid), []

    module = build_randomized(entry)
    yield Case("weights", module, compute, (RIGHT, LEFT, BETWEEN))


def of_pooling(entry: Entry) -> Iterator[Case]:
    """Of tokens less than zero, which would be the largest number."""

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        return [*module(x - 4.0, valid)], []

    module = build_randomized(entry)
    yield Case("pooled", module, compute)


def of_feedforward(entry: Entry) -> Iterator[Case]:
    """An auxiliary loss and its gradients know what is padding: all else is of one token."""

    def compute(x: Tensor, valid: Tensor | None) -> Found:
        if "auxiliary_loss" not in entry.traits:
            return real(module(x), valid), []
        texts = real(module(x, 0.0, valid), valid)
        loss: Tensor = module.auxiliary_loss
        through = list(module.parameters())
        summed = torch.cat(texts).square().sum() + loss
        return texts, [loss, *torch.autograd.grad(summed, through, retain_graph=True)]

    module = build_randomized(entry)
    yield Case("in training", module, compute)


CASES: Mapping[str, Callable[[Entry], Iterator[Case]]] = {
    "attention": of_attention,
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


@contract(*CASES)
def gradients_reach_every_parameter_and_real_tokens_alone(entry: Entry) -> None:
    """Gradients reach every parameter, but for a bias of keys, and no padding; every real token
    where each has an output of its own, and else some token of every text.
    """
    for case in CASES[entry.kind](entry):
        for valid in case.places if case.learns else ():
            x = torch.randn(B, N, D, requires_grad=True)
            texts, _ = case.compute(x, valid)
            found = gradients_of(torch.cat(texts), case.module, x)
            of_x = found["x"]
            checked = {name: one for name, one in found.items() if not name.endswith("key.bias")}
            assert_gradients(checked, f", {case.name}")
            if of_x is None:
                continue
            sizes = of_x.abs().amax(-1)
            if bool(sizes[~valid].any()):
                raise Violation(f"padding gets a gradient, {case.name}")
            reached = sizes > NOTHING * sizes.max()
            if not bool((reached[valid] if texts[0].dim() > 1 else reached.any(1)).all()):
                raise Violation(f"no gradient reaches some real token, {case.name}")


@contract(*CASES)
def few_tokens_and_equal_numbers_are_harmless(entry: Entry) -> None:
    """Texts of no token or one, beside others and alone, tokens of zeros, and tokens of one number,
    large too, give finite outputs, statistics, losses and gradients.
    """
    few = [lengths_to_valid(lengths, N) for lengths in ([0, 0, 0], [1, 0, 0], [6, 1, 0])]
    all_real = torch.ones(B, N, dtype=torch.bool)
    given = [(torch.randn(B, N, D), valid) for valid in few]
    given += [(torch.full((B, N, D), number), all_real) for number in (0.0, 2.0, LARGE)]
    for case in CASES[entry.kind](entry):
        for x, valid in given:
            what = f"{valid.sum(1).tolist()} tokens of {x[0, 0, 0]:.2g}, {case.name}"
            texts, others = case.compute(x.requires_grad_(), valid)
            for one in chain(texts, others):
                assert_finite(one, what)
            assert_gradients_finite(texts, [x, *case.module.parameters()], what)


@contract("pooling")
def a_text_of_no_token_gives_zeros(entry: Entry) -> None:
    """A text of no token gives zeros, in a batch of them too."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    for lengths in ([0, 0, 0], [6, 1, 0]):
        valid = lengths_to_valid(lengths, N)
        if bool(pooling(x, valid)[~valid.any(1)].ne(0).any()) or bool(pooling(x[:, :0]).any()):
            raise Violation("a text of no token is not zero")
