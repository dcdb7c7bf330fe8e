"""A label for each word: spans as seqeval finds them, words over subwords, files of CoNLL."""

import json
from pathlib import Path
from random import Random

import datasets
import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tests.published_folders import LEARNT, save_tokenizer
from tests.scored import task_with, values_of
from tfzoo.base.registry import create
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.batches import WordBatch, WordDataset
from tfzoo.data.prepare import Sentences
from tfzoo.data.tokenizer import Vocabulary, WordEncoder, WordLengths
from tfzoo.errors import BadData, BadOption
from tfzoo.tasks.token_classification import (
    Span,
    TokenClassificationTask,
    TokenData,
    counts_of,
    parse,
    spans_of,
)

pytestmark = pytest.mark.usefixtures("empty_cache")

GOLDEN = Path(__file__).parents[1] / "golden" / "seqeval.json"
"""What seqeval 1.2.2 says of the :func:`cases`: precision, recall, F1, macro F1 (0 where
it divides by no kind) and accuracy.
"""
LABELS = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("LOC", "PER"))]
TEXTS = [("Anna lives in New York .", "B-PER O O B-LOC I-LOC O")]
TEXTS += [("it rains", "O O"), ("Oslo", "B-LOC")]
CONLL = """-DOCSTART- -X- O O

Anna NNP I-NP B-PER
lives VBZ I-VP O
in IN I-PP O
New NNP I-NP B-LOC
York NNP I-NP I-LOC
. . O O

it PRP I-NP O
rains VBZ I-VP O

Oslo NNP I-NP B-LOC
"""


def cases(count):
    """True and predicted labels in BIO or BIOES, the predicted also without sense."""
    random, found = Random(0), []
    for _ in range(count):
        known = LABELS if random.random() < 0.5 else LABELS[:5]
        texts = [range(random.randrange(1, 9)) for _ in range(random.randrange(1, 4))]
        true = [[random.choice(known) for _ in text] for text in texts]
        same = random.random()
        predicted = [
            [label if random.random() < same else random.choice(known) for label in text]
            for text in true
        ]
        found.append((true, predicted))
    return found


def scores_of(true, predicted):
    kinds = sorted({parse(label)[1] for label in LABELS} - {""})
    rows = [counts_of(*pair, kinds) for pair in zip(predicted, true, strict=True)]
    counts = map(torch.tensor, zip(*rows, strict=True))
    found = task_with(TokenClassificationTask).compute_scores(*counts)
    return {name: float(value) for name, value in found.items()}


def test_scores_are_those_of_seqeval_on_1000_random_cases():
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert len(golden) == 1000
    for (true, predicted), wanted in zip(cases(1000), golden, strict=True):
        found = scores_of(true, predicted)
        assert [found[name] for name in ("precision", "recall", "f1", "macro_f1", "accuracy")] == (
            pytest.approx(wanted, abs=1e-9)
        )


def prepared(**options):
    data = TokenData(**{"tokenizer": "bytes", **options})
    data.prepare_data()
    return data


def test_words_are_read_from_every_source(tmp_path):
    (tmp_path / "eng.testa").write_text(CONLL, "utf-8")
    (tmp_path / "tabs.conll").write_text(CONLL.replace(" ", "\t"), "utf-8")
    lists = [{"text": a.split(), "label": b.split()} for a, b in TEXTS]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in TEXTS))
    texts, names = datasets.Value("string"), datasets.ClassLabel(names=LABELS)
    columns = {"text": datasets.List(texts), "label": datasets.List(names)}
    for source in (
        *(str(tmp_path / name) for name in ("eng.testa", "tabs.conll", "lists.jsonl", "texts.tsv")),
        str(tmp_path / "*.testa"),
        lists,
        TEXTS,
        datasets.Dataset.from_list(lists, datasets.Features(columns)),
    ):
        data = prepared(train=source, val=source)
        assert list(data.splits["val"]) == TEXTS, source
    assert data.labels == ["B-LOC", "B-PER", "I-LOC", "O"]
    tags = prepared(train=str(tmp_path / "eng.testa"), val=[("a", "IN")], label_column="2")
    assert [cell for _, cell in tags.splits["train"]] == ["NNP VBZ IN NNP NNP .", "PRP VBZ", "NNP"]


