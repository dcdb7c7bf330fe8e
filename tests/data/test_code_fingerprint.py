"""What is prepared by code is prepared again after an edit of that code."""

import os
import subprocess
import sys
from importlib import import_module

from tfzoo.base.registry import create, registry
from tfzoo.data.prepare import identity, source_hash

OWN = """
from own_tokenizers.helper import SHIFT
from tfzoo.data.tokenizers import Bytes
from tfzoo.base.registry import register

@register("tokenizer", "edited")
class Edited(Bytes):
    def encode(self, texts):
        return [[one + SHIFT for one in ids] for ids in super().encode(texts)]
"""


def test_an_edit_anywhere_in_a_package_changes_the_identity_of_what_it_defines(
    monkeypatch, tmp_path
):
    folder = tmp_path / "own_tokenizers"
    folder.mkdir()
    for name, text in {"__init__": "", "helper": "SHIFT = 1\n", "own": OWN}.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry("tokenizer").entry("bytes")
    monkeypatch.setattr(registry("tokenizer"), "registered", {**registry("tokenizer").registered})
    import_module("own_tokenizers.own")
    before = identity("tokenizer", "edited")
    assert identity("tokenizer", "edited") == before
    (folder / "helper.py").write_text("SHIFT = 2\n", "utf-8")
    source_hash.cache_clear()
    assert identity("tokenizer", "edited") != before


def test_a_class_of_a_notebook_is_another_one_in_every_process(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    source_hash.cache_clear()
    before = source_hash("__main__")
    assert source_hash("__main__") == before
    source_hash.cache_clear()
    assert source_hash("__main__") != before
    monkeypatch.undo()
    source_hash.cache_clear()


def test_the_identity_is_the_same_in_every_process():
    """Also where hashes of strings differ, and after the code has run."""
    specs = ("tokenizer", "bpe"), ("dataset", "listops")
    code = f"from tfzoo.data.prepare import identity\nfor one in {specs}: print(identity(*one))"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    create("tokenizer", "bpe").train(["a b"] * 100)
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == [identity(*one) for one in specs]


def test_options_are_part_of_the_identity():
    small = {"name": "bpe", "vocab_size": 300}
    assert identity("tokenizer", small) == identity("tokenizer", {**small, "lowercase": False})
    assert identity("tokenizer", small) != identity("tokenizer", {**small, "lowercase": True})
