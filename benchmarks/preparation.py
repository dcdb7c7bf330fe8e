"""How fast labelled text becomes ids, and how much memory that takes, beside `datasets`.

    python benchmarks/preparation.py --write     # 10,000 and 100,000 rows; writes preparation.md
    python benchmarks/preparation.py --rows 1000000 --write     # lines of other sizes stay there

A row is a label and a sentence of 5 to 45 words, drawn by Zipf's law from a vocabulary of made-up
ones, in a `.tsv`. Each line of the table is measured in a process of its own, one after the other,
and all of them again, `--repeats` times; the table has the medians, and how much more CPU time than
`datasets` each takes in the same round (least and most behind it):

- tfzoo: `ClassificationData(...).prepare_data()`: every check, `train` read, the labels found, ids
  written to the cache;
- datasets: `load_dataset("csv")` and `map(batched=True)`, ids written to its cache, with the
  `encode` of the same tokenizer, or with the `encode_batch_fast` of its library;
- training: tfzoo with the training of the tokenizer, which the others find trained;
- again: tfzoo on the same file a second time.

Time begins after the imports; memory is the process's own (RssAnon) at its highest, less what it
had then. CPU time is what a busy machine changes least.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS, CHUNK = 60_000, 4096
TOKENIZER = {"name": "bpe", "vocab_size": 8000}
KINDS = ("training", "tfzoo", "again", "datasets", "datasets, library")
HERE = Path(__file__)


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


def own(process: int | str = "self") -> float:
    """The memory of a process' own at this moment, in MiB."""
    status = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) / 1024


def watch(most: list[float]) -> None:
    """Keep the most own memory so far in the list's only cell."""
    while True:
        most[0] = max(most[0], own())
        time.sleep(0.01)


def ours(text: Path) -> None:
    import tfzoo

    part = str(text.with_name("val.tsv"))
    tfzoo.ClassificationData(train=str(text), val=part, tokenizer=TOKENIZER).prepare_data()


def theirs(text: Path, encode: Any) -> None:
    import datasets

    columns = {"text": datasets.Value("string"), "label": datasets.Value("string")}
    rows = datasets.load_dataset(
        "csv",
        data_files=str(text),
        sep="\t",
        quoting=3,
        keep_default_na=False,
        features=datasets.Features(columns),
        split="train",
        cache_dir=str(text.with_name("theirs")),
    ).class_encode_column("label")
    rows.map(lambda batch: {"ids": encode(batch["text"])}, batched=True, remove_columns="text")


def measure(kind: str, text: Path) -> None:
    """Print the clock's seconds, the CPU's, and MiB of memory."""
    import datasets
    from tokenizers import Tokenizer

    from tfzoo.base import cache
    from tfzoo.base.registry import create
    from tfzoo.data import classification  # noqa: F401  # imported before time begins

    datasets.disable_progress_bars()
    encode: Any = None
    if kind.startswith("datasets"):
        [state] = (cache.folder() / cache.SHELF).glob("tokenizer-*/state")
        tokenizer = create("tokenizer", TOKENIZER)
        tokenizer.restore(state.read_text("utf-8"))
        encode = tokenizer.encode
        if kind.endswith("library"):
            library = Tokenizer.from_str(tokenizer.state())

            def encode(texts: list[str]) -> list[list[int]]:
                found = library.encode_batch_fast(texts, add_special_tokens=False)
                return [one.ids for one in found]

    before = own()
    most = [before]
    threading.Thread(target=watch, args=(most,), daemon=True).start()
    clock, cpu = time.perf_counter(), time.process_time()
    theirs(text, encode) if encode else ours(text)
    print(time.perf_counter() - clock, time.process_time() - cpu, most[0] - before)


def prepare(folder: Path, rows: int) -> Path:
    """Write ``train.tsv`` and ``val.tsv``."""
    generate(folder, rows)
    for name in ("train", "val"):
        with (folder / f"{name}.en").open() as lines, (folder / f"{name}.tsv").open("w") as table:
            table.write("label\ttext\n")
            table.writelines(f"{number % 4}\t{line}" for number, line in enumerate(lines))
    return folder / "train.tsv"


def forget(kind: str, folder: Path) -> None:
    """Remove all that this line of the table must not find prepared."""
    if kind.startswith("datasets"):
        shutil.rmtree(folder / "theirs", ignore_errors=True)
    elif kind != "again":
        for entry in (folder / "cache/prepared").glob("*"):
            if kind == "training" or not entry.name.startswith("tokenizer"):
                shutil.rmtree(entry)


def table(rows: int, repeats: int) -> list[str]:
    """The lines of the table for so many rows."""
    figures: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = prepare(folder, rows)
        size = text.stat().st_size / 1e6
        places = {"TFZOO_CACHE": f"{scratch}/cache", "HF_HOME": f"{scratch}/hf"}
        for _ in range(repeats):
            for kind in KINDS:
                forget(kind, folder)
                command = [sys.executable, str(HERE), "--measure", kind, str(text)]
                result = subprocess.run(
                    command, env=os.environ | places, stdout=subprocess.PIPE, text=True, check=True
                )
                figures[kind].append([*map(float, result.stdout.split())])
                print(kind, result.stdout, flush=True)
    lines = []
    for kind, found in figures.items():
        clock, cpu, memory = np.median(found, axis=0)
        ratios = [one[1] / other[1] for one, other in zip(found, figures["datasets"], strict=True)]
        low, middle, high = min(ratios), np.median(ratios), max(ratios)
        lines.append(
            f"| {rows:,} ({size:.0f} MB) | {kind} | {clock:.2f} s | {cpu:.2f} s "
            f"| {rows / cpu:,.0f} | {size / cpu:.1f} | {memory:.0f} MiB "
            f"| {middle:.2f} ({low:.2f} to {high:.2f}) |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", nargs=2)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    found = [line for rows in options.rows for line in table(rows, options.repeats)]
    if options.write:
        page = HERE.with_suffix(".md")
        before, _, after = page.read_text("utf-8").partition("| rows |")
        head = "| rows | | clock | CPU | rows/s of CPU | MB/s of CPU | memory | beside `datasets` |"
        measured = tuple(f"| {rows:,} (" for rows in options.rows)
        found += [one for one in after.splitlines()[2:] if not one.startswith(measured)]
        found.sort(key=lambda one: int(one.split()[1].replace(",", "")))  # stable: kinds in order
        page.write_text("\n".join([before + head, "|---" * 8 + "|", *found, ""]), "utf-8")


if __name__ == "__main__":
    main()
