"""The demo learns what it says it learns, and its score measures translation."""

import json
import random
import time

import pytest

import tfzoo
from tfzoo.commands.main import main


@pytest.mark.nightly
def test_the_demo_gets_numbers_right_and_only_from_their_own_source(tmp_path):
    run = tmp_path / "run"
    began = time.monotonic()
    assert main(["fit", "translation/numbers", "--run", str(run)]) == 0
    print(f"{time.monotonic() - began:.0f} s")
    scores = json.loads((run / "summary.json").read_text())["test"]["scores"]
    assert scores["test/exact_match"] >= 99
    assert "test/long/exact_match" in scores

    pairs = tfzoo.create("dataset", "numbers").splits(1)["test"]
    references = [target for _, target in pairs]
    random.Random(0).shuffle(references)
    translated = tfzoo.TranslationTask.load(run).translate([source for source, _ in pairs])
    shuffled = sum(a == b for a, b in zip(translated, references, strict=True)) / len(pairs)
    print(f"shuffled against their references: {shuffled:.1%} right")
    assert shuffled < 0.05
