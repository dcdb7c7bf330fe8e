"""GRUs in place of self-attention against a Transformer, by length: training speed, peak memory of
a step, and quality of translation.

    tfzoo fit translation/numbers_gru --run runs/gru
    tfzoo fit translation/numbers --run runs/transformer
    python benchmarks/recurrent.py --runs runs/gru runs/transformer > benchmarks/recurrent.md

Both models are those of their recipes. They take steps in turn in one process, on random ids, with
source and target of one length. Peak memory is that of a step in a process of its own. Texts of a
length are sentences of the built-in data joined by "plus"; training had up to 2 numbers, which are
about 20 tokens at most.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from pathlib import Path
from typing import Any

import torch
import yaml
from additive import highest, seconds
from sacrebleu.metrics.chrf import CHRF

from tfzoo import Search, Transformer, TranslationTask
from tfzoo.data.sets.numbers import NumberWords
from tfzoo.runs.machine import processor

RECIPES = Path(__file__).parents[1] / "recipes/translation"
MODELS = {"GRU": "numbers_gru.yaml", "Transformer": "numbers.yaml"}
TOKENS, VOCABULARY = 2048, 420
PROCESSES = multiprocessing.get_context("forkserver")


class Step:
    """Forward, loss and backward of a recipe's model on a batch of ``TOKENS`` target tokens."""

    def __init__(self, name: str, length: int) -> None:
        torch.manual_seed(0)
        options = yaml.safe_load((RECIPES / MODELS[name]).read_text("utf-8"))["model"]
        self.model = Transformer(VOCABULARY, **options)
        self.ids = torch.randint(4, VOCABULARY, (2, max(1, TOKENS // length), length))

    def __call__(self) -> None:
        logits = self.model(*self.ids)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.ids[1].flatten())
        loss.backward()
        self.model.zero_grad()


def peak(name: str, length: int, report: multiprocessing.Queue[float]) -> None:
    step = Step(name, length)
    before = highest()
    step()
    report.put(highest() - before)


def memory(name: str, length: int) -> float:
    """MiB that a step needs beyond what stands before it."""
    report = PROCESSES.Queue()
    process = PROCESSES.Process(target=peak, args=(name, length, report))
    process.start()
    needed = report.get()
    process.join()
    return needed * 2**10


def speed(length: int, pairs: int) -> list[str]:
    """Target tokens per second of each model, and their ratio."""
    steps = [Step(name, length) for name in MODELS]
    for step in steps:
        step()
    times = [[seconds(step) for step in steps] for _ in range(pairs)]
    tokens = steps[0].ids[1].numel()
    ratios = sorted(transformer / gru for gru, transformer in times)
    cells = [f"{tokens / statistics.median(column):.0f}" for column in zip(*times, strict=True)]
    return [
        *cells,
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
    ]


def texts(task: Any, length: int, count: int) -> list[tuple[str, str]]:
    """Sentences of the data joined to ``length`` source tokens, or a few more; with references."""
    found, sources, targets = [], [], []
    for source, target in NumberWords(long=length * count // 8 + 10).splits(seed=1)["long"]:
        for one in zip(source.split(" plus "), target.split(" plus "), strict=True):
            sources.append(one[0])
            targets.append(one[1])
            if len(task.tokenizer.source.encode([" plus ".join(sources)])[0]) >= length:
                found.append((" plus ".join(sources), " plus ".join(targets)))
                sources, targets = [], []
        if len(found) >= count:
            return found[:count]
    raise ValueError(f"too few sentences for {count} texts of {length} tokens")


def quality(tasks: list[Any], length: int, count: int) -> list[str]:
    """chrF of each trained model on texts of a length."""
    pairs, cells = texts(tasks[0], length, count), []
    for task in tasks:
        out = task.translate([source for source, _ in pairs], Search(beam=1, max_length=1.0))
        cells.append(f"{CHRF().corpus_score(out, [[target for _, target in pairs]]).score:.1f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024, 2048]
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--runs", nargs=2, metavar=("GRU", "TRANSFORMER"), default=[])
    options = parser.parse_args()
    PROCESSES.set_forkserver_preload(
        ["torch", "yaml", "sacrebleu.metrics.chrf", "tfzoo.tasks.translation"]
    )
    tasks = [TranslationTask.load(run) for run in options.runs]
    print(
        "# GRUs and a Transformer by length\n\nThe models of `translation/numbers_gru` and "
        f"`translation/numbers`, fp32; batches of {TOKENS} target tokens; forward, loss and "
        f"backward; torch {torch.__version__}, {torch.get_num_threads()} thread(s) of "
        f"{processor()}. Ratio: median of {options.pairs} pairs "
        "(least to largest). Peak memory is that of a step, beyond the model. chrF is of "
        f"{options.texts} texts, translated greedily; training had at most 2 numbers in a text. "
        "Cross-attention is quadratic in both, and additive in the GRU's model.\n"
    )
    print(
        f"    python benchmarks/recurrent.py --pairs {options.pairs} --texts {options.texts} \\\n"
        "        --runs runs/gru runs/transformer\n"
    )
    print(
        "| tokens | GRU, tokens/s | Transformer, tokens/s | GRU / Transformer | peak GRU, MiB "
        "| peak Transformer, MiB | chrF GRU | chrF Transformer |\n|---|---|---|---|---|---|---|---|"
    )
    for length in options.lengths:
        cells = [str(length), *speed(length, options.pairs)]
        cells += [f"{memory(name, length):.0f}" for name in MODELS]
        cells += quality(tasks, length, options.texts) if tasks else ["", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
