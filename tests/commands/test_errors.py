"""A mistake ends with one short message that names it and the fix, exit code 2 and no traceback."""

import sys
from pathlib import Path

import pytest

from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.data.module import TextData


@pytest.fixture
def refused(capsys, own_folder):
    """Run a typed command that must be refused with these words; returns its message."""

    def run(line, *says):
        before = sorted(own_folder.rglob("runs/*"))
        assert main(typed(line)) == 2
        out, err = capsys.readouterr()
        lines = err.strip().splitlines()
        message = "\n".join(
            line for line in lines if not line.startswith(("checkpoint: ", "data: ", "loading: "))
        )
        assert message.startswith("tfzoo: "), err
        assert len(message.splitlines()) <= 6
        assert "Traceback" not in err + out
        assert out == ""
        assert sorted(own_folder.rglob("runs/*")) == before, "a refused training left a folder"
        for words in says:
            assert words in message
        return message

    return run


@pytest.fixture
def recipe(tmp_path):
    """A recipe file of numbers with some lines more."""

    def write(more):
        path = tmp_path / "mine.yaml"
        path.write_text(f"task: translation\ndata: {{dataset: numbers}}\n{more}\n", "utf-8")
        return str(path)

    return write


@pytest.fixture
def no_data(monkeypatch):
    """No data is read."""
    monkeypatch.setattr(TextData, "prepare_data", lambda data: pytest.fail("data is prepared"))


OPTIONS = [
    ("--model.attention aditive", "no attention named 'aditive'", "Did you mean 'additive'"),
    ("--model.norm rms --model.norm.epz 1", "--model.norm.epz", "no option 'epz'", "mean 'eps'"),
    ("--model.position null", "position wants a name or", "not None"),
    ("--model.norm.eps small", "norm 'layer': eps must be float, not 'small'"),
    ("--model.encoder.norm rsm", "no norm named 'rsm'", "Did you mean 'rms'"),
    ("--model.dim wide", "--model.dim must be int, not 'wide'"),
    ("--model.parallel middle", "'one_norm' or 'two_norms'", "not 'middle'"),
    ("--model.lr 8", "no key 'lr'. Did you mean 'optim.lr'?"),
    ("--dim 8", "Did you mean 'model.dim'?"),
    ("--modle.dim 8", "no section 'modle'", "Did you mean 'model'"),
    ("--model.dim", "--model.dim needs a value"),
    ("--run --model.norm rms", "--run: expected one argument"),
    ("--trainer.max_epoch 1", "no key 'max_epoch'", "Did you mean 'max_epochs'"),
    ("--trainer.val_check_interval 0", "val_check_interval=0 must be", "over 0"),
    ("--trainer.strategy fsdp2 --optim.average 0.9", "fsdp2 shards the weights", "optim.average"),
    (
        "--trainer.strategy FSDPStrategy --trainer.callbacks EMAWeightAveraging",
        "FSDPStrategy shards the weights, of which EMAWeightAveraging keeps a copy",
    ),
    ("--trainer.devices none_such", "--trainer.devices must be a number, a list", "none_such"),
    ("--trainer.accelerator none_such", "trainer.accelerator: ", "none_such"),
    ("--trainer.precision bf16x", "or 'bf16' or None, not 'bf16x'"),
    ("--trainer.accelerator cpu --trainer.devices 0", "trainer.devices: ", "devices=0"),
    ("--trainer.strategy none_such", "trainer.strategy: ", "none_such"),
    ("--trainer.logger wandb", "no logger named 'wandb'", "Did you mean 'WandbLogger'"),
    ("--trainer.logger WandLogger", "no logger named 'WandLogger'", "Did you mean 'WandbLogger'"),
    ("--trainer.callbacks EarlyStopping --trainer.callbacks.monitr x", "callbacks", "monitr"),
    ("--trainer.callbacks EarlyStopping --trainer.callbacks.patience 3", "needs monitor"),
    (
        "--trainer.callbacks EarlyStopping --trainer.callbacks='{monitor: val/loss, patience: x}'",
        "EarlyStopping: patience must be int, not 'x'",
    ),
    ("--trainer.callbacks+=os.system", "'os.system'", "--trust"),
    ("--trainer.default_root_dir /tmp", "--run FOLDER"),
    ("--trainer.devices 99999", "--trainer.devices=99999 must be", "at most 1024"),
    ("--checkpoint.filename '{epoch}-{val/los}'", "no metric 'val/los'. Did you mean 'val/loss'?"),
    ("--trainer.logger CometLogger", "CometLogger needs a package", "comet"),
    ("--checkpoint.save_top_k -5", "checkpoint: "),
    ("--optim.betas 0.9", "optim.betas must be"),
    ("--optim.learning_rate 1", "Did you mean 'lr'"),
    ("--optim.name sgd", "Did you mean 'optimizer'"),
    ("--search.n_best=9", "--search.n_best=9 must be a whole number at least 1 and at most 1"),
    ("--batch_size 8", "Did you mean 'data.max_tokens'"),
    ("--dryrun", "no option '--dryrun'", "Did you mean '--dry-run'?"),
    ("--resume runs/x", "no option '--resume'. Did you mean '--run'?"),
    ("model.norm=rms", "one word too many: 'model.norm=rms'. Did you mean --model.norm rms?"),
    ("--seed -1", "--seed=-1", "at least 0"),
    ("--task translaton", "no task named 'translaton'", "Did you mean 'translation'"),
    ("--config http://example.com/x.yaml", "http://example.com/x.yaml is an address", "download"),
    ("--model.norm batch", "batch", "leaky-norm"),
    ("--model.allow '[leaky-nrm]'", "Did you mean 'leaky-norm'", "leaky-norm, mixing-query"),
]
"""What is added to ``tfzoo fit translation/numbers``, and parts of the message."""