def test_the_first_token_of_a_word_has_its_label():
    data = prepared(train=TEXTS, val=TEXTS)
    batch = data.sets["val"][[1, 0]]
    assert isinstance(batch, WordBatch)
    assert batch.places.tolist() == [[0, 2, -1, -1, -1, -1], [0, 4, 10, 13, 17, 22]]
    assert batch.label.tolist() == [[3, 3, -1, -1, -1, -1], [1, 3, 3, 0, 2, 3]]
    short = prepared(train=TEXTS, val=TEXTS, max_length=11).sets["val"][[0]]
    assert short.tokens.shape == (1, 12)
    assert short.places.tolist() == [[0, 4, 10, -1, -1, -1]]
    assert short.label.tolist() == [[1, 3, 3, 0, 2, 3]]


def test_a_mark_before_the_text_is_no_word():
    special = SpecialIds(pad=0, unk=5, bos=6, cls=6, eos=7)
    words = Sentences.of([[2, 1], [1, 1]])
    dataset = WordDataset(Sentences.of([[10, 11, 12], [13, 14]]), words, None, 8, special)
    batch = dataset[[0, 1]]
    assert batch.tokens.tolist() == [[6, 10, 11, 12, 7], [6, 13, 14, 7, 0]]
    assert batch.places.tolist() == [[1, 3], [1, 2]]


@pytest.mark.parametrize("name", [*LEARNT, "pretrained"])
def test_tokens_of_words_are_those_of_the_text(name, tmp_path):
    """Also where a space is part of the token after it, as in the tokenizer of GPT-2."""
    save_tokenizer("gpt2", tmp_path)
    spec = {"name": name, "folder": str(tmp_path)} if name == "pretrained" else name
    made = create("tokenizer", spec)
    lines = ["Anna doesn't live in New York .", "caf\u00e9 \u4e2d\u6587 x1 ( y )", "z"]
    made.train(lines)
    assert WordEncoder(made).encode(lines) == made.encode(lines)
    assert [len(text) for text in WordLengths(made).encode(lines)] == [7, 6, 1]


class Told(nn.Module):
    """Gives each token the class that a table has for its id."""

    def __init__(self, data: TokenData) -> None:
        super().__init__()
        self.table = nn.Embedding(len(data.vocabulary.tokenizer), len(data.labels))

    def forward(self, tokens):
        return self.table(tokens)


def test_what_a_truncated_text_lacks_is_missed():
    words = {"name": "word", "cut": "spaces"}
    data = prepared(train=TEXTS, val=TEXTS, max_length=3, tokenizer=words)
    model = Told(data)
    with torch.no_grad():
        model.table.weight.zero_()
        for text, cell in TEXTS:
            for word, label in zip(text.split(), cell.split(), strict=True):
                ((token,),) = data.vocabulary.tokenizer.encode([word])
                model.table.weight[token, data.labels.index(label)] = 9.0
    task = TokenClassificationTask(model, data.vocabulary)
    found = values_of(task, task.score(data.sets["val"][[0, 1, 2]]))
    assert (found["precision"], found["recall"]) == (1.0, pytest.approx(2 / 3))
    assert found["accuracy"] == pytest.approx(7 / 9)
    (answer,) = task.predict([TEXTS[0][0]])  # the whole text: nothing limits this model
    assert answer.labels == TEXTS[0][1].split()


def small(**data):
    found = prepared(train=TEXTS * 4, val=TEXTS, test={"one": TEXTS}, **data)
    recipe = {"model": {"dim": 8, "heads": 2, "layers": 1, "dropout": 0.0}}
    return TokenClassificationTask.build(recipe, found.vocabulary).eval(), found


def test_answers_and_lines_say_the_same():
    task, data = small()
    texts = [text for text, _ in TEXTS] + [""]
    answers = task.predict(texts)
    assert [answer.words for answer in answers] == [text.split() for text in texts]
    rows = task.predictions(data, "one")
    assert [row["labels"] for row in rows] == [answer.labels for answer in answers[:3]]
    assert [(row["text"], " ".join(row["reference"])) for row in rows] == TEXTS
    for answer in answers:
        spans = [Span(one["label"], one["start"], one["end"]) for one in answer.spans]
        assert spans == spans_of(answer.labels)


