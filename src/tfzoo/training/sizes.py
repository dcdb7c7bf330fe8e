"""Whether a training fits the machine: what is exact is refused, what is estimated is said."""

from __future__ import annotations

from functools import partial
from typing import Any

from tfzoo.config.resolve import Config
from tfzoo.runs import memory


def check_sizes(config: Config, tokenizer: Any = None) -> None:
    """Check that the model, its gradients and the optimiser's state fit: before data is read, and
    with the tokenizer's vocabulary when it is known.

    Raises:
        BadRecipe: naming the option that decides, what it needs and what there is.
    """
    recipe = config.recipe
    supplied = config.task.model_arguments(tokenizer, data=recipe["data"])
    make = partial(config.task.Model, **supplied)
    model, option = config.model, ""
    if tokenizer is not None:
        model = memory.build(make, recipe["model"], memory.ADDRESSES)
        most = max((size for size in supplied.values() if size), default=0)
        option = f"data.tokenizer.vocab_size={most}"
    optim = config.task.settings()["optim"](**recipe["optim"])
    memory.check_training(
        model,
        make,
        recipe["model"],
        recipe["trainer"],
        lambda module: optim.configure(module, 1)["optimizer"],
        option,
    )
