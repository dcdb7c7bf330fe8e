"""A training from its command line to its summary."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
import yaml

from tests.daily import sampled
from tests.results import rows, summary
from tests.tiny import numbers
from tests.typed import typed
from tfzoo import TranslationTask
from tfzoo.commands.main import COMMANDS, main

TINY = numbers("--trainer.log_every_n_steps 1")
RUN = "runs/numbers/1"


@pytest.fixture(autouse=True)
def in_its_own_folder(own_folder, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")


def fit(*args, steps=4):
    limits = ("--trainer.max_steps", str(steps), "--trainer.val_check_interval", "2")
    return main(["fit", "translation/numbers", *TINY, *limits, *args])


def test_a_run_lies_in_one_folder_with_everything_about_it(capsys):
    assert fit() == 0
    folder = Path(RUN)
    files = {"config.yaml", "metrics.csv", "curves.png", "checkpoints", "summary.json"}
    assert {path.name for path in folder.iterdir()} == files
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    fitted = summary(RUN)["fit"]
    assert (fitted["ended"], fitted["steps"]) == ("completed", 4)
    assert fitted["parameters"] > 1000
    measured = "seconds tokens train_seconds tokens_per_second peak_memory"
    told = "scores best checkpoint versions hardware hostname command"
    for key in [*measured.split(), *told.split()]:
        assert fitted[key], key
    assert {"test/chrf", "test/long/exact_match"} <= summary(RUN)["test"]["scores"].keys()
    assert {"step", "train/loss", "train/lr", "val/chrf"} <= rows(RUN)[0].keys()
    assert sum(bool(row["val/chrf"]) for row in rows(RUN)) == 2
    out = capsys.readouterr()
    assert "tfzoo predict runs/numbers/1" in " ".join(out.out.replace("\\\n", "").split())
    best = torch.load(folder / "checkpoints/best.ckpt", weights_only=True)
    assert f"checkpoints/best.ckpt, of step {best['global_step']}\n" in out.out
    assert "run: runs/numbers/1" in out.err
    assert "GPU available" not in out.err
    assert "Tip" not in out.err
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    assert config["trainer"]["max_steps"] == 4


@pytest.mark.usefixtures("no_pictures")
def test_of_equal_scores_the_newest_checkpoint_is_the_best_also_after_a_resume():
    """Of a translator that has learnt nothing yet, which translates no sentence exactly."""
    for steps in (4, 6):
        assert fit("--checkpoint.monitor=val/exact_match", "--run", RUN, steps=steps) == 0
        assert summary(RUN)["fit"]["best"] == {"val/exact_match": 0}
        best = torch.load(f"{RUN}/checkpoints/best.ckpt", weights_only=True)
        assert best["global_step"] == steps


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("end", ["--trainer.max_steps=5", "--trainer.max_epochs=1"])
def test_the_row_of_the_last_step_is_of_that_step(end):
    assert fit("--trainer.log_every_n_steps=3", end, steps=-1) == 0
    found = [row for row in rows(RUN) if row["train/loss"]]
    assert int(found[-1]["step"]) == summary(RUN)["fit"]["steps"]
    assert int(found[-1]["step"]) % 3
    assert found[-1]["train/lr"] != found[-2]["train/lr"]
    assert found[-1]["train/perplexity"] != found[-2]["train/perplexity"]


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("end", ["--trainer.max_epochs=1", "--trainer.val_check_interval=1000"])
def test_training_ends_with_a_validation_and_a_checkpoint_of_its_last_step(end):
    assert fit(end, steps=5) == 0
    last = torch.load("runs/numbers/1/checkpoints/last.ckpt", weights_only=True)
    steps = summary(RUN)["fit"]["steps"]
    assert last["global_step"] == last["tfzoo"]["batches"] == steps
    assert max(int(row["step"]) for row in rows(RUN) if row["val/chrf"]) == steps
    best = [state.get("best_model_path", "") for state in last["callbacks"].values()]
    assert any(path.endswith("best.ckpt") for path in best)


@pytest.mark.usefixtures("no_pictures")
def test_a_training_that_ends_before_its_first_validation_is_validated_then(capsys):
    assert fit("--trainer.check_val_every_n_epoch", "4") == 0
    assert "val/chrf" in summary(RUN)["fit"]["scores"]
    assert torch.load(f"{RUN}/checkpoints/best.ckpt", weights_only=True)["global_step"] == 4
    assert "none took place" not in capsys.readouterr().out
    assert [row["step"] for row in rows(RUN) if row["val/chrf"]] == ["4"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_signal_ends_training_after_the_step_with_a_checkpoint(number, code, monkeypatch):
    before = signal.getsignal(number)
    step = TranslationTask.training_step

    def interrupted(self, batch, index):
        if self.batches == 3:
            os.kill(os.getpid(), number)
        return step(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", interrupted)
    assert fit("--trainer.val_check_interval", "100", steps=50) == code
    last = torch.load("runs/numbers/1/checkpoints/last.ckpt", weights_only=True)
    assert last["global_step"] == (4 if number == signal.SIGINT else 3)
    assert summary(RUN)["fit"]["ended"] == "interrupted"
    assert "test" not in summary(RUN)
    assert signal.getsignal(number) == before
    assert Path("runs/numbers/1/curves.png").exists() == (number == signal.SIGINT)
    scored = "val/chrf" in summary(RUN)["fit"]["scores"]
    assert scored == (number == signal.SIGINT), "after a kill there is no time for a validation"


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("max_tokens", sampled(["1024", "128"], ["128"]))
def test_a_budget_of_tokens_ends_training_with_the_step_that_spends_it(max_tokens, capsys):
    budget = ("--train_tokens", "2000", "--data.max_tokens", max_tokens)
    assert fit(*budget, "--trainer.limit_val_batches", "0", steps=100) == 0
    assert 2000 <= summary(RUN)["fit"]["tokens"] < 2000 + int(max_tokens)
    assert summary(RUN)["fit"]["steps"] < 100
    assert "validation         none took place" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_a_failure_is_recorded_and_told(monkeypatch, capsys):
    def broken(self, batch, index):
        raise RuntimeError("out of everything")

    monkeypatch.setattr(TranslationTask, "training_step", broken)
    assert fit() == 1
    assert summary(RUN)["fit"]["ended"] == "failed: RuntimeError: out of everything"
    said = "tfzoo: training failed after step 0: RuntimeError: out of everything"
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_a_trained_run_scores_as_its_training_said_and_translates(capsys):
    assert fit() == 0
    told = summary(RUN)["test"]["scores"]
    assert main(["score", "runs/numbers/1"]) == 0
    assert summary(RUN)["test"]["scores"] == pytest.approx(told, abs=1e-4)
    last = "runs/numbers/1/checkpoints/last.ckpt"
    assert main(["score", last, "validation", "--search.beam", "2"]) == 0
    assert {"fit", "test", "validate"} <= summary(RUN).keys()
    assert main(["score", RUN, "--predictions", "tsv"]) == 0
    written = Path(RUN, "predictions/long.tsv").read_text("utf-8").splitlines()
    assert written[0].split("\t") == ["text", "translation", "score", "reference"]
    assert len(written) == 1 + 4
    Path("text").write_text("two\n\n" + "three " * 900 + "\r\nfour\x0bfive", "utf-8")
    capsys.readouterr()
    assert main(typed("predict runs/numbers/1 text --n-best 2 --format jsonl")) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    assert 4 <= len(rows) <= 7, "up to two for each line, none twice, one of the empty line"
    assert all(row["score"] < 0 for row in rows if row["text"])
    assert {"text": "", "translation": None, "score": None} in rows


def test_help_and_commands_that_need_no_run(capsys):
    wanted = {
        "list norm": "rms",
        "show norm rms": "Options",
        "recipes": "translation/numbers",
        "recipes translation/numbers": "task: translation",
        "--version": "tfzoo",
        "fit translation/numbers --help": "--model.dim",
        **{f"{command} --help": f"usage: tfzoo {command}" for command in COMMANDS},
    }
    for line, words in wanted.items():
        assert main(line.split()) == 0
        assert words in capsys.readouterr().out
    assert main([]) == 2
