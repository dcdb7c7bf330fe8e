"""``optim.average``: the formula, and what is validated, tested and saved."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.testing import assert_close

import tfzoo
from tests.tasks.test_learner import Watchdog
from tests.tiny import ready
from tests.trainers import quiet
from tfzoo.learning.task import WarmupEMA


@pytest.mark.parametrize("decay", [0.6, 0.9])
def test_the_average_is_that_of_its_formula(decay):
    callback, model = WarmupEMA(decay), nn.Linear(3, 2).double()
    model.register_buffer("seen", torch.tensor(0))
    average = AveragedModel(model, multi_avg_fn=callback.move, use_buffers=True)
    wanted = torch.empty(0)
    for n in range(40):
        with torch.no_grad():
            model.weight.normal_()
        model.seen += 1
        assert callback.should_update(step_idx=n)
        average.update_parameters(model)
        share = min(decay, (1 + n) / (20 + n))
        wanted = model.weight.clone() if n == 0 else share * wanted + (1 - share) * model.weight
    assert_close(average.module.weight, wanted, atol=1e-12, rtol=0.0)
    assert average.module.seen == 40
    assert not callback.should_update(epoch_idx=1)


def fit(callbacks):
    hops = {"name": "hops", "train": 64, "val": 8, "test": 8}
    data = ready(tfzoo.ClassificationData(dataset=hops, tokenizer="word"))
    recipe = {"seed": 1, "model": {"dim": 8, "heads": 2, "layers": 1}, "optim": {"average": 0.6}}
    task = tfzoo.ClassificationTask.build(recipe, data.vocabulary)
    trainer = quiet(max_steps=5, limit_val_batches=0, callbacks=callbacks)
    trainer.fit(task, datamodule=data)
    return task


def test_training_in_somebodys_own_trainer_ends_with_the_average():
    watch = Watchdog()
    task = fit([watch])
    callback = WarmupEMA(0.6)
    average = AveragedModel(task.model, multi_avg_fn=callback.move)
    for n, seen in enumerate(watch.seen):
        task.load_state_dict(seen["state"])
        callback.should_update(step_idx=n)
        average.update_parameters(task.model)
    final = fit([Watchdog()]).model
    assert_close(dict(final.state_dict()), dict(average.module.state_dict()))
    assert not torch.equal(final.head.weight, task.model.head.weight)
