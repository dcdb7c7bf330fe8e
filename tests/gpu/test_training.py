"""On a GPU: exact resuming, named out-of-memory, several GPUs as one, the demo."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.typed import typed
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("own_folder")

GPUS = torch.cuda.device_count()
TINY = typed(
    "--data.dataset.train 200 --data.dataset.val 8 --data.dataset.test 8",
    "--data.dataset.long 4 --data.tokenizer.vocab_size 300 --model.dim 16",
    "--model.heads 2 --model.layers 1 --data.max_tokens 256",
    "--trainer.val_check_interval 4",
)


def fit(device, folder, *args):
    where = ("--trainer.accelerator", "cpu" if device.type == "cpu" else "gpu")
    given = () if "--trainer.devices" in args else ("--trainer.devices", "1")
    return main(["fit", "translation/numbers", *TINY, *where, *given, "--run", folder, *args])


@pytest.mark.nightly
def test_resuming_is_exact_under_deterministic_kernels(device):
    """On the CPU, tests/commands/test_resume.py holds it by day."""
    exact = ("--trainer.deterministic", "true")
    assert fit(device, "whole", *exact, "--trainer.max_steps", "8") == 0
    assert fit(device, "parts", *exact, "--trainer.max_steps", "5") == 0
    assert fit(device, "parts", *exact, "--trainer.max_steps", "8") == 0
    states = [torch.load(f"{name}/checkpoints/last.ckpt") for name in ("whole", "parts")]
    for name, value in states[0]["state_dict"].items():
        assert torch.equal(value, states[1]["state_dict"][name]), name


GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS == 0, reason="needs a GPU: run `nox -s gpu` where there is one"),
]
SEVERAL = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 2, reason=f"needs 2 GPUs or more, here are {GPUS}"),
]


@pytest.mark.parametrize("_", [pytest.param("gpu", marks=GPU)])
def test_out_of_memory_is_named_with_what_to_set_lower(_, capsys):
    before = torch.cuda.get_per_process_memory_fraction()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**28 / torch.cuda.mem_get_info()[1])
    try:
        large = ("--model.dim", "512", "--model.layers", "4", "--data.max_tokens", "100000")
        large += ("--data.dataset.train", "50000")
        assert fit(torch.device("cuda"), "run", *large, "--trainer.max_steps", "3") == 1
    finally:
        torch.cuda.set_per_process_memory_fraction(before)
    said = capsys.readouterr().err
    assert "out of memory" in said
    assert "--data.max_tokens 50000" in said


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("_", [pytest.param("gpus", marks=SEVERAL)])
def test_several_gpus_train_as_one(_, strategy, tmp_path):
    """As many tokens a step on one GPU, by accumulation, as on all: nearly the same losses."""
    losses = []
    common = typed("--trainer.max_steps 6 --model.dropout 0 --trainer.log_every_n_steps 1")
    for folder, more in (
        ("one", ("--trainer.devices", "1", "--trainer.accumulate_grad_batches", str(GPUS))),
        ("all", ("--trainer.devices", str(GPUS), "--trainer.strategy", strategy)),
    ):
        command = [sys.executable, "-m", "tfzoo", "fit", "translation/numbers", *TINY, *common]
        done = subprocess.run(
            [*command, *more, "--run", folder], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        with (tmp_path / folder / "metrics.csv").open(newline="", encoding="utf-8") as stream:
            found = [row["train/loss"] for row in csv.DictReader(stream)]
        losses.append([float(loss) for loss in found if loss])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("_", [pytest.param("gpu", marks=GPU)])
def test_the_demo_reaches_99_percent(_):
    assert main(["fit", "translation/numbers", "--run", "run", "--trainer.devices", "1"]) == 0
    summary = json.loads(Path("run/summary.json").read_text("utf-8"))
    assert summary["test"]["scores"]["test/exact_match"] >= 99, summary["test"]
