"""A step whose loss or gradient is not finite is left out, counted and, after too many, the end."""

import copy
import math
from itertools import pairwise
from typing import Any

import lightning.pytorch as L
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tfzoo
from tests.tiny import number_pairs, numbers, ready
from tests.trainers import quiet
from tfzoo.commands.main import main
from tfzoo.components.attention import _inner_products
from tfzoo.errors import NotFinite
from tfzoo.learning.gradient_normalizer import SkippedSteps
from tfzoo.training.progress import Lines

pytestmark = pytest.mark.usefixtures("no_pictures")

SMALL = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.1, "encoder": {"norm": "batch"}}


@pytest.fixture(scope="module")
def data():
    return number_pairs()


def task_of(data, **optim):
    recipe = {
        "seed": 1,
        "model": SMALL,
        "optim": {"lr": 1e-2, "schedule": {"name": "linear", "warmup": 4}, **optim},
    }
    return tfzoo.TranslationTask.build(recipe, data.tokenizers)


class Watchdog(L.Callback):
    """All that a step may change, after each step."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.logged: list[dict[str, float]] = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        (schedule,) = trainer.lr_scheduler_configs
        kept = {
            "adam": trainer.optimizers[0].state_dict(),
            "schedule": schedule.scheduler.state_dict()["last_epoch"],
        }
        self.seen.append(copy.deepcopy({"state": pl_module.state_dict(), **kept}))
        self.logged.append({key: float(value) for key, value in trainer.callback_metrics.items()})


def fit(task, data, folder, steps=6, **options):
    watch = Watchdog()
    given = {"callbacks": [watch], "log_every_n_steps": 1, "limit_val_batches": 0, **options}
    quiet(folder, max_steps=steps, **given).fit(task, datamodule=data)
    return watch


def break_at(task, batches, what, bad=math.nan):
    """Let a feed-forward's output, or its gradient, or the loss not be finite in these batches."""

    def spoil(module, given, output):
        if task.batches - 1 not in batches or not task.training:
            return output
        if what == "output":
            return output * bad
        output.register_hook(lambda grad: grad * bad)
        return output

    def spoilt(batch):
        loss, *rest = own(batch)
        return loss * (bad if task.batches - 1 in batches else 1.0), *rest

    own = task.loss
    if what == "loss":
        task.loss = spoilt
    elif what != "none":
        task.model.encoder.layers[1].feedforward.inner.register_forward_hook(spoil)


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.mark.parametrize("what", ["output", "gradient", "loss"])
def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(what, data, tmp_path):
    task = task_of(data)
    break_at(task, {2, 5}, what, math.inf if what == "output" else math.nan)
    watch = fit(task, data, tmp_path, gradient_clip_val=1.0)
    for one in watch.seen:
        one["trained"] = {k: value for k, value in one["state"].items() if "running" not in k}
        one["moments"] = one["adam"]["state"]
    for kept in ("trained", "moments"):
        moved = [not equal(a[kept], b[kept]) for a, b in pairwise(watch.seen)]
        assert moved == [True, False, True, True, False], kept
    assert [one["schedule"] for one in watch.seen] == [1, 2, 3, 4, 5, 6]
    assert [one["train/skipped"] for one in watch.logged] == [0, 0, 1, 1, 1, 2]
    last = watch.seen[-1]["state"].values()
    assert all(value.isfinite().all() for value in last), "running statistics too"


def test_a_forward_pass_has_no_gradients_of_the_step_before_beside_it(data, tmp_path):
    """They are there until then, for callbacks, and add up over the micro-batches of a step."""
    task, seen = task_of(data), list[bool]()
    own, parameter = task.training_step, task.model.encoder.layers[0].feedforward.inner.inner.weight

    class Look(L.Callback):
        def on_train_batch_end(self, *given):
            assert parameter.grad is not None

    def note(*given):
        seen.append(parameter.grad is not None)
        return own(*given)

    task.training_step = note
    fit(task, data, tmp_path, steps=2, accumulate_grad_batches=2, callbacks=[Look()])
    assert seen == [False, True, False, True]


def test_a_skipped_step_leaves_out_all_its_micro_batches(data, tmp_path):
    task = task_of(data)
    break_at(task, {0}, "gradient")
    watch = fit(task, data, tmp_path, steps=2, accumulate_grad_batches=2)
    _, skipped, _, taken = watch.seen
    moments = [one for state in skipped["adam"]["state"].values() for one in state.values()]
    assert not any(one.any() for one in moments)
    assert not equal(skipped["adam"]["state"], taken["adam"]["state"])
    assert task.skipped == 1


