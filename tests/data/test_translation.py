"""From text to a Trainer's batches: prepared once, nothing lost, bad input told before training."""

import json

import lightning.pytorch as L
import pytest
import torch

from tests.trainers import quiet
from tfzoo.base import cache
from tfzoo.data.batches import translation_batches
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadOption, UnknownName

pytestmark = pytest.mark.usefixtures("empty_cache")

SMALL = {"name": "numbers", "train": 300, "val": 40, "test": 30, "long": 20}
TOKENIZER = {"name": "bpe", "vocab_size": 300}

ENGLISH = ["a man", "two dogs", "", "a cat", " ".join("abcdefghijklmnopqrstuvwxyz"), "a hat", "x"]
GERMAN = ["ein Mann", "zwei Hunde", "leer", "eine Katze", "ein Satz", " ", "y"]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    write(folder, "train", ENGLISH, GERMAN)
    write(folder, "val", ["", "a dog"], ["nichts", "ein Hund"])
    write(folder, "test_a", ["a man", "a man", "a new man"], ["x", "y", "z"])
    return folder


def write(folder, name, source, target):
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in source), "utf-8")
    (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in target), "utf-8")


def prepared(**options):
    data = TranslationData(**{"tokenizer": TOKENIZER, **options})
    data.prepare_data()
    data.setup("fit")
    return data


def numbers(**options):
    return prepared(dataset=SMALL, **{"max_tokens": 200, **options})


def texts(data, ids):
    return data.tokenizers.target.decode(ids.tolist())


def no_training(**options):
    raise AssertionError("the tokenizer was trained again")


def test_batches_hold_the_text_of_their_split():
    data = numbers()
    for split, loader in (
        ("train", data.train_dataloader()),
        ("val", data.val_dataloader()),
        ("test", data.test_dataloader()[0]),
    ):
        pairs, seen = list(data.splits[split]), []
        for batch in loader:
            wanted = [pairs[i] for i in batch.index]
            read = texts(data, batch.source), texts(data, batch.target)
            assert list(zip(*read, strict=True)) == wanted
            kept = zip(batch.source_text, batch.target_text, strict=True)
            assert list(kept) == (wanted if split != "train" else [])
            seen += batch.index
        assert sorted(seen) == list(range(len(pairs)))


def test_test_sets_come_one_by_one_by_name():
    data = numbers()
    assert data.test_names == ["test", "long"]
    assert [sum(map(len, loader)) for loader in data.test_dataloader()] == [30, 20]
    assert data.overlap == {"test": 0, "long": 0}


def test_training_skips_and_counts_empty_and_long_pairs(root, capsys):
    data = prepared(root=str(root), max_length=20)
    kept = sorted(i for batch in data.train_dataloader() for i in batch.index)
    assert kept == [0, 1, 3, 6]
    assert data.skipped == {"with an empty side": 2, "over 20 tokens (data.max_length)": 1}
    assert capsys.readouterr().err.splitlines() == [
        "data: training skips 2 pairs with an empty side, 1 pair over 20 tokens (data.max_length)"
    ]
    assert "train 4 pairs" in data.describe()


def test_a_part_of_training_is_held_out_where_that_is_asked_for():
    rows = [(f"word {n}", f"Wort {n}") for n in range(20)]
    data = prepared(train=rows, val_fraction=0.2)
    assert (len(data.sets["train"]), len(data.sets["val"])) == (16, 4)
    assert sorted([*data.splits["train"], *data.splits["val"]]) == sorted(rows)
    assert "val is held out of training (data.val_fraction 0.2)" in data.describe()
    with pytest.raises(BadOption, match=r"data\.val_fraction 0\.1 holds a part"):
        prepared(train=rows)


def test_languages_can_be_turned_around(root):
    forth, back = prepared(root=str(root)), prepared(root=str(root), source="de", target="en")
    assert [(t, s) for s, t in forth.splits["train"]] == list(back.splits["train"])
    forth, back = numbers(), numbers(source="de", target="en")
    assert [(t, s) for s, t in forth.splits["test"]] == list(back.splits["test"])
    assert (back.tokenizers.source_language, back.tokenizers.target_language) == ("de", "en")
    assert len(list((cache.folder() / cache.SHELF).glob("generated-*"))) == 1  # drawn for both


