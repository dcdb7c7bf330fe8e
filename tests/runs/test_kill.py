"""A training that is killed and restarted ends as if nobody had disturbed it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill.py"


@pytest.mark.nightly
def test_trainings_killed_anywhere_end_with_the_weights_of_undisturbed_ones():
    """With one process and two."""
    ran = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all equal to the undisturbed training, bit for bit" in ran.stdout
