"""Good components that cannot work together, one rule and one reason each.

A clash is refused unless the model allows it by name; where no model could work, allowing is refused too. What a message proposes
instead is computed from the traits of everything registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tfzoo.blocks.options import StackOptions
from tfzoo.contracts import Position
from tfzoo.errors import Clash, UnknownName, listing
from tfzoo.registry import Entry, registry


@dataclass(frozen=True)
class Trio:
    """The components that a self-attention stack is made of, and whether it may not look ahead."""

    attention: Entry
    norm: Entry
    position: Entry
    causal: bool


@dataclass(frozen=True)
class Rule:
    """``reason`` says why a trio clashes, or None; ``remedy`` what to take instead; ``allowable`` whether it can run at all."""

    name: str
    reason: Callable[[Trio], str | None]
    remedy: Callable[[Trio], str]
    allowable: Callable[[Trio], bool]


def others(kind: str, fits: Callable[[Entry], bool]) -> str:
    """The names of all components that fit."""
    return listing(name for name in registry(kind).names() if fits(registry(kind).entry(name)))


def turns(position: Entry) -> bool:
    """Whether a position turns queries and keys: what it overrides is what it is."""
    return getattr(position.cls, "angles", None) is not Position.angles


def mixes(norm: Entry) -> bool:
    """Whether a norm lets one token see others."""
    return any(trait.startswith("mixes_tokens") for trait in norm.traits)


def leaky(trio: Trio) -> str | None:
    """A decoder must not see the future; a norm over several tokens does."""
    if not (trio.causal and mixes(trio.norm)):
        return None
    if "mixes_tokens:always" in trio.norm.traits:
        return (
            f"norm {trio.norm.name!r} computes its statistics over all tokens of a sentence, "
            "so no token can be decoded before the last is known"
        )
    return f"norm {trio.norm.name!r} mixes tokens while training, so a decoder with it sees the future then, and not when it decodes"


def unknown_length(trio: Trio) -> str | None:
    """A decoder does not know how long its sentence will be."""
    if trio.causal and "needs_length" in trio.position.traits:
        return f"position {trio.position.name!r} needs the sentence's length, which a decoder does not know before its end"
    return None


def unrotatable(trio: Trio) -> str | None:
    """Turning is relative only where a common turn changes no score (Su et al. 2021, eq. 11)."""
    if turns(trio.position) and "rotatable" not in trio.attention.traits:
        return (
            f"position {trio.position.name!r} turns queries and keys, "
            f"but attention {trio.attention.name!r} is not the same after a common turn, "
            "so scores would depend on absolute position"
        )
    return None


RULES = (
    Rule(
        "leaky-norm",
        leaky,
        lambda trio: f"Norms that mix no tokens: {others('norm', lambda norm: not mixes(norm))}",
        lambda trio: "mixes_tokens:always" not in trio.norm.traits,
    ),
    Rule(
        "unknown-length",
        unknown_length,
        lambda trio: f"Positions that need no length: {others('position', lambda position: 'needs_length' not in position.traits)}",
        lambda trio: False,
    ),
    Rule(
        "unrotatable-attention",
        unrotatable,
        lambda trio: f"Rotatable: {others('attention', lambda attention: 'rotatable' in attention.traits)}",
        lambda trio: True,
    ),
)


def refuse(options: StackOptions, causal: bool, allow: Collection[str] = ()) -> None:
    """Raise the first clash between the components of a stack that ``allow`` does not name.

    Raises:
        Clash: with the rule's name, the reason, and what to take instead.
        UnknownName: ``allow`` names no rule.
    """
    for name in allow:
        if name not in (known := [rule.name for rule in RULES]):
            raise UnknownName("rule to allow", name, known)
    named = {kind: registry(kind).options(getattr(options, kind))[0] for kind in ("attention", "norm", "position")}
    trio = Trio(**named, causal=causal)
    for rule in RULES:
        reason = rule.reason(trio)
        if reason is None or (rule.name in allow and rule.allowable(trio)):
            continue
        side = "in the decoder, " if causal else ""
        way = f"To run it anyway: allow: [{rule.name}]" if rule.allowable(trio) else f"This cannot be allowed ({rule.name})"
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy(trio)}. {way}")
