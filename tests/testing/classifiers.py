"""Classifiers of any components, and what each of them holds."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.testing.rare import OF_STACKS
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.testing.contract import assert_same
from tfzoo.testing.samples import SIZES
from tfzoo.testing.stacks import (
    PLAIN,
    STACK_CONTRACTS,
    Combination,
    Side,
    a_text_does_not_see_the_others_of_its_batch,
    gradients_reach_every_parameter,
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    rotated_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
)
from tfzoo.testing.subject import FULL, VOCABULARY, Subject

CLASSIFIER: Mapping[str, str] = {
    **PLAIN,
    "pooling": inspect.signature(TransformerClassifier).parameters["pooling"].default,
}
"""A classifier's defaults."""
CLASSES = 5


def tokens_of_a_causal_classifier_see_no_later_ones(subject: Subject):
    """With ``causal``, a token's last hidden state does not depend on later tokens."""
    module = subject.module
    if isinstance(module, TransformerClassifier) and module.config["causal"]:
        changed = FULL.clone()
        changed[:, 4:] = FULL.flip(0)[:, 4:]
        before, after = (module.encode(one)[:, :4] for one in (FULL, changed))
        assert_same(after, before, "other tokens at the end")


CLASSIFIER_CONTRACTS = (
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    a_text_does_not_see_the_others_of_its_batch,
    tokens_of_a_causal_classifier_see_no_later_ones,
    rotated_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
    gradients_reach_every_parameter,
)


@dataclass(frozen=True)
class Choice(Combination):
    """One choice of components for a classifier, whose stack is an encoder or a decoder."""

    side: Side = "encoder"
    pooling: str = CLASSIFIER["pooling"]

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


def named(model: Combination):
    """The parts that are not the defaults, such as ``encoder-norm=rms-position=rotary``."""
    usual = {**CLASSIFIER, "side": "encoder"} if isinstance(model, Choice) else PLAIN
    parts = [
        value if kind == "side" and kind not in usual else f"{kind}={value}"
        for kind, value in vars(model).items()
        if value != usual.get(kind)
    ]
    return "-".join(parts) or "plain"


def contracts_of(model: Combination):
    """What it has to hold, as a classifier or as a stack."""
    return CLASSIFIER_CONTRACTS if isinstance(model, Choice) else (*STACK_CONTRACTS, *OF_STACKS)
