"""What every norm promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

import torch
from torch import Tensor

from tfzoo.contracts import Norm
from tfzoo.registry import Entry
from tfzoo.testing.gradients import NOTHING
from tfzoo.testing.promise import Violation, differ, finite, promise, same
from tfzoo.testing.samples import SIZES, lengths_to_valid, make

B, N, D = 3, 6, SIZES["dim"]
RIGHT = lengths_to_valid([6, 4, 2], N)
LEFT = lengths_to_valid([6, 4, 2], N, left=True)
MODES = (True, False)


def apply(norm: Norm, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """The output and the running statistics afterwards; the norm itself stays as it was."""
    before = [buffer.clone() for buffer in norm.buffers()]
    out = norm(x, valid)
    after = [buffer.clone() for buffer in norm.buffers()]
    with torch.no_grad():
        for buffer, value in zip(norm.buffers(), before, strict=True):
            buffer.copy_(value)
    return out, after


@promise("norm")
def padding_has_no_influence(entry: Entry) -> None:
    norm, x = make(entry), 3 * torch.randn(B, N, D) + 1
    for valid in (RIGHT, LEFT):
        other = torch.where(valid[..., None], x, 1e4 * torch.randn_like(x))
        for training in MODES:
            norm.train(training)
            (out, statistics), (changed, others) = apply(norm, x, valid), apply(norm, other, valid)
            same(changed[valid], out[valid], f"other padding, training={training}")
            for one, two in zip(statistics, others, strict=True):
                same(one, two, "running statistics with other padding")
            longer = (
                torch.nn.functional.pad(other, (0, 0, 2, 3)),
                torch.nn.functional.pad(valid, (2, 3)),
            )
            same(
                apply(norm, *longer)[0][:, 2:-3][valid],
                out[valid],
                f"more padding, training={training}",
            )


@promise("norm")
def no_padding_given_is_no_padding_at_all(entry: Entry) -> None:
    norm, x = make(entry), torch.randn(B, N, D)
    for training in MODES:
        norm.train(training)
        (out, statistics), (other, others) = (
            apply(norm, x),
            apply(norm, x, torch.ones(B, N, dtype=torch.bool)),
        )
        same(out, other, f"valid=None, training={training}")
        for one, two in zip(statistics, others, strict=True):
            same(one, two, "running statistics, valid=None")


@promise("norm")
def mixes_tokens_says_the_truth(entry: Entry) -> None:
    """Another token moves this one's output in training, always or never, as the traits claim."""
    norm, x = make(entry), torch.randn(B, N, D)
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
            if claimed:
                differ(
                    after[:, :1],
                    before[:, :1],
                    f"claims to mix tokens, training={training}, but does not",
                    1e-5,
                )
            else:
                same(
                    after[:, :1],
                    before[:, :1],
                    f"mixes tokens, training={training}, but does not claim it",
                    1e-6,
                )


@promise("norm")
def centres_texts_says_the_truth(entry: Entry) -> None:
    """The mean over a text's tokens is the same for every text if that is claimed, and only then."""
    norm, x = make(entry), torch.randn(B, N, D)
    for training in MODES:
        for valid in (RIGHT, LEFT):
            out = apply(norm.train(training), x, valid)[0].masked_fill(~valid[..., None], 0.0)
            means = out.sum(1) / valid.sum(1, keepdim=True)
            if "centres_texts" in entry.traits:
                same(
                    means[1:],
                    means[:1].expand(B - 1, -1),
                    "claims that all texts have one mean, but they do not",
                )
            else:
                differ(
                    means[1:],
                    means[:1].expand(B - 1, -1),
                    "all texts have one mean, but that is not claimed",
                )


@promise("norm")
def a_text_does_not_see_the_others_of_its_batch_outside_training(entry: Entry) -> None:
    norm, x = make(entry).eval(), torch.randn(B, N, D)
    out = norm(x, RIGHT)
    same(norm(x.flip(0), RIGHT.flip(0)).flip(0), out, "another order of the batch")
    same(norm(x[1:2, :4]), out[1:2, :4], "alone and without padding")
    norm.train()
    trained = apply(norm, x, RIGHT)[0]
    same(
        apply(norm, x.flip(0), RIGHT.flip(0))[0].flip(0)[RIGHT],
        trained[RIGHT],
        "another order of the batch while training",
    )


