"""Every component can be put in from the command line, and trains; or is refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tfzoo
from tfzoo.commands.main import main

SMALL = [
    *("--model.dim", "16", "--model.heads", "2", "--model.layers", "1", "--data.max_tokens", "200"),
    *("--data.dataset.train", "300", "--data.dataset.val", "20", "--data.dataset.test", "20", "--data.dataset.long", "5"),
    *("--trainer.max_steps", "2", "--search.max_length", "0"),
]
REFUSED = {"batch": "leaky-norm", "instance": "leaky-norm", "unit_interval": "unknown-length"}
EVERY = [(kind, name) for kind in ("attention", "norm", "position", "feedforward") for name in tfzoo.list_components()[kind]]


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=lambda part: str(part))
def test_a_component_is_swapped_in_by_name(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["fit", "translation/numbers", "--run", "run", *SMALL, f"--model.{kind}", name])
    if name in REFUSED and kind in ("norm", "position"):
        assert code == 2
        assert REFUSED[name] in capsys.readouterr().err
        assert not Path("run").exists()
    else:
        assert code == 0
        assert json.loads(Path("run/summary.json").read_text())["fit"]["steps"] == 2


def test_options_follow_their_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    swaps = ["--model.attention", "additive", "--model.norm", "rms", "--model.norm.eps", "1e-6", "--model.position", "relative_bias"]
    assert main(["fit", "translation/numbers", "--run", "run", *SMALL, *swaps]) == 0
    model = tfzoo.TranslationTask.load("run").model
    assert model.encoder.final_norm.eps == 1e-6
    assert type(model.decoder.layers[0].self_attention.inner.attention).__name__ == "Additive"
    assert type(model.encoder.position).__name__ == "RelativeBias"
