"""Finds the attentions of a model and makes their replacements.

A model of ``transformers`` calls an attention function by the name in its configuration, and hands
it the attention module with queries, keys and values. The function registered here looks for
:class:`InterfaceAttention` in that module. ``transformers`` is imported when such a model is
swapped, and by nothing else.
"""

import copy
import inspect
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from importlib import import_module
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfzoo.base import adapters
from tfzoo.base.registry import Spec, create
from tfzoo.components.attention.scaled_dot_product import ScaledDotProduct
from tfzoo.components.weighting._visible import softmax_with_sink
from tfzoo.contracts import Attention, Weighting
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.multihead import repeat_kv
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import check_clashes
from tfzoo.models.torch_attention import MultiheadAttention

KNOWN = (
    "nn.MultiheadAttention, those of transformers models that call its AttentionInterface, and "
    "classes of yours that tfzoo.swappable declares"
)

NAME = "tfzoo"
"""The name of the function in ``transformers``, and of the component in an attention module."""

FLOAT_MASKS = "tfzoo_float_masks"
"""The name of the function for models that add to their masks, and therefore lack ``sdpa``."""

HEADS = ("num_heads", "num_attention_heads", "n_heads")
HEAD_DIMS = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim", "head_size")
OWN_OPTIONS = ("head_dim", "value_head_dim", "kv_heads", "temperature", "cap")
"""Options of :class:`MultiheadAttention`, kept when it is replaced."""


class NotSwappable(Exception):
    """A module cannot be replaced; the message is the reason."""


def is_part(name: str, module: nn.Module) -> bool:
    """Whether a module is an attention of PyTorch, tfzoo or ``transformers``, or a declared one."""
    known = isinstance(module, (nn.MultiheadAttention, MultiheadAttention, *DECLARED))
    return known or calls(module)


def calls(module: nn.Module, function: str = "ALL_ATTENTION_FUNCTIONS") -> bool:
    """Whether the forward of a module names a function of ``transformers``; by default, the table
    of its attention interface.
    """
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return function in getattr(code, "co_names", ())


def is_inside(name: str, modules: Collection[str]) -> bool:
    """Whether the module ``name`` is one of ``modules`` or a submodule of one."""
    return any(not one or name == one or name.startswith(f"{one}.") for one in modules)


def pretrained_models(model: nn.Module) -> list[str]:
    """The names of the ``PreTrainedModel`` modules in ``model``, ``""`` for itself."""
    return [name for name, one in model.named_modules() if hasattr(one, "set_attn_implementation")]


