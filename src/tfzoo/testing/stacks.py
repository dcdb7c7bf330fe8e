"""Components in an encoder, a decoder, a translator and a classifier, each with each other one."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import torch

from tfzoo.base.registry import Entry, registry
from tfzoo.errors import Clash
from tfzoo.models.clashes import check_clashes
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.decoder import Decoder
from tfzoo.models.encoder import Encoder
from tfzoo.models.options import StackOptions
from tfzoo.models.transformer import Transformer
from tfzoo.testing.classifier_contracts import CLASSIFIER_CONTRACTS
from tfzoo.testing.contract import Result, Violation, first_line, reproducible, title
from tfzoo.testing.samples import COMPONENT_KINDS, SIZES
from tfzoo.testing.stack_contracts import (
    STACK_CONTRACTS,
    StackContract,
    later_tokens_have_no_influence_while_training,
    rotated_scores_depend_on_distance_alone,
)
from tfzoo.testing.subject import VOCABULARY, Subject, draw

Side = Literal["encoder", "decoder", "translator"]
SIDES: tuple[Side, ...] = get_args(Side)
PLAIN: Mapping[str, str] = {
    kind: parameter.default
    for kind, parameter in inspect.signature(Transformer).parameters.items()
    if kind in COMPONENT_KINDS
}
"""A model's defaults, which stand beside a component that is checked."""
CLASSIFIER: Mapping[str, str] = {
    **PLAIN,
    "pooling": inspect.signature(TransformerClassifier).parameters["pooling"].default,
}
"""A classifier's."""
CLASSES = 5

GUARDS: Mapping[str, StackContract] = {
    "leaky-norm": later_tokens_have_no_influence_while_training,
    "unrotatable-attention": rotated_scores_depend_on_distance_alone,
}
"""What would break if a clash that can be allowed were not refused."""


@dataclass(frozen=True)
class Combination:
    """One choice of components for one side of a model."""

    sides: ClassVar[Sequence[Side]] = SIDES
    defaults: ClassVar[Mapping[str, str]] = PLAIN
    contracts: ClassVar[Sequence[StackContract]] = STACK_CONTRACTS

    side: Side
    attention: str = PLAIN["attention"]
    norm: str = PLAIN["norm"]
    position: str = PLAIN["position"]
    residual: str = PLAIN["residual"]
    feedforward: str = PLAIN["feedforward"]
    weighting: str = PLAIN["weighting"]
    mixer: str = PLAIN["mixer"]

    def __str__(self) -> str:
        return self.name({})

    def name(self, usual: Mapping[str, str]) -> str:
        """The parts that are not the defaults, such as ``encoder-norm=rms-position=rotary``."""
        usual = {**self.defaults, **usual}
        return "-".join(
            f"{kind}={value}" if kind in usual else value
            for kind, value in vars(self).items()
            if value != usual.get(kind)
        )

    def having(self, parts: Mapping[str, Any]) -> Combination:
        """This one with other components."""
        return replace(self, **parts)

    @property
    def reads_target(self) -> bool:
        """False where a translator's output cannot depend on the decoder's tokens: the weights of
        cross-attention ignore scores, and there is no residual connection.
        """
        ignores = "ignores_scores" in registry("weighting").entry(self.weighting).traits
        return not (self.side == "translator" and self.residual == "none" and ignores)

    def module(
        self, allow: Collection[str] = (), layers: int = 2
    ) -> Encoder | Decoder | Transformer | TransformerClassifier:
        """A small model of it without dropout; raises Clash where it is refused."""
        options: dict[str, Any] = {kind: getattr(self, kind) for kind in PLAIN}
        options |= {"max_length": SIZES["max_length"], "dropout": 0.0, "allow": list(allow)}
        # Without residual connections, two layers average so much that nothing depends on anything.
        layers = min(layers, 1) if self.residual == "none" else layers
        if self.side == "encoder":
            return Encoder(SIZES["dim"], SIZES["heads"], layers, **options)
        if self.side == "decoder":
            return Decoder(SIZES["dim"], SIZES["heads"], layers, cross_attention=False, **options)
        return Transformer(VOCABULARY, SIZES["dim"], SIZES["heads"], layers, **options)

    def build(self, allow: Collection[str] = ()) -> Subject:
        """:meth:`module` with every parameter drawn at random, in evaluation mode."""
        return draw(self.module(allow))


