"""Contracts about sizes: widths and heads other than those of the other contracts, one token, and
batches of no text and texts of no token, which are what a filter, the last shard of a data set or
an empty line leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.errors import TfzooError
from tfzoo.testing.contract import (
    Violation,
    assert_finite,
    assert_same,
    assert_shape,
    contract,
    first_line,
)
from tfzoo.testing.probes import DIM, HEADS, PROBES, WIDTH, B, N, inputs
from tfzoo.testing.samples import COMPONENT_KINDS, SIZES, build_randomized
from tfzoo.testing.subject import FULL, SOURCE, TEXT, Subject

EMPTY = ((0, N), (B, 0), (0, 0))
"""Texts and tokens."""
OTHER_WIDTH, OTHER_HEADS = 24, (4, 1)
STEPS = (slice(0, 0), slice(0, 2), slice(2, 2), slice(2, 6))


@contract(*COMPONENT_KINDS)
def sizes_are_those_that_it_is_given(entry: Entry) -> None:
    """With another width, other numbers of heads and one text of one token, outputs are finite and
    have their shape; or an error of tfzoo refuses a size in one line.
    """
    full = [one.shape for one in PROBES[entry.kind](build_randomized(entry), inputs())]
    for heads, (texts, tokens) in product(OTHER_HEADS, ((B, N), (1, 1))):
        width = OTHER_WIDTH // heads
        sizes = {"dim": OTHER_WIDTH, "heads": heads, "head_dim": width}
        new = {B: texts, N: tokens, DIM: OTHER_WIDTH, HEADS: heads, WIDTH: width}
        what = f"{sizes}, {texts} texts of {tokens} tokens"
        given = cut(inputs(OTHER_WIDTH, heads), texts, tokens)
        with or_refused_in_one_line():
            options = replace(SIZES["options"], heads=heads)
            module = build_randomized(entry, **sizes, options=options)
            for out, shape in zip(PROBES[entry.kind](module, given), full, strict=True):
                assert_shape(out, tuple(new.get(size, size) for size in shape), what)
                assert_finite(out, what)


@contract(*COMPONENT_KINDS)
def empty_batches_and_texts_are_harmless(entry: Entry) -> None:
    """A batch of no text and texts of no token, with a mask and without one, give finite outputs of
    their shape and finite gradients, in training and outside it; or an error of tfzoo refuses them
    in one line.
    """
    for training in (True, False):
        module = build_randomized(entry).train(training)
        parameters = [one for one in module.parameters() if one.requires_grad]
        full = [one.shape for one in PROBES[entry.kind](module, inputs())]
        for texts, tokens in EMPTY:
            shapes = [tuple({B: texts, N: tokens}.get(n, n) for n in shape) for shape in full]
            some = cut(inputs(), texts, tokens)
            for given in (some, {name: one for name, one in some.items() if name != "valid"}):
                masked = "with" if "valid" in given else "without"
                what = f"{texts} texts of {tokens} tokens {masked} a mask"
                with or_refused_in_one_line():
                    outs = PROBES[entry.kind](module, given)
                    for out, shape in zip(outs, shapes, strict=True):
                        assert_shape(out, shape, what)
                        assert_finite(out, what)
                    assert_gradients_finite(outs, parameters, what)


@contextmanager
def or_refused_in_one_line() -> Iterator[None]:
    """Leave the block where an error of tfzoo refuses something, in one line."""
    try:
        yield
    except TfzooError as error:
        if "\n" in str(error).strip():
            raise Violation(f"refused in several lines: {first_line(error)}") from error


def cut(given: Mapping[str, Tensor], texts: int, tokens: int) -> dict[str, Tensor]:
    """So many texts and tokens of the inputs of probes."""
    found = {
        name: one[tuple(slice({B: texts, N: tokens}.get(size)) for size in one.shape)].clone()
        for name, one in given.items()
    }
    for one in found.values():
        one.requires_grad_(one.is_floating_point())
    return found


def assert_gradients_finite(outs: list[Tensor], parameters: Sequence[Tensor], what: str) -> None:
    """Raise :class:`Violation` unless a backward pass gives finite gradients."""
    loss = torch.stack([one.square().sum() for one in outs]).sum()
    if loss.requires_grad and parameters:
        for found in torch.autograd.grad(loss, parameters, allow_unused=True):
            if found is not None:
                assert_finite(found, f"gradient of {what}")


def empty_batches_and_texts_are_harmless_in_a_model(subject: Subject) -> None:
    """A batch of no text and texts of no token, on either side of a translator, with a mask and
    without one, give finite outputs and gradients, in training and outside it; or an error of tfzoo
    refuses them in one line.
    """
    parameters = list(subject.module.parameters())
    for ids, source in ((TEXT[:0], SOURCE[:0]), (TEXT[:, :0], SOURCE), (TEXT, SOURCE[:, :0])):
        what = f"texts {tuple(ids.shape)}, sources {tuple(source.shape)}"
        with or_refused_in_one_line():
            assert_finite(subject(ids, "right", source), what)
            assert_finite(subject(ids, "none", source, "none"), what)
        with or_refused_in_one_line(), subject.training(), torch.enable_grad():
            out = subject(ids, "right", source)
            assert_finite(out, f"{what}, while training")
            assert_gradients_finite([out], parameters, what)


def a_step_of_no_token_changes_nothing(subject: Subject) -> None:
    """Decoding with a cache goes on after a step of no token as if it had not been, also in a batch
    of no text; or an error of tfzoo refuses it in one line.
    """
    if not subject.causal:
        return
    for texts in (slice(None), slice(0)):
        with or_refused_in_one_line():
            cache, ids = subject.init_cache(SOURCE[texts]), FULL[texts]
            steps = [subject.decode_step(ids[:, place], cache) for place in STEPS]
            whole = subject(ids, "none", SOURCE[texts])
            assert_same(torch.cat(steps, 1), whole, "steps of no token between others")
