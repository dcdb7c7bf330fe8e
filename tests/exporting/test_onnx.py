"""ONNX files compute what the model does, at every length, or are refused with the part's name."""

import pytest
import torch
from torch import nn

import tfzoo
from tests.daily import sampled
from tests.exporting.tasks import Session, classifier, refusal, translator
from tfzoo.base.registry import REGISTRIES
from tfzoo.base.special_ids import OWN
from tfzoo.errors import BadOption, Clash
from tfzoo.exporting import onnx
from tfzoo.exporting.onnx import export
from tfzoo.masks import Mask

PARTS = [
    (kind, name)
    for kind in (
        *("attention", "weighting", "norm", "position", "feedforward", "mixer", "residual"),
        "pooling",
    )
    for name in REGISTRIES[kind].names()
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a translator, whose export takes many seconds."""
    place = tmp_path_factory.mktemp("onnx") / "translator"
    export(translator(layers=1, position="rotary"), place)
    return place


@pytest.mark.parametrize("causal", sampled([False, True], [False]))
@pytest.mark.parametrize("apart", [pytest.param(1, marks=pytest.mark.nightly), 13])
def test_a_classifier_is_one_file_for_all_lengths(apart, causal, tmp_path):
    task = classifier(layers=1, attention="additive", position="alibi", causal=causal)
    export(task, tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        *("model.onnx", "tokenizer.json")
    }
    model, session = task.model, Session(tmp_path / "model" / "model.onnx")
    for n in range(200, 0, -apart):
        tokens, lengths = onnx.sample(OWN, 20, 3, n)
        wanted = model(tokens, mask=Mask.right(lengths, n))
        found = session(tokens, lengths)["logits"]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_translator_is_one_file_for_all_lengths(folder):
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "tokenizer.json"}
    model, session = translator(layers=1, position="rotary").model, Session(folder / "model.onnx")
    for k, t in ((1, 200), (9, 1), (40, 23), (200, 64)):
        source, lengths = onnx.sample(OWN, 20, 3, k)
        tokens, _ = onnx.sample(OWN, 20, 3, t)
        wanted = model(source, tokens, source_mask=Mask.right(lengths, k))
        found = session(source, lengths, tokens)["logits"]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_computes_something_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "TOLERANCE", 0.0)
    with pytest.raises(BadOption, match=r"model.onnx is not the model for a text of \d+ tokens"):
        export(classifier(layers=1), tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_a_part_that_cannot_be_traced_is_named(tmp_path):
    with pytest.raises(BadOption, match=r"onnx: mixer 'gru' cannot be traced"):
        export(classifier(layers=1, mixer="gru"), tmp_path / "model")


def test_a_model_of_another_class_is_refused(tmp_path):
    task = classifier()

    class Other(nn.Module):
        def forward(self, tokens):
            return torch.zeros(len(tokens), 3)

    other = tfzoo.ClassificationTask(Other(), task.tokenizer)
    with pytest.raises(BadOption, match="which is not tfzoo's"):
        export(other, tmp_path / "model")


def refusal_of(make, folder, **options):
    """What an export is refused with, or "", also where there is no such model."""
    try:
        task = make(layers=1, allow=["leaky-norm"], **options)
    except Clash:
        return ""
    return refusal(export, task, folder)


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_every_part_is_exported_faithfully_or_refused_by_name(kind, name, tmp_path):
    said = refusal_of(classifier, tmp_path / "classifier", **{kind: name})
    assert not said or f"{kind} {name!r}" in said
    if kind != "pooling":
        said = refusal_of(translator, tmp_path / "translator", **{kind: name})
        assert not said or f"{kind} {name!r}" in said


def test_a_vocabulary_of_few_tokens_has_enough_to_compare():
    tokens, _ = onnx.sample(OWN, len(OWN.every) + 4, 3, 5)
    assert tokens.max() < len(OWN.every) + 4
