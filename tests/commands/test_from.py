"""``--from``: what a training takes from the run that it begins with."""

import re
import shlex
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

import tfzoo
from tfzoo.commands.main import main
from tfzoo.runs import checkpoints
from tfzoo.runs.folder import logged_curves
from tfzoo.sweep.plan.load import load

pytestmark = pytest.mark.usefixtures("no_pictures")
RECIPE = """\
task: classification
data: {{root: {name}, tokenizer: {{name: bpe, vocab_size: {size}}}, max_tokens: 64}}
model: {{layers: 1, dim: 8, heads: 2, position: sinusoidal}}
optim: {{schedule: {{name: constant, warmup: 0}}}}
trainer: {{max_steps: 1, accelerator: cpu}}
"""
TEXTS = {"first": "a small cat sat on the mat", "second": "warm bread, cold butter and tea"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run, and the text of another training."""
    folder = tmp_path_factory.mktemp("from")
    for name, text in TEXTS.items():
        (folder / name).mkdir()
        for split in ("train", "val"):
            rows = [f"{text} {word}\t{index % 2}" for index, word in enumerate(text.split() * 3)]
            table = "text\tlabel\n" + "\n".join(rows) + "\n"
            (folder / name / f"{split}.tsv").write_text(table, "utf-8")
        recipe = RECIPE.format(name=name, size=260 + len(name))
        (folder / f"{name}.yaml").write_text(recipe, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["fit", "first.yaml", "--run", "one"]) == 0
    return folder


@pytest.fixture(autouse=True)
def first(trained, own_folder):
    shutil.copytree(trained, own_folder, dirs_exist_ok=True)


def state(run):
    return tfzoo.ClassificationTask.load(run).tokenizer.tokenizer.state()


def test_the_cells_of_a_sweep_read_what_they_begin_with_once(monkeypatch):
    Path("sweep.yaml").write_text(
        "recipe: second.yaml\nmetric: {name: val/loss, mode: min, margin: 0.1}\n"
        "seeds: [0]\nbudget: {steps: 1}\n"
        "overrides: {from: one}\naxes: {model.dropout: [0.0, 0.1, 0.2]}\n",
        "utf-8",
    )
    reading = Mock(wraps=checkpoints.read)
    monkeypatch.setattr(checkpoints, "read", reading)
    assert len(load("sweep.yaml").cells) == 3
    assert reading.call_count == 1


def test_another_text_is_read_with_the_tokenizer_of_the_run(capsys):
    given = ["fit", "second.yaml", "--from", "one", "--run", "two"]
    assert main(given) == 0
    found = capsys.readouterr()
    assert "tokenizer: that of one/checkpoints" in found.err
    assert "another one" not in found.out
    assert 0 in logged_curves(Path("two"))["val/loss"], "what it began with is scored first"
    began = state("one")
    assert state("two") == began
    assert main([*given, "--trainer.max_steps", "2"]) == 0, "it is the same when training goes on"
    assert state("two") == began
    shutil.rmtree("one")
    assert main(["score", "two", "validation"]) == 0, "what it began with is needed no more"
    assert main([*given, "--trainer.max_steps", "3"]) == 0
    assert state("two") == began
    assert main(["fit", "second.yaml", "--from", "one", "--run", "three"]) == 2
    assert "one" in capsys.readouterr().err


def test_other_labels_in_the_place_of_the_runs_are_told(capsys):
    for path in Path("second").glob("*.tsv"):
        text = path.read_text("utf-8")
        path.write_text(text.replace("\t0\n", "\tcat\n").replace("\t1\n", "\tdog\n"), "utf-8")
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two"]) == 0
    assert "others: a row of the head stood for 0, 1" in capsys.readouterr().out


def test_another_task_takes_it_too(capsys):
    few = ["--model.layers", "1", "--model.dim", "8", "--model.heads", "2"]
    few += [f"--data.dataset.{split}=40" for split in ("train", "val", "test")]
    given = ["fit", "language_modeling/agreement", *few, "--trainer.max_steps", "1"]
    assert main([*given, "--from", "one", "--run", "two"]) == 0
    said = capsys.readouterr().err
    assert "tokenizer: that of one" in said
    assert re.search(r"only 1 of \d+ tensors of this model are kept", said)


def test_a_run_that_no_recipe_has_trained_gives_its_model(capsys):
    model = {"dim": 12, "heads": 3, "layers": 1, "norm": "rms"}
    tokenizer = tfzoo.ClassificationTask.load("one").tokenizer
    task = tfzoo.ClassificationTask.build({"model": model}, tokenizer)
    task.save_pretrained("made")
    given = ["fit", "second.yaml", "--from", "made"]
    assert main([*given, "--run", "two"]) == 0
    found = capsys.readouterr()
    assert "started anew" not in found.out
    assert "swapped" not in found.out
    assert main([*given, "--run", "three", "--model.norm", "layer", "--model.dim", "6"]) == 0
    found = capsys.readouterr()
    assert re.search(r"only \d of \d+ tensors of this model are kept", found.err)
    assert "dim: 12 is now 6, norm: rms is now layer" in found.out


def test_where_little_is_kept_the_command_that_keeps_the_model_is_named(capsys):
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two", "--model.dim", "4"]) == 0
    found = capsys.readouterr()
    assert "To keep its model: tfzoo fit one/config.yaml --from one" in found.err
    assert "dim: 8 is now 4" in found.out


def test_what_is_trained_frozen_and_new_is_named_before_training(capsys):
    freeze = ["--optim.freeze", "[encoder]", "--model.norm", "rms"]
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two", *freeze]) == 0
    said = capsys.readouterr().out
    rows = dict(re.findall(r"^  (trained|frozen|anew and frozen) +(.*)$", said, re.M))
    assert "head.weight" in rows["trained"]
    assert "encoder.layers.0.feedforward.norm" in rows["frozen"]
    assert rows.keys() == {"trained", "frozen"}
    assert main(["fit", "second.yaml", "--from", "one", "--run", "three", "--model.dim", "6"]) == 0
    assert re.search(r"^  trained +all parameters$", capsys.readouterr().out, re.M)


def test_what_starts_anew_and_is_frozen_is_named(capsys):
    other = ["--model.feedforward", "swiglu", "--optim.freeze", "[encoder]"]
    assert main(["fit", "second.yaml", "--from", "one", "--run", "two", *other]) == 0
    (row,) = re.findall(r"^  anew and frozen +(.*)$", capsys.readouterr().out, re.M)
    assert "encoder.layers.0.feedforward.inner.inner.weight" in row


def test_the_command_to_go_on_with_can_be_copied(capsys):
    given = ["fit", "second.yaml", "--from", "one", "--run", "two", "--trainer.max_steps", "2"]
    assert main(given) == 0
    _, said = capsys.readouterr().out.split("to go on, with a higher limit:\n")
    assert main(shlex.split(said)[1:]) == 0
    assert "two is complete" in capsys.readouterr().out
