"""Components in an encoder, a decoder and a translator."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch

from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.decoder import Decoder
from tfzoo.models.encoder import Encoder
from tfzoo.models.transformer import Transformer
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


def results(combination: Combination) -> Iterator[Result]:
    """The contracts of one model, a result each; one result where it is refused."""
    where = f"in {'an' if combination.side == 'encoder' else 'a'} {combination.side}"
    try:
        allow, subject = build_allowing(combination)
    except Exception as error:  # whatever an unfinished component raises
        yield Result(f"{where}, it can be built", False, first_line(error))
        return
    if subject is None:
        yield Result(f"{where}, refused by {', '.join(allow)}", True)
        return
    found = violations(subject, allow)
    for name in map(title, STACK_CONTRACTS):
        yield Result(f"{where}, {name}", name not in found, found.get(name, ""))
