"""Parameters that provably have no influence, each with the reason, which is measured on the
components themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.contracts import FeedForward, Norm, Residual
from tfzoo.masks import Mask
from tfzoo.mixer.multihead import SelfAttention
from tfzoo.models.multihead import CrossAttention, SelfOrCrossAttention
from tfzoo.models.stack import Stack
from tfzoo.testing.contract import CLEAR, EXACT
from tfzoo.testing.samples import SIZES
from tfzoo.testing.subject import Subject, hooks

SCORES = ("query", "key", "query_norm", "key_norm", "attention")
"""What of an attention block makes scores, and nothing else."""


@torch.no_grad()
def excuses(subject: Subject) -> dict[str, str]:
    """Parameters of a model in training mode that have no influence, each with the reason."""
    reasons: dict[str, str] = {}
    for name, stack in subject.module.named_modules():
        if isinstance(stack, Stack):
            found = _of_scores(stack) | _of_queries(stack) | _of_keys(stack) | _of_shifts(stack)
            reasons |= {
                f"{name}.{parameter}" if name else parameter: reason
                for parameter, reason in found.items()
            }
    return reasons | (_of_memory(*subject.stacks) if len(subject.stacks) > 1 else {})


def score_parameters(module: nn.Module) -> Iterator[tuple[str, SelfOrCrossAttention]]:
    """Names of the parameters that make scores, each with its attention block."""
    for name, part in module.named_modules():
        if isinstance(part, SelfOrCrossAttention):
            mixes = "mixes_heads" in part.attention.entry.traits  # its parameters mix heads, too
            for parameter, _ in part.named_parameters():
                first = parameter.partition(".")[0]
                if first in SCORES and not (mixes and first == "attention"):
                    yield f"{name}.{parameter}", part


def _of_scores(stack: Stack) -> dict[str, str]:
    """Scores that the weighting ignores."""
    return {
        name: "the weighting ignores scores"
        for name, part in score_parameters(stack)
        if ignores_scores(part)
    }


def ignores_scores(part: SelfOrCrossAttention) -> bool:
    """Whether the weights of an attention block are the same for all scores."""
    return part.weighting is not None and "ignores_scores" in part.weighting.entry.traits


def _of_queries(stack: Stack) -> dict[str, str]:
    """What makes the tokens that cross-attention reads for its queries alone."""
    crossed = [one for one in stack.modules() if isinstance(one, CrossAttention)]
    if not any(map(ignores_scores, crossed)):
        return {}
    found, shifts = [], Shifts(deepcopy(stack))
    for index, (name, sublayer) in enumerate(zip(shifts.names, shifts.sublayers, strict=True)):
        if isinstance(sublayer.inner, CrossAttention) and ignores_scores(sublayer.inner):
            unread = changing(sublayer, shifts.whole(index), is_zero)
            found += [f"{name}.{one}" for one in unread if not one.startswith("inner.")]
    return dict.fromkeys(found, "only queries read it, and the weighting ignores scores")


def _of_keys(stack: Stack) -> dict[str, str]:
    """One vector added to all keys adds one number to all scores of a query, and a softmax cancels
    it.

    Not where keys are rotated afterwards, each by its own angle, not in attentions that are not
    linear in the key, and not with every weighting.
    """
    found = {}
    turned = "angles" in hooks(stack.position.entry.name)
    for name, part in stack.named_modules():
        if (
            isinstance(part, SelfOrCrossAttention)
            and not (turned and isinstance(part, SelfAttention))
            and common_shift_cancels(part)
        ):
            found[f"{name}.key.bias"] = "one vector added to all keys changes no weight"
    return found


def _of_shifts(stack: Stack) -> dict[str, str]:
    """One vector added to all tokens is taken off again by a norm that subtracts the mean over
    tokens.
    """
    if not any(subtracts_mean_over_tokens(one) for one in stack.modules() if isinstance(one, Norm)):
        return {}
    found, shifts = [], Shifts(deepcopy(stack))
    for index, name in enumerate(shifts.names):
        if shifts.of_sublayer_vanish(index):
            inner = shifts.sublayers[index].inner
            adding = changing(inner, shifts.inner(index), shifts.is_constant)
            found += [f"{name}.inner.{one}" for one in adding]
        if shifts.vanish_after(index):
            whole = shifts.sublayers[index]
            own = changing(whole, shifts.whole(index), shifts.is_constant)
            found += [f"{name}.{one}" for one in own if not one.startswith("inner.")]
    return dict.fromkeys(found, "a vector added to all tokens is taken off by a norm that follows")


def _of_memory(encoder: Stack, decoder: Stack) -> dict[str, str]:
    """One vector added to all of the memory adds one to all tokens of the decoder."""
    if not any(
        subtracts_mean_over_tokens(one) for one in decoder.modules() if isinstance(one, Norm)
    ):
        return {}
    encoder, shifts = deepcopy(encoder), Shifts(deepcopy(decoder))
    for index, sublayer in enumerate(shifts.sublayers):
        if isinstance(sublayer.inner, CrossAttention):
            run = shifts.inner(index)
            before = run()
            shifts.memory += (vector := torch.randn(SIZES["dim"]))
            change = run() - before
            shifts.memory -= vector
            if not (shifts.is_constant(change) and shifts.of_sublayer_vanish(index)):
                return {}
    x = torch.randn(2, 6, SIZES["dim"])
    names = changing(encoder, lambda: encoder(x), shifts.is_constant)
    return dict.fromkeys(
        [f"encoder.{name}" for name in names],
        "a vector added to all of the memory is taken off by the decoder's norms",
    )


class Shifts:
    """What becomes of one vector that is added to all tokens inside a stack; its sublayers have the
    same residual connection.
    """

    def __init__(self, stack: Stack) -> None:
        self.x = torch.randn(2, 6, SIZES["dim"])
        self.memory = torch.randn(2, 5, SIZES["dim"])
        self.stack = stack
        named = [(name, one) for name, one in stack.named_modules() if isinstance(one, Residual)]
        self.names, self.sublayers = [name for name, _ in named], [one for _, one in named]
        self.fate = fate(self.sublayers[0]) if named else Fate(False, False, False, False)
        norms = [one for one in stack.modules() if isinstance(one, Norm)]
        self.by_row = any(subtracts_mean_over_tokens(one, by_row=True) for one in norms)

    def is_constant(self, change: Tensor) -> bool:
        """Whether all tokens changed by the same vector, other than 0; those of a row, where norms
        take off the mean of each row.
        """
        return all(map(is_constant, torch.split(change, 1))) if self.by_row else is_constant(change)

    def vanish_after(self, index: int) -> bool:
        """Whether a vector that is added to the output of a sublayer is taken off again."""
        last, final = index == len(self.names) - 1, self.stack.final_norm
        if final is not None and subtracts_mean_over_tokens(final):
            return last or self.fate.carried or self.fate.taken_off
        return self.fate.taken_off and not last

    def of_sublayer_vanish(self, index: int) -> bool:
        """The same of one that is added inside the residual branch."""
        return self.fate.absorbed or (self.fate.passed and self.vanish_after(index))

    def arguments(self, index: int) -> tuple[Any, ...]:
        """What a sublayer is called with, beside the tokens."""
        if isinstance(self.sublayers[index].inner, FeedForward):
            return ()
        context = self.stack.context(self.x, None, None, "none", memory=self.memory)
        return (self.stack.contexts(context)[0], 0)  # all layers have one position and window

    def inner(self, index: int) -> Callable[[], Tensor]:
        """What a sublayer computes without its residual connection."""
        inner = self.sublayers[index].inner
        return lambda: inner(self.x, *self.arguments(index))

    def whole(self, index: int) -> Callable[[], Tensor]:
        """What it computes with it."""
        return lambda: self.sublayers[index](self.x, None, *self.arguments(index))


@dataclass(frozen=True)
class Fate:
    """What a residual connection makes of one vector that is added to all tokens.

    Args:
        absorbed: in the branch, it is taken off. ``passed``: it is added to the output as one.
        carried: in the input, it is added to the output as one. ``taken_off``: it is taken off.
    """

    absorbed: bool
    passed: bool
    carried: bool
    taken_off: bool


class Shifted(nn.Module):
    """A sublayer that mixes no tokens and adds one vector to all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.vector: Tensor | float = 0.0

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        return x.flip(-1).tanh() + self.vector


