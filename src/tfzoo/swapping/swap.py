"""Replaces parts of a model by components of tfzoo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Spec, registry
from tfzoo.errors import BadOption, did_you_mean, listing
from tfzoo.models.architectures.config import SWAPS
from tfzoo.models.stack import Stack
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.swapping import attentions, feedforwards, huggingface, positions
from tfzoo.swapping.checks import check_attention_fits, check_norm_fits, spec_mixes_tokens
from tfzoo.swapping.feedforwards import SwappedFeedForward
from tfzoo.swapping.norms import NotSwappable, find_norm, is_norm, norm_replacement
from tfzoo.swapping.padding import Valid, pass_padding, record_padding
from tfzoo.swapping.report import SwappedModule, SwapReport

SWAPPED = ("norm", "attention", "weighting", "feedforward", "position")
"""The kinds of components that can take the place of parts of a model."""

Patterns = str | Collection[str] | None


def swap(
    model: nn.Module,
    norm: Spec | None = None,
    attention: Spec | None = None,
    *,
    only: Patterns = None,
    skip: Patterns = None,
    valid: Valid | None = None,
    allow: Collection[str] = (),
    weighting: Spec | None = None,
    feedforward: Spec | None = None,
    position: Spec | None = None,
    **others: Spec,
) -> SwapReport:
    """Replace parts of any model by components of tfzoo, in place.

    Norms are ``nn.LayerNorm``, ``nn.RMSNorm``, tfzoo's own, and modules whose class is called
    ``...LayerNorm`` or ``...RMSNorm`` and that compute one of the two (Hugging Face's). Attentions
    are ``nn.MultiheadAttention``, alone or in PyTorch's Transformer layers, tfzoo's
    :class:`~tfzoo.MultiheadAttention`, and those of ``transformers`` models that call its
    ``AttentionInterface``; their weighting can be replaced alone. Feed-forward layers are those of
    PyTorch's Transformer layers, and modules that consist of two or three linear maps and compute
    one of tfzoo's. Positions are ``nn.Embedding`` tables that are named so. A trained component
    becomes a submodule, so that the optimiser and ``state_dict`` have it.

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
            or True: there is never any padding. A call without the argument has no padding.
        allow: rules of clashes to accept, as in :class:`~tfzoo.Transformer`.
        weighting: the component that makes weights from scores in every attention.
        feedforward: the component that replaces every feed-forward layer.
        position: the component that replaces every table of positions, and adds vectors as well.
        others: refused; other kinds of components cannot be told in any model.

    Returns:
        What was replaced, kept and refused, with the reasons; ``print`` shows it as a table.

    Raises:
        UnknownName: no such component.
        BadOption: no such option of it; another kind; no part of a kind can be replaced; the norm
            mixes tokens, and ``valid`` is missing or names no argument of the model; a feed-forward
            layer with a loss of its own; or a position that acts in the attentions.
        Clash: a norm that mixes tokens in a decoder; an attention that is not rotatable in a model
            with rotary positions; or a weighting that has no use for the attention's scores.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
    >>> print(swap(model, norm="rms"))
              modules    was        now
    replaced  1          LayerNorm  rms  bias dropped
    """
    specs = dict(zip(SWAPPED, (norm, attention, weighting, feedforward, position), strict=True))
    if others:
        other = next(iter(others))
        raise BadOption(
            f"swap: {other}=... cannot be swapped.{did_you_mean(other, specs)} What can: "
            f"{listing(specs)}"
        )
    kinds = [kind for kind, spec in specs.items() if spec and registry(kind).options(spec)]
    if not kinds:
        raise BadOption("swap: say what to swap: norm=..., attention=..., or others")
    matches = list(find(model, kinds, only, skip))
    chosen = [match for match in matches if not match.outcome]
    for kind in kinds:
        if not any(match.kind == kind for match in chosen):
            raise BadOption(
                nothing_to_replace(model, [one for one in matches if one.kind == kind], kind)
            )
    if norm:
        names = [match.name for match in chosen if match.kind == "norm"]
        check_norm_fits(model, norm, names, valid, allow)
    if attention or weighting:
        check_attention_fits(model, attention, weighting, allow)
    notes = replace_modules(model, chosen, specs, valid)
    switch_off_fast_path(model)
    note(model, {**specs, "only": only, "skip": skip, "valid": valid, "allow": allow})
    return SwapReport(tuple(report_entry(match, specs, notes) for match in matches))


def note(model: nn.Module, arguments: Mapping[str, Any]) -> None:
    """Write a swap into the config of a model of ``transformers``, which ``save_pretrained`` keeps.

    A buffer is saved beside the weights, so that a plain ``from_pretrained``, which would load a
    model without the swap, says that it does not know it.
    """
    if not hasattr(model, "save_pretrained"):
        return
    kept = {
        name: value if isinstance(value, str | bool | Mapping) else list(value)
        for name, value in arguments.items()
        if value and not callable(value)
    }
    setattr(model.config, SWAPS, [*getattr(model.config, SWAPS, ()), kept])
    model.register_buffer(SWAPS, torch.ones(1))


Specs = Mapping[str, Spec | None]
Made = tuple[nn.Module, str]
"""A replacement, and a note for the report."""


@dataclass
class Match:
    """A part of a model, and what makes its replacement. ``outcome`` is set if it is not to be
    replaced.
    """

    name: str
    module: nn.Module
    kind: str
    build: Callable[[Specs], Made] | None = None
    outcome: Literal["", "kept", "refused"] = ""
    reason: str = ""

    @property
    def place(self) -> Place:
        """Where the replacement goes."""
        return self.module, "attention" if self.kind == "weighting" else self.kind


Place = tuple[nn.Module, str]
"""A module, and what of it is replaced: a layer of torch contains its feed-forward layer."""


def find(
    model: nn.Module, kinds: Collection[str], only: Patterns, skip: Patterns
) -> Iterator[Match]:
    """Yield the modules of these kinds, each with whether and why it is not to be replaced. Changes
    nothing.
    """
    like = next(model.parameters(), None)
    built = [
        name for name, one in model.named_modules() if isinstance(one, Stack | TransformerLayer)
    ]
    wrappers = SwappedFeedForward | positions.SwappedPosition
    own = [name for name, one in model.named_modules() if isinstance(one, wrappers)]
    if like is None:
        return
    for name, module in model.named_modules(remove_duplicate=False):
        for kind in kinds_of(name, module):
            if kind not in kinds or any(
                name != one and huggingface.within(name, one) for one in own
            ):
                continue
            match = Match(name, module, kind)
            try:
                if only is not None and not fits(name, only):
                    match.outcome, match.reason = "kept", "not in only"
                elif skip is not None and fits(name, skip):
                    match.outcome, match.reason = "kept", "in skip"
                elif any(huggingface.within(name, one) for one in built):
                    raise NotSwappable(f"a model of tfzoo takes {kind}= when it is built")
                else:
                    match.build = builder(model, match, like)
            except NotSwappable as why:
                match.outcome, match.reason = "refused", str(why)
            yield match


def kinds_of(name: str, module: nn.Module) -> Iterator[str]:
    """The kinds of components that a module may be replaced by."""
    if is_norm(module):
        yield "norm"
    if attentions.is_attention(module):
        yield from ("attention", "weighting")
    if feedforwards.is_feedforward(module):
        yield "feedforward"
    if positions.is_position(name, module):
        yield "position"


def builder(model: nn.Module, match: Match, like: Tensor) -> Callable[[Specs], Made]:
    """What makes the replacement of a module.

    Raises:
        NotSwappable: it cannot be replaced.
    """
    name, module, kind = match.name, match.module, match.kind
    if not name and not (kind == "feedforward" and type(module) in feedforwards.TORCH_LAYERS):
        raise NotSwappable("it is the model itself")
    if kind == "norm":
        norm = find_norm(module, like)
        return lambda specs: norm_replacement(module, norm, specs[kind] or "")
    if kind == "feedforward":
        layer = feedforwards.find_feedforward(module)
        return lambda specs: feedforwards.feedforward_replacement(module, layer, specs[kind] or "")
    if kind == "position":
        positions.check_position(name, module)
        return lambda specs: positions.position_replacement(module, specs[kind] or "")
    attentions.check_attention(model, name)
    made: Callable[..., nn.Module] = attentions.attention_replacement
    if huggingface.calls_interface(module):
        made = huggingface.interface_attention
    return lambda specs: (made(module, specs["attention"], specs["weighting"]), "")


def fits(name: str, patterns: Patterns) -> bool:
    """Whether a name matches a pattern."""
    patterns = [patterns] if isinstance(patterns, str) else patterns or ()
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def replace_modules(
    model: nn.Module, chosen: Sequence[Match], specs: Specs, valid: Valid | None
) -> dict[Place, str]:
    """Replace these modules; return the report's note on each. A module that is shared under two
    names gets one shared replacement, and so do the attention and the weighting of one module.
    """
    made = {match.place: match.build(specs) for match in chosen if match.build}
    mixing = specs["norm"] is not None and spec_mixes_tokens(specs["norm"])
    padding = record_padding(model, valid) if mixing else None
    modules = {match.module: None for match in chosen}
    huggingface.use_interface(model, [one for one in modules if huggingface.calls_interface(one)])
    for match in chosen:
        new, _ = made[match.place]
        if match.kind == "norm" and padding is not None:
            pass_padding(new, match.name, padding)
        if isinstance(new, huggingface.InterfaceAttention):
            match.module.add_module(huggingface.NAME, new)
        elif isinstance(new, SwappedFeedForward):
            feedforwards.place(model, match.name, match.module, new)
        else:
            model.set_submodule(match.name, new)
    return {place: note for place, (_, note) in made.items()}


def report_entry(match: Match, specs: Specs, notes: Mapping[Place, str]) -> SwappedModule:
    """The report's entry for a module."""
    was = type(match.module).__name__
    if match.outcome:
        return SwappedModule(match.name, was, match.outcome, was, match.reason)
    spec = specs[match.kind] or ""
    now = spec if isinstance(spec, str) else spec["name"]
    return SwappedModule(match.name, was, "replaced", now, notes[match.place])


KNOWN = {
    "norm": "nn.LayerNorm, nn.RMSNorm, and classes called ...LayerNorm or ...RMSNorm",
    "attention": "nn.MultiheadAttention, and those of transformers models that call its "
    "AttentionInterface",
    "weighting": "those of attentions that are known",
    "feedforward": "those of PyTorch's Transformer layers, and modules of two or three linear maps",
    "position": "nn.Embedding tables called wpe, or with position in their names",
}


def nothing_to_replace(model: nn.Module, matches: Sequence[Match], kind: str) -> str:
    """The error message if no part of a kind can be replaced."""
    where = type(model).__name__
    if not matches:
        return f"swap: {where} has no {kind} that is known. Known are {KNOWN[kind]}"
    report = SwapReport(tuple(report_entry(match, {}, {}) for match in matches))
    return f"swap: no {kind} of {where} can be replaced. It has:\n{report}"


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
