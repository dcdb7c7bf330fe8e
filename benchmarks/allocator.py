"""Training steps and decoding with memory that `tfzoo.keep_freed_memory` keeps, beside glibc as it
is, huge pages and jemalloc: how many times as fast, page faults, and peak memory.

    python benchmarks/allocator.py "step, dim 256" --rounds 12      # prints rows of allocator.md
    python benchmarks/allocator.py --jemalloc libjemalloc.so.2      # every work, with jemalloc

Each allocator has a process of its own; all take turns, batch by batch, in an order that changes,
so that a busy machine slows all alike. The figures are medians of the rounds. Peak memory is less
what the process holds before any model.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import torch
from beside_marian import MEAN, TOKENS, VOCAB, memory, ours_of
from marian import batches, pair
from scipy import stats

from tfzoo import keep_freed_memory
from tfzoo.base.allocator import MMAP_THRESHOLD, READ_AT_IMPORT, TRIM_THRESHOLD, glibc
from tfzoo.learning.settings import Compute

DEFAULT, KEPT, ARENAS = "glibc as it is", "keep_freed_memory()", "the same, arenas as they are"
TUNABLES = ["mmap_threshold=1073741824", "trim_threshold=18446744073709551615", "arena_max=1"]
GUIDE = "oversize_threshold:1,dirty_decay_ms:9000000000,muzzy_decay_ms:9000000000"
ALLOCATORS = {
    DEFAULT: {},
    KEPT: READ_AT_IMPORT,
    ARENAS: READ_AT_IMPORT,
    "huge pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    "huge pages, kept": {
        "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{one}" for one in ("hugetlb=1", *TUNABLES))
    },
}
WORKS = {
    "step, dim 256": (256, 3, ""),
    "step, dim 256, in a thread": (256, 3, "thread"),
    "step, dim 256, layers computed again": (256, 3, "again"),
    "step, dim 512": (512, 6, ""),
    "step, dim 512, layers computed again": (512, 6, "again"),
    "greedy": (256, 3, "1"),
    "beam 5": (256, 3, "5"),
    "beam 5, in a thread": (256, 3, "5 thread"),
}
"""Width, layers on each side, and how."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", default=list(WORKS), metavar="WORK")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dim", type=int, help="another width, with 1 layer on each side")
    parser.add_argument("--only", nargs="+", default=[], help="allocators beside glibc as it is")
    parser.add_argument("--jemalloc", metavar="LIBRARY", help="compare with this one, too")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.works) - WORKS.keys():
        parser.error(f"no work {unknown}; one of {list(WORKS)}")
    if options.serve:
        serve(options)
        return
    if options.jemalloc:
        preload = {"LD_PRELOAD": options.jemalloc}
        ALLOCATORS["jemalloc"] = preload
        ALLOCATORS["jemalloc, of PyTorch's tuning guide"] = {**preload, "MALLOC_CONF": GUIDE}
    chosen = [DEFAULT, *options.only] if options.only else list(ALLOCATORS)
    print(
        "| work | allocator | times as fast (95 % interval) | seconds | page faults "
        "| peak memory, MiB |"
    )
    print("|---|---|---|---|---|---|")
    for work in options.works:
        compare(work, chosen, options)


def compare(work: str, chosen: list[str], options: argparse.Namespace) -> None:
    """Print a row for each allocator."""
    running = {name: start(work, name, options) for name in chosen}
    for process in running.values():
        line(process)
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    faults: dict[str, list[float]] = {name: [] for name in chosen}
    for index in range(options.rounds):
        for name in random.Random(index).sample(chosen, len(chosen)):
            running[name].stdin.write(f"{index}\n")
            running[name].stdin.flush()
            taken, faulted = line(running[name]).split()
            seconds[name].append(float(taken))
            faults[name].append(float(faulted))
        print(f"{work}: round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for name, process in running.items():
        process.stdin.close()
        ratios = [a / b for a, b in zip(seconds[DEFAULT], seconds[name], strict=True)]
        found = stats.quantile_test(ratios, q=1.0, p=0.5).confidence_interval(0.95)
        interval = "" if name == DEFAULT else f" ({found.low:.2f} to {found.high:.2f})"
        print(
            f"| {work} | {name} | {statistics.median(ratios):.2f}{interval} "
            f"| {statistics.median(seconds[name]):.3f} | {statistics.median(faults[name]):,.0f} "
            f"| {line(process)} |",
            flush=True,
        )


def start(work: str, name: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that does one work with one allocator."""
    more = ["--dim", str(options.dim)] if options.dim else []
    return subprocess.Popen(
        [sys.executable, __file__, work, "--serve", name, "--threads", str(options.threads), *more],
        env={**os.environ, **ALLOCATORS[name]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    if not (said := process.stdout.readline().strip()):
        raise SystemExit("a process failed; its error stands above")
    return said


def serve(options: argparse.Namespace) -> None:
    """Do the work for each number on stdin, and print seconds and page faults; then the peak."""
    torch.set_num_threads(options.threads)
    if options.serve == KEPT and not keep_freed_memory():
        raise SystemExit(f"{KEPT} does nothing here")
    if options.serve == ARENAS:
        glibc().mallopt(MMAP_THRESHOLD, 2**30)
        glibc().mallopt(TRIM_THRESHOLD, -1)
    if "thread" in WORKS[options.works[0]][2]:
        thread = threading.Thread(target=answer, args=(options,))
        thread.start()
        thread.join()
    else:
        answer(options)


def answer(options: argparse.Namespace) -> None:
    made = batches(20, VOCAB, TOKENS, MEAN)
    before = memory("VmRSS")
    run = prepared(options, made)
    for index in range(2):
        run(index)
    print("ready", flush=True)
    for asked in sys.stdin:
        faults, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        run(int(asked))
        taken = time.perf_counter() - began
        print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults, flush=True)
    print(memory("VmHWM") - before, flush=True)


def prepared(options: argparse.Namespace, made) -> Callable[[int], object]:
    """What does the work once, on the batch of a number."""
    dim, layers, how = WORKS[options.works[0]]
    dim, layers = (options.dim, 1) if options.dim else (dim, layers)
    decodes = how[:1].isdigit()
    ours, _ = pair(VOCAB, dim, dim // 64, layers, dropout=0.0 if decodes else 0.1)
    if not decodes:
        Compute(activation_checkpointing=how == "again").apply(ours)
    return ours_of(ours, int(how[0]) if decodes else 0, made)


if __name__ == "__main__":
    main()
