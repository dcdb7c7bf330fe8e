"""The smallest training of ``translation/numbers``, as the words of a command line."""

from __future__ import annotations


def numbers(
    more: str = "", train: int = 200, val: int = 8, test: int = 8, length: float = 0.2
) -> tuple[str, ...]:
    """Options of a model of one layer on a few pairs; ``more`` options stand after them."""
    sizes = f"--data.dataset.train {train} --data.dataset.val {val} --data.dataset.test {test}"
    model = "--model.dim 16 --model.layers 1 --model.heads 2 --trainer.accelerator cpu"
    rest = f"--data.dataset.long 4 --search.max_length {length}"
    return (*sizes.split(), *model.split(), *rest.split(), *more.split())
