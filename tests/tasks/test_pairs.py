"""Models of pairs of texts: segments, answers, pages and files of them."""

import pytest
import torch
from tokenizers import processors

import tfzoo
from tests.exact import close
from tests.published_folders import LINES, save_tokenizer
from tests.trainers import quiet
from tfzoo.base.registry import create
from tfzoo.base.special_ids import OWN
from tfzoo.data.batches import text_batches
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadData
from tfzoo.models.classifier import types_of
from tfzoo.tasks.multilabel_classification import MultilabelClassificationTask
from tfzoo.tasks.regression import RegressionTask

PAIRS = [("one two", "three"), ("a", "b c d"), ("", "x")]
NAMES = ["premise", "hypothesis"]


def classifier(**model):
    vocabulary = Vocabulary(create("tokenizer", "bytes"), ["no", "yes"], "bytes", NAMES)
    recipe = {"model": {"dim": 8, "heads": 2, "layers": 1, "dropout": 0.0, **model}}
    return tfzoo.ClassificationTask.build(recipe, vocabulary).eval()


def test_tokens_after_the_first_separator_are_of_the_second_type():
    model = classifier(token_types=2).double().model
    tokens = torch.tensor([[9, 8, OWN.eos, 7, OWN.eos, 0], [9, OWN.eos, 8, 7, 6, OWN.eos]])
    types = torch.tensor([[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]])
    mask = tfzoo.Mask.right(torch.tensor([5, 6]), 6)
    found = model(tokens, mask=mask)
    close(found, model(tokens, types, mask=mask))
    assert not torch.allclose(found, model(tokens, torch.zeros_like(types), mask=mask))


def test_a_model_without_types_reads_separators_alone():
    task = classifier(position="none", pooling="mean")
    there, back = task.predict([("a b", "c"), ("c", "a b")])
    assert there.probabilities == pytest.approx(back.probabilities)
    typed = classifier(position="none", pooling="mean", token_types=2)
    there, back = typed.predict([("a b", "c"), ("c", "a b")])
    assert there.probabilities != pytest.approx(back.probabilities)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        (tfzoo.ClassificationTask, ["x", "y"]),
        (RegressionTask, [0, 1]),
        (MultilabelClassificationTask, ["x", "x,y"]),
    ],
)
def test_every_task_over_texts_takes_pairs(kind, labels, tmp_path):
    rows = [(f"a {n}", f"b {n % 7}", labels[n % 2]) for n in range(40)]
    options = {"text_column": NAMES, "tokenizer": "bytes", "max_tokens": 64}
    data = kind.Data(train=rows, test={"new": rows[:9]}, **options)
    data.prepare_data()
    recipe = {"model": {"dim": 8, "heads": 2, "layers": 1, "token_types": 2}}
    task = kind.build(recipe, data.vocabulary)
    trainer = quiet(max_steps=2)
    trainer.fit(task, datamodule=data)
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = kind.load(tmp_path / "one.ckpt")
    answers = [task.eval().predict(lines) for lines in (PAIRS, ["\t".join(one) for one in PAIRS])]
    assert answers[0] == answers[1] == again.predict(PAIRS)
    found = again.predictions(data, "new")
    assert [tuple(row[name] for name in NAMES) for row in found] == [row[:2] for row in rows[:9]]
    assert "text" not in found[0]


def test_attention_is_of_both_texts():
    maps = classifier().attention(("ab", "c"))
    assert (maps.text, maps[0].keys) == ("ab / c", ["a", "b", "<eos>", "c", "<eos>"])
    with pytest.raises(BadData, match="the model reads pairs of texts"):
        classifier().attention("ab c")


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_tokens_and_types_of_a_pair_are_those_of_transformers(name, tmp_path):
    """Also of one that is truncated; RoBERTa has two separators and no types."""
    peer = save_tokenizer(name, tmp_path)
    kind = {"bert": processors.BertProcessing, "roberta": processors.RobertaProcessing}[name]
    after, before = (peer.sep_token, peer.sep_token_id), (peer.cls_token, peer.cls_token_id)
    peer.backend_tokenizer.post_processor = kind(after, before)
    peer.save_pretrained(tmp_path)
    made = create("tokenizer", {"name": "pretrained", "folder": str(tmp_path)})
    made.train([])
    vocabulary = Vocabulary(made, ["no", "yes"], "pretrained", NAMES)
    pair = LINES[0], LINES[1]
    for most in (None, 16, 17):
        options = {} if most is None else {"truncation": "longest_first", "max_length": most}
        wanted = peer(*pair, **options, return_token_type_ids=True)
        told = None if most is None else lambda rows, tokens: None
        (batch,) = text_batches([pair], vocabulary, max_length=most, on_truncated=told)
        assert batch.tokens.tolist() == [wanted.input_ids], most
        if name == "bert":
            types = types_of(batch.tokens, vocabulary.special.sep[0])
            assert types.tolist() == [wanted.token_type_ids]
