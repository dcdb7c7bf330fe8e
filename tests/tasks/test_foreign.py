"""Any module can be trained and scored, and is loaded where its module is given."""

import warnings

import pytest
import torch
from torch import nn

import tfzoo
from tests.tiny import number_pairs, ready
from tests.trainers import quiet
from tfzoo.errors import BadOption, BadRun
from tfzoo.masks import Mask


class Bag(nn.Module):
    """Is no model of tfzoo and has no ``config``."""

    def __init__(self, vocab_size: int, classes: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab_size, 8), nn.Linear(8, classes)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).mean(1))


class Wrapped(nn.Module):
    """A Transformer that hides everything but its forward."""

    def __init__(self, vocab_size: int, decodes: bool = False) -> None:
        super().__init__()
        self.inner = tfzoo.Transformer(vocab_size, dim=8, heads=2, layers=1)
        if decodes:
            self.max_positions = None
            self.init_cache, self.decode_step = self.inner.init_cache, self.inner.decode_step

    def forward(self, source, target):
        return self.inner(source, target, source_mask=Mask(keys=source != 0))


def trainer():
    return quiet(max_steps=2)


@pytest.fixture(scope="module")
def texts():
    lists = {"name": "listops", "train": 60, "val": 8, "test": 8}
    return ready(tfzoo.ClassificationData(dataset=lists, max_tokens=512))


@pytest.fixture(scope="module")
def pairs():
    return number_pairs(val=8, test=8, max_tokens=400)


def test_a_classifier_of_ones_own_is_trained_scored_and_loaded(texts, tmp_path, capsys):
    words = texts.vocabulary
    sizes = len(words.tokenizer), len(words.labels)
    task = tfzoo.ClassificationTask(Bag(*sizes), words)
    lightning = trainer()
    lightning.fit(task, datamodule=texts)
    assert "warmup is longer than the training's 2 steps" in capsys.readouterr().err
    lightning.test(task, datamodule=texts, verbose=False)
    assert {"test/loss", "test/accuracy"} <= lightning.callback_metrics.keys()
    path = tmp_path / "mine.ckpt"
    lightning.save_checkpoint(path)
    again = tfzoo.ClassificationTask.load(path, model=Bag(*sizes))
    assert again.predict(["[MAX 4 3 ]"]) == task.predict(["[MAX 4 3 ]"])
    with pytest.raises(BadRun, match=r"Bag, is not tfzoo's: load it with Clas.*\.load\(RUN, mod"):
        tfzoo.ClassificationTask.load(path)
    with pytest.raises(BadRun, match="contents do not match"):
        tfzoo.ClassificationTask.load(path, model=Bag(sizes[0], 3))
    of_lightning = tfzoo.ClassificationTask.load_from_checkpoint
    with pytest.raises(BadOption, match="load_from_checkpoint has no argument 'strict'"):
        of_lightning(path, model=Bag(*sizes), strict=False)
    found = of_lightning(path, "cpu", model=Bag(*sizes), weights_only=False)
    assert found.predict(["[MAX 4 3 ]"]) == task.predict(["[MAX 4 3 ]"])


def test_what_is_no_logits_is_said_by_shape(texts):
    words = texts.vocabulary
    task = tfzoo.ClassificationTask(Bag(len(words.tokenizer), 3), words)
    with pytest.raises(BadOption, match=r"Bag must return logits .* = \(1, 10\), not \(1, 3"):
        task.predict(["[MAX 4 3 ]"])
    task.model.forward = lambda tokens: [tokens]
    with pytest.raises(BadOption, match="= \\(1, 10\\), not list"):
        task.predict(["[MAX 4 3 ]"])


def test_a_translator_of_ones_own_has_the_loss_of_tfzoos(pairs, tmp_path):
    tokenizers = pairs.tokenizers
    with pytest.warns(UserWarning, match="has no max_positions, init_cache, decode_step") as told:
        task = tfzoo.TranslationTask(
            Wrapped(len(tokenizers.target)), tokenizers, optim=tfzoo.Optim(label_smoothing=0.1)
        )
    assert told[0].filename == __file__
    lightning = trainer()
    lightning.fit(task, datamodule=pairs)
    scores = lightning.validate(task, datamodule=pairs, verbose=False)[0]
    assert scores.keys() == {"val/loss", "val/perplexity", "val/items"}
    with pytest.raises(BadOption, match="cannot decode: it has no max_positions, init_cache"):
        task.translate(["two"])
    task.eval()
    same = tfzoo.TranslationTask(task.model.inner, tokenizers, optim=task.optim).eval()
    batch = next(iter(pairs.val_dataloader()))
    torch.testing.assert_close(task.loss(batch)[:2], same.loss(batch)[:2])
    lightning.save_checkpoint(tmp_path / "mine.ckpt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoding = Wrapped(len(tokenizers.target), decodes=True)
        again = tfzoo.TranslationTask.load(tmp_path / "mine.ckpt", model=decoding)
    assert again.translate(["two"]) == same.translate(["two"])
