"""The translation task: what it logs, what its checkpoints hold, and what it leaves alone."""

import lightning.pytorch as L
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import tfzoo
from tests.tiny import number_pairs, ready
from tests.trainers import quiet
from tfzoo.errors import BadOption
from tfzoo.search import Hypothesis
from tfzoo.tasks import translation


@pytest.fixture(scope="module")
def data():
    return number_pairs(200, 12, 12, max_tokens=400)


def task_of(data, **recipe):
    small = {"dim": 16, "heads": 2, "layers": 1}
    return tfzoo.TranslationTask.build(
        {"seed": 1, "model": {**small, **recipe}, "search": {"max_length": 0.0}}, data.tokenizers
    )


def trainer_in(folder, **options):
    return quiet(folder, **{"max_steps": 3, **options})


def test_progress_is_told_with_each_batch(data):
    sizes, lines = [], ["two", "", "forty plus " * 60, "nine"]
    found = task_of(data).eval().predict(lines, max_tokens=50, progress=sizes.append)
    assert len(sizes) > 1
    assert sum(sizes) == len(lines) == len(found)


def test_n_best_translations_have_scores_and_raise_the_beam(data):
    task, texts = task_of(data, tie="none").eval(), ["one", "two", "nine", "ten", "forty two"]
    # An untrained model may spell all hypotheses alike, as bytes of no character.
    text = max(texts, key=lambda text: len(task.predict([text], n_best=3)[0]))
    (best,) = task.predict([text], n_best=3)
    assert len({one.translation for one in best}) == len(best) > 1
    assert best == task.predict([text], beam=3, n_best=3)[0]
    assert task.translate([text], beam=3) == [best[0].translation]
    assert task.search.beam == 1
    with pytest.raises(BadOption, match="n_best=3 must be a whole number at least 1 and at most 2"):
        task.predict(["two"], n_best=3, beam=2)
    with pytest.raises(BadOption, match=r"Translate has no argument 'beem'. Did you mean 'beam'"):
        task.predict(["two"], beem=2)


def test_hypotheses_with_the_same_text_are_one_translation(data, monkeypatch):
    """Several sequences of tokens spell one text; others of the beam take their place."""
    task = task_of(data).eval()
    one, two, three = (task.tokenizer.target.encode([text])[0] for text in ("ein", "zwei", "drei"))
    beam = [Hypothesis(ids, -n, True) for n, ids in enumerate((one, [*one], two, [*one], three))]
    asked = []

    def found(model, source, options, **_):
        asked.append(options)
        return [beam[: options.n_best]]

    monkeypatch.setattr(translation, "search", found)
    (best,) = task.predict(["two"], n_best=2, beam=5)
    assert [(each.translation, each.score) for each in best] == [("ein", 0), ("zwei", -2)]
    (best,) = task.predict(["two"], n_best=3)
    assert [each.translation for each in best] == ["ein", "zwei"], "no more than the beam holds"
    task.translate(["two"], beam=5)
    assert [(options.beam, options.n_best) for options in asked] == [(5, 5), (3, 3), (5, 1)]


@torch.no_grad()
def test_the_loss_is_a_mean_over_real_tokens_however_they_are_padded(data):
    task = task_of(data, dropout=0.0).eval()
    batch = next(iter(data.val_dataloader()))
    summed, _, tokens = task.loss(batch)
    assert tokens == int((batch.target[:, 1:] != 0).sum())
    parts = 0.0
    for row in range(len(batch.target)):
        source = batch.source[row : row + 1, : int((batch.source[row] != 0).sum())]
        target = batch.target[row : row + 1, : int((batch.target[row] != 0).sum())]
        logits = task.model(source, target[:, :-1])
        log_p = logits.log_softmax(-1)[0]
        nll = -log_p.gather(1, target[0, 1:, None]).sum()
        others = -(log_p[:, 1:].sum() - log_p.gather(1, target[0, 1:, None]).sum())
        parts += float(0.9 * nll + 0.1 / (log_p.shape[1] - 2) * others)
    assert float(summed) == pytest.approx(parts, rel=1e-4)


class Gradients(L.Callback):
    """The norm and the largest absolute value of the gradients of each step."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.largest: list[float] = []

    def on_train_batch_end(self, trainer, pl_module, *_):
        every = torch.cat([p.grad.flatten() for p in pl_module.parameters() if p.grad is not None])
        self.norms.append(float(every.norm()))
        self.largest.append(float(every.abs().max()))


@pytest.mark.parametrize(
    ("precision", "algorithm"), [("32-true", None), ("32-true", "value"), ("bf16-mixed", "norm")]
)
def test_gradients_are_clipped_at_any_precision_by_norm_or_by_value(
    data, tmp_path, precision, algorithm
):
    seen = Gradients()
    trainer = trainer_in(
        tmp_path,
        precision=precision,
        gradient_clip_val=0.01,
        gradient_clip_algorithm=algorithm,
        limit_val_batches=0,
        callbacks=[seen],
    )
    trainer.fit(task_of(data), datamodule=data)
    if algorithm == "value":
        assert seen.largest == pytest.approx([0.01] * 3)
        assert min(seen.norms) > 0.05
    else:
        assert seen.norms == pytest.approx([0.01] * 3, rel=1e-3)


def test_a_monitored_score_is_computed_or_refused(data, tmp_path):
    """The references are numbers of one word, then of the four that BLEU takes."""
    best = ModelCheckpoint(tmp_path, monitor="val/bleu", mode="max")
    saving = {"callbacks": [best], "enable_checkpointing": True}
    trainer = trainer_in(tmp_path, max_steps=1, val_check_interval=1, **saving)
    with pytest.raises(BadOption, match="not computed"):
        trainer.fit(task_of(data), datamodule=data)
    rows = [(f"{a} {b}", f"{a} {b} c d") for a in "pqr" for b in "stuv"]
    four = ready(tfzoo.TranslationData(train=rows, val=rows, tokenizer="word"))
    trainer_in(tmp_path, max_steps=1, **saving).fit(task_of(four), datamodule=four)
