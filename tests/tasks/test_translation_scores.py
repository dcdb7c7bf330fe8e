"""Scores are the numbers that the ``sacrebleu`` command prints."""

import math
import subprocess
import sys

import pytest
import torch

from tfzoo.learning.translation_scores import CorpusScores, TranslationScores, base_language

REFERENCES = [
    "eine Gruppe von Leuten wartet, bis der Bus kommt.",
    "zwei Hunde laufen durch den Schnee!",
    'sie sagt: "Das ist 3,5 mal so viel."',
    "ein Kind",
]
HYPOTHESES = [
    "eine Gruppe Leute wartet, bis ein Bus kommt.",
    "zwei Hunde rennen durch Schnee!",
    'sie sagt "Das ist 3,5 mal so viel."',
    "",
]
CHINESE = ["二千三百四十五加六", "一百万", "七"]
NEAR = ["二千三百四十五加七", "一百万", "七"]


def scored(language, hypotheses, references):
    scores = CorpusScores(language)
    scores.update(hypotheses, references)
    return scores


def by_command(tmp_path, metric, tokenizer, hypotheses, references):
    files = tmp_path / "hypotheses", tmp_path / "references"
    for file, lines in zip(files, (hypotheses, references), strict=True):
        file.write_text("".join(line + "\n" for line in lines), "utf-8")
    tokenize = ["-tok", tokenizer] if metric == "bleu" else []
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        str(files[1]),
        "-i",
        str(files[0]),
        "-m",
        metric,
        *tokenize,
        "-b",
        "-w",
        "6",
    ]
    return float(subprocess.check_output(command, text=True))


@pytest.mark.parametrize(
    ("language", "tokenizer", "hypotheses", "references"),
    [
        ("de", "13a", HYPOTHESES, REFERENCES),
        ("zh", "zh", NEAR, CHINESE),
        ("de", "13a", ["ein Kind ist da"], ["das Kind ist da"]),
    ],
    ids=["German", "Chinese", "one short line"],
)
def test_bleu_and_chrf_are_what_the_command_prints(
    tmp_path, language, tokenizer, hypotheses, references
):
    result = scored(language, hypotheses, references).compute()
    assert float(result["bleu"]) == pytest.approx(
        by_command(tmp_path, "bleu", tokenizer, hypotheses, references), abs=1e-4
    )
    assert float(result["chrf"]) == pytest.approx(
        by_command(tmp_path, "chrf", tokenizer, hypotheses, references), abs=1e-4
    )


def test_every_sum_is_added_over_processes():
    scores = scored("de", HYPOTHESES, REFERENCES)
    names = ("bleu_sums", "chrf_sums", "exact_matches", "lines")
    before = {name: getattr(scores, name).clone() for name in names}
    scores.sync(
        dist_sync_fn=lambda value, group: [value, 2 * value], distributed_available=lambda: True
    )
    for name in names:
        assert getattr(scores, name).dtype == torch.int64  # exact for any number of lines
        assert torch.equal(getattr(scores, name), 3 * before[name])


def test_exact_counts_lines_that_are_right_to_the_letter():
    found = scored("de", ["a b", "A b", "a b ", "c"], ["a b", "a b", "a b", "c"]).compute()
    assert float(found["exact_match"]) == 50


def test_bleu_is_left_out_where_references_have_no_four_words():
    """German numbers are one word each: BLEU was 46.4 at 71.7 % right and 0 at 90.3 %."""
    numbers = ["eins", "zweiundzwanzig", "dreihundert"]
    assert scored("de", numbers, numbers).compute().keys() == {"chrf", "exact_match"}
    four = ["eins zwei drei vier"]
    assert scored("de", four, four).compute().keys() == {"bleu", "chrf", "exact_match"}


def test_loss_and_perplexity_are_means_over_tokens_and_not_over_batches():
    scores = TranslationScores("de", decodes=False)
    for loss, nll, tokens in ((9.0, 8.0, 4), (4.0, 2.0, 1)):
        scores.update([], [], torch.tensor(loss), torch.tensor(nll), tokens)
    found = scores.compute()
    assert found["loss"] == pytest.approx(13 / 5)
    assert found["perplexity"] == pytest.approx(math.exp(10 / 5))


CODES = {"zh-CN": "zh", "ZH": "zh", "zho_Hans": "zh", "cmn": "zh", "pt_BR": "pt", "gsw": "gsw"}


@pytest.mark.parametrize(("code", "base"), CODES.items())
def test_a_code_loses_its_region_and_every_chinese_one_has_the_chinese_tokenizer(code, base):
    assert base_language(code) == base
    signature = CorpusScores(code).signature
    assert f"tok:{'zh' if base == 'zh' else '13a'}" in signature
    assert "nrefs:1" in signature
