"""Rules for components that do not work together.

A clash raises an error, unless ``allow`` names its rule and the rule can be allowed. The
alternatives that an error message lists are computed from the traits of all registered components.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from tfzoo.blocks.options import StackOptions
from tfzoo.contracts import Position
from tfzoo.errors import BadComponent, Clash, UnknownName, listing
from tfzoo.registry import Entry, Spec, registry


@dataclass(frozen=True)
class Parts:
    """The components that a rule looks at.

    ``causal``: the stack is a decoder. ``ends_with_norm``: the last operation of the stack is a
    norm. ``pooling``: the pooling of a classifier, otherwise None.
    """

    attention: Entry
    norm: Entry
    position: Entry
    causal: bool
    ends_with_norm: bool
    pooling: Entry | None = None


@dataclass(frozen=True)
class Rule:
    """``reason`` returns why components clash, or None if they do not; ``remedy`` lists alternative
    components; ``allowable`` is whether a model runs if ``allow`` names the rule.
    """

    name: str
    reason: Callable[[Parts], str | None]
    remedy: Callable[[Parts], str]
    allowable: Callable[[Parts], bool]


def names_that_fit(kind: str, fits: Callable[[Entry], bool]) -> str:
    """The names of all components of a kind for which ``fits`` is true, joined by commas. A
    component of another package that cannot be loaded is left out.
    """
    found = []
    for name in registry(kind).names():
        with suppress(BadComponent):
            found += [name] if fits(registry(kind).entry(name)) else []
    return listing(found)


def rotates(position: Entry) -> bool:
    """Whether a positional encoding rotates queries and keys."""
    return getattr(position.cls, "angles", None) is not Position.angles


def mixes_tokens(norm: Entry) -> bool:
    """Whether the output of a norm at one token depends on other tokens."""
    return any(trait.startswith("mixes_tokens") for trait in norm.traits)


def leaky_norm(parts: Parts) -> str | None:
    """A norm over several tokens gives a decoder information about the tokens to predict."""
    if not (parts.causal and mixes_tokens(parts.norm)):
        return None
    if "mixes_tokens:always" in parts.norm.traits:
        return (
            f"norm {parts.norm.name!r} computes its statistics over all tokens of a sentence, "
            "so no token can be decoded before the last is known"
        )
    return (
        f"norm {parts.norm.name!r} mixes tokens while training, "
        "so a decoder with it sees later tokens in training, but not when it decodes"
    )


def norm_ignores_mask(norm: str) -> Clash:
    """The error for ``Mask(allowed=...)`` with a norm that computes statistics over each row, such
    as instance norm. Batch norm is not affected: its statistics are over the whole batch.
    """
    others = names_that_fit("norm", lambda one: not mixes_tokens(one))
    return Clash(
        "leaky-norm",
        f"norm {norm!r} computes its statistics over all tokens of a row, also over those that "
        "mask.allowed hides.",
        f"Norms that mix no tokens: {others}. To run it anyway: allow: [leaky-norm]",
    )


def unknown_length(parts: Parts) -> str | None:
    """A decoder does not know the length of the sequence that it generates."""
    if parts.causal and "needs_length" in parts.position.traits:
        return (
            f"position {parts.position.name!r} needs the sentence's length, "
            "which a decoder does not know before its end"
        )
    return None


def unrotatable_attention(parts: Parts) -> str | None:
    """With rotary positions, scores depend on relative position alone if rotating q and k by the
    same angle does not change them (Su et al. 2021, eq. 11).
    """
    if rotates(parts.position) and "rotatable" not in parts.attention.traits:
        return (
            f"position {parts.position.name!r} rotates queries and keys, "
            f"but the scores of attention {parts.attention.name!r} change when both are rotated "
            "alike, so they would depend on absolute position"
        )
    return None


def constant_pooling(parts: Parts) -> str | None:
    """The pooling depends only on the mean and the number of a sequence's tokens, and the norm
    before it gives all sequences the same mean. The logits then depend only on the length.
    """
    if parts.pooling is None or not parts.ends_with_norm:
        return None
    if "averages" in parts.pooling.traits and "centres_texts" in parts.norm.traits:
        return (
            f"pooling {parts.pooling.name!r} depends only on mean and number of a text's tokens, "
            f"and norm {parts.norm.name!r} before it gives every text the same mean, so that "
            "all texts of one length would get the same class"
        )
    return None


RULES = (
    Rule(
        "leaky-norm",
        leaky_norm,
        lambda parts: (
            "Norms that mix no tokens: "
            + names_that_fit("norm", lambda norm: not mixes_tokens(norm))
        ),
        lambda parts: "mixes_tokens:always" not in parts.norm.traits,
    ),
    Rule(
        "unknown-length",
        unknown_length,
        lambda parts: (
            "Positions that need no length: "
            + names_that_fit("position", lambda position: "needs_length" not in position.traits)
        ),
        lambda parts: False,
    ),
    Rule(
        "unrotatable-attention",
        unrotatable_attention,
        lambda parts: (
            "Rotatable: " + names_that_fit("attention", lambda one: "rotatable" in one.traits)
        ),
        lambda parts: True,
    ),
    Rule(
        "constant-pooling",
        constant_pooling,
        lambda parts: (
            "Poolings that depend on more: "
            + names_that_fit("pooling", lambda pooling: "averages" not in pooling.traits)
        ),
        lambda parts: False,
    ),
)


def check_clashes(
    options: StackOptions, causal: bool, allow: Collection[str] = (), pooling: Spec | None = None
) -> None:
    """Check a stack, and the pooling after it, against all rules.

    Raises:
        Clash: a rule is broken that ``allow`` does not name or cannot allow. The message has the
            reason, alternatives, and the rule's name.
        UnknownName: a name in ``allow`` is not that of a rule.
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
