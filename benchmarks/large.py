"""Training on as many sentence pairs as WMT14 English-German has: memory of its own, and how soon a
second start takes its first step.

    python benchmarks/large.py --write      # 4.5 million generated pairs; 3 GB of disk, about 8
    minutes; writes large.md

`tfzoo fit translation/wmt14_base` with a small model, twice: from text, then from what the first
start prepared. Memory is the process's own (RssAnon), file-backed pages aside, at its highest. The
text is that of preparation.py, a part of it again and again. Needs Linux.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from preparation import generate, own

ONCE = 300_000
OPTIONS = (
    *(
        "--model.dim",
        "128",
        "--model.layers",
        "2",
        "--model.heads",
        "4",
        "--data.workers",
        "0",
        "--data.max_tokens",
        "1024",
    ),
    *(
        "--trainer.accelerator",
        "cpu",
        "--trainer.max_steps",
        "50",
        "--trainer.log_every_n_steps",
        "1",
        "--trainer.limit_val_batches",
        "0",
    ),
)


def write(text: Path, pairs: int) -> None:
    """So many pairs, of which the first ``ONCE`` are drawn and the others repeat them."""
    text.mkdir(parents=True)
    generate(text, min(pairs, ONCE))
    for path in text.glob("train.*"):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        with path.open("a", encoding="utf-8") as stream:
            for begun in range(len(lines), pairs, len(lines)):
                stream.writelines(lines[: pairs - begun])


def fit(text: Path, run: Path, cache: Path) -> tuple[float, float, float]:
    """Seconds to the first step, and the most memory before and after it, in GiB."""
    command = [
        sys.executable,
        "-m",
        "tfzoo",
        "fit",
        "translation/wmt14_base",
        "--data.root",
        str(text),
        "--run",
        str(run),
        *OPTIONS,
    ]
    begun, first, most = time.perf_counter(), 0.0, [0.0, 0.0]
    started = subprocess.Popen(
        command, env={**os.environ, "TFZOO_CACHE": str(cache)}, stdout=subprocess.DEVNULL
    )
    while started.poll() is None:
        if not first and (run / "metrics.csv").exists():
            first = time.perf_counter() - begun
        with suppress(OSError, StopIteration):
            most[first > 0] = max(most[first > 0], own(started.pid) / 1024)
        time.sleep(0.02)
    if started.returncode:
        sys.exit(f"fit ended with {started.returncode}")
    return first, *most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--write", action="store_true", help="large.md beside this script")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch, "text")
        write(text, options.pairs)
        lines = [
            "| start | seconds to the first step | most memory before it, GiB | most memory after "
            "it, GiB |",
            "|---|---|---|---|",
        ]
        for name in ("from text", "the second"):
            first, before, after = fit(text, Path(scratch, name), Path(scratch, "cache"))
            lines.append(f"| {name} | {first:.0f} | {before:.2f} | {after:.2f} |")
            print("\n".join(lines), flush=True)
    if options.write:
        command = " ".join(["python benchmarks/large.py", *sys.argv[1:]])
        head = f"# {options.pairs:,} sentence pairs\n\n{SAYS}\n\n    {command}\n\n"
        Path(__file__).with_suffix(".md").write_text(head + "\n".join(lines) + "\n", "utf-8")


SAYS = f"""\
`tfzoo fit translation/wmt14_base`, 50 steps of 1,024 tokens, with a model of width 128 and
2 layers, on generated text: {ONCE:,} pairs, again and again. 2 CPU cores. Memory is the process's
own, file-backed pages aside."""


if __name__ == "__main__":
    main()
