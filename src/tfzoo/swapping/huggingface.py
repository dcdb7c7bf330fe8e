"""The attention of ``transformers`` models, through its own ``AttentionInterface``.

A model of ``transformers`` calls an attention function by the name in its configuration, and hands
it the attention module with queries, keys and values. The function registered here looks for
:class:`InterfaceAttention` in that module. ``transformers`` is imported when such a model is
swapped, and by nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.attention.scaled_dot_product import ScaledDotProduct
from tfzoo.base import adapters
from tfzoo.base.registry import Spec, create
from tfzoo.contracts import Attention, Weighting
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.multihead import repeat_kv
from tfzoo.swapping.norms import NotSwappable

NAME = "tfzoo"
"""The name of the function in ``transformers``, and of the component in an attention module."""

FLOAT_MASKS = "tfzoo_float_masks"
"""The name of the function for models that add to their masks, and therefore lack ``sdpa``."""

HEADS = ("num_heads", "num_attention_heads", "n_heads")
HEAD_DIMS = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim", "head_size")


class InterfaceAttention(nn.Module):
    """A component in the place of the attention function of a ``transformers`` attention module.
    ``weighting`` None is a softmax.
    """

    def __init__(self, attention: Attention, weighting: Weighting | None) -> None:
        super().__init__()
        self.attention, self.weighting = attention, weighting

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        register()  # it may be unpickled in a process that has swapped nothing


def softmax_with_sinks(scores: Tensor, mask: Mask, sinks: Tensor) -> Tensor:
    """The softmax over the visible keys and one more, whose weight is left out: ``(b h q k), mask,
    (h) | (b h q 1) -> (b h q k)``.
    """
    q, k = scores.shape[-2:]
    visible = mask.boolean(q, k, scores.device)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    column = sinks if sinks.dim() == 4 else sinks.view(1, -1, 1, 1)
    column = column.to(scores.dtype).expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), -1).softmax(-1)[..., :-1]


def mask_and_bias(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Mask, Tensor | None]:
    """Which query may look at which key, and what is added to the scores."""
    if mask is None:
        return Mask(causal=causal, start=0), None
    mask = mask[(None,) * (4 - mask.dim())]
    if mask.dtype != torch.bool:
        return Mask(), mask.to(q.dtype)
    if mask.shape[-1] not in (1, k.shape[2]) and mask.all():  # hides nothing, of fewer keys
        return Mask(), None
    if mask.shape[1] == 1 and (mask.shape[2] == 1 or mask.stride(2) == 0):  # padding alone
        return Mask(keys=mask[:, 0, 0]), None
    return Mask(allowed=mask.expand(-1, -1, q.shape[2], k.shape[2])), None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    sinks: Tensor | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function that ``transformers`` calls: ``(b h q c), (b kv_heads k c), (b
    kv_heads k e) -> (b q h e)``. A module in which no component was swapped computes
    ``scaled_dot_product``.

    A model may scale its queries itself and call with ``scaling=1``. Therefore the attention gets
    the queries times ``scaling * sqrt(c)``: those that nobody has scaled. Scores that it divides by
    ``sqrt(c)`` are the model's.

    Args:
        attention_mask: as ``transformers`` makes it, ``(b|1 h|1 q|1 k)`` or less: boolean and True
            where a query may look, or numbers to add to the scores.
        scaling: the factor of the scores; None is ``c ** -0.5``.
        is_causal: if there is no mask, query ``i`` may look at keys 0 to ``i``.
        softcap: the limit of a soft cap on the scores.
        position_bias: is added to the scores.
        sinks, s_aux: ``(h)`` or ``(b h q 1)``, the score of a key of each head that has no value.
        others: what the model's own function does not read.
    """
    part: InterfaceAttention | None = getattr(module, NAME, None)
    sinks = s_aux if sinks is None else sinks
    if sinks is not None and part is not None and part.weighting is not None:
        raise BadOption(
            f"weighting {part.weighting.entry.name!r} takes the place of a softmax, but the "
            "model's attention has sinks in its softmax: leave this attention out with skip"
        )
    heads, width = query.shape[1], query.shape[3]
    if scaling is not None and scaling != width**-0.5:
        query = query * (scaling * width**0.5)
    key, value = repeat_kv(key, heads), repeat_kv(value, heads)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    visible, bias = mask_and_bias(query, key, attention_mask, causal and query.shape[2] > 1)
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    with_sinks = None if sinks is None else partial(softmax_with_sinks, sinks=sinks)
    y: Tensor = (ScaledDotProduct() if part is None else part.attention)(
        query,
        key,
        value,
        mask=visible,
        bias=bias,
        dropout=dropout,
        cap=softcap,
        weighting=with_sinks or (part and part.weighting),
    )
    return y.transpose(1, 2).contiguous(), None


