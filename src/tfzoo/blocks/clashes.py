"""Checks that components work together.

A clash raises an error, unless ``allow`` names its rule and the rule can be allowed.
"""

from __future__ import annotations

from collections.abc import Collection

from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.rules import RULES, Parts
from tfzoo.errors import BadOption, Clash, UnknownName
from tfzoo.registry import Entry, Spec, registry


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
    parts = parts_of(options, causal, pooling)
    if options.window is not None and "attends" not in parts.mixer.traits:
        raise BadOption(
            f"window acts on self-attention, but mixer {parts.mixer.name!r} has none: leave it out"
        )
    for rule in RULES:
        reason = rule.reason(parts)
        if reason is None or (rule.name in allow and rule.allowable(parts)):
            continue
        side = "in the decoder, " if causal else ""
        allow_hint = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable(parts)
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy(parts)}. {allow_hint}")


def parts_of(options: StackOptions, causal: bool, pooling: Spec | None) -> Parts:
    """The components of a stack and of the pooling after it."""

    def entry(kind: str, spec: Spec) -> Entry:
        return registry(kind).options(spec)[0]

    residual = entry("residual", options.residual)
    norm = options.query_key_norm
    return Parts(
        attention=entry("attention", options.attention),
        weighting=entry("weighting", options.weighting),
        norm=entry("norm", options.norm),
        residual=residual,
        position=entry("position", options.position),
        mixer=entry("mixer", options.mixer),
        query_key_norm=None if norm is None else entry("norm", norm["norm"]),
        causal=causal,
        window=options.window is not None,
        ends_with_norm="final_norm" in residual.traits
        or ("ends_with_norm" in residual.traits and options.layers > 0),
        pooling=None if pooling is None else entry("pooling", pooling),
    )