@pytest.mark.parametrize("what", ["output", "gradient", "loss"])
def test_too_many_in_a_row_end_the_training(what, data, tmp_path):
    task = task_of(data, max_skipped=3)
    break_at(task, {0, 1, 3, 4, 5}, what)  # two, which is not enough, then three
    with pytest.raises(NotFinite, match="3 steps in a row"):
        fit(task, data, tmp_path, accumulate_grad_batches=1)
    assert task.skipped == 5
    assert all(value.isfinite().all() for value in task.state_dict().values())


class Stop(L.Callback):
    """Breaks off a training after its first batch."""

    def on_train_batch_end(self, *given):
        raise InterruptedError


def test_a_training_takes_nothing_over_from_one_that_was_broken_off_in_the_middle_of_a_step(
    data, tmp_path
):
    task, added = task_of(data), []
    add = task.normalizer.add
    task.normalizer.add = lambda loss, n: added.append((loss.item(), n)) or add(loss, n)
    with pytest.raises(InterruptedError):
        fit(task, data, tmp_path, callbacks=[Stop()], accumulate_grad_batches=2)
    ((_, first),) = added
    added.clear()
    task._logged = 0.0, task._logged[1] - 1e6
    watch = fit(task, data, tmp_path, steps=1, accumulate_grad_batches=2)
    loss, tokens = (sum(column) for column in zip(*added, strict=True))
    assert watch.logged[-1]["train/loss"] == pytest.approx(loss / tokens)
    assert watch.logged[0]["train/tokens_per_second"] > 1  # seconds since the start of training
    assert len(added) == 2
    assert task.tokens == first + tokens


class HostReads(TorchDispatchMode):
    """Raises where the host would wait for a device: a value is read, or a shape depends on one."""

    waits = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.waits or name.startswith("unique"):
            raise AssertionError(f"{name} waits for the device")
        masks = args[1] if name in ("index", "index_put_") else ()
        if any(x is not None and x.dtype == torch.bool for x in masks):
            raise AssertionError(f"{name} with a boolean mask waits for the device")
        return func(*args, **(kwargs or {}))


class WithoutHostReads(L.Callback):
    """From the start of the first batch, when it lies on the device, to the last step, which is
    logged.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.ended = False
        self.mode = HostReads()
        self.patch = monkeypatch

    def on_train_batch_start(self, trainer, pl_module, batch, k):
        def refuse(*args):
            raise AssertionError("a tensor is read")

        if self.steps == 0:
            for name in ("tolist", "numpy", "__array__"):  # these do not pass the dispatcher
                self.patch.setattr(torch.Tensor, name, refuse)
            self.mode.__enter__()
        self.steps += 1
        if trainer.global_step + 1 == trainer.max_steps:
            self.end()

    def end(self, *given):
        if not self.ended:
            self.mode.__exit__(None, None, None)
            self.patch.undo()
        self.ended = True

    on_exception = end


@pytest.mark.parametrize("task", ["translation", "classification"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_that_logs_nothing_never_waits_for_the_device(
    task, accumulate, data, tmp_path, monkeypatch
):
    """Nor where it is not finite; skipped steps are read a step later."""
    if task == "translation":
        training = task_of(data)
    else:
        rows = [("one two three"[: 3 + 4 * (k % 3)], str(k % 2)) for k in range(40)]
        options = {"tokenizer": "character", "max_tokens": 50}
        data = ready(tfzoo.ClassificationData(train=rows, val=rows, **options))
        recipe = {"model": {"dim": 16, "heads": 2, "layers": 1}}
        training = tfzoo.ClassificationTask.build(recipe, data.vocabulary)
    break_at(training, {2}, "loss" if task == "translation" else "none")
    monkeypatch.setattr(SkippedSteps, "last_in_a_row", lambda self: 0)
    monkeypatch.setattr(_inner_products, "empty_queries", lambda *_: None)  # as on a GPU
    watch = WithoutHostReads(pytest.MonkeyPatch())
    options = {"callbacks": [watch, Lines()], "log_every_n_steps": 100, "gradient_clip_val": 1.0}
    options["enable_progress_bar"] = True
    fit(training, data, tmp_path, 4, accumulate_grad_batches=accumulate, **options)
    assert watch.steps >= 4


def test_the_command_ends_with_code_1_and_a_last_checkpoint_that_is_finite(
    own_folder, monkeypatch, capsys
):
    step = tfzoo.TranslationTask.training_step

    def diverging(self, batch, k):
        return step(self, batch, k) * (math.nan if self.batches > 3 else 1.0)

    monkeypatch.setattr(tfzoo.TranslationTask, "training_step", diverging)
    small = numbers("--optim.max_skipped 2 --checkpoint.every_n_train_steps 1")
    assert main(["fit", "translation/numbers", "--run", "here", *small]) == 1
    assert "2 steps in a row" in capsys.readouterr().err
    kept = torch.load("here/checkpoints/last.ckpt", weights_only=True)
    assert all(value.isfinite().all() for value in kept["state_dict"].values())
