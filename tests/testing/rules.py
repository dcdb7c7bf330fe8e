"""Which combinations must be refused, stated from traits, and those that are tested."""

from collections.abc import Sequence
from functools import cache

from tests.testing.classifiers import CLASSIFIER, Choice
from tests.testing.covering import Columns, Row, covering
from tfzoo.base.registry import registry
from tfzoo.errors import Clash
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import check_clashes
from tfzoo.testing.stacks import PLAIN, SIDES, Combination
from tfzoo.testing.subject import hooks

ALWAYS, TRAINING = "mixes_tokens:always", "mixes_tokens:training"
STACK: Columns = {"side": SIDES, **{kind: registry(kind).names() for kind in PLAIN}}
"""What a stack is chosen from."""
CHOSEN: Columns = {
    "side": ("encoder", "decoder"),
    **{kind: registry(kind).names() for kind in CLASSIFIER},
}
"""What a classifier is chosen from."""


@cache
def traits(kind: str, name: str) -> frozenset[str]:
    return registry(kind).entry(name).traits


def refused_by(row: Row) -> set[str]:
    """Every rule that a combination, or a part of one, breaks, whatever is then added."""

    def has(kind: str, *wanted: str) -> bool:
        return kind in row and not traits(kind, row[kind]).isdisjoint(wanted)

    def lacks(kind: str, trait: str) -> bool:
        return kind in row and not has(kind, trait)

    decoder = row.get("side") in ("decoder", "translator")
    encoder = row.get("side") in ("encoder", "translator")
    acts = hooks(row["position"]) if "position" in row else set()
    rules = {
        "leaky-norm": decoder and has("norm", ALWAYS, TRAINING),
        "unknown-length": decoder and has("position", "needs_length"),
        "unrotatable-attention": "angles" in acts and lacks("attention", "rotatable"),
        "constant-pooling": has("residual", "final_norm", "ends_with_norm")
        and has("pooling", "averages")
        and has("norm", "centres_texts"),
        "first-token-pooling": decoder and has("pooling", "reads_first"),
        "bidirectional-mixer": decoder and has("mixer", "bidirectional"),
        "unread-position": bool(acts & {"angles", "bias"})
        and (lacks("mixer", "attends") or has("weighting", "ignores_scores")),
        "equal-tokens": encoder
        and has("mixer", "attends")
        and has("weighting", "ignores_scores")
        and has("residual", "replaces"),
        "zero-weights": has("weighting", "needs_positive_scores")
        and has("attention", "nonpositive"),
    }
    return {name for name, broken in rules.items() if broken}


def can_be_allowed(row: Row) -> bool:
    """Whether something that runs is left when all its rules are allowed."""
    rules = refused_by(row)
    return rules <= {"leaky-norm", "unrotatable-attention"} and not (
        "leaky-norm" in rules and ALWAYS in traits("norm", row["norm"])
    )


def reads_all(row: Row, columns: Columns) -> bool:
    """False where a part is chosen that nothing reads: beside another mixer, an attention or a
    weighting, except in the cross-attention of a translator; in this, the decoder's tokens, where
    weights ignore the scores and there is no residual connection.
    """
    if row.get("side") == "translator" and row.get("residual") == "none":
        weighting = row.get("weighting", PLAIN["weighting"])
        if "ignores_scores" in traits("weighting", weighting):
            return False
    return (
        (row.get("side", "translator") == "translator" and "translator" in columns["side"])
        or "mixer" not in row
        or "attends" in traits("mixer", row["mixer"])
        or all(row.get(kind) in (None, PLAIN[kind]) for kind in ("attention", "weighting"))
    )


def refusals(row: Row) -> tuple[list[str], bool]:
    """The rules by which tfzoo refuses a combination, and whether allowing them builds it. Nothing
    is built: :func:`check_clashes` is what every constructor calls.
    """
    options = StackOptions(**{kind: row[kind] for kind in PLAIN})
    causal = {"encoder": (False,), "decoder": (True,), "translator": (False, True)}
    allow: list[str] = []
    while True:
        try:
            for one in causal[row.get("side", "encoder")]:
                check_clashes(options.parts(one, row.get("pooling")), allow)
        except Clash as clash:
            if clash.rule in allow:
                return allow, False
            allow.append(clash.rule)
        else:
            return allow, True


def tested(columns: Columns, strength: int, elsewhere: Sequence[Row]) -> list[Row]:
    """Every pair (``strength`` 2) or triple (3) of parts in a model that runs; those that never do,
    in one that is allowed. Without what ``elsewhere`` has.
    """

    def reads(row: Row) -> bool:
        return reads_all(row, columns)

    running = covering(columns, strength, lambda row: reads(row) and not refused_by(row), elsewhere)
    allowed = covering(
        columns, strength, lambda row: reads(row) and can_be_allowed(row), [*elsewhere, *running]
    )
    return [*running, *allowed]


@cache
def stacks(strength: int) -> list[Combination]:
    return [Combination(**row) for row in tested(STACK, strength, [])]


@cache
def classifiers(strength: int) -> list[Choice]:
    """Those whose pair or triple has a pooling, or a side: the others are tested in stacks."""
    in_stacks = [
        {kind: name for kind, name in vars(stack).items() if kind != "side"}
        for stack in stacks(strength)
    ]
    return [Choice(**row) for row in tested(CHOSEN, strength, in_stacks)]
