"""Classifiers of any components, and what each of them holds."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from tests.testing.rare import OF_STACKS
from tfzoo.base.registry import Entry
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.testing.contract import CLEAR, Violation, assert_differs, assert_same
from tfzoo.testing.gradients import gradients_reach_every_parameter
from tfzoo.testing.samples import SIZES
from tfzoo.testing.stack_contracts import (
    CHANGED,
    STACK_CONTRACTS,
    a_text_does_not_see_the_others_of_its_batch,
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    rotated_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
    the_state_dict_holds_all,
)
from tfzoo.testing.stacks import PLAIN, Combination, Side
from tfzoo.testing.subject import FULL, VOCABULARY, Subject, hooks

CLASSIFIER: Mapping[str, str] = {
    **PLAIN,
    "pooling": inspect.signature(TransformerClassifier).parameters["pooling"].default,
}
"""A classifier's defaults."""
CLASSES = 5


def pooling_of(subject: Subject) -> Entry:
    """The pooling of the classifier under test."""
    if not isinstance(subject.module, TransformerClassifier) or subject.module.pooling is None:
        raise TypeError(f"a classifier of texts is wanted, not a {type(subject.module).__name__}")
    return subject.module.pooling.entry


def reads_one_token(pooling: nn.Module):
    """Whether the output of a pooling depends on one token alone."""
    x = torch.randn(1, 6, SIZES["dim"], requires_grad=True)
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(pooling(x).sin().sum(), x)
    return int(gradient.abs().amax(-1).count_nonzero()) == 1


def every_token_has_influence(subject: Subject):
    """Every real token has influence on the logits. With a ``sparse`` weighting, a mixer of limited
    ``reach``, or a mixer alone, whose outputs can cancel when they are pooled, some token has. With
    a weighting that ``needs_positive_scores``, no residual connection and a pooling of one token,
    none may have.
    """
    out = subject(CHANGED, "none")
    off = (out[1:] - out[:1]).abs().amax(-1)
    weighting, replaces = subject.traits("weighting"), "replaces" in subject.traits("residual")
    nothing = replaces and "needs_positive_scores" in weighting
    if nothing and any(map(reads_one_token, subject.parts("pooling"))):
        return
    near = not subject.parts("mixer") or "reach" in subject.traits("mixer")
    alone = replaces and not subject.parts("feedforward")
    off = off.max() if near or alone or "sparse" in weighting else off.min()
    if not off > CLEAR:
        raise Violation(f"a token has no influence: {off.item():.2g}")


def tokens_of_a_causal_classifier_see_no_later_ones(subject: Subject):
    """With ``causal``, a token's last hidden state does not depend on later tokens."""
    module = subject.module
    if isinstance(module, TransformerClassifier) and module.config["causal"]:
        changed = FULL.clone()
        changed[:, 4:] = FULL.flip(0)[:, 4:]
        before, after = (module.encode(one)[:, :4] for one in (FULL, changed))
        assert_same(after, before, "other tokens at the end")


def order_matters_if_and_only_if_something_reads_it(subject: Subject):
    """Logits depend on the order of tokens exactly where the position acts, the mixer or the
    pooling is ``ordered``, or the mixer is causal. They may not with a weighting that is ``sparse``
    or ``ignores_scores``, where a pooling reads one token alone of a mixer other than attention
    that nothing is added to, or where layers are empty.
    """
    text = FULL[:1]
    moved = text[:, [3, 0, 5, 2, 1, 4]]  # the first and the last token too
    mixed = "ordered" in subject.traits("mixer")
    mixed = mixed or (subject.causal and bool(subject.parts("mixer")))
    positions = hooks(subject.position.name)
    replaced = "replaces" in subject.traits("residual") and "attends" not in subject.traits("mixer")
    one = replaced and any(map(reads_one_token, subject.parts("pooling")))
    empty = not subject.parts("mixer") and not subject.parts("feedforward")
    unsure = subject.traits("weighting") & {"sparse", "ignores_scores"}
    if not (positions or mixed or "ordered" in pooling_of(subject).traits):
        assert_same(
            subject(moved, "none"),
            subject(text, "none"),
            "tokens in another order, without positions",
        )
    elif not (unsure or one or empty):
        assert_differs(
            subject(moved, "none"), subject(text, "none"), "tokens in another order", 1e-6
        )


CLASSIFIER_CONTRACTS = (
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    a_text_does_not_see_the_others_of_its_batch,
    every_token_has_influence,
    tokens_of_a_causal_classifier_see_no_later_ones,
    order_matters_if_and_only_if_something_reads_it,
    rotated_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
    gradients_reach_every_parameter,
    the_state_dict_holds_all,
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
