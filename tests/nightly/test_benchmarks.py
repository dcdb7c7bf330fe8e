"""The scripts behind the figures of the docs still run, on little."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LITTLE = {
    "additive": ["--lengths", "16", "--pairs", "2"],
    "faults": ["not finite"],
    "gpu": ["--device", "cpu", "--small"],
    "judging": ["--sweeps", "200"],
    "kill": ["--processes", "1", "--kills", "1", "--events", "1", "--no-borders", "--steps", "10"],
    "products": [],
    "published": ["--dim", "32", "--layers", "1"],
    "sweep_overhead": ["--steps", "100", "--jobs", "1"],
    "beside_marian": ["--dim", "32", "--layers", "1", "--rounds", "2"],
}
ELSEWHERE = {"ablations", "architectures", "host", "marian", "multi30k", "structure", "yarn"}
"""What needs a data set or another package, or is run by tests of its own."""


def test_every_benchmark_is_in_a_list():
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert names == {*LITTLE, *ELSEWHERE}


@pytest.mark.nightly
@pytest.mark.parametrize("name", LITTLE)
def test_a_benchmark_runs_and_prints_what_it_measured(name, tmp_path):
    """As its first lines say, ``python benchmarks/NAME.py`` or ``python -m benchmarks.NAME``."""
    script = ROOT / f"benchmarks/{name}.py"
    asked = f"-m benchmarks.{name}" if f"python -m benchmarks.{name}" in script.read_text() else ""
    command = [sys.executable, *(asked.split() or [str(script)])]
    environment = {**os.environ, "TFZOO_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *LITTLE[name]], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # What is measured has a decimal point, what is chosen has none; rates and MiB are whole.
    measured = r"\| \d+ \|\n" if name == "products" else r"\d\.\d"
    assert re.search(measured, done.stdout), done.stdout
