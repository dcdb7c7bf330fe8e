"""Compiled layers and activation checkpointing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.errors import BadOption


@dataclass
class Compute:
    """How training computes the layers of a model. Results are the same, except for rounding.

    Args:
        compile: compile the layers with ``torch.compile``; the first steps wait for the compiler.
        activation_checkpointing: keep only the inputs of layers for the backward pass and compute
            the rest again: one more forward pass of time, the memory of one layer instead of all.

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