def test_vocabularies_are_joint_or_separate():
    joint, separate = numbers().tokenizers, numbers(joint=False).tokenizers
    assert joint.joint
    assert not separate.joint
    [ids] = separate.target.encode(["zweiundzwanzig"])
    assert len(ids) < len(separate.source.encode(["zweiundzwanzig"])[0])
    for pair in (joint, separate):
        again = TokenizerPair.restore(json.loads(json.dumps(pair.state())))
        assert (again.joint, again.spec) == (pair.joint, TOKENIZER)
        assert again.source.encode(["zwei two"]) == pair.source.encode(["zwei two"])
        assert again.target.encode(["zwei two"]) == pair.target.encode(["zwei two"])
        assert (again.source_language, again.target_language) == ("en", "de")


@pytest.mark.parametrize("change", ["text", "option", "joint"])
def test_what_changes_is_made_anew(root, monkeypatch, change):
    prepared(root=str(root))
    monkeypatch.setattr("tokenizers.trainers.BpeTrainer", no_training)
    prepared(root=str(root))
    if change == "text":
        write(root, "train", [*ENGLISH[:-1], "z"], GERMAN)
    changes = {"option": {"tokenizer": {**TOKENIZER, "lowercase": True}}, "joint": {"joint": False}}
    options = changes.get(change, {})
    with pytest.raises(AssertionError, match="trained again"):
        prepared(root=str(root), **options)


class Recorder(L.LightningModule):
    """Remembers which pairs each epoch brought, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: dict[int, list[list[int]]] = {}

    def training_step(self, batch):
        self.seen.setdefault(self.current_epoch, []).append(batch.index)
        return self.weight * batch.source.sum()

    def validation_step(self, batch):
        assert batch.target_text

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


@pytest.mark.parametrize(("workers", "reload"), [(0, 0), (2, 0), (0, 1)])
def test_a_trainer_gets_each_epoch_in_its_own_order(workers, reload, tmp_path):
    data, recorder = numbers(seed=3, workers=workers), Recorder()
    own = {"use_distributed_sampler": False, "reload_dataloaders_every_n_epochs": reload}
    quiet(tmp_path, max_epochs=3, **own).fit(recorder, data)
    for epoch in range(3):
        order = data._sampler("train", shuffle=True)
        order.set_epoch(epoch)
        assert recorder.seen[epoch] == list(order)
    assert recorder.seen[0] != recorder.seen[1] != recorder.seen[2]


def test_translation_batches_hold_every_line_once_by_length():
    data = numbers()
    lines = ["", "two", "one hundred and eleven plus three", "  ", "two", " plus" * 500, "né 你好"]
    batches = list(translation_batches(lines, data.tokenizers, max_tokens=60))
    assert sorted(i for batch in batches for i in batch.index) == list(range(len(lines)))
    for batch in batches:
        assert batch.source_text == [lines[i] for i in batch.index]
        read = [line if line.strip() else "" for line in batch.source_text]
        assert texts(data, batch.source) == read
        assert len(batch) == 1 or batch.source.numel() <= 60
        assert batch.target.tolist() == [[2]] * len(batch)
    lengths = [batch.source.shape[1] for batch in batches]
    assert lengths == sorted(lengths, reverse=True)
    assert list(translation_batches([], data.tokenizers)) == []


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dataset": "number"}, UnknownName, "numbers"),
        ({"dataset": {"name": "numbers", "trian": 1}}, BadOption, "train"),
        ({"dataset": "numbers", "target": "zh"}, BadOption, "has en and de"),
        ({"root": ".", "source": "de"}, BadOption, "both 'de'"),
        ({"name": "a/b", "root": "."}, BadOption, "each names a text"),
        ({"dataset": "listops"}, BadOption, "has no translations"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_text_is_read(options, error, words):
    with pytest.raises(error, match=words):
        TranslationData(**options)
