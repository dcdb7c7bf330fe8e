"""tfzoo sweep from its command line to its folder."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tfzoo
from tests.sweep.files import LEARNS, Trainings, sweep_file
from tests.typed import typed
from tests.waiting import soon
from tfzoo.commands.main import main

FOLDER = Path("runs/tiny")


@pytest.fixture(autouse=True)
def in_its_own_folder(own_folder, monkeypatch):
    """And a path on which sweeps and trainings that are started find tfzoo."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tfzoo.__file__).parents[1]))


@pytest.fixture
def trainings(monkeypatch):
    return Trainings(monkeypatch)


def sweep(*args, **changes):
    return main(["sweep", str(sweep_file(Path(), **changes)), *args])


def test_the_same_command_again_finishes_what_is_missing(trainings, capsys):
    trainings.codes = {"norm=rms/seed-2": 1, "norm=layer/seed-2": 130}
    assert sweep() == 1
    assert "2 of 4 completed, 1 failed" in capsys.readouterr().out
    trainings.codes.clear()
    assert sweep() == 1
    assert trainings.trained[4:] == ["norm=layer seed 2"]
    said = capsys.readouterr()
    assert "  failed: rms seed 2: it broke" in said.out
    assert "To go on: tfzoo sweep tiny.yaml --retry failed" in said.out
    assert sweep("--retry", "failed") == 0
    assert trainings.trained[5:] == ["norm=rms seed 2"]
    assert sweep() == 0
    assert len(trainings.trained) == 6
    assert "4 of 4 completed" in capsys.readouterr().out


def test_a_run_that_diverged_is_told_from_one_that_failed(trainings, capsys):
    trainings.codes = {"norm=layer/seed-2": 1}
    trainings.scores = {"norm=rms": None}
    assert sweep() == 1
    said = capsys.readouterr()
    assert "[2/4] norm=rms seed 1: diverged: val/loss is not finite\n" in said.err
    assert "[3/4] norm=layer seed 2: failed: it broke\n" in said.err
    assert "1 of 4 completed, 2 diverged, 1 failed" in said.out
    report = (FOLDER / "report.md").read_text("utf-8")
    assert "| rms | 2/2 (2 diverged) |" in report
    assert "diverged: rms seeds 1, 2: val/loss is not finite" in report.partition("went wrong")[2]


@pytest.mark.parametrize(
    ("axes", "codes", "scores", "why"),
    [
        (["layer", "rms"], {}, {"": None}, "no run learnt anything: more steps"),
        (["layer", "rms"], {"norm=rms": 1}, {"": None}, "tfzoo sweep tiny.yaml --retry failed"),
        (["batch"], {}, {}, "every cell is refused"),
    ],
)
def test_a_sweep_of_which_nothing_was_learnt_says_so_and_fails(
    trainings, capsys, axes, codes, scores, why
):
    trainings.codes, trainings.scores = codes, scores
    assert sweep(axes={"model.norm": axes}, seeds=[1]) == 1
    said = capsys.readouterr().out
    assert "norm: nothing can be said, for no run has completed and learnt something\n" in said
    assert "; nothing was learnt" in said
    assert why in said


def test_seeds_added_after_a_verdict_are_warned_of_before_they_run(trainings, capsys):
    assert sweep("--seeds", "3", "--run", "a b") == 0
    assert "before it had" not in capsys.readouterr().err
    cost = "a b was judged with 3 seeds before it had 5, which no looks in its file had declared"
    assert sweep("--seeds", "5", "--run", "a b", "--dry-run") == 0
    assert cost in capsys.readouterr().out
    assert sweep("--seeds", "5", "--run=a b", "--jobs", "1") == 0
    said = capsys.readouterr()
    assert said.err.index(cost) < said.err.index("[7/10]")
    again = f"tiny.yaml --jobs 1 --seeds 6-10 --run '{Path('a b_seeds_6-10')}'\n"
    assert f"To repeat it: tfzoo sweep {again}" in said.out.replace(f"{Path.cwd()}/", "")


def test_a_cell_of_which_all_runs_diverged_is_an_answer(trainings, capsys):
    trainings.scores = {"norm=rms": None}
    assert sweep("--seeds", "1", "--run", "one") == 0
    assert "with 1 seed a cell?\nnorm: keep layer" in capsys.readouterr().out
    assert sweep() == 0
    assert "2 of 4 completed, 2 diverged" in capsys.readouterr().out


def test_a_changed_file_adds_only_the_new_runs(trainings):
    sweep()
    axes = {"model.norm": ["layer", "rms", {"name": "rms", "eps": 1e-3}]}
    assert sweep(axes=axes, seeds=[1, 2, 3]) == 0
    added = ["norm=layer seed 3", "norm=rms seed 3"]
    added += [f"norm=rms_eps=0.001 seed {seed}" for seed in (1, 2, 3)]
    assert sorted(trainings.trained[4:]) == added


