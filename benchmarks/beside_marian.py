"""Training steps and decoding against `transformers`' MarianMTModel of equal weights, or against
another version of tfzoo: speed, and peak memory.

    python benchmarks/beside_marian.py step                    # prints a row
    python benchmarks/beside_marian.py step --dim 512 --layers 6
    python benchmarks/beside_marian.py step --bf16             # both under autocast
    python benchmarks/beside_marian.py greedy "beam 5"
    python benchmarks/beside_marian.py step "beam 5" --against OTHER/src

Three processes take turns, batch by batch, in an order that changes: tfzoo with the memory setting
of our commands (`tfzoo.keep_freed_memory`), MarianMT as people run it, and MarianMT with our memory
setting. Equal losses, or equal sentences, are asserted first. Neither side may end a sentence
before ``LENGTH`` tokens, so that both do the same work. The peak is that of the process, less what
it holds before any model is built.

``--against`` takes the ``src`` of another checkout and runs that version in a process of its own,
with its own ``benchmarks/marian.py``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from marian import PAD, Endless, batches, our_loss, pair, their_loss
from scipy import stats

from tfzoo import keep_freed_memory
from tfzoo.base.special_ids import OWN
from tfzoo.masks import Mask
from tfzoo.search import Search, search

HERE = Path(__file__).resolve().parents[1] / "src"
VOCAB, TOKENS, MEAN, BATCHES = 8000, 4096, 14.0, 5
SENTENCES, SOURCE, LENGTH = 32, 14, 20
BEAMS = {"step": 0, "greedy": 1, "beam 5": 5}
OURS, THEIRS, KEPT = "tfzoo", "MarianMT", "MarianMT, freed memory kept"
HEAD = (
    "| work | dim | layers | tfzoo, per s | MarianMT, per s | ratio (95 % interval) "
    "| MarianMT with our memory setting | peak memory, MiB | ratio |"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", default=list(BEAMS), metavar="WORK")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
    parser.add_argument(
        "--against", type=Path, metavar="SRC", help="the src folder of another version of tfzoo"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.works) - BEAMS.keys():
        parser.error(f"no work {unknown}; one of {list(BEAMS)}")
    if options.serve:
        serve(options)
    elif options.against:
        compare_versions(options)
    else:
        print(HEAD, "|---" * 9 + "|", sep="\n")
        for work in options.works:
            print(row_of(work, options), flush=True)


def row_of(work: str, options: argparse.Namespace) -> str:
    """A row of the table."""
    seconds, units, peaks = measure(
        {name: start(HERE, work, name, options) for name in (OURS, THEIRS, KEPT)},
        work,
        options.rounds,
    )
    rate = {
        name: statistics.median(u / s for u, s in zip(units, seconds[name], strict=True))
        for name in (OURS, THEIRS)
    }
    dtype = ", bf16" if options.bf16 else ""
    return (
        f"| {work}{dtype} | {options.dim} | {options.layers}+{options.layers} "
        f"| {rate[OURS]:,.0f} | {rate[THEIRS]:,.0f} "
        f"| {ratio(seconds[THEIRS], seconds[OURS])} | {ratio(seconds[KEPT], seconds[OURS])} "
        f"| {peaks[OURS]} / {peaks[THEIRS]} | {peaks[OURS] / peaks[THEIRS]:.2f} |"
    )


def ratio(above: list[float], below: list[float]) -> str:
    """The mean of the ratios, and its 95 % interval."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    mean = statistics.mean(ratios)
    low, high = stats.t.interval(0.95, len(ratios) - 1, mean, stats.sem(ratios))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def compare_versions(options: argparse.Namespace) -> None:
    """Print this version's time of each work, and its peak, over the other version's."""
    sources = {"this": HERE, "other": options.against.resolve()}
    for source in sources.values():
        if not (source / "tfzoo").is_dir() or not (source.parent / "benchmarks/marian.py").exists():
            raise SystemExit(f"{source} is not the src folder of a checkout of tfzoo")
    print("| work | dim | layers | time, this / other | peak memory, MiB | ratio |")
    print("|---|---|---|---|---|---|")
    for work in options.works:
        running = {name: start(source, work, OURS, options) for name, source in sources.items()}
        seconds, _, peaks = measure(running, work, options.rounds)
        print(
            f"| {work} | {options.dim} | {options.layers}+{options.layers} "
            f"| {ratio(seconds['this'], seconds['other'])} "
            f"| {peaks['this']} / {peaks['other']} | {peaks['this'] / peaks['other']:.2f} |",
            flush=True,
        )


