"""A training that runs out of memory says what to set lower to what."""

import os
import subprocess
import sys

import pytest
import torch

from tests.docs.pages import ROOT
from tests.results import summary
from tests.typed import typed
from tfzoo.training.out_of_memory import is_out_of_memory

pytest.importorskip("resource", reason="limits of a process are Unix's")

SCRIPT = """
import resource, sys
import torch
import lightning.pytorch
from tfzoo.commands.main import main
from tfzoo import TranslationTask

def limited(self, start=TranslationTask.on_train_start):
    start(self)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 2**20, resource.RLIM_INFINITY))

TranslationTask.on_train_start = limited
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.nightly
def test_it_names_the_option_to_lower_and_half(tmp_path):
    args = typed(
        "fit translation/numbers --data.dataset.train 5000 --data.dataset.val 4",
        "--data.dataset.test 4 --model.dim 64 --data.max_tokens 100000",
        "--trainer.accelerator cpu --run mine",
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    line = next(line for line in done.stderr.splitlines() if line.startswith("tfzoo: "))
    assert "out of memory. Lower data.max_tokens, which is 100000: --data.max_tokens 50000" in line
    assert summary(tmp_path / "mine")["fit"]["ended"].startswith("failed: out of memory")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: "
                "you tried to allocate"
            ),
            True,
        ),
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
