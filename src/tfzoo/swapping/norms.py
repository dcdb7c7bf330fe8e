"""Finds the norms of a model and makes their replacements; passes the padding mask of the model's
forward pass to those that mix tokens.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import Norm
from tfzoo.errors import BadOption, did_you_mean, listing
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import check_clashes
from tfzoo.swapping.attentions import NotSwappable, decoders, is_inside

KNOWN = "nn.LayerNorm, nn.RMSNorm, and classes called ...LayerNorm or ...RMSNorm"

ENDINGS = ("RMSNorm", "LayerNorm")
"""Ends of the class names of norms in other packages."""

EPS = ("eps", "variance_epsilon", "epsilon")
"""Names of the attribute that holds a norm's epsilon."""

FUNCTION = "a function"
"""Stands for a ``valid`` that is one, where a swap is saved."""

Valid = str | bool | Callable[..., Tensor]
"""How to get the padding mask; see :func:`tfzoo.swap`."""


@dataclass(frozen=True)
class FoundNorm:
    """The width, eps, weight and bias of a norm, which its replacement takes over. ``like`` has the
    dtype and the device of the replacement.
    """

    dim: int
    eps: float | None
    weight: Tensor | None
    bias: Tensor | None
    like: Tensor


def is_part(name: str, module: nn.Module) -> bool:
    """Whether a module is a norm of PyTorch or tfzoo, or its class is named like one."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm | Norm):
        return True
    return type(module).__name__.endswith(ENDINGS) and not any(module.children())


def is_centred(module: nn.Module) -> bool:
    """Whether a norm of tfzoo multiplies by ``1 + weight``."""
    return isinstance(module, Norm) and getattr(module, "centred", False) is True


def find_norm(module: nn.Module, like: Tensor) -> FoundNorm:
    """Read width, eps, weight and bias from a norm. ``like`` is any parameter of its model, for the
    dtype and device of a norm without a weight.
    """
    shape = tuple(getattr(module, "normalized_shape", ()))
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    if isinstance(weight, Tensor) and weight.numel():
        like, shape = weight, (*weight.shape, *shape[1:])
        weight = 1 + weight if is_centred(module) else weight
    else:
        weight = None
    if len(shape) > 1:
        raise NotSwappable("it normalises over more than one axis")
    if weight is not None and weight.dim() == 0:
        raise NotSwappable("its weight is no vector")
    dim = (*shape, getattr(module, "dim", 0))[0]
    if not dim:
        raise NotSwappable("its width is not known")
    eps = next((getattr(module, name) for name in EPS if hasattr(module, name)), None)
    if eps is None and isinstance(module, nn.RMSNorm):
        eps = torch.finfo(torch.promote_types(like.dtype, torch.float32)).eps
    found = FoundNorm(dim, eps, weight, bias, like)
    known = isinstance(module, Norm) or type(module) in (nn.LayerNorm, nn.RMSNorm)
    return found if known else check_by_computing(module, found)


@torch.no_grad()
def check_by_computing(module: nn.Module, found: FoundNorm) -> FoundNorm:
    """Check that a norm of another package computes layer norm or RMS norm, by comparing outputs on
    one input. Returns ``found``, with ``1 + weight`` as the weight if the norm multiplies by that
    (Gemma's).
    """
    if found.weight is None or found.eps is None:
        raise NotSwappable("its weight or its eps is not known")
    x, y = output_of(module, found.dim, found.like)
    for weight in (found.weight, 1 + found.weight):
        rms = F.rms_norm(x, (found.dim,), weight, found.eps)
        rms = rms if found.bias is None else rms + found.bias
        layer = F.layer_norm(x, (found.dim,), weight, found.bias, found.eps)
        if any(equal(y, expected) for expected in (rms, layer)):
            return replace(found, weight=weight)
    raise NotSwappable("it computes neither layer norm nor RMS norm")


@torch.no_grad()
def output_of(module: nn.Module, dim: int, like: Tensor) -> tuple[Tensor, Any]:
    """A text ``(b n d)`` of the dtype and on the device of ``like``, and what somebody else's
    module computes of it in evaluation mode.
    """
    if like.is_meta:
        raise NotSwappable("its weights are on the device meta")
    x = torch.arange(3 * dim, device=like.device).view(1, 3, dim).sin() + 0.5
    training = module.training
    try:
        return x.to(like.dtype), module.eval()(x.to(like.dtype))
    except Exception as error:  # of any kind: it is somebody else's
        raise NotSwappable(f"it does not take (b n d) alone: {type(error).__name__}") from None
    finally:
        module.train(training)


def equal(y: Any, expected: Tensor) -> bool:
    """Whether the output of somebody else's module is this, up to rounding."""
    if not isinstance(y, Tensor) or y.shape != expected.shape:
        return False
    tolerance = 20 * max(torch.finfo(dtype).eps for dtype in (expected.dtype, torch.float32))
    return torch.allclose(y.to(expected.dtype), expected, rtol=tolerance, atol=tolerance)


def replacement(model: nn.Module, name: str, specs: Mapping[str, Spec]) -> tuple[nn.Module, str]:
    """The component that replaces a norm, and a note for the report on what did not carry over.

    Weight, bias and eps carry over where the component has them, and so does whether they are
    trained. An eps in the spec wins.
    """
    module = model.get_submodule(name)
    found = find_norm(module, next(model.parameters(), torch.empty(0)))
    entry, options = registry("norm").options(specs["norm"])
    if "eps" in entry.options and found.eps:
        options = {"eps": found.eps, **options}
    norm: Any = create("norm", {"name": entry.name, **options}, dim=found.dim)
    norm.to(device=found.like.device, dtype=found.like.dtype).train(module.training)
    norm.dim = found.dim  # read by `find_norm` in a later swap: norm "none" has no weight
    if not hasattr(norm, "weight"):  # some models read its dtype, such as Mamba
        empty = torch.empty(0, dtype=found.like.dtype, device=found.like.device)
        norm.register_buffer("weight", empty, persistent=False)
    lost = []
    for key, old in (("weight", found.weight), ("bias", found.bias)):
        new = getattr(norm, key, None)
        if old is None:
            continue
        if isinstance(new, nn.Parameter) and new.shape == old.shape:
            with torch.no_grad():
                new.copy_(old - 1 if key == "weight" and is_centred(norm) else old)
            new.requires_grad_(getattr(module, key).requires_grad)
        else:
            lost.append(key)
    return norm, f"{' and '.join(lost)} dropped" if lost else ""


# Padding ------------------------------------------------------------------------------------------


def check_mixing_norm(
    model: nn.Module, norm: Spec, names: Sequence[str], valid: Valid | None, allow: Collection[str]
) -> None:
    """Check a norm that mixes tokens and takes the place of the norms of these names."""
    name = registry("norm").options(norm)[0].name
    if not (valid is True or callable(valid) or (isinstance(valid, str) and valid)):
        arguments = listing(inspect.signature(model.forward).parameters)
        raise BadOption(
            f"norm {name!r} mixes tokens, so swap must know which are padding: valid='...' names "
            f"the argument of {type(model).__name__}.forward that is true at tokens, valid='~...' "
            f"one that is true at padding (it has: {arguments}); valid=True says that there is none"
        )
    for path, module in model.named_modules():
        if getattr(module, "batch_first", None) is False:
            raise BadOption(
                f"norm {name!r} mixes tokens and takes (b n d), but {path} has batch_first=False"
            )
    causal = list(decoders(model))
    if any(is_inside(one, causal) for one in names):
        options = StackOptions(norm=norm, position="none")  # type: ignore[arg-type]  # any mapping
        check_clashes(options.parts(causal=True), allow)


class Padding:
    """The padding mask of a forward pass. A pre-hook of the model's ``forward`` sets it from the
    arguments, and pre-hooks of the norms that mix tokens read it.

    ``known`` is True during the model's ``forward``; ``valid`` is then the mask ``(b n)``, True at
    tokens, or None without padding.
    """

    def __init__(self, model: nn.Module, source: str | Callable[..., Tensor]) -> None:
        self.model, self.source = type(model).__name__, source
        self.known = False
        self.valid: Tensor | None = None
        parameters = inspect.signature(model.forward).parameters
        self.names = list(parameters)
        if source == FUNCTION:
            raise BadOption(
                "the record of its swaps says that valid was a function, which no file holds: pass "
                "valid='attention_mask' or another name to swap, or write it into config.json"
            )
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if isinstance(source, str) and not takes_any and source.removeprefix("~") not in self.names:
            name = source.removeprefix("~")
            raise BadOption(
                f"valid: {self.model}.forward has no argument {name!r}."
                f"{did_you_mean(name, parameters)} It has: {listing(parameters)}"
            )
        model.register_forward_pre_hook(self.set, with_kwargs=True)
        model.register_forward_hook(self.clear, always_call=True)

    def set(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pre-hook of the model's ``forward``."""
        self.known = True
        if not isinstance(self.source, str):
            self.valid = self.source(*args, **kwargs)
            return
        given = dict(zip(self.names, args, strict=False)) | kwargs
        name = self.source.removeprefix("~")
        if name not in {*given, *self.names}:  # a typo is not told from an argument left out
            raise BadOption(
                f"valid: {self.model}.forward declares no argument {name!r} and was called without "
                "it: pass it, None where nothing is padding"
            )
        mask = given.get(name)
        if mask is not None:
            mask = mask.bool()  # additive masks too: -inf, at padding, becomes True
            self.valid = ~mask if self.source.startswith("~") else mask

    def clear(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Hook after the model's ``forward``."""
        self.valid, self.known = None, False

    def add_to(self, name: str, norm: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pre-hook of the ``forward`` of a norm of this name: ``x`` -> ``x, valid``."""
        x = args[0]
        if not self.known:
            raise BadOption(
                f"{name} mixes tokens and runs outside of {self.model}.forward, so it is not known "
                "which tokens are padding: swap the parts of the module whose forward is called "
                "(activation checkpointing is not possible with such a norm)"
            )
        if self.valid is not None and self.valid.shape != x.shape[:2]:
            raise BadOption(
                f"{name} mixes tokens and got {tuple(x.shape)}, but the padding mask is "
                f"{tuple(self.valid.shape)}: it must be (b n) for (b n d). Leave this norm out "
                f"with skip={name!r}"
            )
        return x, self.valid
