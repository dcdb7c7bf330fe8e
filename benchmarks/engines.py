"""Sentences a second and scores of a trained translator with each engine, on its test sets.

    python benchmarks/engines.py RUN          # prints engines.md's table

The engines take turns, ``--rounds`` times; times are medians. Scores are those of ``tfzoo test``.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import tfzoo
from tfzoo.exporting.engine import NUMBERS, TORCH, set_engine
from tfzoo.learning.translation_scores import CorpusScores
from tfzoo.runs import checkpoints
from tfzoo.tasks.translation import TranslationTask


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tfzoo.keep_freed_memory()
    path = checkpoints.find(options.run)
    recipe = checkpoints.read(path)["tfzoo"]["recipe"]
    data = tfzoo.TranslationData(**recipe["data"])
    data.prepare_data()
    data.setup()
    rows = data.sets[data.test_names[0]].lines[: options.sentences]
    source, target = zip(*rows, strict=True)
    tasks = {}
    for name in (TORCH, *NUMBERS):
        tasks[name] = TranslationTask.load(path).eval()
        set_engine(tasks[name], name)
    print("| engine | beam | sentences/s | BLEU | chrF | exact match | the same as torch |")
    print("|---|---|---|---|---|---|---|")
    for beam in (1, 5):
        times: dict[str, list[float]] = {name: [] for name in tasks}
        found = {}
        for _ in range(options.rounds):
            for name, task in tasks.items():
                began = time.perf_counter()
                found[name] = task.translate(source, beam=beam)
                times[name].append(time.perf_counter() - began)
        for name in tasks:
            scores = CorpusScores(data.direction[1])
            scores.update(found[name], target)
            score = {key: f"{float(value):.2f}" for key, value in scores.compute().items()}
            same = statistics.mean(a == b for a, b in zip(found[name], found[TORCH], strict=True))
            speed = len(source) / statistics.median(times[name])
            cells = speed, score.get("bleu", "-"), score["chrf"], score["exact_match"], same
            print("| `{}` | {} | {:.0f} | {} | {} | {} | {:.1%} |".format(name, beam, *cells))


if __name__ == "__main__":
    main()
