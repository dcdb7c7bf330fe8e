"""Which parts work together, by the rules that a model applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from docs._ext.tables import code, table
from tfzoo.base.registry import registry
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import RULES, Rule
from tfzoo.testing.samples import COMPONENT_KINDS

SIDES = {False: "encoder", True: "decoder"}
Choice = tuple[str, str]
"""A kind and a name."""


@dataclass(frozen=True)
class Refusal:
    """A rule that parts break together.

    Attributes:
        choices: one part, or two of different kinds.
        side: ``encoder`` or ``decoder``.
        allowable: a model runs if ``allow`` names the rule.
    """

    choices: tuple[Choice, ...]
    side: str
    rule: Rule
    reason: str
    allowable: bool


def broken(choices: Mapping[str, str], causal: bool) -> dict[str, tuple[Rule, str, bool]]:
    """The rules that a stack with these parts breaks, with the reason and whether it can be
    allowed; other parts are the defaults.
    """
    named: dict[str, Any] = {kind: name for kind, name in choices.items() if kind != "pooling"}
    parts = StackOptions(**named).parts(causal, choices.get("pooling"))
    found = [rule for rule in reversed(RULES) if rule.broken(parts)]  # the first reason counts
    return {rule.name: (rule, rule.reason.format(parts), rule.allowable) for rule in found}


@cache
def refusals() -> tuple[Refusal, ...]:
    """All refusals of single parts, and of pairs whose parts are not refused by themselves."""
    return tuple(found())


def found() -> Iterator[Refusal]:
    """See :func:`refusals`."""
    every = [(kind, name) for kind in COMPONENT_KINDS for name in registry(kind).own_names()]
    for causal, side in SIDES.items():
        alone = {choice: broken(dict([choice]), causal) for choice in every}
        for choice, rules in alone.items():
            for rule, reason, allowable in rules.values():
                yield Refusal((choice,), side, rule, reason, allowable)
        for pair in combinations(every, 2):
            if pair[0][0] == pair[1][0] or (causal and "pooling" in dict(pair)):
                continue
            for name, (rule, reason, allowable) in broken(dict(pair), causal).items():
                if not any(name in alone[choice] for choice in pair):
                    yield Refusal(pair, side, rule, reason, allowable)


def of_part(kind: str, name: str) -> str:
    """What a part combines with, in Markdown."""
    lines = []
    for refusal in refusals():
        if refusal.choices == ((kind, name),):
            way = "it can be allowed" if refusal.allowable else "this cannot be allowed"
            lines.append(
                f"- Not in a {refusal.side}: {refusal.reason} (`{refusal.rule.name}`; {way})."
            )
    partners: dict[tuple[str, str], dict[str, bool]] = {}
    for refusal in refusals():
        if len(refusal.choices) == 2 and (kind, name) in refusal.choices:
            other = next(choice for choice in refusal.choices if choice != (kind, name))
            partners.setdefault((refusal.rule.name, other[0]), {})[other[1]] = refusal.allowable
    for (rule, other_kind), names in partners.items():
        listed = ", ".join(link(other_kind, other) for other in names)
        way = "; it can be allowed" if all(names.values()) else ""
        lines.append(f"- Not with {other_kind} {listed} (`{rule}`{way}).")
    whole = "With every part of another kind that is not [refused by itself](../combinations.md)"
    return "\n".join([f"{whole}, except:", "", *lines]) if lines else f"{whole}."


def link(kind: str, name: str) -> str:
    """A link to a part's page from that of another part."""
    return f"[`{name}`](../{kind}/{name}.md)"


def page() -> str:
    """The page of combinations."""
    return "\n".join(
        [
            "# Combinations",
            "",
            "Every part works with every part of another kind, in encoders and decoders, unless a "
            "rule refuses the two. Continuous integration tests every pair in one model, and every "
            "triple each night. This page is computed from the rules and from the traits that "
            "parts declare.",
            "",
            "## Kinds",
            "",
            "How many pairs of parts are refused together; ✓ where none is.",
            "",
            counts(),
            "",
            "## Rules",
            "",
            rules(),
            "",
            "To accept one that can be allowed: `allow: [leaky-norm]` under `model:` in a recipe, "
            '`--model.allow "[leaky-norm]"`, or `tfzoo.Transformer(..., allow=["leaky-norm"])`.',
            "",
            "## Refused alone",
            "",
            *singles(),
            "",
            "## Refused together",
            "",
            *grids(),
        ]
    )


def counts() -> str:
    """A table of kinds by kinds."""
    rows = []
    for row in COMPONENT_KINDS:
        cells = [f"[{row}]({row}.md)"]
        for column in COMPONENT_KINDS:
            cells.append("" if row == column else refused_pairs(row, column))
        rows.append(cells)
    return table(["", *COMPONENT_KINDS], rows)


def refused_pairs(row: str, column: str) -> str:
    """How many pairs of two kinds are refused, of how many."""
    pairs = {frozenset(one.choices) for one in refusals() if len(one.choices) == 2}
    found = sum({row, column} == {kind for kind, _ in pair} for pair in pairs)
    every = len(registry(row).own_names()) * len(registry(column).own_names())
    return f"[{found} of {every}](#refused-together)" if found else "✓"


def rules() -> str:
    """A table of the rules."""
    rows = []
    for rule in RULES:
        rows.append([code(rule.name), rule.why, "yes" if rule.allowable else "no"])
    return table(["rule", "why", "can be allowed"], rows)


def singles() -> Iterator[str]:
    """A line for each part that a stack refuses whatever the other parts are."""
    for one in refusals():
        if len(one.choices) == 1:
            kind, name = one.choices[0]
            way = "can be allowed" if one.allowable else "cannot be allowed"
            yield (
                f"- {kind} [`{name}`]({kind}/{name}.md) in a {one.side}: {one.reason} "
                f"(`{one.rule.name}`, {way})."
            )


def grids() -> Iterator[str]:
    """A grid for each two kinds with refused pairs."""
    pairs: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for one in refusals():
        if len(one.choices) == 2:
            (row, a), (column, b) = one.choices
            pairs.setdefault((row, column), {})[a, b] = one.rule.name
    for (row, column), refused in pairs.items():
        names = sorted({b for _, b in refused})
        rows = [
            [
                f"[`{a}`]({row}/{a}.md)",
                *(code(refused[a, b]) if (a, b) in refused else "✓" for b in names),
            ]
            for a in registry(row).own_names()
        ]
        headings = [f"[`{b}`]({column}/{b}.md)" for b in names]
        yield f"### {row} and {column}"
        yield ""
        yield f"With every {column} that is not a column here, every {row} works."
        yield ""
        yield table(["", *headings], rows)
        yield ""