def test_the_loss_of_words_is_torchs_and_smooths_labels_in_training_alone():
    task, data = small()
    task.optim.label_smoothing, batch = 0.3, data.sets["val"][[0, 1, 2]]
    batch.places[0, 1] = -1  # as in a truncated text
    read = (batch.label >= 0) & (batch.places >= 0)
    logits = torch.randn(*read.shape, 4, dtype=torch.float64)
    for training, smoothing in ((True, 0.3 * 4 / 3), (False, 0.0)):  # torch's is of all classes
        losses, counted = task.train(training).losses(logits, batch)
        kept = logits[read], batch.label[read]
        wanted = nn.functional.cross_entropy(*kept, reduction="none", label_smoothing=smoothing)
        close(losses, torch.zeros(read.numel()).double().masked_scatter(read.flatten(), wanted))
        assert torch.equal(counted, read.flatten())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a b", "O B-PER"), ("c d", "O")], r"data.train\[1\]: 2 words and 1 labels"),
        ([("a b", "O O")], "fewer than two labels"),
    ],
)
def test_labels_that_fit_no_words_are_refused(rows, words):
    with pytest.raises(BadData, match=words):
        prepared(train=rows, val=TEXTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a O\nb\n", r"line 2: 1 column\(s\) instead of the 2 of other words"),
        ("a\n", r"a.conll: no column label among the 1 of its words"),
        ("1 a X\n2-3 b _\n2 c Y\n3 d X\n", "line 1: the first column counts words; set data.te"),
        ("\n\n", "a.conll: no column text among the 0"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_line(text, words, tmp_path):
    (tmp_path / "a.conll").write_text(text)
    with pytest.raises(BadData, match=words):
        prepared(train=str(tmp_path / "a.conll"), val=TEXTS)


COMMENTED = {
    "MultiCoNER": (
        "# id 11aa\tdomain=en\nAnna _ _ B-PER\nsings _ _ O\n\n# id 22bb\tdomain=en\n# _ _ O\n"
        "9 _ _ O\n",
        {},
        [("Anna sings", "B-PER O"), ("# 9", "O O")],
    ),
    "CoNLL-U": (
        "# sent_id = 1\n# text = Er kam zur Zeit\n1\tEr\tPRON\n2\tkam\tVERB\n3-4\tzur\t_\n"
        "3\tzu\tADP\n4\tder\tDET\n4.1\tleer\t_\n5\tZeit\tNOUN\n\n# a b\n1\t#\tSYM\n",
        {"text_column": "2"},
        [("Er kam zu der Zeit", "PRON VERB ADP DET NOUN"), ("#", "SYM")],
    ),
    "CoNLL-U that begins with a range": (
        "1-2\tzum\t_\n1\tzu\tADP\n2\tdem\tDET\n",
        {"text_column": "2"},
        [("zu dem", "ADP DET")],
    ),
    "keys": (
        "# text = a O\na _ _ _ O\n\n# sent_id = 4 O\n# _ _ _ O\n",
        {},
        [("a", "O"), ("#", "O")],
    ),
    "no comment": ("#\tO\n#Anna\tB-PER\n1-9\tO\n", {}, [("# #Anna 1-9", "O B-PER O")]),
    "# as first word": ("# O\n1 O\n\na O\n# B-X\n", {}, [("# 1", "O O"), ("a #", "O B-X")]),
}


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_and_ranges_are_no_words_and_a_sign_of_a_comment_may_be_one(name, tmp_path):
    text, options, wanted = COMMENTED[name]
    path = tmp_path / "a.conll"
    path.write_text(text)
    data = TokenData(train=str(path), val=TEXTS, **options)
    assert list(data.text.external(data.form)["train"]) == wanted


def test_what_cannot_be_is_refused():
    with pytest.raises(BadData, match=r"data.val\[0\]: the label 'B-ORG' is not one of the labels"):
        prepared(train=TEXTS, val=[("a", "B-ORG")])
    with pytest.raises(BadOption, match=r"data.text_column takes one column here"):
        TokenData(train=TEXTS, text_column=["a", "b"])
    vocabulary = Vocabulary(create("tokenizer", "bytes"), ["a", "b"], "bytes")
    model = tfzoo.TransformerClassifier(260, 2, dim=8, heads=2, layers=1, pooling=None)
    with pytest.raises(BadOption, match="set task: token_classification"):
        tfzoo.ClassificationTask(model, vocabulary)
    pooled = tfzoo.TransformerClassifier(260, 2, dim=8, heads=2, layers=1)
    with pytest.raises(BadOption, match=r"the model has pooling=mean, but .* pooling=None"):
        TokenClassificationTask(pooled, vocabulary)
