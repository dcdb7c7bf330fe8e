"""Components in an encoder, a decoder and a translator."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch

from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.decoder import Decoder
from tfzoo.models.encoder import Encoder
from tfzoo.models.transformer import Transformer
from tfzoo.testing.contract import Result, first_line, reproducible, run_contract
from tfzoo.testing.samples import COMPONENT_KINDS, SIZES, randomize
from tfzoo.testing.stack_contracts import STACK_CONTRACTS
from tfzoo.testing.subject import VOCABULARY, Subject

Side = Literal["encoder", "decoder", "translator"]
SIDES: tuple[Side, ...] = get_args(Side)
PLAIN: Mapping[str, str] = {
    kind: parameter.default
    for kind, parameter in inspect.signature(Transformer).parameters.items()
    if kind in COMPONENT_KINDS
}
"""A model's defaults, which stand beside a component that is checked."""


@dataclass(frozen=True)
class Combination:
    """One choice of components for one side of a model."""

    side: Side
    attention: str = PLAIN["attention"]
    norm: str = PLAIN["norm"]
    position: str = PLAIN["position"]
    residual: str = PLAIN["residual"]
    feedforward: str = PLAIN["feedforward"]
    weighting: str = PLAIN["weighting"]
    mixer: str = PLAIN["mixer"]

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

    def build(self, allow: Collection[str] = (), scale: float = 0.7) -> Subject:
        """:meth:`module` with every parameter drawn at random, in evaluation mode. They are small:
        a softmax of large random scores is a hard maximum, behind which every mistake hides.
        """
        return Subject(randomize(self.module(allow), scale).eval())  # type: ignore[arg-type]  # it is


def results(combination: Combination) -> Iterator[Result]:
    """The contracts of one model, a result each; one result where it is refused."""
    where = f"in {'an' if combination.side == 'encoder' else 'a'} {combination.side}"
    try:
        with reproducible():
            subject = combination.build()
    except Clash as clash:
        yield Result(f"{where}, refused by {clash.rule}", True)
        return
    except Exception as error:  # whatever an unfinished component raises
        yield Result(f"{where}, it can be built", False, first_line(error))
        return
    for contract in STACK_CONTRACTS:
        with torch.no_grad():
            result = run_contract(contract, subject)
        yield replace(result, name=f"{where}, {result.name}")
