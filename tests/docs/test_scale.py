"""The tables of docs/scale.md are those that its command prints."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.pages import ROOT


def test_the_page_shows_what_the_script_prints() -> None:
    printed = subprocess.check_output([sys.executable, ROOT / "benchmarks/scaling.py"], text=True)
    assert printed.strip() in (ROOT / "docs/scale.md").read_text("utf-8")


def test_the_script_knows_the_size_of_the_recipes_model() -> None:
    import torch
    import yaml

    import tfzoo

    recipe = yaml.safe_load((ROOT / "recipes/translation/wmt14_big_8gpu.yaml").read_text("utf-8"))
    with torch.device("meta"):
        model = tfzoo.Transformer(
            vocab_size=recipe["data"]["tokenizer"]["vocab_size"], **recipe["model"]
        )
    printed = subprocess.check_output([sys.executable, ROOT / "benchmarks/scaling.py"], text=True)
    assert printed.startswith(f"{sum(p.numel() for p in model.parameters()):,} parameters")