def decoders(model: nn.Module) -> Iterator[str]:
    """The names of the causal modules that can be recognised: PyTorch's decoders, and models of
    ``transformers`` whose attention has ``is_causal``, or that make causal masks and no others.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerDecoder | nn.TransformerDecoderLayer) or (
            calls(module, "create_causal_mask") and not calls(module, "create_bidirectional_mask")
        ):
            yield name
        elif calls(module) and getattr(module, "is_causal", False):
            around = [one for one in pretrained_models(model) if is_inside(name, [one])]
            yield max(around, key=len, default=name)


def check_attention_fits(
    model: nn.Module, attention: Spec | None, weighting: Spec | None, allow: Collection[str]
) -> None:
    """Check an attention and a weighting, of which None is left as it is, against each other and
    the positions of the model.
    """
    rotary = any(re.search("(?i)rotary|rope", type(one).__name__) for one in model.modules())
    options = StackOptions(
        attention=attention or "scaled_dot_product",  # type: ignore[arg-type]  # any mapping
        weighting=weighting or "softmax",  # type: ignore[arg-type]  # likewise
        position="rotary" if rotary else "none",
    )
    check_clashes(options.parts(causal=False), allow)


def replacement(model: nn.Module, name: str, specs: Mapping[str, Spec]) -> tuple[nn.Module, str]:
    """What takes the place of an attention; the component that ``specs`` lacks stays."""
    old, both = model.get_submodule(name), (specs.get("attention"), specs.get("weighting"))
    if type(old) in DECLARED:
        return interface_attention(old, *both), ""
    if isinstance(old, tuple(DECLARED)):
        raise NotSwappable("its class is not declared, only one that it is derived from")
    if not calls(old):
        return multihead_attention(old, *both), ""
    if not is_inside(name, pretrained_models(model)):
        raise NotSwappable("it needs its transformers model: swap in that, not in a part of it")
    return interface_attention(old, *both), ""


def multihead_attention(old: Any, spec: Spec | None, weighting: Spec | None) -> MultiheadAttention:
    """A :class:`MultiheadAttention` with the projections of ``old``, a
    ``torch.nn.MultiheadAttention`` or a :class:`MultiheadAttention`.
    """
    own = isinstance(old, MultiheadAttention)
    if not own and type(old) is not nn.MultiheadAttention:
        raise NotSwappable("it is a subclass, which may compute something else")
    if not own and (old.bias_k is not None or old.add_zero_attn):
        raise NotSwappable("it has add_bias_kv or add_zero_attn")
    like = old.out_proj.weight
    new = MultiheadAttention(
        old.embed_dim,
        old.num_heads,
        old.dropout,
        old.in_proj_bias is not None,
        kdim=old.kdim,
        vdim=old.vdim,
        batch_first=old.batch_first,
        attention=spec or "scaled_dot_product",  # type: ignore[arg-type]  # as any mapping
        **{name: getattr(old, name) for name in OWN_OPTIONS if own},
    )
    if own and spec is None:
        new.attention = old.attention
    new.weighting = made_weighting(weighting, old.num_heads, old.weighting if own else None)
    new.to(device=like.device, dtype=like.dtype)
    kept = {key: one for key, one in old.state_dict().items() if not key.startswith("attention.")}
    new.load_state_dict(kept, strict=False)
    before = dict(old.named_parameters())
    for name, parameter in new.named_parameters():
        if name in before and name in kept:
            parameter.requires_grad_(before[name].requires_grad)
    return new.train(old.training)


# The interface of transformers ------------------------------------------------------------------


class InterfaceAttention(nn.Module):
    """A component in the place of the attention function of a ``transformers`` attention module.
    ``weighting`` None is a softmax.
    """

    def __init__(self, attention: Attention, weighting: Weighting | None) -> None:
        super().__init__()
        self.attention, self.weighting = attention, weighting

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if "transformers" in sys.modules:  # that of its model, in a process that swapped nothing
            with suppress(ModuleNotFoundError):  # of an old one, no model is swapped
                register_functions()


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
    weighting: Any = None if part is None else part.weighting
    sinks = s_aux if sinks is None else sinks
    if sinks is not None:
        if weighting is not None:
            raise BadOption(
                f"weighting {weighting.entry.name!r} takes the place of a softmax, but the "
                "model's attention has sinks in its softmax: leave this attention out with skip"
            )
        sink = sinks if sinks.dim() == 4 else sinks[:, None, None]
        weighting = partial(softmax_with_sink, sink=sink)
    heads, width = query.shape[1], query.shape[3]
    if scaling is not None and scaling != width**-0.5:
        query = query * (scaling * width**0.5)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    visible, bias = mask_and_bias(query, key, attention_mask, causal and query.shape[2] > 1)
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    if weighting is not None and bias is not None:  # which counts what is hidden by -inf alone
        hidden = bias <= torch.finfo(bias.dtype).min / 2
        bias = bias.masked_fill(hidden, -math.inf)
    y: Tensor = (ScaledDotProduct() if part is None else part.attention)(
        query,
        repeat_kv(key, heads),
        repeat_kv(value, heads),
        mask=visible,
        bias=bias,
        dropout=dropout,
        cap=softcap,
        weighting=weighting,
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


def register_functions() -> None:
    """Make these functions known to ``transformers``, with the masks of ``sdpa`` and ``eager``."""
    transformers = import_module("transformers")
    eager_mask = import_module("transformers.masking_utils").eager_mask
    for name, function, mask in (
        (NAME, attend, boolean_mask),
        (FLOAT_MASKS, attend_with_float_masks, eager_mask),
    ):
        transformers.AttentionInterface.register(name, function)
        transformers.AttentionMaskInterface.register(name, mask)


# Declared classes -------------------------------------------------------------------------------

M = TypeVar("M", bound=nn.Module)
DECLARED: dict[type[nn.Module], Callable[[Any], tuple[int, int]]] = {}
"""The classes of :func:`swappable`, and what says the number and the width of a module's heads."""


