"""Training on a GPU: no step waits for the device, steps that are not finite are skipped, resuming
is exact, running out of memory is named, several GPUs train as one, and the demo reaches 99 %.
"""

import csv
import itertools
import json
import math
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tfzoo
from tests.tiny import number_pairs
from tests.trainers import quiet
from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.learning.gradient_normalizer import SkippedSteps

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL = {"dim": 16, "heads": 2, "layers": 1, "dropout": 0.1}
GPUS = torch.cuda.device_count()
TINY = typed(
    "--data.dataset.train 200 --data.dataset.val 8 --data.dataset.test 8",
    "--data.dataset.long 4 --data.tokenizer.vocab_size 300 --model.dim 16",
    "--model.heads 2 --model.layers 1 --data.max_tokens 256",
    "--trainer.val_check_interval 4",
)


@pytest.fixture(autouse=True)
def copies_lie_on_the_host(request, monkeypatch):
    """A step reads how many steps were skipped before it from a copy that the GPU has written one
    step earlier. On a CPU, this would look as if it waited.
    """
    if "device" in request.fixturenames and request.getfixturevalue("device").type == "cpu":
        monkeypatch.setattr(SkippedSteps, "last_in_a_row", lambda self: 0)


@pytest.fixture(scope="module")
def data():
    return number_pairs()


class Reads(TorchDispatchMode):
    """On a CPU, finds what would wait for a GPU: operations that read a number, or whose result has
    a size that depends on numbers.
    """

    WAIT = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in self.WAIT, f"a step reads from the device: {name}"
        return func(*args, **(kwargs or {}))


class Methods(TorchFunctionMode):
    """The same for methods that read memory of a CPU directly."""

    WAIT = (torch.Tensor.tolist, torch.Tensor.numpy)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in self.WAIT, f"a step reads from the device: {func.__name__}"
        return func(*args, **(kwargs or {}))


@contextmanager
def no_waiting(device):
    """Raise where the host waits for the device."""
    if device.type == "cpu":
        with Reads(), Methods():
            yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


class Watched(L.Callback):
    """The steps in which the host may not wait for the device. What may: steps that log, that
    validate or that save, and ``precision: 16-mixed``, whose GradScaler reads its scale.
    """

    def __init__(self, device: torch.device, steps: range) -> None:
        self.device, self.steps = device, steps
        self.open = ExitStack()
        self.watched = 0

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx in self.steps:
            self.open.enter_context(no_waiting(self.device))
            self.watched += 1

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.open.close()

    def on_exception(self, trainer, pl_module, exception):
        self.open.close()


def task_of(data, **optim):
    recipe = {"seed": 1, "model": SMALL, "optim": {"lr": 1e-2, **optim}}
    return tfzoo.TranslationTask.build(recipe, data.tokenizers)


def trainer(device, *callbacks, **options):
    kind = device.type if device.type == "cpu" else "gpu"
    given = {"limit_val_batches": 0, "log_every_n_steps": 100, **options}
    return quiet(accelerator=kind, callbacks=list(callbacks), **given)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_no_step_waits_for_the_device(data, device, precision):
    watched = Watched(device, range(2, 5))
    made = trainer(device, watched, max_steps=6, precision=precision, gradient_clip_val=1.0)
    made.fit(task_of(data), datamodule=data)
    assert watched.watched == 3


@pytest.mark.parametrize("read", [float, torch.Tensor.tolist], ids=["float", "tolist"])
def test_a_step_that_waits_is_found(data, device, read):
    task = task_of(data)
    own = task.loss

    def loss(batch):
        found = own(batch)
        read(found[0])
        return found

    task.loss = loss
    with pytest.raises((AssertionError, RuntimeError), match=r"reads from the device|synchroniz"):
        trainer(device, Watched(device, range(2, 5)), max_steps=6).fit(task, datamodule=data)


def test_a_step_that_is_not_finite_changes_nothing_and_is_not_waited_for(data, device):
    task, watched = task_of(data), Watched(device, range(2, 5))
    own, bad = task.loss, 3

    def loss(batch):
        found = own(batch)
        return (found[0] * (math.nan if task.batches - 1 == bad else 1.0), *found[1:])

    task.loss = loss
    weights = []

    class Weights(L.Callback):
        def on_train_batch_end(self, trainer, pl_module, *args):
            weights.append(pl_module.model.output_weight.detach().clone())

    trainer(device, watched, Weights(), max_steps=6).fit(task, datamodule=data)
    changed = [not torch.equal(one, other) for one, other in itertools.pairwise(weights)]
    assert changed == [True, True, False, True, True]
    assert int(task.skipped) == 1


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