@pytest.mark.parametrize("mistake", OPTIONS, ids=lambda mistake: mistake[0])
def test_a_mistake_on_the_command_line_is_named_with_its_fix(mistake, refused, no_data):
    options, *says = mistake
    refused(f"fit translation/numbers {options}", *says)


def test_label_smoothing_is_refused_where_no_class_is_chosen(refused, tmp_path, capsys):
    """Also at the default of other tasks, and in a file; what is printed has and takes 0."""
    fix = "nothing to smooth; leave it out, or set it to 0"
    refused("fit multilabel_classification/reachable --optim.label_smoothing 0.2", fix)
    text = "base: regression/listops\noptim: {label_smoothing: 0.1}\n"
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    refused("fit mine.yaml", fix)
    assert main(["fit", "mine.yaml", "--optim.label_smoothing", "0", "--print_config"]) == 0
    printed = capsys.readouterr().out
    assert main(["fit", "regression/listops", "--print_config"]) == 0
    assert capsys.readouterr().out == printed
    assert "label_smoothing: 0.0" in printed


def test_text_in_the_place_of_a_recipe_is_told_where_text_goes(refused):
    Path("mine.csv").write_text("text,label\na,b\n", "utf-8")
    refused("fit mine.csv", "tfzoo fit classification/files --data.train mine.csv")


RECIPES = [
    ("model: {dim: wide}", "mine.yaml: model.dim must be int, not 'wide'"),
    ("model: {vocab_size: 8}", "tokenizer"),
    ("model: 8", "model is a section"),
    ("model: {dim: 8}\nmodel: {dim: 9}", "line 4", "'model' occurs twice"),
    ("model: {dim: 8", "line"),
    ("seed: &one 1\ntimeout: *one", "line 4", "no aliases"),
    ("trainer: {callbacks: [{class_path: EarlyStopping, init_args: {patienc: 1}}]}", "patienc"),
    ("trainer: {logger: {class_path: CSVLogger, init_args: {save_dir: /tmp}}}", "--run FOLDER"),
]
"""Lines of a recipe; which of them name code or places: tests/strangers."""


@pytest.mark.parametrize("mistake", RECIPES, ids=lambda mistake: mistake[0])
def test_a_mistake_in_a_recipe_names_the_file_and_the_fix(mistake, refused, recipe):
    more, *says = mistake
    refused(f"fit {recipe(more)}", "mine.yaml", *says)


def test_a_trusted_recipe_may_name_a_class_beside_it(recipe, capsys):
    path = recipe("trainer: {callbacks: [{class_path: callback_beside.Mine}]}")
    Path(path).with_name("callback_beside.py").write_text(
        "from lightning.pytorch import Callback\nclass Mine(Callback):\n    pass\n", "utf-8"
    )
    assert main(["fit", path, "--print_config", "--trust"]) == 0
    assert "callback_beside" in sys.modules
    assert "callback_beside.Mine" in capsys.readouterr().out


