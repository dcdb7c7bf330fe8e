"""BLEU of a sweep's runs by sentences: from the files that ``tfzoo predict`` writes, against
sacreBLEU's own.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU

from tfzoo.commands import predict
from tfzoo.sweep.bootstrap import Bootstrap, bootstrap
from tfzoo.sweep.translations import read_translations, tokenizer

AXES = {"norm": ["layer", "rms"]}
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def references(count: int = 60) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(count)]


def spoilt(lines: list[str], share: float, seed: int) -> list[str]:
    """With a share of words replaced."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < share else word for word in line.split())
        for line in lines
    ]


def run(
    folder: Path, norm: str, seed: int, lines: list[str], wanted: list[str], form: str = "jsonl"
) -> dict[str, Any]:
    """A row of the sweep's table, and its run's folder."""
    own = folder / norm / f"seed-{seed}"
    (own / "predictions").mkdir(parents=True)
    table = [
        {"source": "x\ty", "translation": text, "reference": right, "score": -0.5}
        for text, right in zip(lines, wanted, strict=True)
    ]
    predict.write(own / "predictions" / f"test.{form}", table)
    score = BLEU().corpus_score(lines, [wanted]).score
    return {
        "norm": norm,
        "seed": str(seed),
        "status": "completed",
        "run_folder": str(own),
        "test/bleu": str(score),
    }


def sweep(folder: Path, worse: float) -> tuple[list[dict[str, Any]], Bootstrap]:
    wanted = references()
    table = [run(folder, "layer", seed, spoilt(wanted, 0.1, seed), wanted) for seed in (1, 2, 3)]
    table += [
        run(folder, "rms", seed, spoilt(wanted, worse, 10 + seed), wanted, "tsv") for seed in (1, 2)
    ]
    return table, bootstrap(table, AXES, {})


def test_a_clear_difference_is_told_with_the_bleu_of_sacrebleu(tmp_path: Path) -> None:
    table, found = sweep(tmp_path, 0.4)
    (one,) = found.compared
    base, own = (
        [float(row["test/bleu"]) for row in table if row["norm"] == norm and row["seed"] != "3"]
        for norm in AXES["norm"]
    )
    assert (one.labels, one.test_set, one.seeds, one.sentences) == ({"norm": "rms"}, "test", 2, 60)
    assert one.bleu == pytest.approx(sum(own) / 2)
    assert one.difference == pytest.approx(sum(own) / 2 - sum(base) / 2)
    assert one.low < one.difference < one.high < 0
    assert one.p_corrected == pytest.approx(1 / 2001)
    assert one.sentence.startswith(
        "rms: worse than layer by paired bootstrap over the 60 sentences of test: BLEU "
    )
    assert one.notes == ["seed 3 is omitted: only one side translated these sentences"]
    assert found.notes == []


def test_models_that_are_as_good_as_each_other_are_not_told_apart(tmp_path: Path) -> None:
    (one,) = sweep(tmp_path, 0.1)[1].compared
    assert one.low < 0 < one.high
    assert one.p > 0.05
    assert one.sentence.startswith("rms: not distinguishable from layer by paired bootstrap over")


def test_what_has_no_translations_or_others_is_said(tmp_path: Path) -> None:
    wanted = references()
    table = [run(tmp_path, "layer", seed, wanted, wanted) for seed in (1, 2)]
    table += [
        run(tmp_path, "rms", 1, wanted[::-1], wanted[::-1]),
        {**table[0], "norm": "rms", "seed": 2, "run_folder": str(tmp_path)},
    ]
    table[0]["test/bleu"] = 90
    found = bootstrap(table, AXES, {})
    assert found.compared == []
    assert "decoded with other settings" in found.notes[0]
    assert found.notes[1:] == [
        "1 completed run has no translations; tfzoo predict RUN writes them",
        "rms, test: no seed has translations of the same sentences "
        "by this cell and by the baseline",
    ]
    (tmp_path / "rms/seed-1/predictions/test.jsonl").write_text("{")
    (tmp_path / "layer/seed-1/predictions/test.tsv").write_text(
        "source\ttranslation\treference\tscore\nx\ty"
    )
    (tmp_path / "layer/seed-1/predictions/test.jsonl").unlink()
    assert any("a row is incomplete" in note for note in bootstrap(table, AXES, {}).notes)
    assert any(
        "test.jsonl cannot be read as tfzoo predict writes it" in note
        for note in bootstrap(table, AXES, {}).notes
    )


def test_predictions_of_a_classifier_are_no_translations(tmp_path: Path) -> None:
    (tmp_path / "predictions").mkdir()
    predict.write(
        tmp_path / "predictions" / "test.tsv", [{"text": "x", "prediction": "a", "label": "b"}]
    )
    assert read_translations(tmp_path) == {}


def test_text_without_spaces_is_cut_as_the_task_cuts_it() -> None:
    assert tokenizer(("他有三本 WMT 的书",)) == "zh"
    assert tokenizer(("これは本です",)) == "ja-mecab"
    assert tokenizer(("ein Haus", "Straße 東京")) == "13a"
