"""What a sweep takes besides training: 27 runs of dim 32, two at a time.

    python benchmarks/sweep_overhead.py --steps 300     # of each run

Prints the wall time of ``tfzoo sweep``, start-up and report included, over the training time
divided by the jobs. The training time is the sum of what each run's ``fit`` took, validation
included (``seconds`` in ``summary.json``).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

SMALL = {"data.dataset.val": 100, "data.dataset.test": 100, "data.dataset.long": 50}
SMALL |= {"model.dim": 32, "model.heads": 4, "trainer.accelerator": "cpu"}
AXES = {
    "model.norm": ["layer", "rms", "scale"],
    "model.position": ["sinusoidal", "rotary", "none"],
}


def write_sweep(path: Path, steps: int) -> None:
    tree = {
        "recipe": "translation/numbers",
        "overrides": {**SMALL, "trainer.val_check_interval": steps},
        "axes": AXES,
        "seeds": [1, 2, 3],
        "budget": {"steps": steps},
        "metric": {"name": "val/loss", "mode": "min"},
    }
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def main() -> None:
    """Run the sweep and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300, help="of each run")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sweep(folder / "sweep.yaml", given.steps)
        command = [sys.executable, "-m", "tfzoo", "sweep", "sweep.yaml", "--jobs", str(given.jobs)]
        environment, started = {**os.environ, "OMP_NUM_THREADS": "1"}, time.monotonic()
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        wall = time.monotonic() - started
        paths = sorted((folder / "runs/sweep").rglob("summary.json"))
        found = [json.loads(path.read_text())["fit"] for path in paths]
    seconds = [one["seconds"] for one in found]
    peaks = [one["peak_memory"]["process"] / 2**20 for one in found]
    ratio = wall * given.jobs / sum(seconds)
    print(f"{len(found)} runs of {given.steps} steps, {given.jobs} at a time")
    print(f"wall time of the sweep, start-up and report included   {wall:6.1f} s")
    print(f"training time of all runs                              {sum(seconds):6.1f} s")
    print(f"  of a run: {min(seconds):.1f} to {max(seconds):.1f} s")
    print(f"wall / (training / jobs)                               {ratio:6.2f}")
    print(f"peak memory of a run: {min(peaks):.0f} to {max(peaks):.0f} MiB")


if __name__ == "__main__":
    main()
