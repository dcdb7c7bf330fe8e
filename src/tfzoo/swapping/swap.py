"""Replaces parts of a model by components of tfzoo."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from types import ModuleType
from typing import Any, Literal, Never

import torch
from torch import nn

from tfzoo.base.registry import Spec, registry
from tfzoo.base.terminal import aligned
from tfzoo.base.values import check_names
from tfzoo.errors import BadOption
from tfzoo.models.architectures.config import SWAPS
from tfzoo.models.rules import mixes_tokens
from tfzoo.models.stack import Stack
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.swapping import attentions, feedforwards, norms, positions
from tfzoo.swapping.attentions import InterfaceAttention, NotSwappable, is_inside
from tfzoo.swapping.feedforwards import SwappedFeedForward

SWAPPED: Mapping[str, ModuleType] = {
    "norm": norms,
    "attention": attentions,
    "weighting": attentions,
    "feedforward": feedforwards,
    "position": positions,
}
"""The kinds of components that can take the place of parts of a model. Its file has ``KNOWN``, what
it finds; ``is_part(name, module)``, whether a module may be replaced; and ``replacement(model,
name, specs)``, what takes its place and a note for the report, which raises NotSwappable where it
cannot be replaced, and BadOption where the component can replace none.
"""

Patterns = str | Collection[str] | None


@dataclass(frozen=True)
class SwappedModule:
    """A part of a model: what it was, what became of it, and why.

    Args:
        kind: the kind of components that it may be replaced by.
        name: the path of the module in the model.
        was: its class.
        outcome: ``replaced``; ``kept``, because of ``only`` or ``skip``; or ``refused``.
        now: the component's name; the class, if it was not replaced.
        reason: why it was kept or refused; of a replaced one, what did not carry over.
    """

    kind: str
    name: str
    was: str
    outcome: Literal["replaced", "kept", "refused"]
    now: str
    reason: str = ""


@dataclass(frozen=True)
class SwapReport:
    """What :func:`tfzoo.swap` replaced, kept and refused. Prints as a table, with one row for
    modules whose names differ in numbers alone.
    """

    modules: tuple[SwappedModule, ...]

    @property
    def replaced(self) -> list[str]:
        """The names of the modules that were replaced."""
        return self.names("replaced")

    @property
    def kept(self) -> list[str]:
        """The names of those that ``only`` or ``skip`` left as they were."""
        return self.names("kept")

    @property
    def refused(self) -> list[str]:
        """The names of those that could not be replaced."""
        return self.names("refused")

    def names(self, outcome: str) -> list[str]:
        """The names of the modules with this outcome."""
        return [one.name for one in self.modules if one.outcome == outcome]

    def __str__(self) -> str:
        alike: dict[tuple[str, ...], list[str]] = {}
        for one in self.modules:
            pattern = re.sub(r"(?<![^.])\d+(?![^.])", "*", one.name)
            key = (pattern, one.outcome, one.was, one.now, one.reason)
            alike.setdefault(key, []).append(one.name)
        rows: list[tuple[str, ...]] = [("", "modules", "", "was", "now", "")]
        for (pattern, outcome, *rest), names in alike.items():
            several = len(names) > 1
            name = pattern if several else names[0]
            rows.append((outcome, name, f"x {len(names)}" * several, *rest))
        return "\n".join(aligned(rows))


def swap(
    model: nn.Module,
    norm: Spec | None = None,
    attention: Spec | None = None,
    *,
    only: Patterns = None,
    skip: Patterns = None,
    valid: norms.Valid | None = None,
    allow: Collection[str] = (),
    weighting: Spec | None = None,
    feedforward: Spec | None = None,
    position: Spec | None = None,
    **misspelt: Never,
) -> SwapReport:
    """Replace parts of any model by components of tfzoo, in place.

    Norms are ``nn.LayerNorm``, ``nn.RMSNorm``, tfzoo's own, and modules whose class is called
    ``...LayerNorm`` or ``...RMSNorm`` and that compute one of the two (Hugging Face's). Attentions
    are ``nn.MultiheadAttention``, alone or in PyTorch's Transformer layers, tfzoo's
    :class:`~tfzoo.MultiheadAttention`, those of ``transformers`` models that call its
    ``AttentionInterface``, and classes that :func:`~tfzoo.swappable` declares; their weighting can
    be replaced alone. Feed-forward layers are those of PyTorch's Transformer layers, and modules
    that consist of two or three linear maps and compute one of tfzoo's. Positions are
    ``nn.Embedding`` tables that are named so. A trained component becomes a submodule, so that the
    optimiser and ``state_dict`` have it.

    Weight, bias and eps of a norm carry over where the component has them, and so do the
    projections of an attention, the maps of a feed-forward layer where the component has maps of
    the same shapes, and a table of positions to ``learned``. Other parameters have the component's
    initial values. Swap after pretrained weights are loaded and before the optimiser is made.
    Swapping again replaces what was swapped in. A model of ``transformers`` may be saved by its
    ``save_pretrained``: :func:`tfzoo.from_pretrained` makes the swaps again. A ``valid`` that is a
    function is not saved.

    Args:
        model: any module that contains such parts.
        norm: the component that replaces every norm: a name, or a dict with its options; None
            leaves the norms.
        attention: the component that replaces every attention, likewise. It computes the scores in
            its own way; in a model of ``transformers``, from queries times the scale that the model
            hands over and ``sqrt(c)``, so that ``scaled_dot_product`` is the model's own attention.
        only: change modules of these names only: one pattern of :mod:`fnmatch` or several
            (``"encoder.layers.*.norm1"``).
        skip: leave modules of these names.
        valid: how to get the padding mask, which a norm that mixes tokens needs: the name of the
            argument of ``model.forward`` that is true at tokens (``"attention_mask"``); with a
            ``~`` before it, of one that is true at padding (``"~src_key_padding_mask"``); a
            function of the arguments of ``model.forward`` that returns ``(b n)``, true at tokens;
            or True: there is never any padding. A call without an argument that ``forward``
            declares has no padding.
        allow: rules of clashes to accept, as in :class:`~tfzoo.Transformer`.
        weighting: the component that makes weights from scores in every attention.
        feedforward: the component that replaces every feed-forward layer.
        position: the component that replaces every table of positions, and adds vectors as well.

    Returns:
        What was replaced, kept and refused, with the reasons; ``print`` shows it as a table.

    Raises:
        UnknownName: no such component.
        BadOption: no such argument, or option of a component; no part of a kind can be replaced;
            the norm mixes tokens, and ``valid`` is missing or names no argument of the model; a
            feed-forward layer with a loss of its own; or a position that acts in the attentions.
        Clash: a norm that mixes tokens in a decoder; an attention that is not rotatable in a model
            with rotary positions; or a weighting that has no use for the attention's scores.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
    >>> print(swap(model, norm="rms"))
              modules    was        now
    replaced  1          LayerNorm  rms  bias dropped
    """
    given = zip(SWAPPED, (norm, attention, weighting, feedforward, position), strict=True)
    specs = {kind: spec for kind, spec in given if spec}
    arguments = {**specs, "only": only, "skip": skip, "valid": valid, "allow": allow}
    check_names(swap, misspelt)
    if not isinstance(model, nn.Module):
        raise BadOption(f"swap takes a model, a torch.nn.Module, not {type(model).__name__}")
    if not specs:
        raise BadOption("swap: say what to swap: norm=..., attention=..., or others")
    for kind, spec in specs.items():
        registry(kind).options(spec)
    parts = list(find(model, specs, only, skip))
    report = SwapReport(tuple(entry for entry, *_ in parts))
    for kind in specs:
        found = tuple(one for one in report.modules if one.kind == kind)
        if not any(one.outcome == "replaced" for one in found):
            where = type(model).__name__
            raise BadOption(
                f"swap: no {kind} of {where} can be replaced. It has:\n{SwapReport(found)}"
                if found
                else f"swap: {where} has no {kind} that is known. Known are {SWAPPED[kind].KNOWN}"
            )
    if attention or weighting:
        attentions.check_attention_fits(model, attention, weighting, allow)
    padding = None
    if norm is not None and mixes_tokens(registry("norm").options(norm)[0]):
        names = [one.name for one, _, new in parts if one.kind == "norm" and new is not None]
        norms.check_mixing_norm(model, norm, names, valid, allow)
        padding = norms.Padding(model, valid) if valid and valid is not True else None
    attentions.copy_configs(model)
    calling = {old: None for _, old, new in parts if new and attentions.calls(old)}
    attentions.use_interface(model, list(calling))
    for part, old, new in parts:
        if new is not None:
            place(model, part.name, old, new)
        if new is not None and padding is not None and part.kind == "norm":
            new.register_forward_pre_hook(partial(padding.add_to, part.name))
    switch_off_fast_path(model)
    note(model, arguments)
    return report


def note(model: nn.Module, arguments: Mapping[str, Any]) -> None:
    """Write a swap into the config of a model of ``transformers``, which ``save_pretrained`` keeps,
    with weights under the names that they have in the model: some classes have others in files,
    which could be names of swapped parts too.

    A buffer is saved beside the weights, so that a plain ``from_pretrained``, which would load a
    model without the swap, says that it does not know it.
    """
    save: Any = getattr(model, "save_pretrained", None)
    if save is None:
        return
    kept = {
        name: norms.FUNCTION
        if callable(value)
        else (value if isinstance(value, str | bool | Mapping) else list(value))
        for name, value in arguments.items()
        if value
    }
    setattr(model.config, SWAPS, [*getattr(model.config, SWAPS, ()), kept])
    model.register_buffer(SWAPS, torch.ones(1))
    model.save_pretrained = partial(save, save_original_format=False)  # type: ignore[assignment]  # no module


def find(
    model: nn.Module, specs: Mapping[str, Spec], only: Patterns, skip: Patterns
) -> Iterator[tuple[SwappedModule, nn.Module, nn.Module | None]]:
    """Yield the parts of these kinds, each with its module and the replacement, which is None where
    it stays. Changes nothing. A module that is shared under two names gets one shared replacement,
    and so do the attention and the weighting of one module.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    built = [name for name, one in modules.items() if isinstance(one, Stack | TransformerLayer)]
    wrappers = SwappedFeedForward | positions.SwappedPosition
    swapped = [name for name, one in modules.items() if isinstance(one, wrappers)]
    made: dict[tuple[nn.Module, str], tuple[nn.Module, str]] = {}
    for name, old in modules.items():
        if name not in swapped and is_inside(name, swapped):
            continue
        for kind in (kind for kind in specs if SWAPPED[kind].is_part(name, old)):
            entry = SwappedModule(kind, name, type(old).__name__, "kept", type(old).__name__)
            if not fits(name, only or "*") or fits(name, skip):
                reason = "in skip" if fits(name, skip) else "not in only"
                yield replace(entry, reason=reason), old, None
                continue
            place = old, "attention" if kind == "weighting" else kind
            try:
                if is_inside(name, built):
                    raise NotSwappable(f"a model of tfzoo takes {kind}= when it is built")
                if not name and type(old) not in feedforwards.TORCH_LAYERS:
                    raise NotSwappable("it is the model itself")
                if place not in made:
                    made[place] = SWAPPED[kind].replacement(model, name, specs)
            except NotSwappable as error:
                yield replace(entry, outcome="refused", reason=str(error)), old, None
                continue
            spec, (new, note) = specs[kind], made[place]
            now = spec if isinstance(spec, str) else spec["name"]
            yield replace(entry, outcome="replaced", now=now, reason=note), old, new


def place(model: nn.Module, name: str, old: nn.Module, new: nn.Module) -> None:
    """Put a replacement into the model. PyTorch's Transformer layers call their maps themselves:
    the first becomes the replacement; activation, dropout and the second map do nothing.
    """
    layer: Any = old
    if isinstance(new, InterfaceAttention):
        layer.add_module(attentions.NAME, new)
    elif isinstance(new, SwappedFeedForward) and type(old) in feedforwards.TORCH_LAYERS:
        layer.linear1 = new
        layer.dropout, layer.linear2 = nn.Identity(), nn.Identity()
        del layer.activation  # a copied decoder layer takes a module in its place for none: ReLU
        layer.activation = feedforwards.identity
    else:
        model.set_submodule(name, new)


def fits(name: str, patterns: Patterns) -> bool:
    """Whether a name matches a pattern."""
    patterns = [patterns] if isinstance(patterns, str) else patterns or ()
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def switch_off_fast_path(model: nn.Module) -> None:
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
