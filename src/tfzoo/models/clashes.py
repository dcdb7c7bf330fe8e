"""Checks that components work together.

A clash raises an error, unless ``allow`` names its rule and the rule can be allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from tfzoo.base.registry import registry
from tfzoo.errors import BadOption, Clash, UnknownName, listing, under
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions
from tfzoo.models.rules import RULES, Parts
from tfzoo.models.traits import names_that_fit, options_read
from tfzoo.models.transformer_layer import TransformerLayer

UNREAD = "unread-option"
"""The rule of :func:`check_attention_options`: it looks at a whole model, the others at a stack."""


def check_clashes(parts: Parts, allow: Collection[str] = ()) -> None:
    """Check the components of a stack, and the pooling after it, against all rules.

    Raises:
        Clash: a rule is broken that ``allow`` does not name or cannot allow. The message has the
            reason, alternatives, and the rule's name.
        UnknownName: a name in ``allow`` is not that of a rule.
    """
    for name in allow:
        if name not in (known := [UNREAD, *(rule.name for rule in RULES)]):
            raise UnknownName("rule to allow", name, known)
    if parts.window and "attends" not in parts.mixer.traits:
        raise BadOption(
            f"window acts on self-attention, but mixer {parts.mixer.name!r} has none: leave it out"
        )
    for rule in RULES:
        reason = rule.reason(parts)
        if reason is None or (rule.name in allow and rule.allowable(parts)):
            continue
        side = "in the decoder, " if parts.causal and parts.pooling is None else ""
        allow_hint = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable(parts)
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy(parts)}. {allow_hint}")


def check_attention_options(module: nn.Module, config: Mapping[str, Any]) -> None:
    """Check that something in a model, stack or layer reads the options of attention that are not
    the defaults in ``config``, the arguments of its constructor; of those that ``encoder`` or
    ``decoder`` names something there, of those of an entry of ``pattern`` one of its layers.

    Raises:
        Clash: nothing reads them.
    """
    check_read(module, config, config)
    check_pattern_read(module, config, config)
    for side in ("encoder", "decoder"):
        if options := config.get(side):
            with under(side):
                check_read(getattr(module, side), options, config)
                check_pattern_read(getattr(module, side), options, config)


def check_pattern_read(
    module: nn.Module, options: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """:func:`check_read` of each entry of ``pattern`` and the layers that have its options."""
    pattern = options.get("pattern") or []
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList)]
    stacks = [one for one in lists if all(isinstance(part, TransformerLayer) for part in one)]
    for number, entry in enumerate(pattern):
        layers = [layer for stack in stacks for layer in stack[number :: len(pattern)]]
        with under(f"pattern.{number}"):
            check_read(nn.ModuleList(layers), entry, {**config, **options})


def check_read(module: nn.Module, options: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Check that something in a module reads those ``options`` of attention that are not the
    defaults; ``config`` has the others.

    Raises:
        Clash: nothing reads them.
    """
    if not any(isinstance(part, TransformerLayer) for part in module.modules()):
        return
    read = {"heads"}.union(*(getattr(part, "reads", ()) for part in module.modules()))
    unread = {
        key
        for key in ATTENTION_OPTIONS & options.keys() - read
        if options[key] != getattr(StackOptions, key)
    }
    if not unread:
        return
    mixer = registry("mixer").options({**config, **options}["mixer"])[0]
    others = names_that_fit("mixer", lambda entry: unread <= options_read(entry))
    raise Clash(
        UNREAD,
        f"nothing reads {listing(unread)}: of the options of attention, mixer {mixer.name!r} reads "
        f"{listing(options_read(mixer))}.",
        f"Leave it out, or use another mixer: {others}. This cannot be allowed ({UNREAD})",
    )
