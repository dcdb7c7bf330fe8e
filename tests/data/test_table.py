"""Tables in files: the same rows from every form, nothing dropped, and every error says where."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from tfzoo.data.prepare import read_split
from tfzoo.data.table import TextFormat
from tfzoo.data.table import table as table_at
from tfzoo.errors import BadData

ROWS = [
    ("a text", "NUM"),
    ('with "quotes", and a comma', "0"),
    ("  spaces kept ", "LOC"),
    ("你好 \u2028 \u0085 line", "x y"),
    ("", "1"),
]


def tsv(rows):
    named = [("text", "label"), *rows]
    return "".join(f"{label}\tmore\t{text}\n" for text, label in named).encode()


def csv(rows):
    cells = [[cell.replace('"', '""') for cell in row] for row in [("text", "label"), *rows]]
    return "".join('"{}","{}",more\r\n'.format(*row) for row in cells).encode()


def jsonl(rows):
    lines = [json.dumps({"label": label, "text": text}) for text, label in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def parquet(rows):
    sink, texts = pa.BufferOutputStream(), [text for text, _ in rows]
    columns = {"label": [label for _, label in rows], "n": [0] * len(rows), "text": texts}
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


WRITERS = {".tsv": tsv, ".csv": csv, ".jsonl": jsonl, ".parquet": parquet}


def table(folder, name, content, columns=("text", "label"), *, header=True):
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return table_at(folder / name, TextFormat(columns, header=header))


def error(rows):
    with pytest.raises(BadData) as caught:
        list(rows)
    assert "\n" not in str(caught.value)
    assert str(rows.path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("form", "packed"), [*((form, "") for form in WRITERS), (".tsv", ".gz"), (".jsonl", ".gz")]
)
def test_every_form_gives_the_same_rows_again_and_again(tmp_path, form, packed):
    rows = table(tmp_path, f"t{form}{packed}", WRITERS[form](ROWS))
    assert list(rows) == list(rows) == ROWS


@pytest.mark.parametrize("form", WRITERS)
def test_a_place_is_the_line_in_the_file(tmp_path, form):
    expected = {".tsv": "line 4", ".csv": "line 4", ".jsonl": "line 3", ".parquet": "row 3"}[form]
    found = table(tmp_path, f"t{form}", WRITERS[form](ROWS)).location(2)
    assert found == f"{tmp_path / f't{form}'}, {expected}"


@pytest.mark.parametrize("form", WRITERS)
def test_a_column_that_is_not_there_is_told_with_what_is(tmp_path, form):
    message = error(table(tmp_path, f"t{form}", WRITERS[form](ROWS), ("text", "lable")))
    assert "no column 'lable'. Did you mean 'label'?" in message
    assert f"t{form}" in message
    assert "text" in message.partition("There: ")[2]
    assert message.endswith("Name the one to read: data.label_column: NAME")
    assert "text_column" not in message


@pytest.mark.parametrize("form", WRITERS)
def test_a_file_without_rows_is_an_error(tmp_path, form):
    rows = table(tmp_path, f"t{form}", WRITERS[form]([]))
    with pytest.raises(BadData, match=rf"t\{form}: no text"):
        read_split(rows, "train")


@pytest.mark.parametrize("form", [".tsv", ".csv", ".jsonl"])
def test_bad_utf8_a_blank_line_and_a_lone_carriage_return_are_found_by_line(tmp_path, form):
    head, tail = WRITERS[form](ROWS[:2]), WRITERS[form](ROWS[2:]).splitlines(keepends=True)[-1]
    line = head.count(b"\n") + 1
    for bad, what in (
        (b"\xff\n", "not UTF-8"),
        (b"\n", "no object" if form == ".jsonl" else "0 column(s) instead of"),
        (b"a\rb\n", "no object" if form == ".jsonl" else "not CSV (new-line character"),
    ):
        message = error(table(tmp_path, f"t{form}", head + bad + tail))
        assert f"t{form}, line {line}: {what}" in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.tsv", "text\tlabel\na\tx\nb\n", r"line 3: 1 column\(s\) .* 2, text, label; '\\t' sep"),
        ("t.tsv", "text\tlabel\na\tx\ty\n", r"line 2: 3 column\(s\) .* must become a space"),
        ("t.tsv", "text\ttext\tlabel\na\tb\tx\n", r"the column 'text' is there twice"),
        ("t.csv", 'text,label\n"a\nb",x\nc\n', r"line 4: 1 column\(s\) .*',' separates"),
        ("t.csv", "text,label\na,b,c\n", r"line 2: 3 column\(s\) .* and needs quotes in a cell"),
        ("t.csv", 'text,label\n"a" b,c\n', r"line 2: not CSV"),
        ("t.csv", 'text,label\na,x\n"never closed,c\n', r"line 3: not CSV"),
        ("t.csv", "\ntext,label\na,x\n", r"line 1, .*: no column 'text'. There: none"),
        ("t.csv", "ok,a\nno,b\n", r"line 1, which names the columns: no column 'text'.* a, ok"),
        ("t.csv", "", r"t\.csv is empty"),
        ("t.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', r"line 2: no column 'label'"),
        ("t.jsonl", '{"text": "a", "label": "x"}\nb\n', r"line 2: no object in JSON"),
        ("t.jsonl", '["a"]\n', r"line 1: no object in JSON"),
        ("t.jsonl", "[" * 100_000 + "\n", r"line 1: no object in JSON"),
        ("t.jsonl", '{"text": null, "label": "x"}\n', r"line 1: 'text' is empty"),
        ("t.jsonl", '{"text": "\\ud83d", "label": "x"}\n', r"line 1: '.ud83d' is a lone surrogate"),
        ("t.jsonl", '{"text": "a", "label": 0.5}\n', "line 1: 'label' is not text but a float, 0"),
        ("t.parquet", "no parquet", r"not Parquet"),
        ("t.parquet", parquet([("a", "x"), (None, "y")]), r"row 2: 'text' is empty"),
    ],
)
def test_a_row_that_is_not_whole_is_found_by_line(tmp_path, name, content, words):
    with pytest.raises(BadData, match=words):
        list(table(tmp_path, name, content))


def test_numbers_and_truth_values_are_labels_as_json_writes_them(tmp_path):
    rows = table(tmp_path, "t.jsonl", '{"text": "a", "label": 0}\n{"text": "b", "label": true}\n')
    assert list(rows) == [("a", "0"), ("b", "true")]


def test_a_line_end_inside_quotes_stays_in_the_text(tmp_path):
    rows = table(tmp_path, "t.csv", b'text,label\r\n"two\r\nlines",x\r\nb,y\r\n')
    assert list(rows) == [("two\nlines", "x"), ("b", "y")]
    assert rows.location(1).endswith("line 4")


def test_pairs_need_no_row_of_names_but_may_have_one(tmp_path):
    for text in ("a\tx\n", "de\ten\nx\ta\n"):
        assert [*table(tmp_path, "t.tsv", text, ("en", "de"), header=False)] == [("a", "x")]


def test_texts_by_language_may_lie_in_one_column(tmp_path):
    line = json.dumps({"id": 1, "translation": {"en": "a", "de": "x"}})
    assert list(table(tmp_path, "t.jsonl", line, ("de", "en"))) == [("x", "a")]
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table({"translation": [{"en": "a", "de": "x"}]}), sink)
    assert list(table(tmp_path, "t.parquet", bytes(sink.getvalue()), ("de", "en"))) == [("x", "a")]
