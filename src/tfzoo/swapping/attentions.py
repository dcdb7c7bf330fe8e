"""Finds the attentions of a model and makes their replacements."""

from __future__ import annotations

from typing import Any

from torch import nn

from tfzoo.base.registry import Spec
from tfzoo.models.torch_attention import MultiheadAttention
from tfzoo.swapping import huggingface
from tfzoo.swapping.norms import NotSwappable


def is_attention(module: nn.Module) -> bool:
    """Whether a module is PyTorch's, tfzoo's, or one of ``transformers``."""
    known = isinstance(module, nn.MultiheadAttention | MultiheadAttention)
    return known or huggingface.calls_interface(module)


def check_attention(model: nn.Module, name: str) -> None:
    """Raise :class:`NotSwappable` where no component can take the place of that module."""
    module = model.get_submodule(name)
    if huggingface.calls_interface(module):
        huggingface.check(model, name)
        return
    if isinstance(module, MultiheadAttention):
        return
    if type(module) is not nn.MultiheadAttention:
        raise NotSwappable("it is a subclass, which may compute something else")
    if module.bias_k is not None or module.add_zero_attn:
        raise NotSwappable("it has add_bias_kv or add_zero_attn")


def attention_replacement(old: Any, spec: Spec | None, weighting: Spec | None) -> nn.Module:
    """A :class:`MultiheadAttention` with these components and the projections of ``old``, a
    ``torch.nn.MultiheadAttention`` or a :class:`MultiheadAttention`. None keeps what it has.
    """
    like = old.out_proj.weight
    options: dict[str, Any] = {}
    if isinstance(old, MultiheadAttention):
        options = {
            "head_dim": old.head_dim,
            "value_head_dim": old.value_head_dim,
            "kv_heads": old.kv_heads,
            "temperature": old.temperature,
        }
    new = MultiheadAttention(
        old.embed_dim,
        old.num_heads,
        old.dropout,
        old.in_proj_bias is not None,
        kdim=old.kdim,
        vdim=old.vdim,
        batch_first=old.batch_first,
        device=like.device,
        dtype=like.dtype,
        attention=spec if isinstance(spec, str) else dict(spec or {"name": "scaled_dot_product"}),
        **options,
    )
    kept = None
    if isinstance(old, MultiheadAttention):
        new.cap, kept = old.cap, old.weighting
        new.attention = old.attention if spec is None else new.attention
    new.weighting = huggingface.made_weighting(weighting, old.num_heads, kept)
    new.to(device=like.device, dtype=like.dtype)
    projections = {
        name: value for name, value in old.state_dict().items() if not name.startswith("attention.")
    }
    new.load_state_dict(projections, strict=False)
    trained = {name: one.requires_grad for name, one in old.named_parameters()}
    for name, parameter in new.named_parameters():
        if name in projections:
            parameter.requires_grad_(trained[name])
    return new.train(old.training)
