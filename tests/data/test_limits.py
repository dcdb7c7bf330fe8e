"""A file cannot take the machine's memory: lines, cells and what is unpacked have limits."""

import gzip
import json

import pandas as pd
import pytest

from tfzoo.data import lines
from tfzoo.data.classification import ClassificationData
from tfzoo.data.lines import Limits, read_lines
from tfzoo.data.table import Table
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadData, BadOption


def write(path, cells):
    rows = [{"text": cell, "label": "x"} for cell in cells]
    form = path.name.removesuffix(".gz").rpartition(".")[2]
    if form == "parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    text = {
        "tsv": "label\ttext\n" + "".join(f"x\t{cell}\n" for cell in cells),
        "csv": "label,text\n" + "".join(f'x,"{cell}"\n' for cell in cells),
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }[form].encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "tsv.gz"])
def test_a_long_line_or_cell_is_refused_with_its_number(form, tmp_path):
    for cells, long in ((["a" * 50] * 3, False), (["a", "b", "c" * 101, "d"], True)):
        table = Table(write(tmp_path / f"t.{form}", cells), ("text", "label"), limits=Limits(100))
        if not long:
            assert len(list(table)) == 3
            continue
        with pytest.raises(BadData, match=r"(line|row) [345]: .*100 characters.* data\.max_line"):
            list(table)


def test_a_line_that_does_not_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    (tmp_path / "long.gz").write_bytes(gzip.compress(b"ok\n" + b"ab" * (1 << 22), 1))
    read = []
    check = Limits.check_unpacked
    monkeypatch.setattr(
        Limits, "check_unpacked", lambda *given: (read.append(given[2]), check(*given))
    )
    found = read_lines(tmp_path / "long.gz", Limits(line=1 << 21))
    assert next(found) == "ok"
    with pytest.raises(BadData, match=r"long\.gz, line 2: over 2,097,152 characters"):
        next(found)
    assert read[-1] < 1 << 22


@pytest.mark.parametrize("form", ["tsv.gz", "parquet"])
def test_a_file_that_unpacks_to_too_much_is_refused(form, tmp_path, monkeypatch):
    path = write(tmp_path / f"t.{form}", [f"the same again {n} " * 9 for n in range(2000)])
    assert len(list(Table(path, ("text", "label"), limits=Limits(ratio=2)))) == 2000  # small
    monkeypatch.setattr(lines, "SMALL", 1000)
    with pytest.raises(BadData, match=r"unpacks to over 2 times its size.*data\.max_ratio"):
        list(Table(path, ("text", "label"), limits=Limits(ratio=2)))


def test_both_limits_are_options(tmp_path):
    path = str(write(tmp_path / "t.tsv", ["a", "b" * 200]))
    named = {"source_column": "text", "target_column": "label"}
    for module, columns in ((ClassificationData, {}), (TranslationData, named)):
        with pytest.raises(BadData, match=r"line 3: over 100 characters"):
            module(train=path, val=path, max_line=100, **columns).prepare_data()
        for bad in ({"max_line": 0}, {"max_ratio": 0}):
            with pytest.raises(BadOption, match=rf"data\.{next(iter(bad))}"):
                module(train=path, val=path, **bad)
