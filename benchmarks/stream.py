"""Training on a stream of sentence pairs: memory, disk, how long steps wait for data, and resume.

    python benchmarks/stream.py --write                  # 10,000,000 pairs; writes stream.md
    python benchmarks/stream.py --only reading --write   # a part of it

A server of this machine generates the pairs when a file is asked for, and stores none. It breaks
one answer in fifty off. A worker process is killed on the way, and the training itself, which then
goes on in a new process. All pairs are then read without training, by the same readers. Needs
Linux.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in ("n", "r", "s", "t", "lo", "mi")]
BLOCK = 500
"""Pairs that are drawn once, and numbered anew in each file."""


@cache
def drawn() -> str:
    source = random.Random(0)
    rows = []
    for _ in range(BLOCK):
        words = source.choices(WORDS, k=source.randint(4, 30))
        rows.append(f"%d {' '.join(words)}\t{' '.join(reversed(words))} %d\n")
    return "".join(rows)


def table(number: int, rows: int) -> bytes:
    """The pairs of a file: no two of all files are equal."""
    parts = [b"en\tde\n"]
    for begun in range(number * rows, (number + 1) * rows, BLOCK):
        numbers = [n for n in range(begun, begun + BLOCK) for _ in (0, 1)]
        parts.append((drawn() % tuple(numbers)).encode())
    return gzip.compress(b"".join(parts), 1, mtime=0)


def serve(rows: int, ready: Any) -> None:
    """Files of so many pairs, in a process of its own."""
    kept: dict[int, bytes] = {}
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            nonlocal asked
            number = int(self.path.rpartition("-")[2].partition(".")[0])
            if number not in kept:
                if len(kept) > 16:
                    kept.pop(next(iter(kept)))
                kept[number] = table(number, rows)
            body = kept[number]
            begin = int(self.headers.get("Range", "bytes=0-").partition("=")[2].split("-")[0])
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(body) - begin))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
            self.send_header("ETag", f'"{number}"')
            self.end_headers()
            if self.command == "GET":
                asked += 1
                broken = asked % 50 == 0
                self.wfile.write(body[begin : begin + len(body) // 2 if broken else None])
                self.close_connection = broken

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_port)
    server.serve_forever()


@contextmanager
def served(rows: int) -> Iterator[tuple[int, int]]:
    """The port of a server, and its process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(rows, there))
    process.start()
    yield here.recv(), process.pid or 0
    process.terminate()
    process.join()


def memory(pid: int, server: int = 0) -> float:
    """MiB of the memory of a process and its children, but for the server; what they share is
    counted once.
    """
    total = 0.0
    for one in {pid, *children(pid)} - {server}:
        with suppress(OSError):  # it has ended
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            own = [line.split()[1] for line in lines if line[:9] in ("Pss_Anon:", "Pss_Shmem")]
            total += sum(map(int, own)) / 1024
    return total


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def train(port: int, files: int, steps: int, workers: int, log: str) -> None:
    """``tfzoo fit``, whose waits for each batch are written to ``log``."""
    from tfzoo.commands.main import main
    from tfzoo.data.stream import StreamLoader

    own = StreamLoader.__iter__

    def timed(loader: StreamLoader) -> Iterator[Any]:
        begun = time.perf_counter()
        for batch in own(loader):
            waited = time.perf_counter() - begun
            with Path(log).open("a", encoding="utf-8") as stream:
                stream.write(f"{begun} {waited} {len(batch)} {os.getpid()}\n")
            yield batch
            begun = time.perf_counter()

    StreamLoader.__iter__ = timed  # type: ignore[method-assign]
    address = f"http://127.0.0.1:{port}/part-{{000..{files - 1:03}}}.tsv.gz"
    recipe = {
        "task": "translation",
        "data": {
            **{"train": address, "val": "val.tsv", "stream": 200, "workers": workers},
            **{"tokenizer": {"name": "bpe", "vocab_size": 2000}, "max_tokens": 4096},
        },
        "model": {"dim": 64, "layers": 1, "heads": 4},
        "trainer": {
            **{"max_steps": steps, "accelerator": "cpu", "devices": 1, "limit_val_batches": 0},
            **{"log_every_n_steps": 50},
        },
        "checkpoint": {"every_n_train_steps": 100},
    }
    Path("stream.yaml").write_text(json.dumps(recipe), "utf-8")
    sys.exit(main(["fit", "stream.yaml", "--run", "run", "--trust"]))