@dataclass(frozen=True)
class Choice(Combination):
    """One choice of components for a classifier, whose stack is an encoder or a decoder."""

    sides: ClassVar[Sequence[Side]] = SIDES[:2]
    defaults: ClassVar[Mapping[str, str]] = CLASSIFIER
    contracts: ClassVar[Sequence[StackContract]] = CLASSIFIER_CONTRACTS

    side: Side = "encoder"
    pooling: str = CLASSIFIER["pooling"]

    def __str__(self) -> str:
        return self.name({"side": "encoder"}) or "plain"

    def module(self, allow: Collection[str] = (), layers: int = 1) -> TransformerClassifier:
        """A small model of it without dropout; raises Clash where it is refused. Of one layer:
        stacks are checked with two.
        """
        return TransformerClassifier(
            VOCABULARY,
            CLASSES,
            SIZES["dim"],
            SIZES["heads"],
            layers,
            **{kind: getattr(self, kind) for kind in CLASSIFIER},
            causal=self.side == "decoder",
            max_length=SIZES["max_length"],
            dropout=0.0,
            allow=list(allow),
        )


def neighbours(
    entry: Entry, models: type[Combination], partners: str = "own"
) -> Iterator[Combination]:
    """Those in which a component meets each other one on each side of a model."""
    for side in models.sides:
        base = models(side).having({entry.kind: entry.name})
        yield base
        for found in together(base, others(entry, models.defaults, partners)):
            if found.reads_target:
                yield found


def together(base: Combination, parts: Iterable[tuple[str, str]]) -> Iterator[Combination]:
    """Few combinations in which every part occurs, the rest being that of ``base``: one of each
    kind at a time, as far as they fit; where a part clashes, alone.
    """
    left = list(parts)
    while left:
        (kind, name), *left = left
        found = base.having({kind: name})
        for part in list(left) if fits(found) else ():
            kind, name = part
            longer = found.having({kind: name})
            if getattr(found, kind) == getattr(base, kind) and fits(longer):
                found = longer
                left.remove(part)
        yield found


def fits(combination: Combination) -> bool:
    """Whether nothing refuses a combination, and every part is read: a mixer other than attention
    stands in the place of an attention and a weighting, except in cross-attention.
    """
    parts = vars(combination)
    options = StackOptions(**{kind: parts[kind] for kind in PLAIN})
    try:
        check_clashes(options.parts(combination.side != "encoder", parts.get("pooling")))
    except Clash:
        return False
    return (
        "attends" in registry("mixer").entry(parts["mixer"]).traits
        or (combination.side == "translator" and combination.reads_target)
        or all(parts[kind] == PLAIN[kind] for kind in ("attention", "weighting"))
    )


def others(entry: Entry, defaults: Mapping[str, str], partners: str) -> Iterator[tuple[str, str]]:
    """Kind and name of every component of the other kinds, but for the defaults: tfzoo's own, or
    all registered ones where ``partners`` is ``all``.
    """
    for kind in sorted(defaults.keys() - {entry.kind}):
        known = registry(kind)
        for name in known.names() if partners == "all" else known.own_names():
            if name != defaults[kind]:
                yield kind, name


def build_allowing(combination: Combination) -> tuple[list[str], Subject | None]:
    """The rules by which a combination is refused, in the order in which they are met, and the
    model that allowing all of them gives, or None where one of them cannot be allowed.
    """
    allow: list[str] = []
    with reproducible():
        while True:
            try:
                return allow, combination.build(allow)
            except Clash as clash:
                if clash.rule in allow:
                    return allow, None
                allow.append(clash.rule)