@pytest.mark.parametrize("args", [[], ["--dry-run"]])
def test_changed_settings_of_runs_that_are_there_are_an_error_before_anything_runs(
    trainings, capsys, args
):
    sweep()
    assert sweep(*args, seeds=[7, 1], overrides={"optim.lr": 0.5}) == 2
    assert len(trainings.trained) == 4
    said = "norm=layer/seed-1 was run with other settings: optim.lr was 0.002, is 0.5"
    assert said in capsys.readouterr().err


def test_a_tuning_that_was_changed_is_an_error_and_the_folder_keeps_its_file(trainings, capsys):
    tune = {"key": "optim.lr", "values": [0.001, 0.003]}
    assert sweep(tune=tune) == 0
    before = (FOLDER / "sweep.yaml").read_text()
    for args in ([], ["--dry-run"]):
        assert sweep(*args, tune={**tune, "values": [0.001, 0.002]}) == 2
        assert "which the sweep file has changed" in capsys.readouterr().err
    assert (FOLDER / "sweep.yaml").read_text() == before


def test_a_dry_run_tells_cells_refusals_numbers_and_time_and_runs_nothing(trainings, capsys):
    axes = {"model.norm": ["layer", "batch", "rms"]}
    assert sweep("--dry-run", axes=axes) == 0
    said = capsys.readouterr().out
    assert "no estimate of the time: no run is completed yet" in said
    assert not FOLDER.exists()
    assert sweep("--cell", "0", axes=axes) == 0
    assert sweep("--dry-run", "--jobs", "2", axes=axes) == 0
    said = capsys.readouterr().out
    assert re.search(r"0-1  norm=layer: 1 of 2 done\n +2-3  norm=batch: refused\n", said)
    assert re.search(r"\n1 cell refused: .*norm 'batch' mixes tokens", said)
    assert "2 cells x 2 seeds in runs/tiny: 3 runs left" in said
    assert said.startswith("seeds 1, 2: estimates alone, a verdict needs 3 seeds")
    assert "about 0:00:40 with --jobs 2: 0:00:20 a run, the mean of 1 completed runs" in said
    assert trainings.trained == ["norm=layer seed 1"]


def test_a_dry_run_says_each_reason_of_refusals_once(trainings, capsys):
    axes = {"model.norm": ["layer", "batch"], "model.position": ["sinusoidal", "rotary"]}
    assert sweep("--dry-run", axes=axes) == 0
    said = capsys.readouterr().out
    assert said.count(": refused\n") == 2
    assert said.count("mixes tokens") == 1
    assert "\n2 cells refused: " in said


def test_one_cell_by_number_is_one_run_whoever_counts(trainings, capsys):
    axes = {"model.norm": ["layer", "batch", "rms"]}
    assert [sweep("--cell", str(number), axes=axes) for number in range(6)] == [0] * 6
    runs = [f"norm={norm} seed {seed}" for norm in ("layer", "rms") for seed in (1, 2)]
    assert trainings.trained == runs
    assert capsys.readouterr().out.count("norm=batch: refused: ") == 2
    assert sweep("--cell", "6", axes=axes) == 2
    assert "no run 6; it has 6, from 0 to 5" in capsys.readouterr().err
    cells = json.loads((FOLDER / "cells.json").read_text())["cells"]
    assert [name for name, refused in cells.items() if refused] == ["norm=batch"]


def test_a_sweep_is_repeated_with_other_seeds_in_a_folder_of_its_own(trainings, capsys):
    assert sweep() == 0
    assert sweep("--seeds", "2-3,7") == 2
    assert "runs of seed 1, which --seeds leaves out: --seeds 1,2,3,7 " in capsys.readouterr().err
    assert sweep("--seeds", "0") == 2
    assert "--seeds 0: how many, or numbers such as 6-10" in capsys.readouterr().err
    assert sweep("--cell", "0", "--seeds", "3-3") == 2
    assert "runs of seeds 1, 2, which --seeds leaves out" in capsys.readouterr().err
    trainings.trained.clear()
    assert sweep("--seeds", "2-3,7", "--run", "again") == 0
    assert [name for name in trainings.trained if "rms" in name] == [
        f"norm=rms seed {seed}" for seed in (2, 3, 7)
    ]
    assert sweep("--seeds", "3") == 0, "how many, as in the file: 1 to 3"
    assert trainings.trained[6:] == ["norm=layer seed 3", "norm=rms seed 3"]


