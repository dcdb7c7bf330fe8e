"""The attention of ``transformers`` models, through its own ``AttentionInterface``.

A model of ``transformers`` calls an attention function by the name in its configuration, and hands
it the attention module with queries, keys and values. The function registered here looks for
:class:`InterfaceAttention` in that module. ``transformers`` is imported when such a model is
swapped, and by nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo import _adapters
from tfzoo.blocks.multihead import repeat_kv
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.registry import Spec, create
from tfzoo.swapping.norms import NotSwappable

NAME = "tfzoo"
"""The name of the function in ``transformers``, and of the component in an attention module."""

HEADS = ("num_heads", "num_attention_heads", "n_heads")
HEAD_DIMS = ("head_dim", "attention_head_size", "key_value_proj_dim", "head_size")
UNKNOWN = ("sinks", "attn_logit_softcapping")
"""Attributes of attention modules whose scores or softmax have a term that components do not have;
None and 0.0 mean that there is no such term.
"""


class InterfaceAttention(nn.Module):
    """A component in the place of the attention function of a ``transformers`` attention module:
    ``(b h q c), (b kv_heads k c), (b kv_heads k e) -> (b q h e)``.
    """

    def __init__(self, attention: Attention, heads: int, head_dim: int) -> None:
        super().__init__()
        self.attention, self.heads, self.head_dim = attention, heads, head_dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        register()  # it may be unpickled in a process that has swapped nothing

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        position_bias: Tensor | None,
        causal: bool,
        dropout: float,
    ) -> Tensor:
        """``mask`` is as ``transformers`` makes it: ``(b 1 q k)``, boolean and True where a query
        may look, or numbers to add to the scores. If it is None and ``causal``, query ``i`` may
        look at keys 0 to ``i``.
        """
        if (q.shape[1], q.shape[3]) != (self.heads, self.head_dim):
            raise BadOption(
                f"the attention was swapped for {self.heads} heads of width {self.head_dim}, and "
                f"gets {q.shape[1]} of width {q.shape[3]}"
            )
        k, v = repeat_kv(k, self.heads), repeat_kv(v, self.heads)
        visible, bias = mask_and_bias(q, mask, causal and q.shape[2] > 1)
        if position_bias is not None:
            bias = position_bias if bias is None else bias + position_bias
        y: Tensor = self.attention(q, k, v, mask=visible, bias=bias, dropout=dropout)
        return y.transpose(1, 2).contiguous()


def mask_and_bias(q: Tensor, mask: Tensor | None, causal: bool) -> tuple[Mask, Tensor | None]:
    """Which query may look at which key, and what is added to the scores."""
    if mask is None:
        return Mask(causal=causal, start=0), None
    if mask.dtype != torch.bool:
        return Mask(), mask.to(q.dtype)
    if mask.shape[1] == 1 and (mask.shape[2] == 1 or mask.stride(2) == 0):  # padding alone
        return Mask(keys=mask[:, 0, 0]), None
    return Mask(allowed=mask), None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function that ``transformers`` calls: ``(b h q c), (b kv_heads k c),
    (b kv_heads k e) -> (b q h e)``. A module in which no component was swapped computes ``sdpa``,
    whose masks have the same form.
    """
    part: InterfaceAttention | None = getattr(module, NAME, None)
    if part is None:
        sdpa = import_module("transformers").AttentionInterface()["sdpa"]
        more = {"is_causal": is_causal, "position_bias": position_bias, **kwargs}
        found: tuple[Tensor, Tensor | None] = sdpa(
            module, query, key, value, attention_mask, dropout=dropout, **more
        )
        return found
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return part(query, key, value, attention_mask, position_bias, causal, dropout), None


def register() -> None:
    """Make :func:`attend` known to ``transformers``, with the masks of ``sdpa``."""
    transformers = import_module("transformers")
    sdpa_mask = import_module("transformers.masking_utils").sdpa_mask
    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, sdpa_mask)


def calls_interface(module: nn.Module) -> bool:
    """Whether a module's forward calls the attention interface of ``transformers``."""
    forward = inspect.unwrap(type(module).forward)
    code = getattr(forward, "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def heads_of(module: Any) -> tuple[int, int]:
    """Number and width of the heads of queries.

    Raises:
        NotSwappable: they are not known, or its softmax has terms that no component has.
    """
    for name in UNKNOWN:
        value = getattr(module, name, None)
        if value is not None and not (isinstance(value, float) and value == 0):
            raise NotSwappable(f"its softmax has {name}")
    places = (module, module.config)
    heads = next((getattr(at, key) for at in places for key in HEADS if hasattr(at, key)), None)
    width = next((getattr(module, key) for key in HEAD_DIMS if hasattr(module, key)), None)
    if width is None and heads:
        width = getattr(module.config, "hidden_size", 0) // heads
    if not heads or not width:
        raise NotSwappable("the number or the width of its heads is not known")
    return int(heads), int(width)


def interface_attention(module: Any, spec: Spec) -> tuple[InterfaceAttention, str]:
    """A component for an attention module, and a note for the report."""
    heads, head_dim = heads_of(module)
    like = next(module.parameters())
    layers = getattr(module.config, "num_hidden_layers", 1)
    layer = getattr(module, "layer_idx", None) or 0
    sizes = {"heads": heads, "head_dim": head_dim, "layer": layer, "layers": layers}
    attention = create("attention", spec, **sizes)
    attention.to(device=like.device, dtype=like.dtype)
    part = InterfaceAttention(attention, heads, head_dim).train(module.training)
    scaling = getattr(module, "scaling", None)
    usual = scaling is None or abs(scaling * head_dim**0.5 - 1) < 1e-6
    return part, "" if usual else f"scores were scaled by {scaling:.3g}, not by head_dim^-0.5"


def pretrained_models(model: nn.Module) -> Iterator[str]:
    """The names of the ``PreTrainedModel`` modules in ``model``, ``""`` for itself."""
    for name, module in model.named_modules():
        if hasattr(module, "set_attn_implementation"):
            yield name


def check(model: nn.Module, name: str) -> None:
    """Raise :class:`NotSwappable` where the attention module of that name takes no component."""
    heads_of(model.get_submodule(name))
    if not any(within(name, pretrained) for pretrained in pretrained_models(model)):
        raise NotSwappable("it needs its transformers model: swap in that, not in a part of it")


def use_interface(model: nn.Module, attentions: Sequence[Any]) -> None:
    """Make the models that contain these attention modules call :func:`attend`.

    Raises:
        BadOption: ``transformers`` does not let a module's attention be chosen.
    """
    if not attentions:
        return
    register()
    for name in list(pretrained_models(model)):
        pretrained: Any = model.get_submodule(name)
        if any(one in set(pretrained.modules()) for one in attentions):
            pretrained.set_attn_implementation(NAME)
    for one in attentions:
        if _adapters.attention_implementation(one.config) != NAME:
            raise BadOption(
                f"transformers does not let the attention of {type(one).__name__} be chosen: "
                "swap the norms alone"
            )


def within(name: str, module: str) -> bool:
    """Whether the module ``name`` is the module ``module`` or one of its submodules."""
    return not module or name == module or name.startswith(f"{module}.")