def attend_with_float_masks(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """:func:`attend` where a mask that is None hides nothing."""
    return attend(*args, **{**kwargs, "is_causal": False})


def boolean_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask of ``sdpa``, which is None where it is causal and nothing else. Where nothing at all
    is hidden, it is a mask of True: a module may say that it is causal and not be.
    """
    masks = import_module("transformers.masking_utils")
    made: Tensor | None = masks.sdpa_mask(*args, **kwargs | {"allow_is_bidirectional_skip": False})
    return made


def register() -> None:
    """Make these functions known to ``transformers``, with the masks of ``sdpa`` and ``eager``."""
    transformers = import_module("transformers")
    eager_mask = import_module("transformers.masking_utils").eager_mask
    for name, function, mask in (
        (NAME, attend, boolean_mask),
        (FLOAT_MASKS, attend_with_float_masks, eager_mask),
    ):
        transformers.AttentionInterface.register(name, function)
        transformers.AttentionMaskInterface.register(name, mask)


def calls_interface(module: nn.Module) -> bool:
    """Whether a module's forward calls the attention interface of ``transformers``."""
    return class_calls_interface(type(module))


def class_calls_interface(kind: type[nn.Module]) -> bool:
    """:func:`calls_interface` of a module of this class."""
    forward = inspect.unwrap(kind.forward)
    code = getattr(forward, "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def heads_of(module: Any) -> tuple[int, int]:
    """Number and width of the heads of queries.

    Raises:
        NotSwappable: they are not known.
    """
    places = (module, module.config)
    heads = next((getattr(at, key) for at in places for key in HEADS if hasattr(at, key)), None)
    width = next((getattr(module, key) for key in HEAD_DIMS if hasattr(module, key)), None)
    hidden = getattr(module.config, "hidden_size", None)
    if width is None and isinstance(heads, int) and isinstance(hidden, int):
        width = hidden // heads
    if not isinstance(heads, int) or not isinstance(width, int) or not heads * width:
        raise NotSwappable("the number or the width of its heads is not known")
    return heads, width


def interface_attention(
    module: Any, attention: Spec | None, weighting: Spec | None
) -> InterfaceAttention:
    """Components for an attention module; None keeps what it has."""
    heads, head_dim = heads_of(module)
    like = next(module.parameters())
    old: InterfaceAttention | None = getattr(module, NAME, None)
    layers = getattr(module.config, "num_hidden_layers", 1)
    layer = getattr(module, "layer_idx", None) or 0
    sizes = {"heads": heads, "head_dim": head_dim, "layer": layer, "layers": layers}
    scores: Attention = (
        old.attention
        if attention is None and old is not None
        else create("attention", attention or "scaled_dot_product", **sizes)
    )
    weights = made_weighting(weighting, heads, None if old is None else old.weighting)
    made = InterfaceAttention(scores, weights)
    return made.to(device=like.device, dtype=like.dtype).train(module.training)


def made_weighting(spec: Spec | None, heads: int, old: Weighting | None) -> Weighting | None:
    """The weighting of a spec, or ``old``; None is a softmax, which attention computes faster."""
    if spec is None:
        return old
    made: Weighting = create("weighting", spec, heads=heads)
    return None if "softmax" in made.entry.traits else made


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
    for path in list(pretrained_models(model)):
        pretrained: Any = model.get_submodule(path)
        if any(one in set(pretrained.modules()) for one in attentions):
            name = NAME if adapters.supports_sdpa(pretrained) else FLOAT_MASKS
            pretrained.set_attn_implementation(name)
    for one in attentions:
        if adapters.attention_implementation(one.config) not in (NAME, FLOAT_MASKS):
            raise BadOption(
                f"transformers does not let the attention of {type(one).__name__} be chosen: "
                "swap the norms alone"
            )


def within(name: str, module: str) -> bool:
    """Whether the module ``name`` is the module ``module`` or one of its submodules."""
    return not module or name == module or name.startswith(f"{module}.")
