"""Training step against `transformers`' MarianMTModel of equal weights, or against another version
of tfzoo: target tokens per second, and peak memory.

    python benchmarks/training_step.py --dim 256 --layers 3      # prints a row of training_step.md
    python benchmarks/training_step.py --against OTHER/src       # this version / the other version

``--against`` takes the ``src`` of another checkout, whose own ``benchmarks/marian.py`` is used.
Each version runs in a process of its own; the two take turns, batch by batch, so that a busy
machine slows both alike. Each peak is of a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from marian import batches, our_loss, pair, their_loss
from scipy import stats

HERE = Path(__file__).resolve().parents[1] / "src"
VOCAB, TOKENS, MEAN = 8000, 4096, 14.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--memory",
        choices=("ours", "theirs", "neither"),
        help="only run this one and print its peak memory",
    )
    parser.add_argument(
        "--against", type=Path, metavar="SRC", help="the src folder of another version of tfzoo"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        print(peak(options.memory, options.dim, options.layers))
    elif options.serve:
        serve(options.dim, options.layers)
    elif options.against:
        compare_versions(options)
    else:
        compare_with_marian(options)


def compare_with_marian(options: argparse.Namespace) -> None:
    """Print a row of training_step.md."""
    ours, theirs = pair(VOCAB, options.dim, options.dim // 64, options.layers, dropout=0.1)
    made = batches(20, VOCAB, TOKENS, MEAN)
    same(ours, theirs, made[0])
    step_of = {"ours": stepper(ours, our_loss), "theirs": stepper(theirs, their_loss)}
    for name in step_of:  # warm up
        step_of[name](*made[0])
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for index in range(options.pairs):
        source, target = made[index % len(made)]
        for name in ("ours", "theirs") if index % 2 else ("theirs", "ours"):
            began = time.perf_counter()
            step_of[name](source, target)
            speeds[name].append(int((target[:, 1:] != 0).sum()) / (time.perf_counter() - began))
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["theirs"], strict=True)]
    low, high = stats.t.interval(0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios))
    memory = {
        name: int(
            subprocess.check_output([sys.executable, __file__, *sys.argv[1:], "--memory", name])
        )
        for name in ("ours", "theirs", "neither")
    }
    used = {name: memory[name] - memory["neither"] for name in ("ours", "theirs")}
    median = {name: statistics.median(values) for name, values in speeds.items()}
    print(
        "| dim | layers | tfzoo, tokens/s | MarianMT, tokens/s | ratio (95 % interval) | peak "
        "memory, MiB | ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {options.dim} | {options.layers}+{options.layers} | {median['ours']:.0f} | "
        f"{median['theirs']:.0f} "
        f"| {statistics.mean(ratios):.2f} ({low:.2f} to {high:.2f}) "
        f"| {used['ours']} / {used['theirs']} | {used['ours'] / used['theirs']:.2f} |"
    )


def compare_versions(options: argparse.Namespace) -> None:
    """Print this version's time of a step and peak memory, divided by the other version's."""
    sources = {"this": HERE, "other": options.against.resolve()}
    for source in sources.values():
        if (
            not (source / "tfzoo").is_dir()
            or not (source.parent / "benchmarks/marian.py").is_file()
        ):
            raise SystemExit(f"{source} is not the src folder of a checkout of tfzoo")
    running = {name: start(source, "--serve") for name, source in sources.items()}
    for process in running.values():
        answer(process)  # the model is built, and a first step done
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    for index in range(options.pairs):
        for name in ("this", "other") if index % 2 else ("other", "this"):
            seconds[name].append(float(ask(running[name], str(index))))
        print(f"batch {index + 1} of {options.pairs}", file=sys.stderr, flush=True)
    for process in running.values():
        process.communicate()
    ratios = [a / b for a, b in zip(seconds["this"], seconds["other"], strict=True)]
    found = stats.quantile_test(ratios, q=1.0, p=0.5).confidence_interval(0.95)
    peaks = {
        what: {
            name: int(answer(start(source, "--memory", what))) for name, source in sources.items()
        }
        for what in ("ours", "neither")
    }
    used = {name: peaks["ours"][name] - peaks["neither"][name] for name in sources}
    print(
        "| dim | layers | time of a step, this / other (95 % interval) | peak memory, MiB | ratio |"
    )
    print("|---|---|---|---|---|")
    print(
        f"| {options.dim} | {options.layers}+{options.layers} "
        f"| {statistics.median(ratios):.3f} ({found.low:.3f} to {found.high:.3f}) "
        f"| {used['this']} / {used['other']} | {used['this'] / used['other']:.3f} |"
    )


def start(source: Path, *mode: str) -> subprocess.Popen[str]:
    """This file with the tfzoo and the ``marian`` of another checkout."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--against=")]
    if "--against" in arguments:
        at = arguments.index("--against")
        del arguments[at : at + 2]
    paths = [str(source), str(source.parent / "benchmarks")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-P", __file__, *arguments, *mode],  # -P: not this file's own folder first
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return answer(process)


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline().strip()):
        raise SystemExit("a version of tfzoo failed; its error stands above")
    return line


def serve(dim: int, layers: int) -> None:
    """Take a training step on the batch of each number on stdin; print its seconds."""
    ours, _ = pair(VOCAB, dim, dim // 64, layers, dropout=0.1)
    made, step = batches(20, VOCAB, TOKENS, MEAN), stepper(ours, our_loss)
    for batch in made[:2]:
        step(*batch)
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        step(*made[int(line) % len(made)])
        print(time.perf_counter() - began, flush=True)


def stepper(model, loss):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(source, target):
        loss(model, source, target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def same(ours, theirs, batch) -> None:
    ours.eval(), theirs.eval()
    torch.testing.assert_close(
        our_loss(ours, *batch), their_loss(theirs, *batch), rtol=1e-5, atol=1e-5
    )


def peak(name: str, dim: int, layers: int) -> int:
    """MiB of this process at its highest; of ``neither``: after all imports and batches, before any
    model.
    """
    made = batches(20, VOCAB, TOKENS, MEAN)
    if name != "neither":
        ours, theirs = pair(VOCAB, dim, dim // 64, layers, dropout=0.1)
        step = stepper(ours, our_loss) if name == "ours" else stepper(theirs, their_loss)
        del ours, theirs  # the other model goes; the step holds its own
        for source, target in made[:6]:
            step(source, target)
    status = Path("/proc/self/status").read_text()  # getrusage would still know the parent's peak
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        // 1024
    )


if __name__ == "__main__":
    main()
