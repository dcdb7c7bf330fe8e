"""Two real processes train and score in float64 as one process alone."""

import os
from dataclasses import dataclass
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import tfzoo
from tests import forked
from tests.tiny import number_pairs, ready
from tests.trainers import quiet
from tfzoo.base.registry import registry
from tfzoo.training.trainer import Sharded

pytestmark = forked.requires_fork
ITEMS = 41
NORMS = tfzoo.list_components()["norm"]
CLOSE = 1e-9
"""Relative error, in float64."""
TASKS = ("translation", "classification")
OTHERS = tuple(name for name in registry("task").own_names() if name not in TASKS)
"""Tasks that are tried with one norm, on the data of their ``example``."""
ROWS = [[[0, 1, 2], [5, 6]], [[3, 4], [7, 8, 9, 10, 11]]]
"""Training: by process, by micro-batch, the rows; differing in number and length."""
SCORED = [[[*range(0, 8)], [*range(8, 11)], [*range(11, 17)], [17]], [[*range(18, ITEMS)]]]
"""Validation: four batches here, one there."""


@dataclass(frozen=True)
class Case:
    task: str
    norm: str = "layer"
    accumulate: int = 1
    sharded: bool = False

    @property
    def refused_in_a_decoder(self):
        """Whether the norm mixes the tokens of a text also in evaluation."""
        return "mixes_tokens:always" in registry("norm").entry(self.norm).traits

    @property
    def mixes_tokens(self):
        """Whether the norm mixes tokens in training, so that it can tell processes apart."""
        traits = registry("norm").entry(self.norm).traits
        return not traits.isdisjoint({"mixes_tokens:always", "mixes_tokens:training"})


SHARDED = [Case(task, accumulate=2, sharded=True) for task in (*TASKS, *OTHERS)]
ONCE = [Case(task, accumulate=2) for task in OTHERS]
COMPARED = {
    "all": [
        *(Case(*one, accumulate=2) for one in product(TASKS, NORMS)),
        *(Case(task) for task in TASKS),
        *ONCE,
        *SHARDED,
    ]
}
COMPARED["by day"] = [
    *(Case("translation", "batch", accumulate=2), Case("classification")),
    Case("translation", accumulate=2, sharded=True),
]


def data_of(task, folder):
    """Built once in the cache by the parent, and found there by the others."""
    tokenizer = {"name": "bpe", "vocab_size": 300}
    if task == "translation":
        return number_pairs(400, ITEMS, ITEMS, max_tokens=300)
    if task == "classification":
        given = {"tokenizer": tokenizer, "max_tokens": 100}
        return ready(tfzoo.ClassificationData(root=str(folder / "texts"), **given))
    cls = registry("task").entry(task).cls
    made = cls.example["data"]
    sizes = {"train": 400, "val": ITEMS, "test": ITEMS}
    return ready(cls.Data(**{**made, "dataset": {**made["dataset"], **sizes}}))


def write_texts(folder):
    draw = torch.Generator().manual_seed(0)
    (folder / "texts").mkdir()
    for name in ("train", "val", "test"):
        drawn = [
            torch.randint(0, 10, (int(length),), generator=draw).tolist()
            for length in torch.randint(1, 12, (ITEMS,), generator=draw)
        ]
        rows = "".join(
            f"{' '.join(map(str, digits))}\t{'odd' if digits[0] % 2 else 'even'}\n"
            for digits in drawn
        )
        (folder / "texts" / f"{name}.tsv").write_text(f"text\tlabel\n{rows}", "utf-8")


def task_of(case, data):
    model = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.0}
    model |= {"norm": case.norm, "allow": ["leaky-norm"]}
    if case.task == "translation" and case.refused_in_a_decoder:
        model |= {"norm": "layer", "encoder": {"norm": case.norm}}
    recipe = {"seed": 1, "model": model, "optim": {"lr": 5e-3, "schedule": "constant"}}
    if case.task != "classification":
        cls = registry("task").entry(case.task).cls
        return cls.build(recipe, getattr(data, cls.tokenizer_of_data))
    recipe |= {"loss": {"class_weights": {"odd": 3.0}}}
    model["pooling"] = "max"  # the mean over an instance norm's output is 0
    return tfzoo.ClassificationTask.build(recipe, data.vocabulary)


def loader(data, split, batches):
    return DataLoader(data.sets[split], batch_size=None, sampler=batches)


def training_rows(rank, accumulate):
    """One optimiser step: the micro-batches of a process, or those of both together."""
    if rank is not None:
        return ROWS[rank][:accumulate]
    return [[row for share in ROWS for row in share[micro]] for micro in range(accumulate)]


