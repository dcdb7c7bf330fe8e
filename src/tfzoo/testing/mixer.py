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
from tfzoo.testing.contract import (
    Violation,
    assert_differs,
    assert_dtype,
    assert_same,
    assert_same_if,
    assert_shape,
    contract,
)
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
def one_vector_for_each_token(entry: Entry) -> None:
    """``(b n d) -> (b n d)``, in the dtype of the tokens, for texts of one token too."""
    for module in sides(entry):
        for n in (1, N):
            out = module(torch.randn(B, n, D))
            assert_shape(out, (B, n, D), "(b n d) in")
            assert_dtype(out, torch.float64)


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


@contract("mixer")
def bidirectional_says_the_truth(entry: Entry) -> None:
    """Built for a decoder, a later token has influence on an earlier one exactly where
    ``bidirectional`` is declared.
    """
    mixer, x, pos = build_randomized(entry, causal=True), torch.randn(B, N, D), torch.arange(N)
    context = Context(Mask(causal=True, start=0), pos[None], pos[None])
    changed = torch.cat([x[:, :-1], torch.randn(B, 1, D)], 1)
    one, other = (mixer(given, context, 0)[:, :-1] for given in (x, changed))
    assert_same_if(
        "bidirectional" not in entry.traits,
        other,
        one,
        "reads later tokens, but that is not claimed",
        "claims to read later tokens, but does not",
        0.0,
    )


@contract("mixer")
def ordered_says_the_truth(entry: Entry) -> None:
    """Outputs depend on the order of tokens exactly where ``ordered`` is declared."""
    for module in sides(entry):
        x, order = torch.randn(B, N, D), torch.tensor([3, 0, 4, 2, 1, 5])
        out, moved = module(x)[:, order], module(x[:, order])
        if module.causal:  # the last token sees a bag of those before it
            out, moved = out[:, -1:], moved[:, -1:]
        assert_same_if(
            "ordered" not in entry.traits,
            moved,
            out,
            "order matters, but that is not claimed",
            "claims that order matters, but it does not",
        )


@contract("mixer")
def reach_says_the_truth(entry: Entry) -> None:
    """Tokens 99 places apart have no influence on each other exactly where ``reach`` is
    declared.
    """
    x = torch.randn(1, LONG, D, requires_grad=True)
    (gradient,) = torch.autograd.grad(sides(entry)[0](x)[:, -1].sum(), x)
    far = gradient[:, 0].abs().max().item()  # a difference of outputs would round to 0
    if (far == 0) != ("reach" in entry.traits):
        raise Violation(f"a token {LONG - 1} places away has a gradient of {far:.2g}")


@contract("mixer")
def identity_says_the_truth(entry: Entry) -> None:
    """The output is the input exactly where ``identity`` is declared."""
    x, pos = torch.randn(B, N, D), torch.arange(N)[None]  # a stack leaves an identity out
    out = build_randomized(entry)(x, Context(Mask(), pos, pos), 0)
    assert_same_if(
        "identity" in entry.traits,
        out,
        x,
        "claims to be the identity",
        "the identity, but that is not claimed",
        0.0,
    )


@contract("mixer")
def attends_says_the_truth(entry: Entry) -> None:
    """A bias on scores has influence, and what a mask hides has none, exactly where ``attends`` is
    declared.
    """
    mixer, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    out = mixer(x, Context(Mask(), pos, pos), 0)
    bias = torch.randn(1, SIZES["heads"], N, N)
    biased = mixer(x, Context(Mask(), pos, pos, bias=bias), 0)
    if "attends" not in entry.traits:
        assert_same(biased, out, "reads a bias, but that is not claimed")
        return
    assert_differs(biased, out, "claims to attend, but reads no bias")
    context = Context(Mask(allowed=torch.eye(N, dtype=torch.bool)[None, None]), pos, pos)
    changed = torch.cat([torch.randn(B, 1, D), x[:, 1:]], 1)
    one, other = (mixer(given, context, 0)[:, 1:] for given in (x, changed))
    assert_same(other, one, "claims to attend, but sees a token that the mask hides")


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