def violations(
    subject: Subject,
    allow: Collection[str] = (),
    contracts: Sequence[StackContract] = STACK_CONTRACTS,
) -> dict[str, str]:
    """The contracts that a model violates, by title, and how.

    A rule in ``allow`` must be there for a reason: the contract that it guards has to fail, and
    counts as violated where it holds.
    """
    found = {}
    guarded = {GUARDS[rule].__name__: rule for rule in allow}
    for contract in contracts:
        rule = guarded.get(contract.__name__)
        with reproducible(1), torch.no_grad():
            try:
                contract(subject)
            except Exception as error:
                if rule is None or not isinstance(error, Violation):
                    found[title(contract)] = first_line(error)
            else:
                if rule is not None:
                    found[title(contract)] = f"holds, so {rule} refuses it without need"
    return found


def results(
    entry: Entry,
    combinations: Iterable[Combination],
    contracts: Sequence[StackContract],
    where: str,
) -> Iterator[Result]:
    """The contracts of many models that hold a component, a result each.

    What a model violates with the default in place of the component as well is the fault of a
    partner, which is named. So is what only several partners together violate; it fails nobody.
    """
    failures: dict[str, list[str]] = {title(contract): [] for contract in contracts}
    partners: list[str] = []
    jointly: list[str] = []
    counts: Counter[str] = Counter()
    for combination in combinations:
        defaults = combination.defaults
        outcome, found = examine(combination, contracts)
        counts[outcome] += 1
        unexplained = dict(found)
        for pair, violated in pairs(entry, combination, found, contracts):
            unexplained = {name: unexplained[name] for name in unexplained.keys() - violated}
            without = pair.having({entry.kind: defaults[entry.kind]})
            again = examine(without, contracts)[1] if violated and without != pair else {}
            for name, how in violated.items():
                if name in again:
                    guilty = " and ".join(
                        f"{kind} {getattr(pair, kind)!r}"
                        for kind in sorted(defaults.keys() - {entry.kind})
                        if getattr(pair, kind) != defaults[kind]
                    )
                    partners.append(f"{guilty} with tfzoo's own components: {name}: {again[name]}")
                else:
                    failures.setdefault(name, []).append(f"{pair}: {how}")
        jointly += [f"{combination}: {name}: {how}" for name, how in unexplained.items()]
    for name, lines in failures.items():
        yield Result(f"{where}, {name}", not lines, first_of(lines))
    if partners:
        yield Result(f"{where}, the fault of a partner", True, first_of(partners))
    if jointly:
        yield Result(f"{where}, violated only with several partners", True, first_of(jointly))
    told = ", ".join(f"{n} {what}" for what, n in counts.items())
    yield Result(f"{where} of every other component", True, told)


def pairs(
    entry: Entry,
    combination: Combination,
    found: Mapping[str, str],
    contracts: Sequence[StackContract],
) -> Iterator[tuple[Combination, dict[str, str]]]:
    """A combination with one partner at a time, and what it violates then of ``found``. What only
    several together violate is in none of these.
    """
    defaults = combination.defaults
    partners = {
        kind: defaults[kind]
        for kind in sorted(defaults.keys() - {entry.kind})
        if getattr(combination, kind) != defaults[kind]
    }
    if len(partners) < 2:
        yield combination, dict(found)
    elif found:
        asked = [contract for contract in contracts if title(contract) in found]
        for kind in partners:
            pair = combination.having({one: partners[one] for one in partners if one != kind})
            yield pair, examine(pair, asked)[1]


def examine(
    combination: Combination, contracts: Sequence[StackContract]
) -> tuple[str, dict[str, str]]:
    """Whether a combination ran, was allowed or was refused, and what it violates."""
    try:
        allow, subject = build_allowing(combination)
    except Exception as error:
        return "not built", {"it can be built": first_line(error)}
    outcome = f"{allow[0]} {'allowed' if subject else 'refused'}" if allow else "ran"
    return outcome, violations(subject, allow, contracts) if subject else {}


def first_of(lines: Sequence[str]) -> str:
    """The first of several messages, and how many more there are."""
    return "".join(lines[:1]) + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