def test_the_folder_of_a_sweep_in_place_of_its_file_is_named(trainings, capsys):
    assert sweep() == 0
    assert main(["sweep", str(FOLDER)]) == 2
    assert "goes on with it, tfzoo report runs/tiny judges it" in capsys.readouterr().err
    assert main(["report", "tiny.yaml"]) == 2
    assert "Did you mean runs/tiny?" in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["--dry-run"]])
def test_it_writes_into_no_folder_that_is_something_else(trainings, capsys, args):
    Path("mine").mkdir()
    Path("mine/letter").write_text("dear")
    assert sweep(*args, "--run", "mine") == 2
    assert "is not empty and holds no sweep" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["letter"]


SLIPS = ["--jobs 0", "--engine rya", "--retry all", "--job 2", "--cell 0 --dry-run"]
SLIPS += [f"--seeds {seeds}" for seeds in ("6-", "''", "9-6", "1,1", "0-99999999999")]


@pytest.mark.parametrize("words", SLIPS)
def test_a_slip_on_the_command_line_is_one_line(words, capsys):
    assert sweep(*typed(words)) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


# From here on with real trainings.


def command(*args):
    return [sys.executable, "-m", "tfzoo", "sweep", "tiny.yaml", *args]


def children(folder):
    """Processes that write into a run of the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if f"{folder.absolute()}/" in str(path.readlink()):
                found.append(int(path.parts[2]))
        except OSError:
            continue
    return sorted(found)


def rows(run):
    try:
        return (run / "metrics.csv").read_text().count("\n")
    except OSError:
        return 0


def scores(folder):
    """Those of each run, and its steps."""
    found = {}
    for path in sorted(folder.glob("*/*/summary.json")):
        said = json.loads(path.read_text())
        scored = said["fit"]["scores"], said.get("test", {}).get("scores"), said["fit"]["steps"]
        found[path.parent.relative_to(folder)] = scored
    return found


@pytest.mark.nightly
def test_a_sweep_that_is_killed_and_stopped_ends_as_one_that_was_not():
    """Its driver killed, stopped by Ctrl-C, and then one of its trainings killed."""
    long = {**LEARNS, "trainer.max_steps": 150, "trainer.val_check_interval": 50}
    long["checkpoint.every_n_train_steps"] = 5
    sweep_file(Path(), overrides=long, seeds=[1])
    first, second = FOLDER / "norm=layer/seed-1", FOLDER / "norm=rms/seed-1"

    driver = subprocess.Popen(command())
    soon(lambda: rows(second) > 10)
    driver.kill()
    driver.wait()
    soon(lambda: not children(FOLDER))
    done = (first / "summary.json").stat().st_mtime_ns
    stood = rows(second)
    assert not (second / "summary.json").read_text().count('"completed"')

    driver = subprocess.Popen(command(), stderr=subprocess.PIPE, text=True)
    soon(lambda: rows(second) > stood + 10)
    driver.send_signal(signal.SIGINT)
    said = driver.communicate(timeout=300)[1]
    assert driver.returncode == 130
    assert "Continue with: tfzoo sweep tiny.yaml" in said
    assert not children(FOLDER)
    stood = rows(second)

    driver = subprocess.Popen(command())
    soon(lambda: rows(second) > stood + 10)
    os.kill(children(FOLDER)[-1], signal.SIGKILL)
    assert driver.wait(300) == 1
    assert subprocess.run(command("--retry", "failed"), check=False).returncode == 0
    assert (first / "summary.json").stat().st_mtime_ns == done

    subprocess.run(command("--run", "undisturbed", "--jobs", "2"), check=True)
    assert scores(FOLDER) == scores(Path("undisturbed"))
    assert len(scores(FOLDER)) == 2


@pytest.mark.nightly
def test_a_clash_a_divergence_and_a_run_out_of_memory_are_told_and_the_others_complete():
    axes = {
        "what": {
            "good": LEARNS,
            "clash": {"model.norm": "batch"},
            "diverges": {"optim.lr": 1e19, "optim.max_skipped": 1, "optim.schedule.warmup": 1},
            "large": {"model.head_dim": 100_000},  # parameters that fit, a batch that does not
        }
    }
    steps = {"trainer.max_steps": 40, "trainer.val_check_interval": 20}
    sweep_file(Path(), axes=axes, seeds=[1], overrides=steps)
    limit = 3 * 2**30
    ran = subprocess.run(
        command("--jobs", "2"),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    print(ran.stdout, ran.stderr)
    assert ran.returncode == 1
    assert "1 of 3 completed, 1 diverged, 1 failed; 1 cell refused" in ran.stdout
    assert re.search(r"diverged: diverges seed 1: .*not finite", ran.stdout)
    assert re.search(r"failed: large seed 1: out of memory", ran.stdout)
    assert re.search(r"refused: clash: .*norm 'batch' mixes tokens", ran.stdout)
    assert re.search(r"what=good seed 1: completed, val/loss", ran.stderr)
