"""A third task needs no change to the first two: here one is, whole, and every command works with
it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import lightning.pytorch as L
import pytest
import torch
import yaml
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tfzoo.base.registry import REGISTRIES, register
from tfzoo.commands.main import main
from tfzoo.errors import BadOption
from tfzoo.learning.adapter import Adapter
from tfzoo.learning.optim import Optim
from tfzoo.learning.settings import Compute, Settings
from tfzoo.learning.task import Task


class Bigram(nn.Module):
    """The next letter by the last one."""

    def __init__(self, vocab_size: int, dim: int = 4, *, scale: float = 1.0) -> None:
        super().__init__()
        self.config = {"vocab_size": vocab_size, "dim": dim, "scale": scale}
        if dim < 1:
            raise BadOption(f"dim={dim} must be at least 1")
        self.embedding, self.head, self.scale = (
            nn.Embedding(vocab_size, dim),
            nn.Linear(dim, vocab_size),
            scale,
        )

    def forward(self, ids):
        return self.scale * self.head(self.embedding(ids))


@dataclass
class Letters:
    """The tokenizer."""

    known: str

    def state(self):
        return {"known": self.known}


@dataclass
class Words:
    """One batch."""

    ids: Tensor
    source_text: list[str] = field(default_factory=list)
    index: list[int] = field(default_factory=list)

    def to(self, device):
        return replace(self, ids=self.ids.to(device))


class WordSet(Dataset[Words]):
    def __init__(self, words: list[str], letters: Letters) -> None:
        self.words, self.letters = words, letters

    def __len__(self):
        return len(self.words)

    def __getitem__(self, rows):
        words = [self.words[row] for row in rows]
        return Words(
            torch.tensor([[self.letters.known.index(letter) for letter in word] for word in words]),
            words,
            list(rows),
        )

    __getitems__ = __getitem__


def as_is(batch):
    return batch


class BigramData(L.LightningDataModule):
    """Words of four letters in which vowels follow consonants."""

    def __init__(self, *, count: int = 64, batch: int = 16, seed: int = 0) -> None:
        super().__init__()
        self.count, self.batch, self.seed = count, batch, seed
        self.letters = Letters("abdeg")
        self.test_names = ["test"]

    def _loader(self, seed):
        draw = torch.Generator().manual_seed(seed)
        picks = torch.randint(0, 6, (self.count, 4), generator=draw).tolist()
        words = [
            "".join(("bdg"[p % 3], "ae"[p % 2])[place % 2] for place, p in enumerate(row))
            for row in picks
        ]
        return DataLoader(WordSet(words, self.letters), batch_size=self.batch, collate_fn=as_is)

    def describe(self):
        return f"{self.count} words"

    def train_dataloader(self):
        return self._loader(self.seed)

    def val_dataloader(self):
        return self._loader(self.seed + 1)

    def test_dataloader(self):
        return [self._loader(self.seed + 2)]


@dataclass
class Sampling:
    """A section of its own."""

    letters: int = 2


@dataclass(kw_only=True)
class BigramSettings(Settings):
    sampling: Sampling = field(default_factory=Sampling)


class BigramTask(Task):
    """Predicts the next letter."""

    Model = Bigram
    Settings = BigramSettings
    sampling: Sampling
    Data = BigramData
    tokenizer_of_data = "letters"
    about = "continue words"
    monitor = "val/perplexity"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "bits_saved": True,
    }

    @classmethod
    def model_arguments(cls, tokenizer=None, data=None):
        return {"vocab_size": 3 if tokenizer is None else len(tokenizer.known)}

    @classmethod
    def restore_tokenizer(cls, state):
        return Letters(**state)

    def loss(self, batch):
        return nn.functional.cross_entropy(
            self.model(batch.ids[:, :-1]).flatten(0, 1), batch.ids[:, 1:].flatten()
        )

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log_training({"train/loss": loss.detach()}, batch.ids.numel())
        return loss

    def score(self, batch):
        loss = self.loss(batch)
        return loss, 1, loss.expand(len(batch.index))

    def compute_scores(self, losses):
        return {"perplexity": losses.mean().exp(), "bits_saved": -losses.mean()}

    def prediction_columns(self, batch):
        found = [(text, text) for text in batch.source_text]
        for _ in range(self.sampling.letters):
            last = torch.tensor([self.tokenizer.known.index(longer[-1]) for _, longer in found])
            best = self.model(last).argmax(-1).tolist()
            found = [
                (text, longer + self.tokenizer.known[letter])
                for (text, longer), letter in zip(found, best, strict=True)
            ]
        texts, longer = zip(*found, strict=True)
        return {"text": texts, "continued": longer}


register("task", "bigram")(BigramTask)
BIGRAM = REGISTRIES["task"].registered.pop("bigram")


@pytest.fixture(autouse=True)
def a_third_task(own_folder, monkeypatch):
    """Registered for one test."""
    monkeypatch.setitem(REGISTRIES["task"].registered, "bigram", BIGRAM)
    steps = "{max_steps: 30, accelerator: cpu, devices: 1, log_every_n_steps: 1}"
    Path("bigram.yaml").write_text(
        f"task: bigram\noptim: {{lr: 0.1, schedule: constant}}\ntrainer: {steps}\n", "utf-8"
    )


def test_it_is_trained_scored_and_used_by_the_same_commands(capsys):
    assert main(["fit", "bigram.yaml", "--sampling.letters", "3"]) == 0
    out, err = capsys.readouterr()
    assert "tfzoo predict runs/bigram/1" in out
    assert "64 words" in err
    config = yaml.safe_load(Path("runs/bigram/1/config.yaml").read_text("utf-8"))
    assert config["model"] == {"dim": 4, "scale": 1.0}
    assert config["sampling"] == {"letters": 3}
    summary = json.loads(Path("runs/bigram/1/summary.json").read_text("utf-8"))
    assert summary["fit"]["best"].keys() == {"val/perplexity"}
    assert summary["fit"]["tokens_per_second"] > 0
    assert main(["score", "runs/bigram/1", "validation"]) == 0
    assert main(["score", "runs/bigram/1"]) == 0
    summary = json.loads(Path("runs/bigram/1/summary.json").read_text("utf-8"))
    assert summary["test"]["scores"]["test/perplexity"] < 3.5
    asked = ["--predictions", "jsonl", "--sampling.letters", "1"]
    assert main(["score", "runs/bigram/1", *asked]) == 0
    rows = [
        json.loads(line)
        for line in Path("runs/bigram/1/predictions/test.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 64
    assert all(
        row["continued"][:-1] == row["text"] and row["continued"][-1] in "bdg" for row in rows
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--model.vocab_size", "5"], "`vocab_size` cannot be set in a recipe"),
        (["--model.dim", "0"], "dim=0 must be at least 1"),
        (["--sampling.leters", "3"], "Did you mean 'letters'"),
        (["--letters", "3"], "Did you mean 'sampling.letters'?"),
        (["--data.seed", "3"], "Did you mean 'seed', at the top?"),
        (["--search.beam", "3"], "no section 'search'"),
    ],
)
def test_its_mistakes_are_named_as_those_of_others(args, says, capsys):
    assert main(["fit", "bigram.yaml", *args]) == 2
    assert says in capsys.readouterr().err


def test_a_task_builds_itself_from_its_recipe_and_its_settings_are_sections():
    assert BigramTask.settings() == {
        **{"optim": Optim, "compute": Compute, "sampling": Sampling},
        "adapter": Adapter,
    }
    task = BigramTask(Bigram(5, 3), Letters("abdeg"), sampling=Sampling(4), seed=2)
    again = BigramTask.build(task.recipe, task.tokenizer)
    assert (again.model.config, again.sampling, again.seed) == (task.model.config, task.sampling, 2)