def test_a_recipe_must_have_a_task(refused, tmp_path):
    (tmp_path / "empty.yaml").write_text("model: {dim: 8}\n", "utf-8")
    refused("fit empty.yaml", "begin with task: classification, language_modeling")
    (tmp_path / "list.yaml").write_text("- 1\n", "utf-8")
    refused("fit list.yaml", "a recipe is a mapping")
    (tmp_path / "number.yaml").write_text("base: translation/numbers\n1: 2\n", "utf-8")
    refused("fit number.yaml", "no section '1'")
    (tmp_path / "data.json").write_text("[1]" + " " * 2**18, "utf-8")
    refused("fit data.json", "data.json: over 262,144 bytes, the maximum size of a recipe")
    (tmp_path / "latin.yaml").write_bytes(b"task: \xe9\n")
    refused("fit latin.yaml", "not UTF-8")
    refused("fit latin.yml", "no file latin.yml. Did you mean 'latin.yaml'?")


def test_data_that_is_not_there_or_does_not_fit_is_named_before_training(refused, tmp_path):
    refused("fit translation/multi30k", "no text is given: set data.root (a folder)")
    refused(
        "fit translation/multi30k --data.root nowhere --data.name somewhere",
        "data.name and data.root: each names a text, so set one of them alone",
    )
    refused("fit translation/multi30k --data.root nowhere", "nowhere")
    for name, lines in (("train", 3), ("val", 2), ("test", 2)):
        (tmp_path / f"{name}.en").write_text("one\n" * lines, "utf-8")
        (tmp_path / f"{name}.de").write_text("eins\n" * 2, "utf-8")
    given = "--data.root . --data.tokenizer.vocab_size 270"
    refused(f"fit translation/multi30k {given}", "train.de has 2 lines", "train.en has more")
    (tmp_path / "train.de").write_text("eins\n" * 3, "utf-8")
    given += " --trainer.accelerator cpu --trainer.devices 3"
    refused(f"fit translation/multi30k {given}", "val: 2 pairs are too few for 3 processes")
    (tmp_path / "val.en").write_text("two\n" * 4, "utf-8")
    (tmp_path / "val.de").write_text("zwei\n" * 4, "utf-8")
    refused(f"fit translation/multi30k {given}", "test: 2 pairs are too few for 3 processes")


def test_a_file_that_the_recipe_itself_names_is_said_to_be_missing_under_its_key(refused, tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\na b\tx\nb a\ty\n", "utf-8")
    given = "--data.train a.tsv --data.val a.tsv"
    refused(f"fit classification/sst2 {given}", f"data.test: no dev_glue.tsv in {tmp_path}")


def test_a_run_folder_that_holds_something_is_not_overwritten(refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious", "utf-8")
    refused("fit translation/numbers --run mine", "mine is not empty and no run")


@pytest.mark.parametrize("command", ["score", "predict"])
def test_a_run_that_is_not_there_is_told_those_that_are(command, refused, tmp_path):
    refused(f"{command} runs/numbers/2", "no run at runs/numbers/2")
    (tmp_path / "runs" / "numbers" / "1").mkdir(parents=True)
    (tmp_path / "runs" / "numbers" / "1" / "config.yaml").write_text("", "utf-8")
    refused(f"{command} runs/numbers/2", "runs/numbers/1")
    refused(f"{command} runs/numbers/1", "no checkpoint")


COMMANDS = [
    ("fti", "no command named 'fti'", "Did you mean 'fit'"),
    ("fit", "fit needs a recipe"),
    ("fit none.yaml", "no file none.yaml. tfzoo recipes lists the packaged ones"),
    ("fit here/minne.ymal", "Did you mean 'here/mine.yaml'? Known: classification/"),
    ("sweep nosuch", "Known: ablations/"),
    ("fit numbers", "no recipe named 'numbers'", "Did you mean 'translation/numbers'"),
    ("fit translation", "no recipe named 'translation'. Known: translation/files"),
    ("fit https://example.com/x.yaml", "is an address, and no recipe is fetched"),
    ("fit translation/nubers", "Did you mean 'translation/numbers'", "Known: translation/"),
    ("show norm", "NAME is missing", "tfzoo show KIND NAME"),
    ("show rotary", "NAME is missing: tfzoo show position rotary (tfzoo show --help)"),
    ("show norm rsm", "Did you mean 'rms'"),
    ("score", "RUN is missing: tfzoo score RUN"),
]


@pytest.mark.parametrize("mistake", COMMANDS, ids=lambda mistake: mistake[0])
def test_a_mistake_in_a_simple_command_is_named(mistake, refused, own_folder):
    (own_folder / "here").mkdir()
    (own_folder / "here/mine.yaml").touch()
    refused(*mistake)
