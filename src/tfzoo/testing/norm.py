"""Contracts of every norm."""

from __future__ import annotations

from copy import deepcopy

import torch

from tfzoo.base.registry import Entry
from tfzoo.testing.contract import assert_dtype, assert_same, assert_same_if, contract
from tfzoo.testing.probes import apply_norm as apply
from tfzoo.testing.samples import LEFT, RIGHT, B, D, N, build_randomized, lengths_to_valid

MODES = (True, False)


@contract("norm")
def mixes_tokens_says_the_truth(entry: Entry) -> None:
    """Another token changes the output of a token in training, always or never, as ``mixes_tokens``
    declares.
    """
    norm, x = build_randomized(entry), torch.randn(B, N, D)
    changed = x.clone()
    changed[:, 1] = 5 * torch.randn(B, D)
    always = "mixes_tokens:always" in entry.traits
    for training, claimed in (
        (True, always or "mixes_tokens:training" in entry.traits),
        (False, always),
    ):
        norm.train(training)
        for valid in (None, RIGHT):
            before, after = apply(norm, x, valid)[0], apply(norm, changed, valid)[0]
            assert_same_if(
                not claimed,
                after[:, :1],
                before[:, :1],
                f"mixes tokens, training={training}, but does not claim it",
                f"claims to mix tokens, training={training}, but does not",
            )


@contract("norm")
def centres_texts_says_the_truth(entry: Entry) -> None:
    """The mean over the tokens is the same for every text exactly where ``centres_texts`` is
    declared.
    """
    norm, x = build_randomized(entry), torch.randn(B, N, D)
    for training in MODES:
        for valid in (RIGHT, LEFT):
            out = apply(norm.train(training), x, valid)[0].masked_fill(~valid[..., None], 0.0)
            means = out.sum(1) / valid.sum(1, keepdim=True)
            assert_same_if(
                "centres_texts" in entry.traits,
                means[1:],
                means[:1].expand(B - 1, -1),
                "claims that all texts have one mean, but they do not",
                "all texts have one mean, but that is not claimed",
            )


@contract("norm")
def statistics_are_taken_in_single_precision(entry: Entry) -> None:
    """Statistics of bf16 and fp16 inputs are taken in fp32 or better, also under autocast; the
    output has the dtype of the input.
    """
    norm = build_randomized(entry)
    single = deepcopy(norm).float()
    for dtype, size in ((torch.bfloat16, 300.0), (torch.float16, 1000.0)):
        x = (size + torch.randn(B, N, D)).to(dtype)
        sums = B * N * size * torch.finfo(torch.float32).eps  # as many terms at most, in fp32
        for training in MODES:
            exact = apply(norm.train(training), x.double(), RIGHT)[0][RIGHT]
            for autocast in (False, True):
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    out = apply(single.train(training), x, RIGHT)[0]
                assert_dtype(out, dtype)
                what = f"{dtype} around {size:g}, training={training}, autocast={autocast}"
                assert_same(out[RIGHT], exact, what, torch.finfo(dtype).eps + sums)


@contract("norm")
def running_statistics_become_those_of_the_real_tokens(entry: Entry) -> None:
    """Running statistics, if any, converge to those of the real tokens; fewer than two real tokens
    move none.
    """
    norm = build_randomized(entry)
    if not list(norm.buffers()):
        return
    for lengths in ([0, 0, 0], [1, 0, 0]):
        _, after = apply(norm, torch.randn(B, N, D), lengths_to_valid(lengths, N))
        for one, before in zip(after, norm.buffers(), strict=True):
            assert_same(one, before, f"running statistics after {sum(lengths)} tokens")
    x, valid = 3 * torch.randn(B, 40, D) + 1, lengths_to_valid([40, 30, 5], 40)
    for _ in range(200):
        norm(x, valid)
    trained = apply(norm, x, valid)[0][valid]
    assert_same(norm.eval()(x, valid)[valid], trained, "after 200 steps on one batch", 1 / 74)


@contract("norm")
def running_statistics_are_saved(entry: Entry) -> None:
    """The state dict holds the running statistics."""
    norm, other, x = build_randomized(entry), build_randomized(entry), 3 * torch.randn(B, N, D) + 1
    norm(x, RIGHT)
    other.load_state_dict(norm.state_dict())
    assert_same(
        other.eval()(x, RIGHT),
        norm.eval()(x, RIGHT),
        "evaluation after loading the state dict",
        0.0,
    )
