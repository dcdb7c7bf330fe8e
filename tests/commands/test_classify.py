"""A classifier from its text files to labels, by commands alone."""

import csv
import gzip
import io
import json
import shutil
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import tfzoo
from tests.results import summary
from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.tasks.classification import ClassificationTask

pytestmark = pytest.mark.usefixtures("no_pictures")
RUN = "runs/toy/1"

WORDS = ["red", "green", "blue", "one", "two", "three"]
LINES = b"red two\n\n   \ntwo\tthree\r\n" + b"green " * 900 + b"\none\x0btwo\rthree\nblue"
"""Seven lines: an empty one, one of spaces, a long one, one with a lone carriage return, and a last
one without an end.
"""


def table(length):
    """All texts of so many words; the first word decides the label."""
    texts = product(WORDS, repeat=length)
    rows = [f"{' '.join(text)}\t{'0' if text[0] in WORDS[:3] else 'NUM'}" for text in texts]
    return "\n".join(["text\tlabel", *rows, ""])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with text, a recipe and ``runs/toy/1``, made by ``tfzoo fit``."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "train.tsv").write_text(table(3), "utf-8")
    with gzip.open(folder / "test.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write(table(2))
    (folder / "toy.yaml").write_text(
        "task: classification\nseed: 1\nmodel: {dim: 16, heads: 2, layers: 1, position: learned}\n"
        "data: {root: ., tokenizer: {name: bpe, vocab_size: 280}, max_tokens: 400, "
        "max_length: 20}\n"
        "optim: {lr: 1.0e-2, schedule: constant}\nloss: {class_weights: {0: 1.5}}\n"
        "trainer: {max_steps: 60, val_check_interval: 1.0, accelerator: cpu, devices: 1}\n",
        "utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["fit", "toy.yaml"]) == 0
    return folder


@pytest.fixture
def here(trained, own_folder):
    shutil.copytree(trained, own_folder, dirs_exist_ok=True)
    return own_folder


def test_a_run_chooses_its_best_checkpoint_by_accuracy(here):
    assert summary(RUN)["fit"]["best"].keys() == {"val/accuracy"}
    scores = summary(RUN)["fit"]["scores"].keys()
    assert {"val/loss", "val/macro_f1", "val/calibration_error"} <= scores
    task = tfzoo.ClassificationTask.load("runs/toy/1")
    assert task.class_weights.tolist() == [1.5, 1.0]


def test_one_line_for_each_line_in_order(here, capsys, monkeypatch):
    Path("lines").write_bytes(LINES)
    assert main(["predict", "runs/toy/1", "lines"]) == 0
    out, err = capsys.readouterr()
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert len(rows) == 7
    assert "1 text is longer than the" in err
    assert "checkpoint: runs/toy/1/checkpoints/best.ckpt" in err
    assert [place for place, row in enumerate(rows) if row == [""]] == [1, 2], "empty as they are"
    assert all(row[0] in ("0", "NUM") and 0.5 <= float(row[1]) <= 1 for row in rows if len(row) > 1)
    assert rows[0][0] == "0"
    assert rows[6][0] == "0"
    assert rows[3][0] == "NUM"
    with gzip.open("lines.gz", "wb") as stream:
        stream.write(LINES)
    assert main(["predict", "runs/toy/1", "lines.gz", "--max-tokens", "7"]) == 0
    again = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in again] == [row[0] for row in rows]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    capsys.readouterr()
    assert main(["predict", "runs/toy/1"]) == 0
    assert capsys.readouterr().out == out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["predict", "runs/toy/1"]) == 0
    assert capsys.readouterr().out == ""


