"""Language modelling: what is read of documents, rows of several of them, scores, continuations."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import seed_everything

from tests.results import saved
from tests.scored import values_of
from tests.trainers import quiet
from tfzoo.base.registry import create, registry
from tfzoo.base.special_ids import OWN
from tfzoo.commands.main import main
from tfzoo.data.documents import DocumentData, DocumentDataset
from tfzoo.data.prepare import Sentences
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption, Clash
from tfzoo.models.language_model import LanguageModel
from tfzoo.tasks.language_modeling import LanguageModelingAnswer, LanguageModelingTask

V = 30
BOS, EOS = OWN.bos, OWN.eos
WORDS = {"name": "word", "cut": "spaces"}


def documents(count=12, longest=9, seed=0):
    """Random ids, of which some are longer than a row of 8 tokens."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, longest + 1, count)
    return [random.integers(4, V, n).tolist() for n in lengths]


def tokenizer(lines=("a b c d e f g h",)):
    made = create("tokenizer", WORDS)
    made.train([*lines])
    return Vocabulary(made, [], WORDS)


def small(vocab_size, **options):
    seed_everything(3, verbose=False)
    given = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.0, **options}
    return LanguageModel(vocab_size, **given).double().eval()


class Counted:
    """A tokenizer of which only the number of ids and the special ones are asked."""

    def __init__(self, special=OWN, ids=V):
        self.special, self.ids = special, ids

    def __len__(self):
        return self.ids

    def state(self):
        return ""


def total(model, batches):
    task = LanguageModelingTask(model, Vocabulary(Counted(), []))
    with torch.no_grad():
        return float(sum(task.loss(batch)[1].sum() for batch in batches))


COMPONENTS = [
    *(("attention", name) for name in registry("attention").names()),
    *(("position", name) for name in registry("position").names()),
    *(("weighting", name) for name in registry("weighting").names()),
]


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_documents_in_one_row_have_the_loss_that_they_have_alone(kind, name):
    try:
        model = small(V, **{"position": "rotary", kind: name}, max_length=8)
    except (Clash, BadOption):
        pytest.skip(f"{kind} {name} is in no plain decoder")
    sequences = Sentences.of(documents())
    packed = DocumentDataset(sequences, 8, OWN, packed=True)
    assert len(packed) < len(sequences)  # some rows hold several
    alone = DocumentDataset(sequences, 8, OWN)
    together = total(model, [packed[[*range(len(packed))]]])
    each = total(model, [alone[[item]] for item in range(len(alone))])
    assert together == pytest.approx(each, abs=1e-9)


@pytest.mark.parametrize(("lines", "packed"), [(1, False), (0, False), (0, True)])
def test_each_token_is_predicted_once_from_the_one_before(lines, packed):
    ids = documents()
    dataset = DocumentDataset(Sentences.of(ids), 4, OWN, [""] * len(ids) * lines, packed=packed)
    pairs = []
    for item in range(len(dataset)):
        batch = dataset[[item]]
        read = batch.tokens.flatten()[batch.non_padding]
        rows = [batch.index[place] for place in batch.owner]
        pairs += zip(rows, read.tolist(), batch.labels.tolist(), strict=True)
    wanted = [
        (row, before, after)
        for row, one in enumerate(ids)
        for before, after in zip([BOS, *one], [*one, EOS], strict=True)
    ]
    assert sorted(pairs) == sorted(wanted)


def test_a_mixer_that_reads_no_mask_takes_a_row_for_each_document():
    data = DocumentData(dataset="agreement", tokenizer=WORDS)
    task = LanguageModelingTask(small(V, mixer="gru", position="none"), Vocabulary(Counted(), []))
    data.vocabulary = task.tokenizer
    with pytest.raises(BadOption, match=r"set data\.packed to false"):
        task.check(data)
    data.packed = False
    task.check(data)


def rows_of(data):
    data.prepare_data()
    return {name: [text for text, _ in rows] for name, rows in data.splits.items()}


def test_any_files_of_lines_are_documents(tmp_path):
    (tmp_path / "one.md").write_text("a b\n\n \nc d\n")
    with gzip.open(tmp_path / "two.txt.gz", "wt") as stream:
        stream.write("e f\n")
    (tmp_path / "held").write_text("g h\n")
    data = DocumentData(root=str(tmp_path), train=["*.md", "two.txt"], val="held", tokenizer=WORDS)
    splits = rows_of(data)
    assert splits == {"train": ["a b", "", " ", "c d", "e f"], "val": ["g h"]}
    assert data.sets["train"].documents == 3
    assert data.skipped == {"without a token": 2}


def test_perplexity_and_bits_per_byte_are_those_of_the_documents():
    vocabulary = tokenizer()
    lines = ["a b c d e f g h a b", "c", "äö d"]
    model = small(len(vocabulary.tokenizer))
    task = LanguageModelingTask(model, vocabulary)
    ids = vocabulary.tokenizer.encode(lines)
    dataset = DocumentDataset(Sentences.of(ids), 4, OWN, lines)
    found = values_of(task, task.score(dataset[[0, 1, 2]]))
    bits = []
    for one in ids:
        read, labels = [BOS, *one], [*one, EOS]
        for first in range(0, len(read), 4):  # parts of four tokens
            log_p = model(torch.tensor([read[first : first + 4]]))[0].log_softmax(-1).detach()
            part = labels[first : first + 4]
            bits += [-float(row[k]) / math.log(2) for row, k in zip(log_p, part, strict=True)]
    size = sum(len(line.encode()) + 1 for line in lines)
    assert float(found["bits_per_byte"]) == pytest.approx(sum(bits) / size)
    assert float(found["perplexity"]) == pytest.approx(2 ** (sum(bits) / len(bits)))
    by_row = [row["bits_per_byte"] for row in task.rows(dataset[[0, 1, 2]])]
    weights = [len(line.encode()) + 1 for line in lines]
    assert np.average(by_row, weights=weights) == pytest.approx(sum(bits) / size)


