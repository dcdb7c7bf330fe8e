"""Scores are the numbers that the ``sacrebleu`` command prints."""

import json
import math
import subprocess
import sys

import pytest
import torch

from tests.scored import task_with
from tfzoo.tasks.translation import TranslationTask, corpus_scores, line_counts, metrics_of

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
    return corpus_scores(language, *line_counts(language, hypotheses, references))


def by_command(tmp_path, tokenizer, hypotheses, references):
    files = tmp_path / "hypotheses", tmp_path / "references"
    for file, lines in zip(files, (hypotheses, references), strict=True):
        file.write_text("".join(line + "\n" for line in lines), "utf-8")
    words = [str(files[1]), "-i", str(files[0]), "-m", "bleu", "chrf", "-tok", tokenizer]
    command = [sys.executable, "-m", "sacrebleu", *words, "-b", "-w", "6"]
    return json.loads(subprocess.check_output(command, text=True))


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
    result = scored(language, hypotheses, references)
    printed = by_command(tmp_path, tokenizer, hypotheses, references)
    assert [*map(float, (result["bleu"], result["chrf"]))] == pytest.approx(printed, abs=1e-4)


def test_exact_counts_lines_that_are_right_to_the_letter():
    found = scored("de", ["a b", "A b", "a b ", "c"], ["a b", "a b", "a b", "c"])
    assert found["exact_match"].tolist() == [True, False, False, True]


def test_perplexity_is_a_mean_over_tokens_and_not_over_texts():
    counts = torch.tensor([[8.0, 4.0], [2.0, 1.0]]).T
    found = TranslationTask.compute_scores(task_with(TranslationTask), *counts)
    assert found["perplexity"] == pytest.approx(math.exp(10 / 5))


CODES = {"zh-CN": "zh", "ZH": "zh", "zho_Hans": "zh", "cmn": "zh", "pt_BR": "13a", "gsw": "13a"}


@pytest.mark.parametrize(("code", "tokenizer"), CODES.items())
def test_a_code_loses_its_region_and_every_chinese_one_has_the_chinese_tokenizer(code, tokenizer):
    bleu, _ = metrics_of(code)
    bleu.num_refs = 1
    assert f"tok:{tokenizer}" in str(bleu.get_signature())