def read_all(
    port: int, server: int, files: int, pairs: int, workers: int
) -> list[tuple[float, int, float]]:
    """Seconds, rows and MiB while all pairs are read as batches, without training."""
    from tfzoo import TranslationData

    address = f"http://127.0.0.1:{port}/part-{{000..{files - 1:03}}}.tsv.gz"
    data = TranslationData(
        train=address,
        val="val.tsv",
        stream=10**9,
        workers=workers,
        tokenizer={"name": "bpe", "vocab_size": 2000},
    )
    data.prepare_data()
    found, begun, rows = [], time.perf_counter(), 0
    loader: Any = data.train_dataloader()
    for number, batch in enumerate(loader):
        rows += len(batch)
        if number % 500 == 0 or rows >= pairs:
            found.append((time.perf_counter() - begun, rows, memory(os.getpid(), server)))
        if rows >= pairs:
            break
    return found


def started(*args: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--part", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def trained(port: int, files: int, steps: int, workers: int) -> dict[str, Any]:
    """A training whose worker is killed after a third of its steps, and itself after two thirds."""
    log, seen, killed, own = Path("waits"), 0, list[float](), list[tuple[int, float]]()
    log.write_text("")
    measured = 0.0
    process = started("train", port, files, steps, workers, log)
    while process.poll() is None:
        time.sleep(0.1)
        seen = log.read_text().count("\n")
        if time.perf_counter() > measured + 1:  # it takes some milliseconds
            own.append((seen, memory(process.pid)))
            measured = time.perf_counter()
        if not killed and seen > steps // 3:
            killed.append(time.perf_counter())
            for one in children(process.pid):
                os.kill(one, signal.SIGKILL)
        elif len(killed) == 1 and seen > 2 * steps // 3:
            killed.append(time.perf_counter())
            process.kill()
            process.wait()
            process = started("train", port, files, steps, workers, log)
    if process.returncode:
        sys.exit(f"fit ended with {process.returncode}")
    waits = np.array([line.split() for line in log.read_text().splitlines()], float)
    return {"waits": waits, "memory": own, "killed": killed}


FIRST = 8
"""Batches of a process for which it waits until each reader has made its first block."""


def report(found: dict[str, Any], steps: int, workers: int) -> list[str]:
    """The lines of the table. Clocks of processes of one machine are the same clock."""
    begin, wait, rows, process = found["waits"].T
    lost = (begin < found["killed"][0] + 60) & (begin + wait > found["killed"][0])
    after = np.flatnonzero(lost & (wait > 0.1))[:1]  # the first long wait after the worker's death
    own = process == process[0]
    first = np.concatenate([np.arange(one.sum()) < FIRST for one in (own, ~own)])
    later = np.delete(wait, np.union1d(np.flatnonzero(first), after))
    steps_taken = np.diff(begin)[process[1:] == process[:-1]]
    total = [size for seen, size in found["memory"] if seen > FIRST]
    head = [size for seen, size in found["memory"] if FIRST < seen <= steps // 3]
    tail = [size for seen, size in found["memory"] if seen > 2 * steps // 3]
    return [
        f"| workers | {workers} |",
        f"| steps | {steps:,}, and {len(wait) - steps} again after the kill |",
        f"| pairs | {rows.sum():,.0f} |",
        f"| a step, median | {np.median(steps_taken) * 1e3:.0f} ms |",
        f"| wait for a batch, median; 99 % at most | {np.median(later) * 1e3:.2f} ms; "
        f"{np.quantile(later, 0.99) * 1e3:.1f} ms |",
        f"| share of the time that steps wait | {later.sum() / steps_taken.sum():.2%} |",
        f"| waits over 100 ms | {(later > 0.1).sum()} |",
        f"| the wait after the worker was killed | {wait[after].sum():.1f} s |",
        f"| the first {FIRST} waits of the start, of the resumed training | "
        f"{wait[first & own].sum():.1f} s, {wait[first & ~own].sum():.1f} s |",
        f"| most memory, in the first third, in the last, in all | {max(head, default=0):.0f}, "
        f"{max(tail, default=0):.0f} and {max(total, default=0):.0f} MiB |",
    ]


def training(port: int, _: int, options: argparse.Namespace) -> list[str]:
    """The table of a training."""
    found = trained(port, options.files, options.steps, options.workers)
    return ["| | |", "|---|---|", *report(found, options.steps, options.workers)]


def reading(port: int, server: int, options: argparse.Namespace) -> list[str]:
    """The table of all pairs, read alone."""
    read = read_all(port, server, options.files, options.pairs, options.workers)
    seconds, total, _ = read[-1]
    lines = [
        *("| | |", "|---|---|", f"| pairs | {total:,} |"),
        f"| pairs a second | {total / seconds:,.0f}, in {seconds:.0f} s |",
    ]
    for share in (0.1, 0.5, 1.0):
        most = max(size for _, rows, size in read if rows <= max(share * total, read[0][1]))
        lines.append(f"| most memory up to {share:.0%} of them | {most:.0f} MiB |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("training", "reading"), help="default: both")
    parser.add_argument("--write", action="store_true", help="stream.md beside this script")
    options = parser.parse_args()
    rows = options.pairs // options.files
    page = Path(__file__).resolve().with_suffix(".md")
    for part in [options.only] if options.only else ["training", "reading"]:
        with tempfile.TemporaryDirectory() as scratch, served(rows) as address:
            os.chdir(scratch)
            os.environ["TFZOO_CACHE"] = str(Path(scratch, "cache"))
            Path("val.tsv").write_bytes(gzip.decompress(table(10**6, BLOCK)))
            lines = {"training": training, "reading": reading}[part](*address, options)
            os.chdir("/")
        print("\n".join(lines), flush=True)
        if options.write:
            write(page, part.capitalize(), lines)


def write(page: Path, name: str, lines: list[str]) -> None:
    """Put a table on the page; the other one stays."""
    command = " ".join(["python benchmarks/stream.py", *sys.argv[1:]])
    found = {one.partition("\n")[0]: one for one in page.read_text("utf-8").split("\n## ")[1:]}
    found[name] = "\n".join([name, "", f"    {command}", "", *lines, ""])
    texts = [found[key] for key in ("Training", "Reading") if key in found]
    page.write_text("\n## ".join([SAYS, *texts]), "utf-8")


SAYS = f"""\
# Pairs as a stream

`data.stream` from a server of this machine, which generates `.tsv.gz` files when they are asked
for, stores none, and breaks one answer in fifty off. A model of width 64 and one layer, batches of
4,096 tokens; after a third of the steps the worker process is killed, after two thirds the
training, which is then resumed. Waits for the first {FIRST} batches of a process, until its readers
have made their first blocks, and the one after the worker's death have lines of their own. Pairs
are those of finished blocks. Memory is that of the process and its workers, what they share
counted once (Pss_Anon and Pss_Shmem): PyTorch and Lightning, which both hold, are the most of it.
One thread and **one core for the training, its worker and the server** of an AMD EPYC of family
25, which did no other work.
"""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        train(*map(int, sys.argv[3:7]), sys.argv[7])
    main()
