"""Losses that parts of a model add to the training loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from tfzoo.contracts import FeedForward


def parts_with_losses(model: nn.Module) -> dict[str, FeedForward]:
    """The feed-forward layers of a model that have an auxiliary loss, by name."""
    return {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, FeedForward) and "auxiliary_loss" in part.entry.traits
    }


def take_auxiliary_loss(parts: Iterable[nn.Module]) -> Tensor | None:
    """The sum of the losses that these parts set in the last forward pass, each taken once; None if
    there are none.

    >>> import torch, tfzoo
    >>> model = tfzoo.Encoder(8, heads=2, layers=2, feedforward="mixture")
    >>> loss = model(torch.randn(2, 3, 8)).square().mean() + take_auxiliary_loss(model.modules())
    >>> take_auxiliary_loss(model.modules()) is None
    True
    """
    total: Tensor | None = None
    for part in parts:
        if isinstance(part, FeedForward) and part.auxiliary_loss is not None:
            loss, part.auxiliary_loss = part.auxiliary_loss, None
            total = loss if total is None else total + loss
    return total


def measured(parts: Mapping[str, FeedForward]) -> dict[str, Tensor]:
    """What to log of the last forward pass: ``auxiliary_loss``, the sum of the losses, and
    ``expert_share/encoder.layers.0/3``, the share of the tokens that expert 3 of that layer took.
    """
    losses = [part.auxiliary_loss for part in parts.values() if part.auxiliary_loss is not None]
    found = {"auxiliary_loss": sum(losses[1:], losses[0]).detach()} if losses else {}
    for name, part in parts.items():
        if part.expert_share is not None:
            where = name.removesuffix(".feedforward.inner")
            for expert, share in enumerate(part.expert_share.unbind()):
                found[f"expert_share/{where}/{expert}" if where else f"expert_share/{expert}"] = (
                    share
                )
    return found
