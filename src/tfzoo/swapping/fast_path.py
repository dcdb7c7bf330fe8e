"""PyTorch's fused kernel for a whole encoder layer, which would pass over what was swapped in."""

from __future__ import annotations

from torch import nn


def switch_off(model: nn.Module) -> None:
    """Let PyTorch's encoder layers call their parts in eval mode too.

    ``nn.TransformerEncoderLayer`` computes itself in one kernel from the weights of its norms and
    its attention. It does not do so for an activation other than ReLU and GELU, which it notes in
    ``activation_relu_or_gelu``; the activation itself is not read from there.
    """
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0
