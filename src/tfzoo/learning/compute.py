"""Compiled layers and activation checkpointing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tfzoo.errors import BadOption
from tfzoo.models.transformer_layer import TransformerLayer


@dataclass
class Compute:
    """How layers are computed in training. These options change results by rounding errors only.

    Args:
        compile: compile the layers with ``torch.compile``. The first steps take longer.
        activation_checkpointing: store only the inputs of layers, and compute their activations
            again in the backward pass. It costs one more forward pass; only one layer's activations
            are in memory at a time.

    Raises:
        BadOption: both at once; they do not work together (pytorch/pytorch#166926).
    """

    compile: bool = False
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.compile and self.activation_checkpointing:
            raise BadOption(
                "compile and activation_checkpointing do not work together "
                "(pytorch/pytorch#166926); choose one"
            )

    def apply(self, model: nn.Module) -> None:
        """Set both options on every layer of a model."""
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.compiled, module.activation_checkpointing = (
                    self.compile,
                    self.activation_checkpointing,
                )
