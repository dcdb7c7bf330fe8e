"""Training goes on exactly in anybody's Trainer that is given ``ckpt_path``."""

import itertools
import os
from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import tfzoo
from tests import forked
from tests.tiny import number_pairs, ready
from tests.trainers import quiet
from tfzoo.errors import BadRun

STEPS = 24


def pairs(**options):
    """Pairs in epochs of an odd number of batches."""
    return number_pairs(**{"max_tokens": 150, "seed": 2, **options})


def texts(folder):
    """Files of pairs."""
    for name in ("0", "1", "2", "val"):
        rows = (f"{name} {row}{' a' * (row % 9)}\tb {row}\n" for row in range(60))
        (folder / f"{name}.tsv").write_text("".join(rows), "utf-8")
    return folder


def stream(folder, **options):
    """Pairs from those files, one after the other."""
    train, val = [str(folder / f"{number}.tsv") for number in range(3)], str(folder / "val.tsv")
    given = {"stream": 13, "tokenizer": "word", "max_tokens": 128, **options}
    return ready(tfzoo.TranslationData(train=train, val=val, **given))


def trained(data, steps=STEPS, start=None, alone=False, **options):
    """A task after so many steps of a plain Trainer, and the Trainer."""
    model = {"dim": 16, "layers": 1, "heads": 2, "dropout": 0.1}
    recipe = {"model": model, "optim": {"lr": 1e-2, "schedule": "constant"}}
    task = tfzoo.TranslationTask.build(recipe, data.tokenizers)
    trainer = quiet(max_steps=steps, limit_val_batches=0, **options)
    given = {"train_dataloaders": data.train_dataloader()} if alone else {"datamodule": data}
    trainer.fit(task, **given, ckpt_path=start, weights_only=True)
    return task, trainer


def difference(one, other):
    """The largest between parameters of two tasks."""
    both = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in both)


def goes_on(make, folder, first=20, **options):
    """The largest difference of weights between a training and one in two parts."""
    whole, _ = trained(make(), **options)
    _, trainer = trained(make(), first, **options)
    path = folder / "part.ckpt"
    trainer.save_checkpoint(path)
    rest, _ = trained(make(), start=path, **options)
    return difference(whole, rest)


@pytest.mark.parametrize(("workers", "accumulated"), [(0, 1), (2, 2)])
def test_twenty_and_four_steps_are_twenty_four(workers, accumulated, tmp_path):
    data = partial(pairs, workers=workers)
    assert len(pairs().train_dataloader()) % 2, "the last step of an epoch has one batch"
    assert goes_on(data, tmp_path, accumulate_grad_batches=accumulated) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"limit_train_batches": 7},
        {"limit_train_batches": 0.5},
        {"alone": True},
        {"first": 7, "limit_train_batches": 7},
        {"first": 4, "limit_train_batches": 7, "accumulate_grad_batches": 2},
    ],
    ids=str,
)
def test_and_with_a_limit_without_a_data_module_and_at_the_end_of_an_epoch(options, tmp_path):
    assert goes_on(pairs, tmp_path, **options) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_goes_on_where_it_was(workers, tmp_path):
    assert goes_on(partial(stream, texts(tmp_path), workers=workers), tmp_path) == 0


@pytest.mark.parametrize(
    ("accumulated", "when", "how"),
    [
        (2, {"every_n_train_steps": 5}, {}),
        (2, {"every_n_epochs": 1}, {}),
        (1, {"every_n_train_steps": 5}, {"max_steps": -1, "max_epochs": 4}),
    ],
    ids=str,
)
def test_each_checkpoint_of_a_training_leads_to_its_end(accumulated, when, how, tmp_path):
    saving = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, **when)
    options = {"steps": how.get("max_steps", STEPS), "max_epochs": how.get("max_epochs")}
    options |= {"limit_train_batches": 9, "accumulate_grad_batches": accumulated}
    more = {"enable_checkpointing": True, "callbacks": [saving]}
    whole, trainer = trained(pairs(), **options, **more)
    assert trainer.global_step > 4
    saved = list(tmp_path.glob("*.ckpt"))
    assert len(saved) > 2
    for path in saved:
        rest, again = trained(pairs(), start=path, **options)
        assert difference(whole, rest) == 0, path
        assert again.global_step == trainer.global_step


def one_of_two(rank, port, folder):
    os.environ |= forked.rank_of_two(rank, port)
    torch.set_num_threads(1)
    two = {"devices": 2, "strategy": "ddp"}
    found = [
        goes_on(make, folder, accumulate_grad_batches=accumulated, **two)
        for make in (pairs, partial(stream, folder))
        for accumulated in (1, 2)
    ]
    torch.distributed.destroy_process_group()
    return found


@forked.requires_fork
@pytest.mark.nightly
def test_two_processes_go_on_as_one_does(tmp_path):
    calls = [(rank, port, texts(tmp_path)) for port in [forked.free_port()] for rank in (0, 1)]
    assert forked.together(one_of_two, calls) == [[0] * 4] * 2


def test_an_order_of_another_seed_is_refused():
    state = pairs().train_dataloader().state_dict()
    with pytest.raises(BadRun, match=r"in the order of data.seed 2, not 4"):
        pairs(seed=4).train_dataloader().load_state_dict(state)


def test_a_loader_goes_on_as_often_as_it_is_asked_for_batches():
    def ids(batches):
        return [batch.index for batch in batches]

    whole, loader = pairs().train_dataloader(), pairs().train_dataloader()
    wanted = ids(whole)
    whole.sampler.set_epoch(1)
    wanted += ids(whole)
    assert ids(itertools.islice(loader, 4)) == wanted[:4]
    rest = pairs().train_dataloader()
    rest.load_state_dict(loader.state_dict())
    assert ids(itertools.islice(rest, 2)) + ids(rest) + ids(rest) == wanted[4:]