def test_a_prompt_beyond_the_positions_is_continued_from_its_last_tokens():
    vocabulary = tokenizer()
    model = small(len(vocabulary.tokenizer), position="learned", max_length=8)
    task = LanguageModelingTask(model, vocabulary)
    cut = []
    how = {"max_new_tokens": 6, "on_truncated": lambda *one: cut.append(one)}
    found = task.predict(["a b c d e f g h", "g h"], **how)
    assert cut == [([0], 2)]
    assert found[0].continuation == found[1].continuation != ""
    with pytest.raises(BadOption, match="max_new_tokens 9, but the model has 8 positions"):
        task.predict(["a"], max_new_tokens=9)
    with pytest.raises(BadOption, match="set temperature over 0"):
        task.predict(["a"], seed=1)


def test_the_command_writes_one_line_for_each(monkeypatch, own_folder, capsys):
    vocabulary = tokenizer()
    saved(LanguageModelingTask(small(len(vocabulary.tokenizer)), vocabulary), Path("toy.ckpt"))
    Path("lines").write_text("a\n\nb\n", "utf-8")
    answers = [LanguageModelingAnswer(text) for text in (" b\nc\rd", "")]
    asked = []

    def answered(task, texts, **how):
        asked.append((texts, how["max_new_tokens"], how["top_p"]))
        return answers

    monkeypatch.setattr(LanguageModelingTask, "predict", answered)
    options = ["--max-new-tokens", "7", "--temperature", "1", "--top-p", "0.5"]
    assert main(["predict", "toy.ckpt", "lines", *options]) == 0
    assert capsys.readouterr().out == " b\\nc\\rd\n\n\n"
    assert asked == [(["a", "b"], 7, 0.5)]
    assert main(["predict", "toy.ckpt", "lines", "--temperature", "-1"]) == 2


def test_the_probabilities_of_the_grammar_are_those_of_its_choices():
    grammar = create("dataset", {"name": "agreement", "sentences": 4, "depth": 1})
    plain, nested = "the dogs sleep .", "the dogs that the cat sees hear the king ."
    of_plain = math.log2(24 * 12 / 0.7)
    of_nested = math.log2(24 / 0.3 * 24 * 6 * 12 * 24)  # no further clause: the depth is 1
    end = math.log2(3)  # 2, 3 or 4 sentences
    assert grammar.bits(f"{plain} {plain}") == pytest.approx(2 * of_plain + end)
    assert grammar.bits(f"{plain} {nested}") == pytest.approx(of_plain + of_nested + end)
    assert grammar.bits(" ".join([plain] * 4)) == pytest.approx(4 * of_plain + end)
    with pytest.raises(KeyError):
        grammar.bits(f"{plain} the dogs sleeps .")


def trained_on_agreement(cls, folder, steps):
    """The data of a grammar, and the scores of a model of it."""
    data = cls.Data(
        dataset={"name": "agreement", "train": 5000, "val": 200, "test": 200},
        tokenizer=WORDS,
        max_length=128,
        max_tokens=2048,
    )
    data.prepare_data()
    recipe = {
        "model": {"dim": 64, "heads": 4, "layers": 2, "dropout": 0.0, "position": "rotary"},
        "optim": {"lr": 3e-3, "label_smoothing": 0.0, "schedule": {"name": "cosine", "warmup": 20}},
    }
    task = cls.build(recipe, data.vocabulary)
    trainer = quiet(folder, max_steps=steps, gradient_clip_val=1.0)
    trainer.fit(task, datamodule=data)
    (scores,) = trainer.test(task, datamodule=data, verbose=False)
    return data, scores


@pytest.mark.nightly
def test_training_reaches_the_entropy_of_the_grammar(tmp_path):
    data, scores = trained_on_agreement(LanguageModelingTask, tmp_path, steps=300)
    texts = [text for text, _ in data.splits["test"]]
    bits, size = sum(map(data.built_in.bits, texts)), sum(len(one.encode()) + 1 for one in texts)
    least = bits / size
    assert least - 0.01 < scores["test/bits_per_byte"] < least + 0.04


def test_a_model_of_another_class_is_trained_on_padded_rows_alone():
    own = small(V)

    class Other(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = own

        def forward(self, tokens):
            return self.inner(tokens)

    vocabulary = Vocabulary(Counted(), [])
    task = LanguageModelingTask(Other(), vocabulary)
    batch = DocumentDataset(Sentences.of(documents()), 8, OWN)[[0, 1, 2]]
    assert float(task.loss(batch)[1].sum()) == pytest.approx(total(own, [batch]), abs=1e-9)
    data = DocumentData(dataset="agreement", tokenizer=WORDS)
    data.vocabulary = vocabulary
    with pytest.raises(BadOption, match=r"Other reads no mask .* set data\.packed to false"):
        task.check(data)
    with pytest.raises(BadOption, match="continues no texts"):
        task.predict(["a"])
