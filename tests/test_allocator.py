"""Freed memory stays in the process where a command or a script asks for it, and only there."""

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn.functional import cross_entropy

import tfzoo
from tests import forked
from tfzoo.base import memory
from tfzoo.commands.main import main
from tfzoo.commands.predict import load_task
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.sweep.run import train_module

LIBRARY, VERSION = platform.libc_ver()
HAS_LIMIT = LIBRARY != "glibc" or tuple(map(int, VERSION.split("."))) < (2, 35)
requires_glibc = pytest.mark.skipif(LIBRARY != "glibc", reason="no glibc")
maps_no_tensor = pytest.mark.skipif(HAS_LIMIT, reason="maps tensors from 32 MiB on")


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    others = ("GLIBC_TUNABLES", memory.VARIABLE, *memory.READ_AT_IMPORT)
    for name in [*os.environ]:
        if name.startswith("MALLOC_") or name in others:
            monkeypatch.delenv(name)


def faults(in_a_thread=False, keep=True):
    """Whether memory is kept, and the page faults of using a tensor of 80 MiB, four times."""
    kept = keep and tfzoo.keep_freed_memory()
    if not in_a_thread:
        return kept, use_memory()
    with ThreadPoolExecutor(1) as pool:
        return kept, pool.submit(use_memory).result()


def use_memory():
    import resource

    before = 0
    for turn in range(12):
        if turn == 8:  # the heap has grown
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(80 * 2**18)  # larger than an arena's heap
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def training(keep=True):
    """As :func:`faults`, and the losses of three steps."""
    return *faults(keep=keep), list(steps())


def steps():
    """The loss of each of three training steps."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = tfzoo.LanguageModel(100, 32, 4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for length in (5, 30, 12):
        ids = torch.randint(4, 100, (16, length))
        loss = cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


PAGES = 4 * 80 * 2**20 // 4096


@maps_no_tensor
def test_memory_is_used_again_without_page_faults():
    """And changes no number."""
    kept, after, numbers = forked.call(training)
    _, before, same = forked.call(training, False)
    assert kept
    assert before > 0.9 * PAGES
    assert after < 0.3 * PAGES
    assert numbers == same


@pytest.mark.parametrize("chosen", [None, "7"])
def test_variables_that_pytorch_reads_are_set_before_it_is_imported(chosen):
    """But for those that are there."""
    code = (
        "import os, sys\n"
        "from tfzoo.base import memory\n"
        "from tfzoo.commands import main\n"
        "def command(name):\n"
        "    assert 'torch' not in sys.modules\n"
        "    print(*(os.environ[name] for name in memory.READ_AT_IMPORT))\n"
        "    raise SystemExit\n"
        "main.command = command\n"
        "main.main(['fit', 'translation/numbers'])\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in memory.READ_AT_IMPORT}
    environment |= {} if chosen is None else {"LRU_CACHE_CAPACITY": chosen}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [chosen or "16", "16", "1"], done.stderr


@requires_glibc
@pytest.mark.parametrize(
    "chosen",
    [
        {"TFZOO_KEEP_FREED_MEMORY": "0"},
        pytest.param({"MALLOC_TRIM_THRESHOLD_": "131072"}, marks=pytest.mark.nightly),
    ],
)
def test_what_the_user_has_chosen_stays(chosen, monkeypatch):
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    kept, found = forked.call(faults)
    assert not kept
    assert found > 0.9 * PAGES


class Asked(Exception):
    """Memory was asked to be kept."""


def of_a_module(folder):
    (folder / "config.yaml").write_text("seed: 1\n", "utf-8")
    return train_module.main([str(folder), "", ""])


COMMANDS = ("fit translation/numbers", "fit translation/numbers --dry-run", "predict numbers.ckpt")


@pytest.mark.parametrize(
    "begin",
    [
        *(pytest.param(lambda _, line=line: main(line.split()), id=line) for line in COMMANDS),
        pytest.param(
            lambda _: main(["score", "numbers.ckpt", "--data.dataset", "numbers"]), id="score"
        ),
        pytest.param(of_a_module, id="module"),
        pytest.param(lambda _: load_task(TrainedRun("numbers.ckpt"), None), id="serve"),
    ],
)
def test_training_and_inference_begin_with_it(begin, two_runs, monkeypatch):
    def asked():
        raise Asked

    monkeypatch.setattr("tfzoo.commands.main.prepare_import", lambda: None)  # it asks as well
    monkeypatch.setattr(memory, "is_wanted", asked)
    with pytest.raises(Asked):
        begin(two_runs)
