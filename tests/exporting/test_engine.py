"""``--engine ctranslate2`` translates as the model does, or is refused."""

import pytest
import torch

from tests.exporting.tasks import LINES, classifier, translator
from tfzoo.errors import BadOption, UnknownName
from tfzoo.exporting.engine import set_engine
from tfzoo.search import Search


def both(search, **options):
    """Translations of PyTorch and of CTranslate2."""
    task = translator(layers=1, position="rotary", **options).eval()
    ours = task.translations(LINES, search)
    set_engine(task, "ctranslate2")
    return ours, task.translations(LINES, search)


@pytest.mark.parametrize(
    "search",
    [
        Search(),
        Search(max_length=0.0),
        Search(beam=3, n_best=1),
        Search(beam=4, n_best=3, length_penalty=0.0),
    ],
    ids=str,
)
def test_texts_and_scores_are_those_of_the_model(search):
    ours, theirs = both(search)
    assert [[one.text for one in best] for best in theirs] == [
        [one.text for one in best] for best in ours
    ]
    for best, other in zip(ours, theirs, strict=True):
        assert [one.score for one in best] == pytest.approx([o.score for o in other], rel=1e-3)


def test_what_was_exported_is_exported_once_and_again_when_a_weight_changes(monkeypatch):
    from tfzoo.exporting import engine

    made = []

    def export(*args, **named):
        made.append(args)
        original(*args, **named)

    original = engine.export
    monkeypatch.setattr(engine, "export", export)
    task = translator(layers=1, dim=8)
    for count in (1, 1):
        set_engine(task, "ctranslate2")
        assert len(made) == count
    with torch.no_grad():
        task.model.decoder.layers[0].feedforward.inner.outer.weight[0, 0] += 0.5
    set_engine(task, "ctranslate2-int8")
    assert len(made) == 2


def test_what_no_engine_decodes_is_refused():
    with pytest.raises(UnknownName, match="ctranslate3"):
        set_engine(translator(layers=1), "ctranslate3")
    with pytest.raises(BadOption, match="this run is a classification model"):
        set_engine(classifier(layers=1), "ctranslate2")
    with pytest.raises(BadOption, match="attention 'additive'"):
        set_engine(translator(layers=1, attention="additive"), "ctranslate2")
