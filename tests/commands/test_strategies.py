"""Trainings over processes: FSDP2 beside DDP, their checkpoints, what starts them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as L
import pytest
from torch.testing import assert_close

import tfzoo
from tests.results import rows, summary
from tests.tiny import numbers
from tests.trainers import quiet
from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.errors import BadOption
from tfzoo.models.fsdp import full_tensor, shard
from tfzoo.runs import checkpoints
from tfzoo.training.train import launching
from tfzoo.training.trainer import Sharded, launched

pytestmark = pytest.mark.usefixtures("no_pictures")

LIMITS = "--trainer.log_every_n_steps 1 --trainer.max_steps 4 --trainer.val_check_interval 4"
TINY = numbers(LIMITS, val=9, test=5)
HARD = typed(
    "--trainer.gradient_clip_val 0.5 --trainer.accumulate_grad_batches 2",
    "--model.norm batch --model.allow [leaky-norm] --model.encoder.dropout 0.1",
)
FSDP2 = "runs/numbers/1"
"""The folder that is chosen where none is named."""
DDP = "ddp"
ON_TWO = ("fit", "translation/numbers", *TINY, *HARD, "--trainer.devices", "2")
SPREAD = ("--trainer.strategy", "fsdp2", "--compute.activation_checkpointing", "true")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A training on two processes with FSDP2."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OMP_NUM_THREADS", "1")
        assert main([*ON_TWO, *SPREAD]) == 0
        yield folder


@pytest.fixture(scope="module")
def ddp(runs):
    """The same training with DDP. By day, tests/tasks/test_spread.py compares the two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs)
        assert main([*ON_TWO, "--run", DDP]) == 0
    return DDP


@pytest.fixture(autouse=True)
def beside_them(runs, monkeypatch):
    monkeypatch.chdir(runs)
    monkeypatch.delenv("TFZOO_RUN_FOLDER", raising=False)


def logged(run):
    found = rows(run)
    return {
        key: [float(row[key]) for row in found if row[key]]
        for key in found[0]
        if not key.endswith("tokens_per_second")
    }


@pytest.mark.nightly
def test_an_adapter_is_trained_sharded_as_whole_and_goes_on():
    """Only its parameters change, losses are those of DDP, and readers of the folder merge it."""
    lora = ("--adapter.name", "lora", "--adapter.rank", "4", "--adapter.targets", "[query,value]")
    given = ("fit", "translation/numbers", *TINY, *lora, "--trainer.devices", "2")
    sharded = (*given, "--trainer.strategy", "fsdp2")
    assert main([*given, "--run", "lora-ddp"]) == 0
    assert main([*sharded, "--run", "lora"]) == 0
    assert_close(logged("lora"), logged("lora-ddp"), rtol=2e-4, atol=1e-5)
    one, other = (tfzoo.TranslationTask.load(run).state_dict() for run in ("lora", "lora-ddp"))
    assert not any("lora" in name for name in one)
    assert_close(one, other, rtol=2e-4, atol=1e-5)
    assert main([*sharded, "--run", "lora", "--trainer.max_steps", "6"]) == 0
    assert summary("lora")["fit"]["steps"] == 6


def test_two_processes_share_a_folder_whose_checkpoints_are_files_as_those_of_any_strategy():
    assert [path.name for path in Path("runs/numbers").iterdir()] == ["1"]
    assert summary(FSDP2)["fit"]["ended"] == "completed"
    kept = Path(f"{FSDP2}/checkpoints")
    assert {path.name for path in kept.iterdir()} == {"best.ckpt", "last.ckpt"}
    assert all(path.is_file() for path in kept.iterdir())


def test_its_export_is_a_folder_beside_it_that_is_scored(capsys):
    assert main(["export", FSDP2]) == 0
    out, err = capsys.readouterr()
    assert out == f"{FSDP2}/safetensors\n"
    assert f"checkpoint: {FSDP2}/checkpoints/best.ckpt" in err
    assert main(["score", f"{FSDP2}/safetensors", "validation"]) == 0
    assert re.search(r"^  val  .*loss \d", capsys.readouterr().out, re.MULTILINE)


class Seen(L.Callback):
    """What a training begins with."""

    weights: dict[str, Any]
    averages: dict[str, Any]

    def on_train_start(self, trainer, pl_module):
        state = pl_module.state_dict().items()
        self.weights = {name: full_tensor(value).clone() for name, value in state}
        names = {id(p): name for name, p in pl_module.named_parameters()}
        found = trainer.optimizers[0].state.items()
        self.averages = {names[id(p)]: full_tensor(one["exp_avg"]).clone() for p, one in found}


@pytest.mark.timeout(60)
def test_two_processes_go_on_with_a_run_that_was_complete():
    """The second reads the folder when the first has begun."""
    shutil.copytree(FSDP2, "longer")
    assert main([*ON_TWO, *SPREAD, "--run", "longer", "--trainer.max_steps", "6"]) == 0
    assert summary("longer")["fit"]["steps"] == 6


