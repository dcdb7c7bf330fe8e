"""Models whose refusals are allowed, and what they then violate."""

from collections.abc import Collection, Mapping, Sequence

import torch

from tfzoo.errors import Clash
from tfzoo.testing.contract import reproducible, run_contract, title
from tfzoo.testing.stacks import (
    STACK_CONTRACTS,
    Combination,
    StackContract,
    later_tokens_have_no_influence_while_training,
    rotated_scores_depend_on_distance_alone,
)
from tfzoo.testing.subject import Subject

GUARDS: Mapping[str, StackContract] = {
    "leaky-norm": later_tokens_have_no_influence_while_training,
    "unrotatable-attention": rotated_scores_depend_on_distance_alone,
}
"""What would break if a clash that can be allowed were not refused."""


def build_allowing(
    combination: Combination, scale: float = 0.7
) -> tuple[list[str], Subject | None]:
    """The rules by which a combination is refused, in the order in which they are met, and the
    model that allowing all of them gives, or None where one of them cannot be allowed.
    """
    allow: list[str] = []
    with reproducible():
        while True:
            try:
                return allow, combination.build(allow, scale)
            except Clash as clash:
                if clash.rule in allow:
                    return allow, None
                allow.append(clash.rule)


def violations(
    subject: Subject,
    allow: Collection[str] = (),
    contracts: Sequence[StackContract] = STACK_CONTRACTS,
) -> dict[str, str]:
    """The contracts that a model violates, by title, and how. What a rule in ``allow`` guards has
    to fail, and counts as violated where it holds.
    """
    with torch.no_grad():
        results = {one: run_contract(one, subject) for one in contracts}
    found = {title(one): result.message for one, result in results.items() if not result.ok}
    for rule in allow:
        if GUARDS[rule] in results and found.pop(title(GUARDS[rule]), None) is None:
            found[title(GUARDS[rule])] = f"holds, so {rule} refuses it without need"
    return found
