"""What every classifier promises, whatever it is made of."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from tfzoo.models.classifier import TransformerClassifier
from tfzoo.registry import Entry
from tfzoo.testing.gradients import gradients_reach_every_parameter
from tfzoo.testing.promise import differ, finite, same
from tfzoo.testing.samples import randomize
from tfzoo.testing.stack_promises import StackPromise
from tfzoo.testing.subject import FULL, TEXT, Subject, hooks, left


def pooling_of(subject: Subject) -> Entry:
    """The pooling of the classifier under test."""
    if not isinstance(subject.module, TransformerClassifier):
        raise TypeError(f"a classifier is wanted, not a {type(subject.module).__name__}")
    return subject.module.pooling.entry


def padding_has_no_influence(subject: Subject) -> None:
    before = subject(TEXT)
    with subject.other_padding():
        same(subject(TEXT), before, "other padding on the right")
        same(subject(pad(TEXT, (0, 3))), before, "more padding on the right")
        same(subject(left(TEXT), "left"), before, "padding on the left")
        same(subject(pad(left(TEXT), (2, 0)), "left"), before, "more padding on the left")


def padding_has_no_influence_while_training(subject: Subject) -> None:
    def trained(ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        with subject.training():
            return subject(ids), [buffer.clone() for buffer in subject.module.buffers()]

    before, statistics = trained(TEXT)
    with subject.other_padding():
        out, others = trained(pad(TEXT, (0, 2)))
    same(out, before, "other and more padding while training")
    for one, other in zip(others, statistics, strict=True):
        same(one, other, "running statistics with other and more padding")


def a_text_does_not_see_the_others_of_its_batch(subject: Subject) -> None:
    before = subject(TEXT)
    same(subject(TEXT.flip(0)).flip(0), before, "another order of the batch")
    same(subject(TEXT[1:2, :4], "none"), before[1:2], "alone and without padding")
    with subject.training():
        trained = subject(TEXT)
    with subject.training():
        same(subject(TEXT.flip(0)).flip(0), trained, "another order of the batch while training")


def every_token_has_influence(subject: Subject) -> None:
    """In one batch of texts that differ in one token each."""
    text = FULL[:1].repeat(7, 1)
    for t in range(6):
        text[t + 1, t] = 11
    out = subject(text, "none")
    differ(out[1:], out[:1].expand(6, -1), "another token", 1e-6)


def order_matters_if_and_only_if_there_are_positions_or_an_ordered_pooling(
    subject: Subject,
) -> None:
    text = FULL[:1]
    moved = text[:, [3, 0, 4, 2, 1, 5]]
    if hooks(subject.position.name) or "ordered" in pooling_of(subject).traits:
        differ(subject(moved, "none"), subject(text, "none"), "tokens in another order", 1e-6)
    else:
        same(
            subject(moved, "none"),
            subject(text, "none"),
            "tokens in another order, without positions",
        )


def turned_scores_depend_on_distance_alone(subject: Subject) -> None:
    if hooks(subject.position.name) == {"angles"}:
        before = subject(TEXT)
        with subject.shifted(11):
            same(subject(TEXT), before, "all positions 11 later", 1e-3)


def texts_of_nothing_but_padding_are_harmless(subject: Subject) -> None:
    ids = TEXT.clone()
    ids[2] = 0
    parameters = list(subject.module.parameters())
    finite(subject(ids), "output")
    with subject.training(), torch.enable_grad():
        out = subject(left(ids), "left")
        finite(out, "output while training")
        for gradient in torch.autograd.grad(out.square().mean(), parameters, allow_unused=True):
            if gradient is not None:
                finite(gradient, "gradient")


def the_state_dict_holds_all(subject: Subject) -> None:
    before = subject(TEXT)
    saved = {name: value.clone() for name, value in subject.module.state_dict().items()}
    subject.module.train()
    subject(FULL)  # moves running statistics
    randomize(subject.module.eval())
    differ(subject(TEXT)[:1], before[:1], "other parameters")
    subject.module.load_state_dict(saved)
    same(subject(TEXT), before, "with the state dict of before", 0.0)


CLASSIFIER_PROMISES: tuple[StackPromise, ...] = (
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    a_text_does_not_see_the_others_of_its_batch,
    every_token_has_influence,
    order_matters_if_and_only_if_there_are_positions_or_an_ordered_pooling,
    turned_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
    gradients_reach_every_parameter,
    the_state_dict_holds_all,
)
