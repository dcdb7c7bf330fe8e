"""Tasks with models of other classes than tfzoo's: what such a model must have and return."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from tfzoo.base.registry import class_path
from tfzoo.errors import BadOption
from tfzoo.search import missing_for_decoding


def can_decode(model: nn.Module) -> bool:
    """Whether a model can decode. Warns if it cannot."""
    missing = missing_for_decoding(model)
    if missing:
        warnings.warn(
            f"{class_path(type(model))} has no {', '.join(missing)}: it cannot decode and is "
            "scored by loss and perplexity alone (tfzoo.search.Decodable)",
            stacklevel=3,
        )
    return not missing


def check_logits(model: nn.Module, logits: Any, shape: tuple[int, ...], axes: str) -> Tensor:
    """Return ``logits``, which a model returned, if they have this shape. ``axes`` names its axes
    for the message.

    Raises:
        BadOption: another shape, or no tensor.
    """
    if not isinstance(logits, Tensor) or tuple(logits.shape) != shape:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise BadOption(
            f"{class_path(type(model))} must return logits ({axes}) = {shape}, not {got}"
        )
    return logits