def swappable(heads: Callable[[Any], tuple[int, int]]) -> Callable[[type[M]], type[M]]:
    """Declare an attention class to :func:`~tfzoo.swap`: its ``forward`` calls
    ``torch.nn.functional.scaled_dot_product_attention``, whose place a component takes.

    Args:
        heads: gives the number and the width of the heads of queries of a module.

    Raises:
        BadOption: ``heads`` is the class.

    >>> @swappable(lambda module: (module.heads, module.dim // module.heads))
    ... class SelfAttention(nn.Module): ...
    """

    if isinstance(heads, type):
        raise BadOption(
            "swappable takes the function that gives the number and the width of a module's heads: "
            f"@tfzoo.swappable(lambda module: (module.heads, module.head_dim)) above {heads}"
        )

    def declared(cls: type[M]) -> type[M]:
        if cls in DECLARED:
            DECLARED[cls] = heads
            return cls
        original = cls.forward

        @torch.compiler.disable  # type: ignore[untyped-decorator]  # it cannot trace the mode
        def swapped(self: M, *args: Any, **kwargs: Any) -> Any:
            if next(one for one in type(self).__mro__ if one in DECLARED) is not cls:
                return original(self, *args, **kwargs)  # called by a declared subclass
            with Calls(self) as calls:
                y = original(self, *args, **kwargs)
            if not calls.seen:
                raise BadOption(
                    f"swappable: {cls.__name__}.forward does not call scaled_dot_product_attention "
                    "of torch.nn.functional, so nothing takes its place"
                )
            return y

        @wraps(original)
        def forward(self: M, *args: Any, **kwargs: Any) -> Any:
            return (swapped if hasattr(self, NAME) else original)(self, *args, **kwargs)

        cls.forward = forward
        DECLARED[cls] = heads
        return cls

    return declared


class Calls(TorchFunctionMode):
    """Context in which :func:`attend` computes the calls of ``scaled_dot_product_attention``."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module, self.seen = module, False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        self.seen = True
        return self.attended(*args, **(kwargs or {}))

    def attended(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """``(b h q c), (b h k c), (b h k e) -> (b h q e)``"""
        if query.dim() != 4:
            raise BadOption(f"swappable: queries must be (b h q c), not {tuple(query.shape)}")
        if is_causal and (attn_mask is not None or query.shape[2] == 1):  # attend drops these
            causal = query.new_ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
            mask = causal if attn_mask is None else attn_mask
            attn_mask = torch.where(causal, mask, False if mask.dtype == torch.bool else -math.inf)
        options = {"is_causal": is_causal, "dropout": dropout_p, "scaling": scale}
        return attend(self.module, query, key, value, attn_mask, **options)[0].transpose(1, 2)  # type: ignore[arg-type]  # by name


def heads_of(module: Any) -> tuple[int, int]:
    """Number and width of the heads of queries."""
    if type(module) in DECLARED:
        try:
            return DECLARED[type(module)](module)
        except AttributeError as error:
            raise BadOption(f"swappable: heads of {type(module).__name__}: {error}") from None
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
    like = next(module.parameters(), torch.empty(0))
    old: InterfaceAttention | None = getattr(module, NAME, None)
    if attention is None and old is not None:
        scores = old.attention
    else:
        layers = getattr(getattr(module, "config", None), "num_hidden_layers", 1)
        layer = getattr(module, "layer_idx", None) or 0
        sizes = {"heads": heads, "head_dim": head_dim, "layer": layer, "layers": layers}
        scores = create("attention", attention or "scaled_dot_product", **sizes)
    weights = made_weighting(weighting, heads, None if old is None else old.weighting)
    made = InterfaceAttention(scores, weights)
    return made.to(device=like.device, dtype=like.dtype).train(module.training)


def made_weighting(spec: Spec | None, heads: int, old: Weighting | None) -> Weighting | None:
    """The weighting of a spec, or ``old``; None is a softmax, which attention computes faster."""
    if spec is None:
        return old
    made: Weighting = create("weighting", spec, heads=heads)
    return None if "softmax" in made.entry.traits else made


def copy_configs(model: nn.Module) -> None:
    """Give the modules of a model of ``transformers`` a copy of the configuration that they share:
    other models may be made from the same object.
    """
    if not pretrained_models(model):
        return
    shared, copies = import_module("transformers").PretrainedConfig, dict[int, Any]()
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, shared):
                vars(module)[name] = copy.deepcopy(value, copies)


def use_interface(model: nn.Module, attentions: Sequence[Any]) -> None:
    """Make the models that contain these attention modules call :func:`attend`."""
    if not attentions:
        return
    register_functions()
    for path in pretrained_models(model):
        pretrained: Any = model.get_submodule(path)
        if not {*attentions}.isdisjoint(pretrained.modules()):
            name = NAME if adapters.supports_sdpa(pretrained) else FLOAT_MASKS
            pretrained.set_attn_implementation(name)
    for one in attentions:
        if adapters.attention_implementation(one.config) not in (NAME, FLOAT_MASKS):
            raise BadOption(
                f"transformers does not let the attention of {type(one).__name__} be chosen: "
                "swap the norms alone"
            )
