"""Every component can be chosen on the command line and trains, or is refused with its reason."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

import tfzoo
from tfzoo.commands.main import main
from tfzoo.registry import describe

SMALL = [
    *("--model.dim", "16", "--model.heads", "2", "--model.layers", "1", "--data.max_tokens", "200"),
    *(
        "--data.dataset.train",
        "300",
        "--data.dataset.val",
        "20",
        "--data.dataset.test",
        "20",
        "--data.dataset.long",
        "5",
    ),
    *("--trainer.max_steps", "2", "--search.max_length", "0"),
]
WORDS = ["red", "green", "blue", "one", "two", "three"]
EVERY = [
    (kind, name)
    for kind in ("attention", "norm", "position", "feedforward")
    for name in tfzoo.list_components()[kind]
]


def refused_in_decoder(kind: str, name: str) -> str | None:
    """The rule by which a translator with this component is refused, from its traits."""
    traits = describe(kind, name).traits
    if traits & {"mixes_tokens:always", "mixes_tokens:training"}:
        return "leaky-norm"
    return "unknown-length" if "needs_length" in traits else None


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=lambda part: str(part))
def test_a_component_is_swapped_in_by_name(
    kind: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["fit", "translation/numbers", "--run", "run", *SMALL, f"--model.{kind}", name])
    if rule := refused_in_decoder(kind, name):
        assert code == 2
        assert rule in capsys.readouterr().err
        assert not Path("run").exists()
    else:
        assert code == 0
        assert json.loads(Path("run/summary.json").read_text())["fit"]["steps"] == 2


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of a classifier and its text."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [
        f"{a} {b} {c}\t{'colour' if a in WORDS[:3] else 'NUM'}\n"
        for a, b, c in product(WORDS, repeat=3)
    ]
    (folder / "train.tsv").write_text(f"text\tlabel\n{''.join(rows)}", "utf-8")
    (folder / "test.tsv").write_text(f"text\tlabel\n{''.join(rows[::7])}", "utf-8")
    (folder / "toy.yaml").write_text(
        "task: classification\nmodel: {dim: 16, heads: 2, layers: 1}\ntrainer: {max_steps: 2}\n",
        "utf-8",
    )
    return folder


PARTS = [
    (kind, name)
    for kind in ("attention", "norm", "position", "feedforward", "pooling")
    for name in tfzoo.list_components()[kind]
]


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=str)
def test_a_component_is_swapped_into_a_classifier_by_name(
    kind: str,
    name: str,
    labelled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a decoder cannot have, an encoder can; only a mean after a norm that fixes the mean is
    refused.
    """
    monkeypatch.chdir(tmp_path)
    given = [
        "fit",
        str(labelled / "toy.yaml"),
        "--data.root",
        str(labelled),
        "--data.tokenizer.vocab_size",
        "280",
        "--run",
        "run",
    ]
    if "centres_texts" in describe(kind, name).traits:
        assert main([*given, "--model.norm", name]) == 2
        assert "constant-pooling" in capsys.readouterr().err
        assert not Path("run").exists()
        given += ["--model.pooling", "max"]
    assert main([*given, f"--model.{kind}", name]) == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["fit"]["steps"] == 2
    assert 0 <= summary["fit"]["best"]["val/accuracy"] <= 1


def test_options_follow_their_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    swaps = [
        "--model.attention",
        "additive",
        "--model.norm",
        "rms",
        "--model.norm.eps",
        "1e-6",
        "--model.position",
        "relative_bias",
    ]
    assert main(["fit", "translation/numbers", "--run", "run", *SMALL, *swaps]) == 0
    model = tfzoo.TranslationTask.load("run").model
    assert model.encoder.final_norm.eps == 1e-6
    assert type(model.decoder.layers[0].self_attention.inner.attention).__name__ == "Additive"
    assert type(model.encoder.position).__name__ == "RelativeBias"
