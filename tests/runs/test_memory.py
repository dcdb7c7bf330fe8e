"""What needs more memory than the 16 GB here is refused in one line; what fits is not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.exporting.tasks import translator
from tests.typed import typed
from tfzoo.base import memory
from tfzoo.commands.main import main
from tfzoo.config.config import Config
from tfzoo.config.recipe import load_recipe, parse_options
from tfzoo.errors import BadRecipe
from tfzoo.search import Search
from tfzoo.training import cost
from tfzoo.training.train import is_out_of_memory, ready
from tfzoo.training.trainer import make_trainer

pytestmark = pytest.mark.usefixtures("own_folder")

GB = 10**9
RECIPE = "translation/numbers"
TINY = (
    "--data.dataset.train 100 --data.dataset.val 4 --data.dataset.test 4 --data.dataset.long 4 "
    "--trainer.accelerator cpu --trainer.max_steps 2 --trainer.limit_val_batches 0"
)
MIXTURE = "--model.feedforward mixture --model.feedforward.experts"
SWIGLU = "--model.feedforward swiglu --model.feedforward.hidden"
LEARNED = "--model.position learned --model.max_length"
TOP_K = "--model.weighting top_k --model.weighting.k"

DAILY = {
    "--model.dim 20000": "model: .* 89.6 GB.* 16.0 GB.*feedforward.* 20000",
    "--model.dim 8192": "model: .*optimiser's.* 60.1 GB.* 16.0 GB.* 8192",
    f"{MIXTURE} 20000": "model: .* 41.9 GB.* 16.0 GB.* 20000",
    f"{MIXTURE} 10000000": "experts=10000000 .* at most 100000",
    "--model.decoder.value_head_dim 2000000": "model: .* GB.* 16.0 GB.*decoder.*value",
    f"{LEARNED} 10000000": "model: .* 41.0 GB.* 16.0 GB.*position.* 10000000",
    "--search.beam 1000000": "beam=1000000 must be .*at least 1 and at most 1000",
}
"""What is refused, and the line that names the option or the tensor, and both numbers."""
FITS = (
    "",
    f"{MIXTURE} 2000 --model.feedforward.hidden 4",
    f"{TOP_K} 10000000",
    "--model.max_length 10000000",  # without a table
    "--search.beam 200",
    "--trainer.devices 2",
    f"{SWIGLU} 65536",
    f"{LEARNED} 100000",
    "--model.dim 1536 --trainer.precision bf16-true",
    "--data.max_tokens 1000000",
)


@pytest.fixture
def of_16_gb(monkeypatch):
    monkeypatch.setattr(memory, "machine", lambda: 16 * GB)


@pytest.mark.usefixtures("of_16_gb")
@pytest.mark.parametrize("options", DAILY)
def test_what_no_machine_has_is_refused(options, capsys):
    code = main(typed(f"fit {RECIPE} {TINY} {options}"))
    is_refused(code, capsys.readouterr().err, DAILY[options])
    assert not list(Path().glob("runs/*/*"))


def is_refused(code, err, line):
    """With one line, the last one that is printed."""
    import re

    *_, said = err.splitlines()
    assert code == 2, err
    assert re.search(line, said), said
    assert "Traceback" not in err


def resolved(options):
    given = parse_options(typed(f"{TINY} {options}"))
    return Config.parse(load_recipe(RECIPE), given)


def checked(options):
    """The checks of a training, which has read its data."""
    ready(resolved(options), None, [])


@pytest.mark.usefixtures("of_16_gb")
@pytest.mark.parametrize("options", FITS)
def test_what_a_machine_has_is_not_refused(options):
    """By the checks before data is read."""
    config = resolved(options)
    cost.check_fits(config, make_trainer(config.recipe["trainer"], None, []))
    Search(**config.recipe["search"])


# Checkpoints, shared folders, commands on them ----------------------------------------------------

STORED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "dim": (lambda r: r["model"].update(dim=10**6, heads=2), "model: .* GB.* GB.* 1000000"),
    "beam": (lambda r: r.update(search={"beam": 10**9}), "beam=1000000000 must .*at most 1000"),
}


def store(change=None):
    """``run.ckpt`` and the shared folder ``shared`` of a translator, with a changed recipe."""
    task = translator()
    kept = task.checkpoint_entry()
    shutil.rmtree("shared", ignore_errors=True)
    task.save_pretrained("shared")
    if change is not None:
        kept["recipe"] = json.loads(json.dumps(kept["recipe"]))
        change(kept["recipe"])
        config = json.loads(Path("shared/config.json").read_text("utf-8"))
        config["recipe"] = kept["recipe"]
        Path("shared/config.json").write_text(json.dumps(config), "utf-8")
    torch.save({"tfzoo": kept, "state_dict": task.state_dict()}, "run.ckpt")
    Path("text").write_text("one two\n", "utf-8")


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("run", ["run.ckpt", "shared"])
def test_a_run_of_a_stranger_is_refused_alike(run, name, capsys):
    change, line = STORED[name]
    store(change)
    is_refused(main(["predict", run, "text"]), capsys.readouterr().err, line)


# What there is and what is needed -----------------------------------------------------------------


def test_what_there_is_is_the_least_of_machine_and_container(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "LIMITS", (limit, tmp_path / "none"))
    whole = memory.machine()
    assert 2**28 < whole < memory.ADDRESSES
    limit.write_text("max\n", "utf-8")
    assert memory.machine() == whole
    limit.write_text("5000\n", "utf-8")
    assert memory.machine() == 5000


def test_a_gpu_that_is_too_small_is_named(monkeypatch):
    monkeypatch.setattr(cost, "room", lambda trainer: (1, 10**7, "GPU"))
    with pytest.raises(BadRecipe, match=r"model: .*this GPU has 10.0 MB.* x "):
        checked("")
    monkeypatch.setattr(cost, "room", lambda trainer: (0, 10**7, "GPU"))
    checked("")  # each GPU has a part


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_an_error_is_known_by_its_class_or_its_words(error, is_one):
    assert is_out_of_memory(error) == is_one
    within = RuntimeError("in a worker")
    within.__cause__ = error
    assert is_out_of_memory(within) == is_one
