"""BLEU of a sweep's runs by sentences: from the files that ``tfzoo predict`` writes, against
sacreBLEU's own.
"""

import random
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from tfzoo.sweep.judge.bootstrap import (
    Resampled,
    Translations,
    bootstrap,
    comparable,
    read_translations,
    tokenizer,
    with_sentence,
)

from tfzoo.commands import predict
from tfzoo.sweep.judge.sentences import format_estimate

AXES = {"norm": ["layer", "rms"]}
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def references(count=60):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(count)]


def spoilt(lines, share, seed):
    """With a share of words replaced."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < share else word for word in line.split())
        for line in lines
    ]


def run(folder, norm, seed, lines, wanted, form="jsonl"):
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


def sweep(folder, worse):
    wanted = references()
    table = [run(folder, "layer", seed, spoilt(wanted, 0.1, seed), wanted) for seed in (1, 2, 3)]
    table += [
        run(folder, "rms", seed, spoilt(wanted, worse, 10 + seed), wanted, "tsv") for seed in (1, 2)
    ]
    return table, bootstrap(table, AXES, {})


def test_a_clear_difference_is_told_with_the_bleu_of_sacrebleu(tmp_path):
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
    assert one.notes == ["seed 3 is omitted: only one side translated these sentences"]
    assert found.notes == []


def test_models_that_are_as_good_as_each_other_are_not_told_apart(tmp_path):
    (one,) = sweep(tmp_path, 0.1)[1].compared
    assert one.low < 0 < one.high
    assert one.p > 0.05
    assert one.sentence.startswith(
        "rms: not yet known whether it differs from layer by paired bootstrap over"
    )


def test_what_has_no_translations_or_others_is_said(tmp_path):
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


def test_predictions_of_a_classifier_are_no_translations(tmp_path):
    (tmp_path / "predictions").mkdir()
    predict.write(
        tmp_path / "predictions" / "test.tsv", [{"text": "x", "prediction": "a", "label": "b"}]
    )
    assert read_translations(tmp_path) == {}


def test_text_without_spaces_is_cut_as_the_task_cuts_it():
    assert tokenizer(("他有三本 WMT 的书",)) == "zh"
    assert tokenizer(("これは本です",)) == "ja-mecab"
    assert tokenizer(("ein Haus", "Straße 東京")) == "13a"
    assert tokenizer(("WMTs书",)) == "13a", "a fifth of the letters"
    assert tokenizer(("WMT书",)) == "zh"


def test_the_sentence_tells_which_way_and_how_much(tmp_path):
    table = sweep(tmp_path, 0.4)[0]
    (worse,) = bootstrap(table, AXES, {}).compared
    (better,) = bootstrap(table, AXES, {"norm": "rms"}).compared
    said = "by paired bootstrap over the 60 sentences of test: BLEU"
    estimate = format_estimate(worse.difference, worse.low, worse.high)
    assert worse.sentence == (
        f"rms: worse than layer {said} {worse.bleu:.1f}, difference {estimate}, p < 0.001"
    )
    assert better.sentence.startswith(f"layer: better than rms {said} {better.bleu:.1f}, ")
    assert better.difference == -worse.difference


def test_an_interval_is_of_the_draws_and_of_the_level_that_pruning_leaves(tmp_path):
    table = sweep(tmp_path, 0.2)[0]
    runs = {
        (row["norm"], row["seed"]): read_translations(Path(row["run_folder"]))["test"]
        for row in table
    }
    counts = np.random.default_rng(7).multinomial(60, np.full(60, 1 / 60), 2000)
    draws = counts.astype(np.float32)
    differences = np.mean(
        [runs["rms", seed].bleu(draws) - runs["layer", seed].bleu(draws) for seed in "12"], axis=0
    )
    pruned = [
        {"norm": name, "cell": name, "seed": seed, "status": "pruned"}
        for name in ("batch", "none", "group")
        for seed in (1, 2)
    ]
    (alone,) = bootstrap(table, AXES, {}).compared
    (one,) = bootstrap([*table, *pruned], AXES, {}).compared
    for found, alpha in ((alone, 0.05), (one, 0.05 / 4)):
        wanted = np.quantile(differences, [alpha / 2, 1 - alpha / 2])
        np.testing.assert_allclose([found.low, found.high], wanted, atol=0.07 * np.ptp(wanted))
    assert one.p == alone.p
    assert one.p_corrected == pytest.approx(4 * alone.p_corrected)


def test_equal_translations_are_not_told_apart(tmp_path):
    wanted = references()
    table = [run(tmp_path, norm, 1, spoilt(wanted, 0.1, 1), wanted) for norm in AXES["norm"]]
    (one,) = bootstrap(table, AXES, {}).compared
    assert (one.difference, one.low, one.high, one.p) == (0, 0, 0, 1)
    assert one.sentence.startswith("rms: not yet known whether it differs from layer ")
    assert one.sentence.endswith("p = 1")


def test_what_the_correction_decides_is_explained():
    one = Resampled({"norm": "rms"}, "test", 2, 60, 30.0, 0.5, 0.1, 0.9, 0.03, 0.03, "", [])
    text = with_sentence(one, 0.09, 3, AXES, ("layer",)).sentence
    assert text.startswith("rms: not yet known whether it differs from layer ")
    assert text.endswith("the verdict is (uncorrected p = 0.03)")
    better = with_sentence(one, 0.001, 1, AXES, ("layer",)).sentence
    assert better.startswith("rms: better than layer ")
    assert "uncorrected" not in better
    at_the_limit = with_sentence(one, 0.05, 2, AXES, ("layer",)).sentence
    assert at_the_limit.startswith("rms: not yet known whether it differs from layer ")
    assert at_the_limit.endswith("the verdict is (uncorrected p = 0.03)")


def test_translations_of_runs_that_were_not_completed_are_omitted(tmp_path):
    table = sweep(tmp_path, 0.4)[0]
    for change in ({"status": "failed"}, {"status": "pruned"}, {"seed": ""}, {"run_folder": ""}):
        (one,) = bootstrap([*table[:4], {**table[4], **change}], AXES, {}).compared
        assert one.seeds == 1
        assert one.notes[0] == "seed 2 is omitted: only one side translated these sentences"


def test_a_score_that_differs_by_more_than_rounding_is_noted(tmp_path):
    table = sweep(tmp_path, 0.4)[0]
    for difference, notes in ((0.04, 0), (0.06, 1)):
        changed = {**table[0], "test/bleu": float(table[0]["test/bleu"]) + difference}
        assert len(bootstrap([changed, *table[1:]], AXES, {}).notes) == notes


def test_seeds_are_compared_on_the_sentences_that_all_of_them_translated():
    first, other = Translations(("a",), ("a",)), Translations(("b",), ("b",))
    assert comparable({1: first}, {1: first, 2: first}) == [1]
    assert comparable({1: first, 2: other, 3: first}, {1: first, 2: other, 3: first}) == [1, 3]
    assert comparable({1: first}, {1: other}) == []


def test_translations_are_read_as_they_were_written_and_scored_for_their_language(tmp_path):
    wanted = ['他说 "你好"', "我们\u2028有三本书", '"书"', "他有三本书"]
    lines = ['他说 "您好"', "我们\u2028有两本书", '"书"', "他有三本书"]
    own = Path(run(tmp_path, "layer", 1, lines, wanted, "tsv")["run_folder"])
    (found,) = read_translations(own).values()
    assert (found.texts, found.references) == (tuple(lines), tuple(wanted))
    score = BLEU(tokenize="zh").corpus_score(lines, [wanted]).score
    assert found.bleu(np.ones((1, 4), np.float32)) == pytest.approx(score)
    run(tmp_path / "other", "layer", 1, wanted, wanted, "tsv")
    jsonl = tmp_path / "other/layer/seed-1/predictions/test.jsonl"
    predict.write(jsonl, [{"translation": "a", "reference": "b"}])
    (preferred,) = read_translations(tmp_path / "other/layer/seed-1").values()
    assert preferred == Translations(("a",), ("b",))
