"""Memory of a training step that malloc has given out, beside what the process holds.

    python benchmarks/holes.py

A thread asks glibc every 4 ms (``mallinfo2``, from glibc 2.33 on). Both columns are less what the
process has before any model is built. Steps are those of ``beside_marian.py``, with the memory
setting of our commands, on one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from threading import Thread

from tfzoo.base import allocator

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    allocator.keep_freed_memory()
    libc = ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = Info
    print("| step | sentences | most in use, MiB | held so far, MiB |", "|---" * 4 + "|", sep="\n")
    measure(options, lambda: (lambda now: now.uordblks + now.hblkhd)(libc.mallinfo2()))


def measure(options: argparse.Namespace, in_use) -> None:
    import beside_marian as work
    import torch

    torch.set_num_threads(1)
    made = work.batches(work.BATCHES, work.VOCAB, work.TOKENS, work.MEAN)
    used, held = in_use(), work.memory("VmRSS")
    step = work.prepared("step", work.OURS, options.dim, options.layers, made)
    for index in range(options.steps):
        seen, ended = [0], []

        def watch(seen=seen, ended=ended) -> None:
            while not ended:
                seen[0] = max(seen[0], in_use())
                time.sleep(0.004)

        thread = Thread(target=watch)
        thread.start()
        step(index)
        ended.append(True)
        thread.join()
        sentences = len(made[index % len(made)][0])
        most = (seen[0] - used) // 2**20
        print(f"| {index + 1} | {sentences} | {most} | {work.memory('VmHWM') - held} |", flush=True)


if __name__ == "__main__":
    main()
