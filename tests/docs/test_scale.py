"""The tables of docs/scale.md are those that its command prints."""

import subprocess
import sys

import pytest

from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def printed():
    return subprocess.check_output([sys.executable, ROOT / "benchmarks/scaling.py"], text=True)


def test_the_page_shows_what_the_script_prints(printed):
    assert printed.strip() in (ROOT / "docs/scale.md").read_text("utf-8")


def test_the_script_knows_the_size_of_the_recipes_model(printed):
    import torch
    import yaml

    import tfzoo

    recipe = yaml.safe_load((ROOT / "recipes/translation/wmt14_big_8gpu.yaml").read_text("utf-8"))
    with torch.device("meta"):
        model = tfzoo.Transformer(
            vocab_size=recipe["data"]["tokenizer"]["vocab_size"], **recipe["model"]
        )
    assert printed.startswith(f"{sum(p.numel() for p in model.parameters()):,} parameters")