def test_another_strategy_does_not_go_on(capsys):
    assert main([*ON_TWO, "--run", FSDP2]) == 2
    assert "trainer.strategy was fsdp2, is" in capsys.readouterr().err


def test_what_two_processes_wrote_one_process_trains_on_with():
    """Sharded."""
    path = Path(f"{FSDP2}/checkpoints/last.ckpt")
    checkpoint = checkpoints.read(path)
    task = tfzoo.TranslationTask.from_checkpoint(checkpoints.read(path))  # takes the tensors over
    tfzoo.models.initialise.initialise(task.model, 5)  # other weights than those to be loaded
    recipe = checkpoint["tfzoo"]["recipe"]
    data = tfzoo.TranslationData(**recipe["data"], seed=recipe["seed"])
    data.tokenizers = task.tokenizer
    seen = Seen()
    alone = {"use_distributed_sampler": False, "limit_val_batches": 0, "callbacks": [seen]}
    trainer = quiet(strategy=Sharded(), max_steps=5, **alone)
    with launching([]):  # which takes back what a Trainer leaves behind in this process
        trainer.fit(task, data, ckpt_path=path)
    assert trainer.global_step == 5
    assert_close(seen.weights, checkpoint["state_dict"], rtol=0, atol=0)
    state = checkpoint["optimizer_states"][0]
    # matrices are one group, and the first
    ordered = sorted(task.named_parameters(), key=lambda pair: pair[1].dim() <= 1)
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    names = [name for name, _ in ordered]
    averages = [state["state"][number]["exp_avg"] for number in numbers]
    wanted = dict(zip(names, averages, strict=True))
    assert len(wanted) > 10
    assert_close(seen.averages, wanted, rtol=0, atol=0)


def test_a_split_of_layers_over_devices_is_refused():
    mesh = {"tensor_parallel": SimpleNamespace(size=lambda: 2)}
    mesh = type("Mesh", (dict,), {"mesh_dim_names": ("data_parallel", "tensor_parallel")})(mesh)
    with pytest.raises(BadOption, match=r"use trainer\.strategy fsdp2"):
        shard(tfzoo.Transformer(20, 8, 2, 1), mesh)


def variables(words):
    """Of an environment, as a shell writes them."""
    return dict(word.split("=") for word in words.split())


@pytest.mark.nightly
def test_torchrun_and_slurm_start_the_processes_themselves(ddp):
    env = {**os.environ, "PYTHONPATH": str(Path(tfzoo.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    fit = ["fit", "translation/numbers", *TINY, *HARD]  # on as many as the launcher says
    launcher = typed("-m torch.distributed.run --nproc_per_node 2 --master_port 29533")
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "tfzoo", "--", *fit, "--run", "torchrun"],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert_close(logged("torchrun"), logged(ddp), rtol=2e-4, atol=1e-5)
    slurm = variables(
        "SLURM_NTASKS=2 SLURM_NTASKS_PER_NODE=2 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_JOB_ID=1234 "
        "SLURM_JOB_NAME=fit SLURM_NODELIST=localhost MASTER_ADDR=127.0.0.1 MASTER_PORT=29534"
    )
    tasks = [
        subprocess.Popen(
            [sys.executable, "-m", "tfzoo", *fit, "--run", "slurm"],
            env={**env, **slurm, "SLURM_PROCID": rank, "SLURM_LOCALID": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [task.communicate(timeout=300)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said[0][-3000:]
    assert_close(logged("slurm"), logged(ddp), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        ("", "tfzoo fit"),
        ("WORLD_SIZE=1 LOCAL_WORLD_SIZE=1", "tfzoo fit"),
        ("WORLD_SIZE=2 LOCAL_WORLD_SIZE=2", "torchrun --nproc_per_node 2 -m tfzoo -- fit"),
        ("WORLD_SIZE=4 LOCAL_WORLD_SIZE=2", ""),
    ],
)
def test_a_training_goes_on_by_the_launcher_that_started_it(environment, start, monkeypatch):
    for variable, value in variables(
        environment and f"TORCHELASTIC_RUN_ID=1 {environment}"
    ).items():
        monkeypatch.setenv(variable, value)
    assert " ".join(launched(["fit"])) == start


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("torchrun", "TORCHELASTIC_RUN_ID=1 WORLD_SIZE=6 LOCAL_WORLD_SIZE=2 RANK=0 LOCAL_RANK=0"),
        (
            "srun",
            "SLURM_NTASKS=6 SLURM_NNODES=3 SLURM_NTASKS_PER_NODE=2 SLURM_NODEID=0 "
            "SLURM_JOB_NAME=fit SLURM_PROCID=0 SLURM_LOCALID=0",
        ),
    ],
)
def test_more_or_fewer_processes_than_were_started_are_refused(
    name, environment, monkeypatch, capsys
):
    for variable, value in variables(environment).items():
        monkeypatch.setenv(variable, value)
    given = ("--trainer.devices", "3", "--run", f"{name} of 9")
    assert main(["fit", "translation/numbers", *TINY, *given]) == 2
    said = f"{name} started 2 on each of 3 machines, but the recipe asks for trainer.devices 3 and"
    assert said in capsys.readouterr().err
