"""A bit that flips in the cache changes no training: the entry is made again, with a line that says
so.
"""

import shutil
from collections import Counter

import numpy as np
import pytest

from tfzoo.base import cache
from tfzoo.data.classification import ClassificationData

FLIPS = 34
ROWS = [f"{label}\t{who} {what}, part {n}" for n in range(40) for who, what, label in (
    ("one", "runs", "NUM"), ("red", "sits", "colour"), ("a dog", "eats now", "other"))]  # fmt: skip
LISTOPS = {"name": "listops", "train": 40, "val": 10, "test": 10}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Everything that tfzoo can have in its cache, made from ``text/``."""
    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text/train.tsv").write_text("\n".join(["label\ttext", *ROWS, ""]))
    (tmp_path / "text/test.tsv").write_text("\n".join(["label\ttext", *ROWS[::7], ""]))
    with MemoryFileSystem().open("/flipped/val.tsv", "wb") as stream:
        stream.write("\n".join(["label\ttext", *ROWS[::5], ""]).encode())
    return tmp_path


def prepared(folder):
    """What two data modules train on, as plain values."""
    options = {"tokenizer": {"name": "bpe", "vocab_size": 400}, "max_tokens": 200}
    found = []
    for source in (
        {"root": str(folder / "text"), "val": "memory://flipped/val.tsv"},
        {"dataset": LISTOPS},
    ):
        data = ClassificationData(**source, **options)
        data.prepare_data()
        found += [data.labels, data.content, data.vocabulary.state()]
        for name, split in data.sets.items():
            sequences = split.sequences
            found += [name, split.rows.tolist(), split.labels.tolist(), list(split.lines)]
            found += [np.asarray(sequences.ids).tolist(), sequences.offsets.tolist()]
    return found


@pytest.mark.nightly
def test_every_flipped_bit_is_noticed_or_harmless(folder, capsys):
    wanted = prepared(folder)
    shelf = cache.folder() / cache.SHELF
    shutil.copytree(shelf, folder / "whole")
    files = sorted(path.relative_to(shelf) for path in shelf.rglob("*") if path.is_file())
    assert {path.parts[0].partition("-")[0] for path in files} == {
        *("download", "generated", "ids", "tokenizer")
    }
    capsys.readouterr()
    random, seen = np.random.default_rng(0), Counter[str]()
    for flip in range(FLIPS):
        shutil.rmtree(shelf)
        shutil.copytree(folder / "whole", shelf)
        path = files[flip * len(files) // FLIPS]
        content = bytearray((shelf / path).read_bytes())
        content[random.integers(len(content))] ^= 1 << int(random.integers(8))
        (shelf / path).write_bytes(content)
        assert prepared(folder) == wanted, f"{path} was believed"
        told = f"the cache entry {path.parts[0]} is damaged" in capsys.readouterr().err
        seen["noticed" if told else "harmless"] += 1
        assert told, path
    with capsys.disabled():
        print(f"\n{FLIPS} flipped bits:", dict(seen))
    assert seen["noticed"] > FLIPS - 3
