"""Reading parallel text: no line is dropped, lines stay aligned, and every error says where."""

import gzip

import pytest

from tfzoo.data.source import find_tests, find_text
from tfzoo.data.table import TextFormat, read_lines
from tfzoo.errors import BadData

EN_DE = TextFormat(("en", "de"), ("en", "de"), header=False)


def pairs(path):
    return list(find_text(path, EN_DE))


def error(path):
    with pytest.raises(BadData) as caught:
        pairs(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(folder, **files):
    """``train_en="a"`` writes ``train.en``; a name with a dot is taken as it is."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        path = folder / (name if "." in name else name.replace("_", "."))
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return folder / "train"


@pytest.mark.parametrize(
    ("english", "german", "expected"),
    [
        ("a\nb\n", "x\ny\n", [("a", "x"), ("b", "y")]),
        ("a\nb", "x\ny\n", [("a", "x"), ("b", "y")]),  # the last line needs no end
        ("\n \nb\n", "x\ny\n\n", [("", "x"), (" ", "y"), ("b", "")]),  # empty lines are kept
        (b"\xef\xbb\xbfa\r\n", "x\n", [("a", "x")]),  # no text are Windows' mark and line ends,
        (b"\n\xef\xbb\xbfb\n", "\n\ry\n", [("", ""), ("\ufeffb", "\ry")]),  # but elsewhere they are
        *(
            (f"a{inside}b\nc\n", "x\ny\n", [(f"a{inside}b", "x"), ("c", "y")])
            for inside in "\r\u0085\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
        ),
    ],
)
def test_two_files_are_read_side_by_side_and_only_a_line_feed_ends_a_line(
    english, german, expected, tmp_path
):
    assert pairs(write(tmp_path, train_en=english, train_de=german)) == expected


def test_plain_and_compressed_files_mix_and_a_plain_one_goes_first(tmp_path):
    assert pairs(write(tmp_path, train_en="a\n", train_de_gz="x\n")) == [("a", "x")]
    assert pairs(write(tmp_path, train_en_gz="packed\n")) == [("a", "x")]


@pytest.mark.parametrize(("english", "german"), [(3, 5), (5, 3), (0, 2)])
def test_of_files_of_different_length_the_shorter_one_is_told(tmp_path, english, german):
    message = error(write(tmp_path, train_en="a\n" * english, train_de="x\n" * german))
    shorter, longer = ("en", "de") if english < german else ("de", "en")
    assert f"train.{shorter} has {min(english, german)} lines, and " in message
    assert f"train.{longer} has more" in message


@pytest.mark.parametrize(
    ("files", "asked", "says"),
    [
        (("train.en", "train.fr"), "train", "no train.en and train.de (or"),
        (("train.en", "train.fr"), "train", "train.fr"),
        (("train.en", "train.de"), "val", "val.en and val.de (or val.tsv, .csv"),
        (("train.en", "train.de"), "val", "train.de, train.en"),
        ((), "nowhere/train", "There is no such folder"),
        (("train.en", "train.de"), ".", "is a folder: one with train in it is data.root"),
        (("train.en", "train.de"), "train.en", "without its ending"),
        (("table.json",), "table.json", "table.json is no table by its ending, .tsv, .csv, .jsonl"),
        (("table.CSV",), "table.CSV", "table.CSV is no table by its ending, .tsv, .csv, .jsonl"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(files, asked, says, tmp_path):
    write(tmp_path, **dict.fromkeys(files, "a\n"))
    assert says in error(tmp_path / asked)


@pytest.mark.parametrize("written", ["train.tsv", "train.tsv.gz"])
def test_a_table_is_found_with_or_without_gz(tmp_path, written):
    write(tmp_path, **{written: "a b\tx y\n\tz\n"})
    for name in ("train", "train.tsv", written):
        assert pairs(tmp_path / name) == [("a b", "x y"), ("", "z")]


def test_test_sets_are_found_by_name(tmp_path):
    files = {"test_2016.en": "a\n", "test_2016.de.gz": "x\n", "test_2016.fr": "z\n"}
    write(tmp_path, **files, **{"test.tsv": "b\ty\n", "tests.md": "no text"})
    found = {name: list(text) for name, text in find_tests(tmp_path, EN_DE).items()}
    assert found == {"test": [("b", "y")], "test_2016": [("a", "x")]}


@pytest.mark.parametrize(
    ("text", "encoding", "byte"),
    [
        ("“Smart” quotes cost 5 € — café", "cp1252", "0x93 at position 1"),
        ("这部电影", "gb18030", "0xd5 at position 1"),
        ("Этот", "cp1251", "0xdd at position 1"),
    ],
)
def test_a_byte_that_is_not_utf8_is_told_with_its_line_and_what_to_do(
    text, encoding, byte, tmp_path
):
    (tmp_path / "lines").write_bytes(b"before it\n" * 20_000 + text.encode(encoding) + b"\n")
    with pytest.raises(BadData) as caught:
        list(read_lines(tmp_path / "lines"))
    message = str(caught.value)
    assert "\n" not in message
    assert f"lines, line 20,001: not UTF-8 (byte {byte}). Convert a copy, iconv -f ENC" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_with_or_without_its_mark(encoding, tmp_path):
    (tmp_path / "lines").write_bytes("plain English\n".encode(encoding))
    with pytest.raises(BadData, match=r"lines, line 1: not UTF-8 \(byte 0x"):
        list(read_lines(tmp_path / "lines"))