def test_the_probabilities_of_all_labels_are_written_with_the_texts(here, capsys):
    Path("lines").write_text("red two\none two\n", "utf-8")
    assert main(["predict", "runs/toy/1", "lines", "--device", "cpu"]) == 0
    best = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert main(["predict", "runs/toy/1", "lines", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["red two", "one two"]
    assert [[row["label"], f"{row['probability']:.4f}"] for row in rows] == best
    for row in rows:
        assert row["probabilities"].keys() == {"0", "NUM"}
        assert max(row["probabilities"].values()) == row["probability"]
        assert sum(row["probabilities"].values()) == pytest.approx(1)


def test_one_call_loads_a_run_whatever_its_task_is(here):
    task = tfzoo.load("runs/toy/1", device="cpu")
    assert isinstance(task, tfzoo.ClassificationTask)
    assert isinstance(task.model, tfzoo.TransformerClassifier)
    assert task.tokenizer.labels == ["0", "NUM"]
    assert [answer.label for answer in task.predict(["red two", "one two"])] == ["0", "NUM"]
    task.save_pretrained("shared")
    assert tfzoo.load("shared", device="cpu").predict(["red two"]) == task.predict(["red two"])
    with pytest.raises(tfzoo.errors.BadRun, match="no run at runs/toy/2"):
        tfzoo.load("runs/toy/2")


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl"])
def test_a_table_has_its_references_beside_the_answers(name, here, capsys):
    """As the data of the training names its columns; without references it is a list of texts."""
    rows = [("red two", "0"), ("one, two", "0"), ("", "NUM")]
    whole = [{"label": label, "text": text} for text, label in rows]
    alone = [{"text": text} for text, _ in rows]
    for table in (whole, alone):
        with Path(name).open("w") as stream:
            if name.endswith("csv"):
                writer = csv.DictWriter(stream, table[0].keys())
                writer.writeheader()
                writer.writerows(table)
            else:
                stream.writelines(f"{json.dumps(row)}\n" for row in table)
        assert main(["predict", "runs/toy/1", name]) == 0
        lines = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]
        assert main(["predict", "runs/toy/1", name, "--format", "jsonl"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["label"] or "" for row in found] == lines
        assert lines[-1] == ""
        told = [label for _, label in rows] if table is whole else [None] * 3
        assert [(row["text"], row.get("reference")) for row in found] == [
            (text, label) for (text, _), label in zip(rows, told, strict=True)
        ]
    assert main(["predict", "runs/toy/1", name, "--format", "tsv"]) == 0
    written = capsys.readouterr().out.splitlines()
    assert (written[0], written[-1]) == ("text\tlabel\tprobability\tprobabilities", "\t\t\t")
    Path(name).write_text('{"txt": "a"}\n' if name.endswith("jsonl") else "txt\na\n", "utf-8")
    assert main(["predict", "runs/toy/1", name]) == 2
    assert "no column 'text'. Did you mean 'txt'?" in capsys.readouterr().err
    if name.endswith("jsonl"):  # a first row whose reference cannot be read does not drop all
        Path(name).write_text('{"text": "a", "label": null}\n{"text": "b", "label": "0"}\n')
        assert main(["predict", "runs/toy/1", name]) == 2
        assert "table.jsonl, line 1: 'label' is empty" in capsys.readouterr().err


def test_the_cost_of_a_run_is_that_of_its_model(here, capsys):
    size = len(tfzoo.load("runs/toy/1").tokenizer.tokenizer)
    assert main(["cost", "runs/toy/1", "--data.tokenizer.vocab_size", "999"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("runs/toy/1: ")
    assert f"vocabulary of {size}, fp32" in out


def test_a_run_of_a_task_with_a_setting_of_its_own_is_scored_and_counted(here, monkeypatch):
    @dataclass(kw_only=True)
    class Own(ClassificationTask.Settings):
        says: str = "much"

    monkeypatch.setattr(ClassificationTask, "Settings", Own)
    assert main(["fit", "toy.yaml", "--run", "own", "--trainer.max_steps", "1"]) == 0
    assert tfzoo.load("own").recipe["options"] == {"says": "much"}
    assert main(["score", "own"]) == 0
    assert main(["cost", "own"]) == 0


def test_a_run_without_a_test_set_is_told_how_to_name_one(here, capsys):
    alone = ["--data.root", "null", "--data.train", "train.tsv"]
    assert main(["score", "runs/toy/1", *alone]) == 2
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith("tfzoo: the run's data has no test set: name one")


def test_predictions_are_those_that_test_scored(here):
    for form in ("tsv", "jsonl"):
        assert main(["score", "runs/toy/1", "--predictions", form]) == 0
        accuracy = summary(RUN)["test"]["scores"]["test/accuracy"]
        lines = Path(f"runs/toy/1/predictions/test.{form}").read_text("utf-8").splitlines()
        rows = (
            [json.loads(line) for line in lines]
            if form == "jsonl"
            else list(csv.DictReader(lines, delimiter="\t"))
        )
        assert [row["text"] for row in rows] == [f"{a} {b}" for a, b in product(WORDS, repeat=2)]
        assert [*rows[0]] == ["text", "label", "probability", "probabilities", "reference"]
        right = sum(row["label"] == row["reference"] for row in rows) / len(rows)
        assert accuracy == pytest.approx(right)


MISTAKES = [
    ("predict runs/toy/1 toy.yaml --beam 5", "task classification: none"),
    ("predict runs/toy/1 toy.yaml --format csv", "invalid choice: 'csv'", "'tsv'"),
    ("predict --device cpu runs/toy/1 toy.yaml", "RUN comes first: tfzoo predict RUN [FILE]"),
    ("predict runs/toy/1 none", "no file none"),
    ("predict runs/toy/1 other.tsv", "There: txt. Rename the one to read to 'text'"),
    ("predict runs/toy/1 'Mr. Smith'", "echo 'Mr. Smith' | tfzoo predict runs/toy/1"),
    (f"predict runs/toy/1 '{'words ' * 60}'", "no file words", "A text is piped in"),
    ("fit runs/toy/1", "the folder of a run: its recipe is runs/toy/1/config.yaml"),
    ("predict runs/toy/1 latin", "latin, line 2: not UTF-8"),
    ("predict runs/toy/1 torn.gz", "torn.gz: damaged"),
    ("predict runs/toy/1 --max-tokens 0", "--max-tokens must be at least 1"),
    ("score runs/toy/1 train", "invalid choice: 'train'", "test"),
    ("score runs/toy/1 validation --predictions tsv", "leave validation out"),
    ("score runs/toy/1 --model.pooling max", "the run is trained"),
    ("score runs/toy/1 --config more.yaml", "more.yaml: model.window: the run is trained"),
    ("score runs/toy/1 --trainer.limit_test_batches 0", "leave trainer.limit_test_batches out"),
    ("fit toy.yaml --model.classes 6", "`classes` cannot be set in a recipe"),
    ("fit toy.yaml --optim.class_weights balanced", "Did you mean 'loss.class_weights'?"),
    ("fit toy.yaml --model.max_length 3", "train has a text of 16 tokens", "data.max_length to 1"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0][:60])
def test_a_mistake_is_named_with_its_fix(mistake, here, capsys):
    line, *says = mistake
    Path("latin").write_bytes(b"two\n\xff\n")
    Path("other.tsv").write_text("txt\none\n", "utf-8")
    Path("torn.gz").write_bytes(gzip.compress(b"two\n" * 9, mtime=0)[:-9])
    Path("false.gz").write_bytes(b"two\n")
    Path("more.yaml").write_text("data: {max_tokens: 99}\nmodel: {window: 2}\n", "utf-8")
    kept = Path("toy.yaml").read_bytes()
    runs = sorted(Path("runs/toy").iterdir())
    assert main(typed(line)) == 2
    out, err = capsys.readouterr()
    lines = err.strip().splitlines()
    lines = [line for line in lines if not line.startswith(("checkpoint: ", "data: "))]
    assert lines[0].startswith("tfzoo: "), err
    assert len(lines) <= 6
    assert out == ""
    for words in says:
        assert words in " ".join(lines)
    assert sorted(Path("runs/toy").iterdir()) == runs, "a refused training left a folder"
    assert Path("toy.yaml").read_bytes() == kept


def test_who_types_gets_an_answer_to_each_line(here, monkeypatch):
    answers = io.StringIO()

    class Typed(io.BytesIO):
        """A keyboard: the second line is typed when the first has been answered."""

        def __next__(self):
            assert answers.getvalue().count("\n") == self.tell() // len("red two\n")
            return super().__next__()

    keyboard = io.TextIOWrapper(Typed(b"red two\none two\n"), "utf-8")
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    monkeypatch.setattr(sys, "stdout", answers)
    assert main(["predict", "runs/toy/1"]) == 0
    assert [line.split("\t")[0] for line in answers.getvalue().splitlines()] == ["0", "NUM"]


def test_predict_is_one_process(here, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(typed("predict runs/toy/1 toy.yaml")) == 2
    assert "predict runs in one process: start it without torchrun" in capsys.readouterr().err
