"""Every attention x norm x position x residual placement x pooling classifies and keeps every
promise, or is refused with a reason.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.testing.rules import traits
from tfzoo.contracts import Pooling
from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.registry import registry
from tfzoo.testing.classifier_promises import CLASSIFIER_PROMISES
from tfzoo.testing.classifiers import CLASSIFIER, Choice, choices
from tfzoo.testing.component import differs
from tfzoo.testing.samples import randomize
from tfzoo.testing.stacks import broken, build_allowing
from tfzoo.testing.subject import FULL, TEXT, hooks

PLAIN = Choice(residual="pre", **CLASSIFIER)


def is_constant(classifier: Choice) -> bool:
    """Whether every text would get the same class, stated from traits."""
    averages = "averages" in traits("pooling", classifier.pooling)
    return (
        averages
        and "centres_texts" in traits("norm", classifier.norm)
        and classifier.residual != "none"
    )


def refused_by(classifier: Choice) -> set[str]:
    """Every rule that a combination breaks."""
    turned = "angles" in hooks(classifier.position) and "rotatable" not in traits(
        "attention", classifier.attention
    )
    rules = {"unrotatable-attention": turned, "constant-pooling": is_constant(classifier)}
    return {name for name, breaks in rules.items() if breaks}


def test_a_classifier_keeps_every_promise_or_is_refused(
    classifier: Choice, record_property: Callable[[str, object], None]
) -> None:
    torch.manual_seed(0)
    rules, subject = build_allowing(classifier)
    assert set(rules) == refused_by(classifier)
    assert (subject is None) == is_constant(classifier)
    if subject is None:
        record_property("classifier", "refused for good by constant-pooling")
        return
    record_property(
        "classifier",
        f"refused, allowed and found to break what {' and '.join(rules)} guards"
        if rules
        else "ran",
    )
    assert broken(subject, rules, CLASSIFIER_PROMISES) == {}


@pytest.mark.parametrize(
    "clashing",
    [one for one in choices(attention="scaled_dot_product") if is_constant(one)],
    ids=str,
)
def test_a_classifier_is_refused_only_where_every_text_would_get_one_class(
    clashing: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is left out: up to a text's length, nothing is left of it."""
    monkeypatch.setattr("tfzoo.models.classifier.refuse", lambda *args, **named: None)
    torch.manual_seed(0)
    out = clashing.build()(FULL)
    torch.testing.assert_close(out, out[:1].expand_as(out), rtol=1e-3, atol=1e-3)


def test_the_refusal_names_poolings_that_work() -> None:
    for clashing in (
        one for one in choices(attention="scaled_dot_product", position="none") if is_constant(one)
    ):
        with pytest.raises(Clash, match="cannot be allowed") as raised:
            clashing.build()
        assert raised.value.rule == "constant-pooling"
        listed = re.search(r"Poolings that see more: ([a-z_, ]+)\.", str(raised.value))
        assert listed
        for pooling in listed[1].split(", "):
            replace(clashing, pooling=pooling).build()


@pytest.mark.parametrize("name", registry("pooling").names())
def test_a_classifier_compiled_in_one_graph_computes_the_same(name: str) -> None:
    torch.manual_seed(0)
    subject = replace(PLAIN, pooling=name).build()
    expected = subject(TEXT)
    torch.compiler.reset()
    whole = torch.compile(lambda: subject(TEXT), fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(), expected, rtol=1e-4, atol=1e-4)


class Careless(Pooling):
    """A mean that counts padding."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return x.mean(1)


class Nosy(Pooling):
    """A mean that looks at the other texts of the batch."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2]) if valid is None else valid.float()
        mean = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        return mean + mean.mean(0, keepdim=True)


class Hasty(Pooling):
    """The first place, real or not."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return x[:, 0]


@pytest.mark.parametrize(
    ("mistake", "breaks"),
    [
        (Careless, "padding has no influence"),
        (Nosy, "a text does not see the others of its batch"),
        (Hasty, "padding has no influence"),
    ],
)
def test_a_mistake_in_a_pooling_is_found(mistake: type[Pooling], breaks: str) -> None:
    torch.manual_seed(0)
    subject = PLAIN.build()
    entry = subject.module.pooling.entry
    subject.module.pooling = mistake()
    subject.module.pooling.entry = entry
    assert breaks in broken(subject, (), CLASSIFIER_PROMISES)


SMALL: dict[str, Any] = {
    "vocab_size": 12,
    "classes": 5,
    "dim": 16,
    "heads": 4,
    "layers": 2,
    "dropout": 0.0,
    "position": "learned",
}
OTHER: dict[str, Any] = {
    "vocab_size": 13,
    "classes": 6,
    "dim": 20,
    "heads": 2,
    "layers": 1,
    "attention": "cosine",
    "norm": "rms",
    "position": "alibi",
    "feedforward": "gelu",
    "pooling": "max",
    "head_dim": 6,
    "value_head_dim": 7,
    "kv_heads": 2,
    "share_query_key": True,
    "temperature": 1.7,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "feedforward_dropout": 0.3,
    "pooled_dropout": 0.3,
    "residual": "post",
    "max_length": 30,
    "scale_embeddings": False,
}
"""Another value for each option; ``allow`` alone changes nothing by itself, and ``init_std`` only
the start.
"""


def computed(**options: Any) -> list[Tensor]:
    torch.manual_seed(0)
    model = TransformerClassifier(**{**SMALL, **options})
    randomize(model)
    with torch.no_grad():
        torch.manual_seed(1)
        return [*model.parameters(), model.train()(TEXT), model.eval()(TEXT)]


def test_every_option_of_a_classifier_is_tried() -> None:
    assert set(inspect.signature(TransformerClassifier).parameters) - OTHER.keys() == {
        "allow",
        "init_std",
    }


@pytest.mark.parametrize("name", OTHER)
def test_every_option_of_a_classifier_changes_something(name: str) -> None:
    assert differs(computed(**{name: OTHER[name]}), computed())