def measure(
    running: dict[str, subprocess.Popen[str]], work: str, rounds: int
) -> tuple[dict[str, list[float]], list[int], dict[str, int]]:
    """Seconds of each round of each process, the tokens or sentences of each round, and peaks."""
    for process in running.values():
        answer(process)  # it is ready
    seconds: dict[str, list[float]] = {name: [] for name in running}
    made = batches(BATCHES, VOCAB, TOKENS, MEAN)
    units = []
    for index in range(rounds):
        target = made[index % len(made)][1]
        units.append(SENTENCES if BEAMS[work] else int((target[:, 1:] != PAD).sum()))
        for name in random.Random(index).sample(list(running), len(running)):
            seconds[name].append(float(answer(running[name], str(index))))
        print(f"{work}: round {index + 1} of {rounds}", file=sys.stderr, flush=True)
    peaks = {}
    for name, process in running.items():
        process.stdin.close()
        peaks[name] = int(answer(process))
    return seconds, units, peaks


def start(source: Path, work: str, name: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that does one work on one side, with the tfzoo and the ``marian`` of a checkout."""
    paths = [str(source), str(source.parent / "benchmarks")]
    numbers = [f"--{key}={getattr(options, key)}" for key in ("dim", "layers", "threads")]
    from tfzoo.base.memory import READ_AT_IMPORT  # not of the other version

    variables = READ_AT_IMPORT if name in (OURS, KEPT) else {}
    return subprocess.Popen(
        [sys.executable, "-P", __file__, work, "--serve", name, *numbers]
        + ["--bf16"] * options.bf16,
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str], asked: str = "") -> str:
    if asked:
        process.stdin.write(asked + "\n")
        process.stdin.flush()
    if not (line := process.stdout.readline().strip()):
        raise SystemExit("a process failed; its error stands above")
    return line


def serve(options: argparse.Namespace) -> None:
    """Do the work for each number on stdin and print its seconds; then print the peak."""
    torch.set_num_threads(options.threads)
    if options.serve in (OURS, KEPT):
        keep_freed_memory()
    made = batches(BATCHES, VOCAB, TOKENS, MEAN)
    before = memory("VmRSS")
    with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
        run = prepared(options.works[0], options.serve, options.dim, options.layers, made)
        for index in range(2):
            run(index)
        print("ready", flush=True)
        for asked in sys.stdin:
            began = time.perf_counter()
            run(int(asked))
            print(time.perf_counter() - began, flush=True)
    print(memory("VmHWM") - before, flush=True)


def prepared(work: str, name: str, dim: int, layers: int, made) -> Callable[[int], object]:
    """What does the work once, on the batch of a number."""
    ours, theirs = pair(VOCAB, dim, max(1, dim // 64), layers, dropout=0.0 if BEAMS[work] else 0.1)
    same = same_sentences if BEAMS[work] else same_loss
    if name == KEPT:  # whose peak is not shown
        same(ours, theirs, BEAMS[work], made)
    return (
        ours_of(ours, BEAMS[work], made) if name == OURS else theirs_of(theirs, BEAMS[work], made)
    )


def ours_of(model, beam: int, made) -> Callable[[int], object]:
    if not beam:
        return stepper(model, our_loss, made)
    how = Search(beam=beam, max_length=1000.0, length_penalty=0.0)
    source, endless = sentences(), Endless(model.eval(), LENGTH)
    return torch.no_grad()(
        lambda _: [
            best[0].ids
            for best in search(endless, source, how, special=OWN, mask=Mask(keys=source != PAD))
        ]
    )


def theirs_of(model, beam: int, made) -> Callable[[int], object]:
    if not beam:
        return stepper(model, their_loss, made)
    source = sentences()
    return torch.no_grad()(
        lambda _: (
            model.eval()
            .generate(
                source,
                attention_mask=source != PAD,
                num_beams=beam,
                do_sample=False,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
                length_penalty=0.0,
                bad_words_ids=[[one] for one in sorted(OWN.never)],
            )[:, 1:]
            .tolist()
        )
    )


def sentences() -> torch.Tensor:
    """``(b k)``, a quarter of them padded."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, VOCAB, (SENTENCES, SOURCE), generator=generator)
    source[:, -1] = OWN.eos
    source[::4, 10:] = PAD
    return source


def stepper(model, loss, made) -> Callable[[int], object]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(index: int) -> None:
        loss(model, *made[index % len(made)]).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def same_loss(ours, theirs, _, made) -> None:
    ours.eval(), theirs.eval()
    with torch.autocast("cpu", enabled=False):
        torch.testing.assert_close(
            our_loss(ours, *made[0]), their_loss(theirs, *made[0]), rtol=1e-5, atol=1e-5
        )


def same_sentences(ours, theirs, beam: int, made) -> None:
    found, wanted = ours_of(ours, beam, made)(0), theirs_of(theirs, beam, made)(0)
    same = statistics.mean(a == b for a, b in zip(found, wanted, strict=True))
    if same < 0.9:  # random weights have ties
        raise SystemExit(f"only {same:.0%} of the sentences are the same")


def memory(name: str) -> int:
    """MiB of this process: VmRSS, or VmHWM, the most so far."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024


if __name__ == "__main__":
    main()
