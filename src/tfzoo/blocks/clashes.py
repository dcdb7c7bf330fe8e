"""Good components that cannot work together, one rule and one reason each.

A clash is refused unless the model allows it by name; where no model could work, allowing is
refused too. What a message proposes instead is computed from the traits of everything registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.contracts import Position
from tfzoo.errors import Clash, UnknownName, listing
from tfzoo.registry import Entry, Spec, registry


@dataclass(frozen=True)
class Parts:
    """The components that a self-attention stack is made of, whether it may not look ahead, and
    what pools its states, if anything does.
    """

    attention: Entry
    norm: Entry
    position: Entry
    causal: bool
    residual: Residual
    pooling: Entry | None = None


@dataclass(frozen=True)
class Rule:
    """``reason`` says why parts clash, or None; ``remedy`` what to take instead; ``allowable``
    whether it can run at all.
    """

    name: str
    reason: Callable[[Parts], str | None]
    remedy: Callable[[Parts], str]
    allowable: Callable[[Parts], bool]


def others(kind: str, fits: Callable[[Entry], bool]) -> str:
    """The names of all components that fit."""
    return listing(name for name in registry(kind).names() if fits(registry(kind).entry(name)))


def turns(position: Entry) -> bool:
    """Whether a position turns queries and keys: what it overrides is what it is."""
    return getattr(position.cls, "angles", None) is not Position.angles


def mixes(norm: Entry) -> bool:
    """Whether a norm lets one token see others."""
    return any(trait.startswith("mixes_tokens") for trait in norm.traits)


def leaky(parts: Parts) -> str | None:
    """A decoder must not see the future; a norm over several tokens does."""
    if not (parts.causal and mixes(parts.norm)):
        return None
    if "mixes_tokens:always" in parts.norm.traits:
        return (
            f"norm {parts.norm.name!r} computes its statistics over all tokens of a sentence, "
            "so no token can be decoded before the last is known"
        )
    return f"norm {parts.norm.name!r} mixes tokens while training, so a decoder with it sees the future then, and not when it decodes"


def unknown_length(parts: Parts) -> str | None:
    """A decoder does not know how long its sentence will be."""
    if parts.causal and "needs_length" in parts.position.traits:
        return f"position {parts.position.name!r} needs the sentence's length, which a decoder does not know before its end"
    return None


def unrotatable(parts: Parts) -> str | None:
    """Turning is relative only where a common turn changes no score (Su et al. 2021, eq. 11)."""
    if turns(parts.position) and "rotatable" not in parts.attention.traits:
        return (
            f"position {parts.position.name!r} turns queries and keys, "
            f"but attention {parts.attention.name!r} is not the same after a common turn, "
            "so scores would depend on absolute position"
        )
    return None


def constant(parts: Parts) -> str | None:
    """What a norm has made the same for all texts tells none apart. Without a residual connection,
    no norm comes last.
    """
    if parts.pooling is None or parts.residual == "none":
        return None
    if "averages" in parts.pooling.traits and "centres_texts" in parts.norm.traits:
        return (
            f"pooling {parts.pooling.name!r} depends on a text's mean alone, "
            f"and norm {parts.norm.name!r} before it makes that the same for every text, so that all would get one class"
        )
    return None


RULES = (
    Rule(
        "leaky-norm",
        leaky,
        lambda parts: f"Norms that mix no tokens: {others('norm', lambda norm: not mixes(norm))}",
        lambda parts: "mixes_tokens:always" not in parts.norm.traits,
    ),
    Rule(
        "unknown-length",
        unknown_length,
        lambda parts: (
            f"Positions that need no length: {others('position', lambda position: 'needs_length' not in position.traits)}"
        ),
        lambda parts: False,
    ),
    Rule(
        "unrotatable-attention",
        unrotatable,
        lambda parts: (
            f"Rotatable: {others('attention', lambda attention: 'rotatable' in attention.traits)}"
        ),
        lambda parts: True,
    ),
    Rule(
        "constant-pooling",
        constant,
        lambda parts: (
            f"Poolings that see more: {others('pooling', lambda pooling: 'averages' not in pooling.traits)}"
        ),
        lambda parts: False,
    ),
)


def refuse(
    options: StackOptions, causal: bool, allow: Collection[str] = (), pooling: Spec | None = None
) -> None:
    """Raise the first clash between the components of a stack, and the pooling after it, that
    ``allow`` does not name.

    Raises:
        Clash: with the rule's name, the reason, and what to take instead.
        UnknownName: ``allow`` names no rule.
    """
    for name in allow:
        if name not in (known := [rule.name for rule in RULES]):
            raise UnknownName("rule to allow", name, known)
    named = {
        kind: registry(kind).options(getattr(options, kind))[0]
        for kind in ("attention", "norm", "position")
    }
    pooled = None if pooling is None else registry("pooling").options(pooling)[0]
    parts = Parts(**named, causal=causal, residual=options.residual, pooling=pooled)
    for rule in RULES:
        reason = rule.reason(parts)
        if reason is None or (rule.name in allow and rule.allowable(parts)):
            continue
        side = "in the decoder, " if causal else ""
        way = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable(parts)
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy(parts)}. {way}")
