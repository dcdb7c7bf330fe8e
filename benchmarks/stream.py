"""Training on a stream of sentence pairs: memory, disk, how long steps wait for data, and resume.

    python benchmarks/stream.py --write     # 10,000,000 pairs; writes stream.md

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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
def served(rows: int) -> Iterator[int]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(rows, there))
    process.start()
    yield here.recv()
    process.terminate()
    process.join()


def memory(pid: int) -> float:
    """MiB of a process's own memory and of that of its children."""
    total = 0.0
    for one in [pid, *children(pid)]:
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        own = status.partition("RssAnon:")[2].split()  # none of one that has ended
        total += int(own[0]) / 1024 if own else 0
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

    own = StreamLoader._next

    def timed(loader: StreamLoader) -> Any:
        begun = time.perf_counter()
        batch = own(loader)
        places = loader.stream.places.values()
        rows = sum(place.rows for place in places)
        with Path(log).open("a", encoding="utf-8") as stream:
            stream.write(f"{begun} {time.perf_counter() - begun} {rows}\n")
        return batch

    StreamLoader._next = timed  # type: ignore[method-assign]
    address = f"http://127.0.0.1:{port}/part-{{000..{files - 1:03}}}.tsv.gz"
    recipe = {
        "task": "translation",
        "data": {
            **{"train": address, "val": "val.tsv", "stream": 200, "workers": workers},
            **{"tokenizer": {"name": "bpe", "vocab_size": 2000}, "max_tokens": 4096},
        },
        "model": {"dim": 128, "layers": 2, "heads": 4},
        "trainer": {
            **{"max_steps": steps, "accelerator": "cpu", "devices": 1, "limit_val_batches": 0},
            **{"log_every_n_steps": 1},
        },
        "checkpoint": {"every_n_train_steps": 20},
    }
    Path("stream.yaml").write_text(json.dumps(recipe), "utf-8")
    sys.exit(main(["fit", "stream.yaml", "--run", "run", "--trust"]))


def read_all(port: int, files: int, pairs: int, workers: int) -> list[tuple[float, int, float]]:
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
            found.append((time.perf_counter() - begun, rows, memory(os.getpid())))
        if rows >= pairs:
            break
    return found


def started(*args: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--part", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def trained(port: int, files: int, steps: int, workers: int) -> dict[str, Any]:
    """A training whose worker is killed after a third of its steps, and itself after two thirds."""
    log, seen, killed, own = Path("waits"), 0, 0, list[tuple[int, float]]()
    log.write_text("")
    process = started("train", port, files, steps, workers, log)
    while process.poll() is None:
        time.sleep(0.1)
        seen = len(log.read_text().splitlines())
        own.append((seen, memory(process.pid)))
        if killed == 0 and seen > steps // 3:
            killed = 1
            for one in children(process.pid):
                os.kill(one, signal.SIGKILL)
        elif killed == 1 and seen > 2 * steps // 3:
            killed = 2
            process.kill()
            process.wait()
            process = started("train", port, files, steps, workers, log)
    if process.returncode:
        sys.exit(f"fit ended with {process.returncode}")
    waits = np.array([line.split() for line in log.read_text().splitlines()], float)
    return {"waits": waits, "memory": own}


def report(found: dict[str, Any], steps: int, workers: int) -> list[str]:
    begin, wait = found["waits"][:, 0], found["waits"][:, 1]
    step = np.median(np.diff(begin))
    later = wait[8:]  # the first ones wait for the first block of each reader
    own = [size for seen, size in found["memory"] if seen > 8]
    head = [size for seen, size in found["memory"] if 8 < seen <= steps // 3]
    return [
        f"| workers | {workers} |",
        f"| steps | {steps}, and {len(wait) - steps} again after the kill |",
        f"| a step, median | {step:.2f} s |",
        f"| wait for a batch, median | {np.median(later) * 1e3:.2f} ms |",
        f"| share of the time that steps wait | {later.sum() / (begin[-1] - begin[0]):.1%} |",
        f"| waits over 100 ms | {int((later > 0.1).sum()):,}: "
        + ", ".join(f"{one:.1f} s" for one in later[later > 0.1][:6])
        + " |",
        f"| most memory, in the first third and in all | {max(head):.0f} and {max(own):.0f} MiB |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="stream.md beside this script")
    options = parser.parse_args()
    rows = options.pairs // options.files
    home = Path(__file__).resolve()
    with tempfile.TemporaryDirectory() as scratch, served(rows) as port:
        os.chdir(scratch)
        os.environ["TFZOO_CACHE"] = str(Path(scratch, "cache"))
        Path("val.tsv").write_bytes(gzip.decompress(table(10**6, BLOCK)))
        found = trained(port, options.files, options.steps, options.workers)
        lines = ["| training | |", "|---|---|", *report(found, options.steps, options.workers)]
        print("\n".join(lines), flush=True)
        shutil.rmtree(Path(scratch, "cache"))
        read = read_all(port, options.files, options.pairs, options.workers)
        seconds, total, _ = read[-1]
        half = [size for _, taken, size in read if taken < total / 2 and taken > total / 20]
        lines += [
            *("", "| reading alone | |", "|---|---|"),
            f"| pairs | {total:,} |",
            f"| pairs a second | {total / seconds:,.0f}, in {seconds:.0f}.0 s |",
            f"| most memory, in the first half and in all | {max(half or [0]):.0f} and "
            f"{max(size for _, _, size in read):.0f} MiB |",
        ]
        print("\n".join(lines[-6:]), flush=True)
    if options.write:
        command = " ".join(["python benchmarks/stream.py", *sys.argv[1:]])
        text = f"# {options.pairs:,} pairs as a stream\n\n{SAYS}\n\n    {command}\n\n"
        home.with_suffix(".md").write_text(text + "\n".join(lines) + "\n", "utf-8")


SAYS = """\
`data.stream` from a server of this machine, which generates `.tsv.gz` files when they are asked
for, stores none, and breaks one answer in fifty off. A model of width 128 and 2 layers, batches of
4,096 tokens; after a third of the steps the worker process is killed, after two thirds the
training, which is then resumed. Memory is that of the process and its workers (RssAnon). Waits of
the first eight batches, for the first blocks, are left out; those of the kills are not."""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        train(*map(int, sys.argv[3:7]), sys.argv[7])
    main()
