"""How fast text becomes ids, how much memory that and training take, and how soon a second start is
at its first batch.

    python benchmarks/preparation.py      # 300,000 generated sentence pairs; as many as WMT14 has
    are large.py's

Words are drawn by Zipf's law from a vocabulary of made-up ones, sentences of 5 to 45. Each row is
measured in a process of its own, one after the other. "rate" compares reading, checking, tokenizing
and writing with `encode_batch_fast` alone on lines that are in memory, by the same tokenizer with
the same threads, in turn, three times; the ids are asked for, as any use of them must. It is
measured by the clock
and by CPU time: the second is what a busy machine does not change, and with RAYON_NUM_THREADS=1 the
same on a quiet one. Memory is the process's own (RssAnon), file-backed pages aside, at its highest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS, CHUNK = 60_000, 4096
Rates = NDArray[np.float64]


def generate(folder: Path, pairs: int) -> None:
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    for language in ("en", "de"):
        words = np.array(
            ["".join(random.choice(letters, size)) for size in random.integers(1, 12, WORDS)]
        )
        for name, count in (("train", pairs), ("val", 500), ("test", 500)):
            with (folder / f"{name}.{language}").open("w") as stream:
                for first in range(0, count, CHUNK):
                    sizes = random.integers(5, 46, min(CHUNK, count - first))
                    drawn = words[(random.zipf(1.2, sizes.sum()) - 1) % WORDS]
                    stream.writelines(
                        " ".join(part) + ".\n" for part in np.split(drawn, np.cumsum(sizes)[:-1])
                    )


def data(folder: Path, vocabulary: int):  # type: ignore[no-untyped-def]
    from tfzoo.data.translation import TranslationData

    return TranslationData(
        root=str(folder), tokenizer={"name": "bpe", "vocab_size": vocabulary}, max_tokens=4096
    )


def own(process: int | str = "self") -> float:
    """The memory of a process' own at this moment, in MiB."""
    status = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) / 1024


def memory() -> list[float]:
    """A cell that holds the most own memory so far, in MiB."""
    most = [0.0]

    def watch() -> None:
        while True:
            most[0] = max(most[0], own())
            time.sleep(0.02)

    threading.Thread(target=watch, daemon=True).start()
    return most


def now() -> Rates:
    return np.array([time.perf_counter(), time.process_time()])


def bare(ours, folder: Path) -> Rates:  # type: ignore[no-untyped-def]
    """Lines a second of the library alone, by the clock and by the CPU's time."""
    library, lines, seconds = ours.tokenizers.source.library, 0, np.zeros(2)
    for name in ("train.en", "train.de"):
        with (folder / name).open() as stream:
            while chunk := [line.rstrip("\n") for line in islice(stream, CHUNK)]:
                begun = now()
                _ = [one.ids for one in library.encode_batch_fast(chunk, add_special_tokens=False)]
                seconds += now() - begun
                lines += len(chunk)
    return lines / seconds


def prepared(folder: Path, vocabulary: int) -> Rates:
    """Lines a second of the whole preparation: reading, checking, tokenizing, writing; the
    tokenizer is there.
    """
    from tfzoo.data import cache

    for entry in (cache.folder() / cache.SHELF).iterdir():
        if not entry.name.startswith("tokenizer"):
            shutil.rmtree(entry)
    begun = now()
    ours = data(folder, vocabulary)
    ours.prepare_data()
    return 2 * len(ours.sets["train"]) / (now() - begun)


def measure(what: str, folder: Path, vocabulary: int) -> None:
    begun = time.perf_counter()
    ours = data(folder, vocabulary)
    most = memory()
    before = time.perf_counter()
    if what == "rate":
        ours.prepare_data()
        both = [(bare(ours, folder), prepared(folder, vocabulary)) for _ in range(3)]
        clock, cpu = (
            statistics.median(prepare[i] / alone[i] for alone, prepare in both) for i in (0, 1)
        )
        rates = " ".join(f"{prepare[1]:.0f}/{alone[1]:.0f}" for alone, prepare in both)
        print(
            f"{clock:.2f} of the bare rate by the clock, {cpu:.2f} by CPU time ({rates} lines/s), "
            f"{most[0]:.0f} MiB"
        )
    elif what == "train":  # the tokenizer alone; it is in the cache afterwards
        from tfzoo.data.prepare import fingerprint_split, train_tokenizers

        text = ours._texts()["train"]
        train_tokenizers(
            text, fingerprint_split(text, "train"), ours.direction, ours.tokenizer, ours.joint
        )
        print(f"{time.perf_counter() - before:.1f} s, {most[0]:.0f} MiB")
    else:
        ours.prepare_data()
        ours.setup("fit")
        loader = iter(ours.train_dataloader())
        next(loader)
        first = time.perf_counter() - begun
        padding = ours._sampler("train", shuffle=True).padding()
        for _ in islice(loader, 300):
            pass
        print(f"first batch after {first:.1f} s, {most[0]:.0f} MiB, padding {padding:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--measure", nargs=2)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]), options.vocabulary)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        generate(folder, options.pairs)
        environment = {**os.environ, "TFZOO_CACHE": f"{scratch}/cache"}
        print(
            f"{options.pairs:,} pairs, "
            f"{sum(path.stat().st_size for path in folder.glob('*.*')) / 2**20:.0f} MiB of text"
        )
        for what in ("train", "rate", "start"):
            command = [
                sys.executable,
                __file__,
                "--vocabulary",
                str(options.vocabulary),
                "--measure",
                what,
                scratch,
            ]
            print(
                f"{what:8}",
                subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=True
                ).stdout.strip(),
                flush=True,
            )


if __name__ == "__main__":
    main()
