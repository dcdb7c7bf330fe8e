"""What is prepared by code is prepared again after an edit of that code."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

from tfzoo.base.registry import create, registry
from tfzoo.data.prepare import (
    Column,
    SplitFingerprint,
    encode_columns,
    generated,
    identity,
    train_tokenizer,
)
from tfzoo.data.sets import listops

HELPER = """
import re
from functools import cache

SHIFT = 1
PATTERN = re.compile("a" * 300)
TABLE = {"x": [1, 2], "y": {3, 4}}
IGNORED = 5

def shift(id):
    return id + SHIFT

@cache
def again(id):
    return again(id - 1) if id > 10**9 else shift(id)
"""

TOKENIZER = '''
from own_tokenizers.helper import PATTERN, TABLE, again
from tfzoo.data.tokenizers.bytes import Bytes
from tfzoo.base.registry import register

class Parent(Bytes):
    @property
    def offset(self):
        return 4

    @staticmethod
    def spread(ids):
        return ids

@register("tokenizer", "edited")
class Edited(Parent):
    """Bytes, moved."""

    length = 260

    def encode(self, texts):
        moved = [[again(id) + self.offset for id in ids] for ids in super().encode(texts)]
        return [self.spread(ids) for ids in moved if PATTERN and TABLE]

    def __len__(self):
        import einops

        return self.length if einops else 0
'''


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Imports the two files above, after replacing one text by another."""
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    registered = registry("tokenizer").registered

    def load(old="", new=""):
        registered.pop("edited", None)
        for name, source in {"helper": HELPER, "tokenizer": TOKENIZER}.items():
            module = ModuleType(f"own_tokenizers.{name}")
            monkeypatch.setitem(sys.modules, module.__name__, module)
            exec(compile(source.replace(old, new), name, "exec"), vars(module))

    yield load
    registered.pop("edited", None)


def ids():
    """The ids of one line, from the cache if it has them."""
    tokenizer = train_tokenizer(["a"], "content", "edited", 1)
    made_by = identity("tokenizer", "edited")
    read = SplitFingerprint(examples=1, source="content")
    column = Column(0, tokenizer, made_by)
    return encode_columns([("a", "")], read, [column], "train")[0].ids.tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("again(id) +", "1000 + again(id) +"),
        ("return 4", "return 5"),
        ("return ids\n", "return ids[::-1] + [9]\n"),
        ("SHIFT = 1", "SHIFT = 7"),
        ("id + SHIFT", "id - SHIFT"),
    ],
    ids=["method", "inherited property", "static method", "constant", "function"],
)
def test_an_edit_of_a_tokenizer_changes_the_ids(edited, old, new):
    edited()
    before = ids()
    edited(old, new)
    assert ids() != before


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("length = 260", "length = 261", False),
        ('"a" * 300', '"a" * 299 + "b"', False),
        ("[1, 2]", "[1, 3]", False),
        ("{3, 4}", "{3, 5}", False),
        ("import einops", "import numpy as einops", False),
        ("IGNORED = 5", "IGNORED = 6", True),
        ("class Parent", "\n\n# a comment\nclass Parent", True),
        ("Bytes, moved.", "Bytes, moved a little.", True),
    ],
)
def test_the_identity_covers_what_the_code_uses(edited, old, new, same):
    edited()
    before = identity("tokenizer", "edited")
    edited(old, new)
    assert (identity("tokenizer", "edited") == before) is same


@pytest.mark.parametrize("spec", [("tokenizer", "bpe"), ("dataset", "listops")])
def test_the_identity_is_the_same_in_every_process(spec):
    """Also where hashes of strings differ, and after the code has run."""
    code = f"from tfzoo.data.prepare import identity; print(identity{spec})"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    if spec[0] == "tokenizer":
        create("tokenizer", "bpe").train(["a b"] * 100)
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == identity(*spec)


def test_options_are_part_of_the_identity():
    small = {"name": "bpe", "vocab_size": 300}
    assert identity("tokenizer", small) == identity("tokenizer", {**small, "lowercase": False})
    assert identity("tokenizer", small) != identity("tokenizer", {**small, "lowercase": True})


def test_an_edit_of_a_built_in_data_set_draws_it_again(monkeypatch, tmp_path):
    """The module of the class itself is not the only one that counts."""
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry("dataset"), "registered", {**registry("dataset").registered})

    class Own(listops.ListOps):
        """The same, of another package."""

    registry("dataset").add(Own, "own")
    spec = {"name": "own", "train": 100, "val": 10, "test": 10}

    def rows():
        return list(generated(spec, 1, ("text", "label"))["train"])

    before = rows()
    assert rows() == before
    monkeypatch.setattr(listops, "LIST", 0.9)
    assert rows() != before