def train(case, data, rank, folder, weights=None):
    """One step, with validation before it where there are weights to score, and what came of it."""
    task, inputs = task_of(case, data).double(), []
    if weights is not None:
        task.load_state_dict(weights)

    def keep(module, given, output):
        if output.requires_grad:
            place = len(inputs)
            inputs.append(None)
            output.register_hook(lambda grad: inputs.__setitem__(place, grad))

    for name, module in task.model.named_children():
        if name.endswith("embedding"):
            module.register_forward_hook(keep)
    strategy = "auto" if rank is None else "ddp"
    if case.sharded and rank is not None:
        strategy = Sharded(process_group_backend="gloo", save_distributed_checkpoint=False)
    scored = SCORED[rank] if rank is not None else [batch for share in SCORED for batch in share]
    trainer = quiet(
        folder,
        devices=1 if rank is None else 2,
        strategy=strategy,
        max_steps=1,
        accumulate_grad_batches=case.accumulate,
        gradient_clip_val=1e9,
        num_sanity_val_steps=-1 if weights is not None else 0,
        limit_val_batches=1.0 if weights is not None else 0,
        use_distributed_sampler=False,
    )
    seen = {}
    gradients = {}
    finish, clip = task.on_validation_end, task.configure_gradient_clipping

    def take(*args, **options):
        clip(*args, **options)  # validation forgets gradients
        gradients.update((name, p.grad) for name, p in task.named_parameters())

    task.configure_gradient_clipping = take
    task.on_validation_end = lambda: (seen.update(numbers(trainer)), finish())
    val = loader(data, "val", scored) if weights is not None else None
    trainer.fit(task, loader(data, "train", training_rows(rank, case.accumulate)), val)
    whole = {
        name: grad.full_tensor() if hasattr(grad, "full_tensor") else grad
        for name, grad in gradients.items()
    }
    found = {
        "loss": task.normalizer.loss.item(),
        "norm": task.normalizer.norm.item(),
        "gradients": whole,
        "inputs": inputs,
        "val": seen,
    }
    if weights is not None and not case.sharded:
        trainer.test(task, datamodule=data, verbose=False)
        found["test"] = numbers(trainer)
    return found


def numbers(trainer):
    logged = trainer.callback_metrics.items()
    return {key: float(value) for key, value in logged if not key.startswith("train/")}


def one_of_two(rank, port, folder, cases):
    os.environ |= forked.rank_of_two(rank, port)
    found = all_cases(rank, folder, cases)
    torch.distributed.destroy_process_group()
    return found


def all_cases(rank, folder, cases):
    torch.set_num_threads(1)
    tasks = {case.task for case in cases}
    data = {task: data_of(task, folder) for task in tasks}
    weights = {task: torch.load(folder / f"{task}.pt") for task in tasks}
    # Scored once without and once with shards; the rest is about training alone.
    scored = {Case(task) for task in TASKS} | {*ONCE, *SHARDED}
    given = {case: weights[case.task] if case in scored else None for case in cases}
    return {case: train(case, data[case.task], rank, folder, given[case]) for case in cases}


@pytest.fixture(scope="module", params=["by day", pytest.param("all", marks=pytest.mark.nightly)])
def results(request, tmp_path_factory):
    cases, folder = COMPARED[request.param], tmp_path_factory.mktemp("spread")
    write_texts(folder)
    for task in {case.task for case in cases}:
        data = data_of(task, folder)
        trained = task_of(Case(task), data)
        steps = 100 if task in TASKS else 20
        quiet(folder, max_steps=steps, limit_val_batches=0).fit(trained, data)
        torch.save(trained.state_dict(), folder / f"{task}.pt")
    port = forked.free_port()
    both = forked.together(one_of_two, [(rank, port, folder, cases) for rank in (0, 1)])
    return {"one": all_cases(None, folder, cases), "first": both[0], "second": both[1]}


def test_loss_and_gradients_of_two_processes_are_those_of_one(results):
    wrong = []
    for case in results["one"]:
        one = results["one"][case]
        largest = max(float(grad.abs().max()) for grad in one["gradients"].values())
        for other in (results["first"][case], results["second"][case]):
            wrong += [
                (case, key, one[key], other[key])
                for key in ("loss", "norm")
                if other[key] != pytest.approx(one[key], rel=CLOSE)
            ]
            for name, wanted in one["gradients"].items():
                off = float((other["gradients"][name] - wanted).abs().max())
                if not off <= CLOSE * largest:
                    wrong.append((case, name, off, float(wanted.abs().max())))
    assert not wrong


def test_input_gradients_of_two_processes_are_those_of_one(results):
    wrong = []
    for case in results["one"]:
        one, *shares = (results[name][case]["inputs"] for name in ("one", "first", "second"))
        sides = 2 if case.task == "translation" else 1
        assert len(one) == len(shares[0]) == len(shares[1]) == case.accumulate * sides
        for place, (wanted, *got) in enumerate(zip(one, *shares, strict=True)):
            width, largest = wanted.shape[1], float(wanted.abs().max())
            both = torch.cat([F.pad(part, (0, 0, 0, width - part.shape[1])) for part in got])
            off = float((both - wanted).abs().max())
            if not (largest > 0 and off <= CLOSE * largest):
                wrong.append((case, place, off, largest))
    assert not wrong


def test_scores_of_two_processes_are_those_of_one_over_the_same_items(results):
    for case, one in results["one"].items():
        for name in ("val", "test"):
            if not one.get(name):
                continue
            assert one[name][f"{name}/items"] == ITEMS
            assert one[name].get(f"{name}/chrf", 50.0) > 10.0, "nothing to compare"
            least = 0.2 if f"{name}/perplexity" in one[name] else 0.55  # of words, of two classes
            assert one[name].get(f"{name}/accuracy", 0.75) > least, "nothing to compare"
            for other in (results["first"][case], results["second"][case]):
                if name in other:
                    assert other[name] == pytest.approx(one[name], rel=1e-6, abs=1e-6), (case, name)
    assert {case.task for case, one in results["one"].items() if one["val"]} == {
        case.task for case in results["one"]
    }
