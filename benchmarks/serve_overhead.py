"""What `tfzoo serve`'s process, limits and time-outs cost: answers a second beside the same model
in a plain FastAPI application, in one process and without any of them.

    python -m benchmarks.serve_overhead                    # requests of 1 and of 32 texts
    python -m benchmarks.serve_overhead --rounds 5 --texts 8

Both servers run all the time, with the model of benchmarks/serve.py, which is not trained. Each
round sends the same requests to one, then to the other, in turns first, from several clients at a
time. Printed are answers a second (median of the rounds), CPU seconds of the server's processes for
1,000 answers, and `tfzoo serve` divided by plain, with the 95 % interval of the mean over rounds. A
busy machine changes CPU time least.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel
from scipy.stats import t

from benchmarks.serve import JSON, text, untrained

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
CLIENTS = 4


class Texts(BaseModel):
    texts: list[str]


def plain(path: str) -> None:
    """A server as the documentation of FastAPI shows it."""
    import socket
    import threading

    import uvicorn
    from fastapi import FastAPI

    from tfzoo.commands.task_command import load_task
    from tfzoo.runs.run import Run

    task, lock, app = load_task(Run(path), "cpu").eval(), threading.Lock(), FastAPI()

    @app.post("/translate")
    def translate(asked: Texts) -> dict[str, object]:
        with lock:
            return {"answers": task.answers(asked.texts)}

    with socket.create_server(("127.0.0.1", 0)) as bound:
        print(f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([bound])


@contextmanager
def serving(command: list[str]) -> Iterator[tuple[int, int]]:
    """A server's port and process."""
    server = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        port = urlsplit(server.stdout.readline().split()[0]).port if server.stdout else None
        yield port or 0, server.pid
    finally:
        server.terminate()
        server.wait(60)


def processor(process: int) -> float:
    """CPU seconds of a process and of all that it has started."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    children = [
        int(child)
        for path in Path(f"/proc/{process}/task").glob("*/children")
        for child in path.read_text().split()
    ]
    return sum(map(int, fields[11:13])) / TICKS + sum(map(processor, children))


def ask(port: int, bodies: list[str]) -> None:
    """Send requests one after the other over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for body in bodies:
        connection.request("POST", "/translate", body, JSON)
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"status {answer.status}: {answer.read()!r}")
        answer.read()
    connection.close()


def measured(port: int, process: int, bodies: list[str]) -> tuple[float, float]:
    """Seconds of the clock and of the server's CPU for some requests of several clients."""
    cpu, started = processor(process), time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(lambda first: ask(port, bodies[first::CLIENTS]), range(CLIENTS)))
    return time.perf_counter() - started, processor(process) - cpu


def ratio(ours: list[float], theirs: list[float]) -> str:
    """The geometric mean of ratios with its 95 % interval."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    half = t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(statistics.mean(logs) + x * half) for x in (-1, 0, 1))
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def compare(servers: list[tuple[int, int]], texts: int, requests: int, rounds: int) -> None:
    """Print a table of both servers for requests of so many texts."""
    found: list[list[tuple[float, float]]] = [[], []]
    for number in range(-1, rounds):
        chance = random.Random(number)
        bodies = [
            json.dumps({"texts": [text(chance) for _ in range(texts)]}) for _ in range(requests)
        ]
        for which in (0, 1) if number % 2 else (1, 0):
            one = measured(*servers[which], bodies)
            if number >= 0:  # the first round warms up
                found[which].append(one)
    for name, rows in zip(("tfzoo serve", "plain"), found, strict=True):
        clock, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
        answers = texts * requests
        print(
            f"{texts:3} texts  {name:12} {answers / clock:8.1f} answers a second "
            f"{1000 * cpu / answers:8.2f} CPU s for 1,000"
        )
    (clocks, cpus), (others, theirs) = (zip(*rows, strict=True) for rows in found)
    print(f"{texts:3} texts  answers a second, divided: {ratio([*others], [*clocks])}")
    print(f"{texts:3} texts  CPU seconds, divided:      {ratio([*cpus], [*theirs])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--requests", type=int, default=40, help="of a round and server")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--plain", metavar="CHECKPOINT", help="run the plain server")
    given = parser.parse_args()
    if given.plain:
        plain(given.plain)
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        run = str(untrained(Path(folder)))
        ours = ["tfzoo", "serve", run, "--port", "0", "--device", "cpu"]
        commands = (ours, ["benchmarks.serve_overhead", "--plain", run])
        servers = [stack.enter_context(serving(command)) for command in commands]
        time.sleep(2)  # until both listen
        for texts in given.texts:
            compare(servers, texts, given.requests if texts == 1 else 8, given.rounds)


if __name__ == "__main__":
    main()
