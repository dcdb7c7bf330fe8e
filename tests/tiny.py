"""The smallest training of ``translation/numbers``: words of a command line, and its data."""

from typing import Any, TypeVar

import lightning.pytorch as L

import tfzoo

Data = TypeVar("Data", bound=L.LightningDataModule)


def numbers(
    more: str = "", train: int = 200, val: int = 8, test: int = 8, length: float = 0.2
) -> tuple[str, ...]:
    """Options of a model of one layer on a few pairs; ``more`` options stand after them."""
    sizes = f"--data.dataset.train {train} --data.dataset.val {val} --data.dataset.test {test}"
    model = "--model.dim 16 --model.layers 1 --model.heads 2 --trainer.accelerator cpu"
    rest = f"--data.dataset.long 4 --search.max_length {length}"
    return (*sizes.split(), *model.split(), *rest.split(), *more.split())


def ready(data: Data) -> Data:
    """The same, prepared and set up."""
    data.prepare_data()
    data.setup("fit")
    return data


def number_pairs(train: int = 100, val: int = 4, test: int = 4, **options: Any) -> Any:
    """A few pairs in batches of 200 tokens."""
    dataset = {"name": "numbers", "train": train, "val": val, "test": test, "long": 4}
    given = {"tokenizer": {"name": "bpe", "vocab_size": 300}, "max_tokens": 200, **options}
    return ready(tfzoo.TranslationData(dataset=dataset, **given))