def fate(sublayer: Residual) -> Fate:
    """Measured with another sublayer in the same residual connection."""
    residual, inner = deepcopy(sublayer), Shifted()
    residual.inner = inner
    x, vector = torch.randn(2, 6, SIZES["dim"]), torch.randn(SIZES["dim"])
    before = residual(x)
    through = residual(x + vector) - before
    inner.vector = vector
    added = residual(x) - before
    return Fate(is_zero(added), is_constant(added), is_constant(through), is_zero(through))


def is_zero(change: Tensor) -> bool:
    """Whether nothing changed by more than rounding."""
    return bool(change.abs().max() < EXACT)


def is_constant(change: Tensor) -> bool:
    """Whether all tokens changed by the same vector, other than 0: ``(b n d)``."""
    size = max(1.0, change.abs().max().item())
    return is_zero((change - change[:1, :1]) / size) and bool(change.abs().max() > CLEAR)


def changing(
    module: nn.Module, run: Callable[[], Tensor], how: Callable[[Tensor], bool]
) -> list[str]:
    """The parameters of a module by which what ``run`` computes changes in this way."""
    before, found = run(), []
    for name, parameter in module.named_parameters():
        kept = parameter.clone()
        parameter.add_(torch.randn_like(parameter))
        if how(run() - before):
            found.append(name)
        parameter.copy_(kept)
    return found


def common_shift_cancels(part: SelfOrCrossAttention) -> bool:
    """Whether weights stay when one vector is added to all keys."""
    heads, width = SIZES["heads"], SIZES["head_dim"]
    q, k = torch.randn(1, heads, 4, width), torch.randn(1, heads, 5, width)
    shifted, attention = k + torch.randn(width), part.attention
    moved = attention.scores(q, shifted) - attention.scores(q, k)
    if not is_zero(moved - moved[..., :1]):  # a weighting that jumps may show nothing of it
        return False
    named: dict[str, Any] = {"mask": Mask(), "cap": part.cap, "weighting": part.weighting}
    return is_zero(attention.weights(q, shifted, **named) - attention.weights(q, k, **named))


def subtracts_mean_over_tokens(norm: Norm, by_row: bool = False) -> bool:
    """Whether a vector added to all tokens is taken off again, in the mode that the norm is in;
    ``by_row``: another vector for each row.
    """
    norm, x = deepcopy(norm), torch.randn(2, 6, SIZES["dim"])
    shift = torch.randn(2 if by_row else 1, 1, SIZES["dim"])
    return is_zero(norm(x + shift) - norm(x))
