"""A training that is killed and restarted ends as if nobody had disturbed it; benchmarks/kill.py in
a short form.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill.py"


def killed(*options):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all equal to the undisturbed training, bit for bit" in ran.stdout
    return ran.stdout


@pytest.mark.nightly
def test_a_killed_training_ends_with_the_weights_of_an_undisturbed_one():
    said = killed(
        "--processes", "1", "--kills", "1", "--steps", "20", "--events", "3", "--no-borders"
    )
    assert re.search(r"killed at event \d+ of \d+ of a save, before: write: .* in a save", said)


@pytest.mark.nightly
def test_and_so_do_those_killed_anywhere_with_one_process_and_two():
    killed()
