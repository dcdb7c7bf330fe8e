"""Components that work alone and not together: one rule per reason.

A clash is refused unless the model allows it by name, or cannot work even then. The alternatives
that a message lists are computed from the traits of everything registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tfzoo.blocks.options import StackOptions
from tfzoo.contracts import Position
from tfzoo.errors import Clash, UnknownName, listing
from tfzoo.registry import Entry, Spec, registry


@dataclass(frozen=True)
class Parts:
    """The components of a self-attention stack.

    ``causal``: the stack is a decoder. ``ends_with_norm``: the last operation of the stack is a
    norm. ``pooling``: what makes one vector of the stack's states, None in a translator.
    """

    attention: Entry
    norm: Entry
    position: Entry
    causal: bool
    ends_with_norm: bool
    pooling: Entry | None = None


@dataclass(frozen=True)
class Rule:
    """One clash: ``reason`` says why components clash, None if they do not; ``remedy`` lists what
    to take instead; ``allowable`` says whether ``allow`` can accept it.
    """

    name: str
    reason: Callable[[Parts], str | None]
    remedy: Callable[[Parts], str]
    allowable: Callable[[Parts], bool]


def others(kind: str, fits: Callable[[Entry], bool]) -> str:
    """The names of all components that fit."""
    return listing(name for name in registry(kind).names() if fits(registry(kind).entry(name)))


def rotates(position: Entry) -> bool:
    """Whether a position rotates queries and keys."""
    return getattr(position.cls, "angles", None) is not Position.angles


def mixes(norm: Entry) -> bool:
    """Whether the output of a norm at one token depends on other tokens."""
    return any(trait.startswith("mixes_tokens") for trait in norm.traits)


def leaky(parts: Parts) -> str | None:
    """A norm over several tokens shows a decoder the tokens that it has to predict."""
    if not (parts.causal and mixes(parts.norm)):
        return None
    if "mixes_tokens:always" in parts.norm.traits:
        return (
            f"norm {parts.norm.name!r} computes its statistics over all tokens of a sentence, "
            "so no token can be decoded before the last is known"
        )
    return (
        f"norm {parts.norm.name!r} mixes tokens while training, "
        "so a decoder with it sees the future then, and not when it decodes"
    )


def unknown_length(parts: Parts) -> str | None:
    """A decoder does not know the length of its sentence."""
    if parts.causal and "needs_length" in parts.position.traits:
        return (
            f"position {parts.position.name!r} needs the sentence's length, "
            "which a decoder does not know before its end"
        )
    return None


def unrotatable(parts: Parts) -> str | None:
    """Rotary positions are relative only if rotating q and k alike changes no score (Su et al.
    2021, eq. 11).
    """
    if rotates(parts.position) and "rotatable" not in parts.attention.traits:
        return (
            f"position {parts.position.name!r} rotates queries and keys, "
            f"but the scores of attention {parts.attention.name!r} change when both are rotated "
            "alike, so they would depend on absolute position"
        )
    return None


def constant(parts: Parts) -> str | None:
    """A pooling that reads nothing but mean and number of the tokens, after a norm that gives
    every text the same mean: the logits depend on the length of the text alone.
    """
    if parts.pooling is None or not parts.ends_with_norm:
        return None
    if "averages" in parts.pooling.traits and "centres_texts" in parts.norm.traits:
        return (
            f"pooling {parts.pooling.name!r} reads nothing but mean and number of a text's tokens, "
            f"and norm {parts.norm.name!r} before it gives every text the same mean, so that "
            "all texts of one length would get one class"
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
            "Positions that need no length: "
            + others("position", lambda position: "needs_length" not in position.traits)
        ),
        lambda parts: False,
    ),
    Rule(
        "unrotatable-attention",
        unrotatable,
        lambda parts: "Rotatable: " + others("attention", lambda one: "rotatable" in one.traits),
        lambda parts: True,
    ),
    Rule(
        "constant-pooling",
        constant,
        lambda parts: (
            "Poolings that see more: "
            + others("pooling", lambda pooling: "averages" not in pooling.traits)
        ),
        lambda parts: False,
    ),
)


def refuse(
    options: StackOptions, causal: bool, allow: Collection[str] = (), pooling: Spec | None = None
) -> None:
    """Refuse the first clash, unless ``allow`` names it, of a stack and the pooling after it.

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
    parts = Parts(
        **named,
        causal=causal,
        ends_with_norm=options.residual == "pre"
        or (options.residual == "post" and options.layers > 0),
        pooling=pooled,
    )
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
