"""Attention and feed-forward layer side by side."""

from __future__ import annotations

from torch import Tensor, nn

from tfzoo.base.dropout import dropout as drop
from tfzoo.base.registry import create, registry
from tfzoo.contracts import FeedForward, Norm, value_matrices
from tfzoo.errors import BadOption
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.options import StackOptions
from tfzoo.models.traits import has_auxiliary_loss


class Parallel(nn.Module):
    """``mixer(x) + feedforward(x)`` (Wang and Komatsuzaki 2021, GPT-J), or with norms
    ``mixer(norm_1(x)) + feedforward(norm_2(x))`` (Black et al. 2022, arXiv:2204.06745, section
    2.1.2). Each of the two has its own dropout.

    Raises:
        BadOption: the mixer or the feed-forward layer is the identity.
    """

    def __init__(
        self, dim: int, options: StackOptions, mixer: Mixer, feedforward: FeedForward
    ) -> None:
        super().__init__()
        for part in (mixer, feedforward):
            if "identity" in part.entry.traits:
                raise BadOption(f"parallel needs a {part.entry.kind} other than {part.entry.name}")
        self.mixer, self.feedforward = mixer, feedforward
        self.dropout, self.feedforward_dropout = options.dropout, options.feedforward_dropout
        self.passes_valid = has_auxiliary_loss(feedforward.entry)
        norm = options.norm if options.parallel == "two_norms" else "none"
        self.mixer_norm: Norm = create("norm", norm, dim=dim)
        self.feedforward_norm: Norm = create("norm", norm, dim=dim)

    def value_matrices(self) -> list[Tensor]:
        """Those of both."""
        return [*value_matrices(self.mixer), *value_matrices(self.feedforward)]

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b n d) -> (b n d)``"""
        p, p_hidden = (self.dropout, self.feedforward_dropout) if self.training else (0.0, 0.0)
        args = (p_hidden, context.valid) if self.passes_valid else (p_hidden,)
        mixed: Tensor = self.mixer(self.mixer_norm(x, context.valid), context, layer)
        fed: Tensor = self.feedforward(self.feedforward_norm(x, context.valid), *args)
        return drop(mixed, p) + drop(fed, p)


def check_parallel(options: StackOptions, cross: bool) -> None:
    """Check whether a layer can be parallel.

    Raises:
        BadOption: with cross-attention, or with a residual connection that is not ``x +
            f(norm(x))``.
    """
    if cross:
        raise BadOption(
            "parallel does not work with cross-attention, whose input is self-attention's output"
        )
    residual = registry("residual").options(options.residual)[0]
    if "parallel" not in residual.traits:
        raise BadOption(
            f"parallel is x + attention(norm(x)) + feedforward(norm(x)), which residual "
            f"{residual.name!r} is not: use residual: pre"
        )
