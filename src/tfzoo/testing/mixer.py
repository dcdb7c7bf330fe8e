"""Contracts of every mixer. It is called in an encoder and a decoder of one layer that hold nothing
else, so that cache and masks are those of use.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tfzoo.base.registry import Entry, create
from tfzoo.errors import listing
from tfzoo.masks import Mask
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions
from tfzoo.models.rules import options_read
from tfzoo.testing.contract import Violation, assert_same, contract
from tfzoo.testing.samples import (
    LEFT,
    RIGHT,
    SIZES,
    B,
    D,
    N,
    lengths_to_valid,
    randomize,
)
from tfzoo.testing.subject import pass_padding

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
