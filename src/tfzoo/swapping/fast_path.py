"""Switches off the fast path of PyTorch's encoder layers, which ignores swapped modules."""

from __future__ import annotations

from torch import nn


def switch_off(model: nn.Module) -> None:
    """Make PyTorch's encoder layers call their submodules in eval mode too.

    In eval mode, ``nn.TransformerEncoderLayer`` passes the weights of its norms and its attention
    to one fused kernel, and does not call these modules. It does so only if its attribute
    ``activation_relu_or_gelu`` is 1 or 2. The attribute has no other use: the activation itself is
    in ``layer.activation``.
    """
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0
