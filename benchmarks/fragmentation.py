"""Fragmentation of the heap in training steps: what malloc has given out, beside what the process
holds.

    python benchmarks/fragmentation.py
    THP_MEM_ALLOC_ENABLE=0 python benchmarks/fragmentation.py     # without huge pages

A thread asks glibc every 4 ms (``mallinfo2``, from glibc 2.33 on). Both columns are less what the
process has before any model is built. Steps are those of ``beside_marian.py``, with the memory
setting of our commands, on one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import cache
from threading import Event, Thread

from tfzoo.base.allocator import glibc, keep_freed_memory


class Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    keep_freed_memory()  # before PyTorch is imported
    import beside_marian as work
    import torch

    torch.set_num_threads(1)
    made = work.batches(work.BATCHES, work.VOCAB, work.TOKENS, work.MEAN)
    used, held = in_use(), work.memory("VmRSS")
    step = work.prepared("step", work.OURS, options.dim, options.layers, made)
    print("| step | sentences | most in use, MiB | held so far, MiB |", "|---" * 4 + "|", sep="\n")
    for index in range(options.steps):
        with Watch() as watch:
            step(index)
        sentences, most = len(made[index % len(made)][0]), (watch.most - used) // 2**20
        print(f"| {index + 1} | {sentences} | {most} | {work.memory('VmHWM') - held} |", flush=True)


@cache
def mallinfo2() -> Callable[[], Info]:
    """glibc's function of this name."""
    function = glibc().mallinfo2
    function.restype = Info
    return function


def in_use() -> int:
    """The bytes that malloc has given out."""
    now = mallinfo2()()
    return now.uordblks + now.hblkhd


class Watch:
    """Context that finds the ``most`` bytes that are in use at once."""

    def __enter__(self) -> Watch:
        self.most, self.ended = 0, Event()
        self.thread = Thread(target=self.run)
        self.thread.start()
        return self

    def run(self) -> None:
        while not self.ended.is_set():
            self.most = max(self.most, in_use())
            time.sleep(0.004)

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


if __name__ == "__main__":
    main()
