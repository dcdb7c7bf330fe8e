"""Contracts of every mixer. It is called in an encoder and a decoder of one layer that hold nothing
else, so that cache and masks are those of use.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tfzoo.base.registry import Entry, create
from tfzoo.errors import listing
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.decoder import Decoder
from tfzoo.models.encoder import Encoder
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions
from tfzoo.models.traits import options_read
from tfzoo.testing.contract import EXACT, Violation, assert_same, contract, difference, trait
from tfzoo.testing.samples import (
    LEFT,
    RIGHT,
    SIZES,
    B,
    D,
    N,
    build_randomized,
    lengths_to_valid,
    randomize,
)
from tfzoo.testing.subject import pass_padding

LONG = 100
"""Tokens of a text in which a mixer that reaches only near tokens misses some."""
BETWEEN = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0]]).bool()


def sides(entry: Entry) -> list[Encoder | Decoder]:
    """An encoder, and a decoder where there can be one, that compute what the mixer does."""
    none = dict.fromkeys(("residual", "norm", "feedforward", "position"), "none")
    options: dict[str, Any] = {"mixer": entry.name, "dropout": 0.0, **none}
    modules: list[Encoder | Decoder] = [Encoder(D, SIZES["heads"], 1, **options)]
    if "bidirectional" not in entry.traits:
        modules.append(Decoder(D, SIZES["heads"], 1, cross_attention=False, **options))
    for module in modules:
        pass_padding(module)
        randomize(module.eval())
    return modules


@contract("mixer")
def a_prompt_may_be_padded(entry: Entry) -> None:
    """Decoding goes on after a prompt with padding on either side, of nothing but padding, or with
    padding between tokens, as it does after the prompt without padding.
    """
    for module in sides(entry)[1:]:
        x = torch.randn(B, N + 4, D)
        for prompt in (RIGHT, LEFT, BETWEEN, lengths_to_valid([6, 0, 3], N)):
            valid = torch.cat([prompt, BETWEEN[:, :2], torch.ones(B, 2).bool()], 1)
            cache, steps = module.init_cache(), []
            for part, real in zip(
                torch.split(x, [3, 3, 2, 1, 1], 1),
                torch.split(valid, [3, 3, 2, 1, 1], 1),
                strict=True,
            ):
                mask = None if bool(real.all()) else Mask(keys=real)
                part = torch.where(real[..., None], part, 1e4)
                steps.append(module(part, mask=mask, cache=cache))
            for out, row, real in zip(torch.cat(steps, 1), x, valid, strict=True):
                assert_same(out[real], module(row[real][None])[0], "a prompt with padding")


@trait("mixer", "bidirectional")
def reads_later_tokens(entry: Entry) -> bool:
    """Built for a decoder, a later token has influence on an earlier one."""
    mixer, x, pos = build_randomized(entry, causal=True), torch.randn(B, N, D), torch.arange(N)
    context = Context(Mask(causal=True, start=0), pos[None], pos[None])
    changed = torch.cat([x[:, :-1], torch.randn(B, 1, D)], 1)
    one, other = (mixer(given, context, 0)[:, :-1] for given in (x, changed))
    return not torch.equal(one, other)


@trait("mixer", "ordered")
def depends_on_the_order(entry: Entry) -> bool:
    """Outputs depend on the order of tokens."""
    order, found = torch.tensor([3, 0, 4, 2, 1, 5]), []
    for module in sides(entry):
        x = torch.randn(B, N, D)
        seen = (
            slice(-1, None) if module.causal else slice(None)
        )  # the last sees a bag of the others
        found.append(difference(module(x[:, order])[:, seen], module(x)[:, order][:, seen]) > EXACT)
    return any(found)


@trait("mixer", "reach")
def sees_near_tokens_alone(entry: Entry) -> bool:
    """Tokens 99 places apart have no influence on each other."""
    x = torch.randn(1, LONG, D, requires_grad=True)
    (gradient,) = torch.autograd.grad(sides(entry)[0](x)[:, -1].sum(), x)
    return not bool(gradient[:, 0].any())  # a difference of outputs would round to 0


@trait("mixer", "identity")
def gives_its_input(entry: Entry) -> bool:
    """The output is the input."""
    x, pos = torch.randn(B, N, D), torch.arange(N)[None]  # a stack leaves an identity out
    return torch.equal(build_randomized(entry)(x, Context(Mask(), pos, pos), 0), x)


@trait("mixer", "attends")
def reads_bias_and_mask(entry: Entry) -> bool:
    """A bias on scores has influence, and what a mask hides has none."""
    mixer, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    bias = torch.randn(1, SIZES["heads"], N, N)
    biased = mixer(x, Context(Mask(), pos, pos, bias=bias), 0)
    context = Context(Mask(allowed=torch.eye(N, dtype=torch.bool)[None, None]), pos, pos)
    changed = torch.cat([torch.randn(B, 1, D), x[:, 1:]], 1)
    one, other = (mixer(given, context, 0)[:, 1:] for given in (x, changed))
    reads_bias = difference(biased, mixer(x, Context(Mask(), pos, pos), 0)) > EXACT
    if reads_bias and difference(other, one) > EXACT:
        raise Violation("reads a bias, and sees a token that the mask hides")
    return reads_bias


@contract("mixer")
def reads_says_the_truth(entry: Entry) -> None:
    """Of the options of attention, the constructor reads those that ``reads`` names."""

    class Recorded(StackOptions):
        names: ClassVar[set[str]] = set()

        def __getattribute__(self, name: str) -> Any:
            Recorded.names.add(name)
            return super().__getattribute__(name)

    options = Recorded(heads=SIZES["heads"])
    Recorded.names.clear()
    create("mixer", entry.name, dim=D, options=options)
    read = Recorded.names & ATTENTION_OPTIONS
    if read != options_read(entry):
        raise Violation(f"reads {listing(read)}, but claims {listing(options_read(entry))}")
