#!/usr/bin/env python3
"""SLURM's commands, by the name it is called: jobs are processes of this machine."""

import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

HOME = Path(os.environ["SLURM_STAND_IN"])


def sbatch(script: str) -> None:
    text = Path(script).read_text()
    (HOME / "submitted").open("a").write(text)
    number = str(41 + len(list(HOME.glob("*.sh"))))
    (HOME / f"{number}.sh").write_text(text)
    print(f"Submitted batch job {number}")
    sys.stdout.flush()
    if os.fork():
        return
    os.setsid()
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(sink, stream)
    array = re.search(r"--array=0-(\d+)%(\d+)", text)
    waiting = [f"{number}_{i}" for i in range(int(array[1]) + 1)] if array else [number]
    most, going = int(array[2]) if array else 1, {}
    for job in waiting:
        (HOME / job).write_text("PENDING")
    while waiting or going:
        while waiting and len(going) < most:
            job = waiting.pop(0)
            (HOME / job).write_text("RUNNING")
            env = {**os.environ, "SLURM_JOB_ID": number, "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}
            if "_" in job:
                env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"] = job.split("_")
            command = ["bash", str(HOME / f"{number}.sh")]
            going[job] = subprocess.Popen(command, env=env, start_new_session=True)
            (HOME / f"{job}.pid").write_text(str(going[job].pid))
        for job, process in list(going.items()):
            if process.poll() is not None:
                if not (HOME / job).read_text().startswith("CANCELLED"):
                    (HOME / job).write_text("COMPLETED" if process.returncode == 0 else "FAILED")
                del going[job]
        time.sleep(0.05)


def srun(*words: str) -> None:
    rest = list(words)
    while rest[0].startswith("--"):
        rest = rest[2 if rest[0] in ("--output", "--error") else 1 :]
    os.execvp(rest[0], rest)


def sacct(*words: str) -> None:
    asked = [word for before, word in pairwise(words) if before == "-j"]
    print("JobID|State|NodeList")
    for path in sorted(HOME.iterdir()):
        if re.fullmatch(r"\d+(_\d+)?", path.name) and path.name.split("_")[0] in asked:
            print(f"{path.name}|{path.read_text()}|here")


def scancel(*words: str) -> None:
    for path in HOME.glob(f"{words[0]}*.pid"):
        (HOME / path.stem).write_text("CANCELLED by 0")
        os.killpg(int(path.read_text()), signal.SIGKILL)


globals()[Path(sys.argv[0]).name](*sys.argv[1:])
