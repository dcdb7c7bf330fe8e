"""A callback that swaps components into any LightningModule before its optimiser is made."""

from collections.abc import Collection
from typing import Any

import lightning.pytorch as L
from torch import nn

from tfzoo.base.registry import (
    AttentionSpec,
    FeedForwardSpec,
    NormSpec,
    PositionSpec,
    WeightingSpec,
)
from tfzoo.base.values import Named
from tfzoo.errors import BadOption
from tfzoo.swapping.swap import SwapReport, swap


class SwapParts(Named, L.Callback):
    """Calls :func:`tfzoo.swap` on a LightningModule when its Trainer starts, so that the optimiser
    gets the parameters of the new parts. ``configure_model`` is called first, since a module may
    create its layers there.

    Args:
        norm, attention, weighting, feedforward, position, only, skip, valid, allow: as
            :func:`tfzoo.swap`.
        module: the name of the submodule to swap in, such as ``model``; ``""`` is the
            LightningModule itself. ``valid`` names an argument of its forward.

    ``report`` is the :class:`~tfzoo.swapping.swap.SwapReport` of the last module that was swapped
    in, None before training starts.

    Raises:
        BadOption: (when training starts) there is no such submodule, or nothing to swap; or
            ``configure_model`` replaces the layers when Lightning calls it again.
    """

    def __init__(
        self,
        norm: NormSpec | None = None,
        attention: AttentionSpec | None = None,
        *,
        only: str | Collection[str] | None = None,
        skip: str | Collection[str] | None = None,
        valid: str | bool | None = None,
        allow: Collection[str] = (),
        module: str = "",
        weighting: WeightingSpec | None = None,
        feedforward: FeedForwardSpec | None = None,
        position: PositionSpec | None = None,
    ) -> None:
        self.options: dict[str, Any] = {
            **{"norm": norm, "attention": attention, "weighting": weighting},
            **{"feedforward": feedforward, "position": position},
            **{"only": only, "skip": skip, "valid": valid, "allow": allow},
        }
        self.module = module
        self.report: SwapReport | None = None
        self._swapped: tuple[nn.Module, str, nn.Module] | None = None

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Swap, once in each module: the same Trainer may fit, validate and test."""
        if self._swapped is not None and self._swapped[0] is pl_module:
            return
        pl_module.configure_model()  # Lightning calls it again, and documents that it may
        try:
            model: nn.Module = pl_module.get_submodule(self.module)
        except AttributeError as error:
            raise BadOption(f"SwapParts: {type(pl_module).__name__}: {error}") from None
        self.report = swap(model, **self.options)
        first = ".".join(filter(None, [self.module, self.report.replaced[0]]))
        self._swapped = pl_module, first, pl_module.get_submodule(first)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Check that the model still is the one that was swapped."""
        if self._swapped is None:
            return
        _, name, module = self._swapped
        if pl_module.get_submodule(name) is not module:
            raise BadOption(
                f"SwapParts: configure_model made {name} again after the swap; let it return if "
                "the layers are there"
            )
