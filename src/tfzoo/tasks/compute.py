"""How a model is computed in training: faster or in less memory, with the same result."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.errors import BadOption


@dataclass
class Compute:
    """What training does with each layer of a model. Neither changes what is learned, but for
    rounding.

    Args:
        compile: compile the layers (``torch.compile``): the first steps wait for the compiler.
        activation_checkpointing: keep only the layers' inputs for the backward and compute the rest
            again: the time of one more forward, for the memory of all layers but one.

    Raises:
        BadOption: both; what is compiled for one length need not keep what is compiled for all.
    """

    compile: bool = False
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.compile and self.activation_checkpointing:
            raise BadOption(
                "compile and activation_checkpointing do not go together (pytorch/pytorch#166926); choose one"
            )

    def apply(self, model: nn.Module) -> None:
        """Tell the layers."""
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.compiled, module.activation_checkpointing = (
                    self.compile,
                    self.activation_checkpointing,
                )
