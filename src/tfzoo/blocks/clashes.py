"""Checks that components work together.

A clash raises an error, unless ``allow`` names its rule and the rule can be allowed.
"""

from __future__ import annotations

from collections.abc import Collection

from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.rules import RULES, Parts
from tfzoo.errors import BadOption, Clash, UnknownName
from tfzoo.registry import Spec, registry

KINDS = ("attention", "weighting", "norm", "residual", "position", "feedforward", "mixer")
"""The kinds of components in a stack."""


def check_clashes(parts: Parts, allow: Collection[str] = ()) -> None:
    """Check the components of a stack, and the pooling after it, against all rules.

    Raises:
        Clash: a rule is broken that ``allow`` does not name or cannot allow. The message has the
            reason, alternatives, and the rule's name.
        UnknownName: a name in ``allow`` is not that of a rule.
    """
    for name in allow:
        if name not in (known := [rule.name for rule in RULES]):
            raise UnknownName("rule to allow", name, known)
    if parts.window and "attends" not in parts.mixer.traits:
        raise BadOption(
            f"window acts on self-attention, but mixer {parts.mixer.name!r} has none: leave it out"
        )
    for rule in RULES:
        reason = rule.reason(parts)
        if reason is None or (rule.name in allow and rule.allowable(parts)):
            continue
        side = "in the decoder, " if parts.causal else ""
        allow_hint = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable(parts)
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy(parts)}. {allow_hint}")


def parts_of(options: StackOptions, causal: bool, pooling: Spec | None = None) -> Parts:
    """The components of a stack, or of a layer, and of the pooling after it.

    Raises:
        BadOption, UnknownName: an option that does not exist or has a wrong value.
    """
    entries = {kind: registry(kind).options(getattr(options, kind))[0] for kind in KINDS}
    norm, traits = options.query_key_norm, entries["residual"].traits
    return Parts(
        **entries,
        query_key_norm=None if norm is None else registry("norm").options(norm["norm"])[0],
        causal=causal,
        window=options.window is not None,
        ends_with_norm="final_norm" in traits
        or ("ends_with_norm" in traits and options.layers > 0),
        pooling=None if pooling is None else registry("pooling").options(pooling)[0],
    )