@promise("norm")
def statistics_are_taken_in_single_precision(entry: Entry) -> None:
    norm = make(entry).eval()
    for dtype, size, tolerance in ((torch.bfloat16, 300.0, 1e-2), (torch.float16, 1000.0, 2e-3)):
        x = (size + torch.randn(B, N, D)).to(dtype)
        for training in MODES:
            norm.train(training)
            out = apply(norm, x, RIGHT)[0]
            if out.dtype != dtype:
                raise Violation(f"{dtype} in, {out.dtype} out")
            same(
                out[RIGHT],
                apply(norm, x.float(), RIGHT)[0][RIGHT],
                f"{dtype} around {size:g}, training={training}",
                tolerance,
            )
            with torch.autocast("cpu", torch.bfloat16):
                same(
                    apply(norm, x, RIGHT)[0][RIGHT],
                    out[RIGHT],
                    f"{dtype} under autocast",
                    tolerance,
                )


@promise("norm")
def double_precision_in_double_precision_out(entry: Entry) -> None:
    norm, x = make(entry), torch.randn(B, N, D)
    out = apply(norm, x, RIGHT)[0]
    double = apply(norm.double(), x.double(), RIGHT)[0]
    if double.dtype != torch.float64:
        raise Violation(f"float64 in, {double.dtype} out")
    same(double, out, "float64")


@promise("norm")
def running_statistics_become_those_of_the_real_tokens(entry: Entry) -> None:
    norm = make(entry)
    if not list(norm.buffers()):
        return
    x, valid = 3 * torch.randn(B, 40, D) + 1, lengths_to_valid([40, 30, 5], 40)
    for _ in range(200):
        norm(x, valid)
    trained = apply(norm, x, valid)[0][valid]
    same(norm.eval()(x, valid)[valid], trained, "evaluation on what was trained on 200 times", 2e-2)


@promise("norm")
def what_training_has_seen_is_saved(entry: Entry) -> None:
    norm, other, x = make(entry), make(entry), 3 * torch.randn(B, N, D) + 1
    norm(x, RIGHT)
    other.load_state_dict(norm.state_dict())
    same(
        other.eval()(x, RIGHT),
        norm.eval()(x, RIGHT),
        "evaluation after loading the state dict",
        0.0,
    )


@promise("norm")
def texts_of_no_token_or_one_are_harmless(entry: Entry) -> None:
    for training in MODES:
        for lengths in ([0, 0, 0], [1, 0, 0], [6, 1, 0]):
            norm, x = make(entry).train(training), torch.randn(B, N, D, requires_grad=True)
            valid = lengths_to_valid(lengths, N)
            out, statistics = apply(norm, x, valid)
            finite(out, f"output of texts of {lengths} tokens")
            for gradient in torch.autograd.grad(
                out[valid].sum(), [x, *norm.parameters()], allow_unused=True
            ):
                if gradient is not None:
                    finite(gradient, f"gradient of texts of {lengths} tokens")
            for one, before in zip(statistics, norm.buffers(), strict=True):
                finite(one, f"running statistics after texts of {lengths} tokens")
                if sum(lengths) < 2:
                    same(one, before, f"running statistics after {sum(lengths)} tokens")
    same(
        torch.isfinite(make(entry)(torch.full((B, N, D), 2.0))).float(),
        torch.ones(B, N, D),
        "finite where all is the same",
    )


@promise("norm")
def gradients_reach_every_parameter_and_every_real_token(entry: Entry) -> None:
    for training in MODES:
        norm, x = make(entry).train(training), torch.randn(B, N, D, requires_grad=True)
        out = norm(x, RIGHT)[RIGHT]
        found = torch.autograd.grad(
            (out * torch.randn_like(out)).sum(), [x, *norm.parameters()], allow_unused=True
        )
        names = ["x", *(name for name, _ in norm.named_parameters())]
        for name, gradient in zip(names, found, strict=True):
            finite(gradient, f"gradient of {name}, training={training}")
            if gradient is not None and not gradient.abs().max() > NOTHING:
                raise Violation(f"no gradient reaches {name}, training={training}")
        if found[0] is not None and bool((found[0].abs().amax(-1)[RIGHT] <= NOTHING).any()):
            raise Violation(f"no gradient reaches some real token, training={training}")
        if found[0] is not None and bool((found[0][~RIGHT] != 0).any()):
            raise Violation(f"padding gets a gradient, training={training}")
