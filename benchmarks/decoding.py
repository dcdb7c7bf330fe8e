"""Cached beam search against the `generate` of `transformers`' MarianMTModel of equal weights and
equal output lengths.

    python benchmarks/decoding.py            # prints decoding.md

Neither may end a sentence before ``LENGTH`` tokens, so that both do the same work; both must find
the same sentences.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from marian import PAD, Endless, pair
from scipy import stats

from tfzoo.base.special_ids import OWN
from tfzoo.search import Search, search

EOS = OWN.eos

VOCAB, SENTENCES, SOURCE, LENGTH = 8000, 32, 14, 20


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ours, theirs = pair(VOCAB, options.dim, options.dim // 64, options.layers, dropout=0.0)
    ours.eval(), theirs.eval()
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, VOCAB, (SENTENCES, SOURCE), generator=generator)
    source[:, -1] = EOS
    for row in range(0, SENTENCES, 4):
        source[row, 10:] = PAD
    print(
        "| beam | dim | layers | tfzoo, sentences/s | generate, sentences/s | ratio (95 % "
        "interval) |"
    )
    print("|---|---|---|---|---|---|")
    for beam in (1, 5):
        print(row_of(ours, theirs, source, beam, options))


def row_of(ours, theirs, source, beam: int, options) -> str:
    how = Search(beam=beam, max_length=1000.0, length_penalty=0.0)

    def run_ours():
        return [best[0].ids for best in search(Endless(ours, LENGTH), source, how, special=OWN)]

    def run_theirs():
        found = theirs.generate(
            source,
            attention_mask=source != PAD,
            num_beams=beam,
            do_sample=False,
            min_new_tokens=LENGTH,
            max_new_tokens=LENGTH,
            length_penalty=0.0,
            bad_words_ids=[[PAD], [2]],
        )
        return found[:, 1:].tolist()

    same = statistics.mean(a == b for a, b in zip(run_ours(), run_theirs(), strict=True))
    assert same > 0.9, f"only {same:.0%} of the sentences are the same"
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for index in range(options.pairs):
        for name, run in (("ours", run_ours), ("theirs", run_theirs))[:: 1 if index % 2 else -1]:
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    ratios = [b / a for a, b in zip(times["ours"], times["theirs"], strict=True)]
    low, high = stats.t.interval(0.95, len(ratios) - 1, statistics.mean(ratios), stats.sem(ratios))
    speed = {name: len(source) / statistics.median(values) for name, values in times.items()}
    return (
        f"| {beam} | {options.dim} | {options.layers}+{options.layers} | {speed['ours']:.1f} | "
        f"{speed['theirs']:.1f} "
        f"| {statistics.mean(ratios):.2f} ({low:.2f} to {high:.2f}) |"
    )


if __name__ == "__main__":
    main()
