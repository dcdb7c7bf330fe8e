"""Reading parallel text: no line is dropped, lines stay aligned, and every error says where."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tfzoo.data.text import ParallelText, TextFormat, find_tests, find_text
from tfzoo.errors import BadData

EN_DE = TextFormat(("en", "de"))


def pairs(path: Path) -> list[tuple[str, str]]:
    return list(find_text(path, EN_DE))


def error(path: Path) -> str:
    with pytest.raises(BadData) as caught:
        pairs(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(folder: Path, **files: str | bytes) -> Path:
    """``train_en="a"`` writes ``train.en``; a name with a dot is taken as it is."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        path = folder / (name if "." in name else name.replace("_", "."))
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return folder / "train"


def test_two_files_are_read_side_by_side(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, train_en="a\nb\n", train_de="x\ny\n")) == [("a", "x"), ("b", "y")]


def test_plain_and_compressed_files_mix(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, train_en="a\n", train_de_gz="x\n")) == [("a", "x")]


def test_a_plain_file_goes_before_a_compressed_one(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, train_en="plain\n", train_en_gz="packed\n", train_de="x\n")) == [
        ("plain", "x")
    ]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, train_en="a\nb", train_de="x\ny\n")) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    "inside", ["\r", "\u0085", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]
)
def test_only_a_line_feed_ends_a_line(tmp_path: Path, inside: str) -> None:
    odd = f"a{inside}b"
    assert pairs(write(tmp_path, train_en=f"{odd}\nc\n", train_de="x\ny\n")) == [
        (odd, "x"),
        ("c", "y"),
    ]


def test_line_ends_and_the_byte_order_mark_of_windows_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path, train_en=b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\r\n", train_de="x\n\ry\n")
    assert pairs(path) == [("a", "x"), ("\ufeffb", "\ry")]


def test_empty_lines_are_kept(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, train_en="\n \nb\n", train_de="x\ny\n\n")) == [
        ("", "x"),
        (" ", "y"),
        ("b", ""),
    ]


@pytest.mark.parametrize(("english", "german"), [(3, 5), (5, 3), (0, 2), (4097, 4096)])
def test_unequal_line_counts_are_both_told(tmp_path: Path, english: int, german: int) -> None:
    message = error(write(tmp_path, train_en="a\n" * english, train_de="x\n" * german))
    assert f"train.en has {english:,} lines" in message
    assert f"train.de has {german:,} lines" in message


def test_bytes_that_are_not_utf8_are_found_by_file_and_line(tmp_path: Path) -> None:
    message = error(write(tmp_path, train_en="a\nb\nc\n", train_de=b"x\nM\xfcll\nz\n"))
    assert "train.de, line 2: not UTF-8 (byte 0xfc at position 2)" in message
    assert "iconv" in message


@pytest.mark.parametrize("name", ["train.en", "train.en.gz"])
def test_an_empty_file_is_an_error(tmp_path: Path, name: str) -> None:
    message = error(write(tmp_path, **{name: "", "train.de": ""}))
    assert f"{name}: the file is empty" in message


def test_a_gz_that_is_none_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, train_de="x\n")
    (tmp_path / "train.en.gz").write_bytes(b"plain text\n")
    assert "train.en.gz: damaged" in error(path)


def test_a_missing_file_is_named_with_what_lies_beside_it(tmp_path: Path) -> None:
    message = error(write(tmp_path, train_en="a\n", train_fr="x\n"))
    assert "no train.de in" in message
    assert "train.fr" in message


def test_a_folder_of_another_split_says_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path, train_en="a\n", train_de="x\n")
    message = error(tmp_path / "val")
    assert "val.en and val.de (or val.tsv, .csv" in message
    assert "train.de, train.en" in message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"no folder {tmp_path / 'nowhere'}" in error(tmp_path / "nowhere" / "train")


def test_the_path_of_one_language_is_explained(tmp_path: Path) -> None:
    write(tmp_path, train_en="a\n", train_de="x\n")
    assert "without its ending" in error(tmp_path / "train.en")


def test_a_table_of_another_form_is_told_the_endings_that_are_read(tmp_path: Path) -> None:
    for name in ("table.json", "table.CSV"):
        (tmp_path / name).write_text("[]", "utf-8")
        says = f"{name} is no table by its ending, .tsv, .csv, .jsonl, .parquet"
        assert says in error(tmp_path / name)


@pytest.mark.parametrize("name", ["train.tsv", "train.tsv.gz", "train"])
@pytest.mark.parametrize("written", ["train.tsv", "train.tsv.gz"])
def test_a_table_is_found_with_or_without_gz(tmp_path: Path, name: str, written: str) -> None:
    write(tmp_path, **{written: "a b\tx y\n\tz\n"})
    assert pairs(tmp_path / name) == [("a b", "x y"), ("", "z")]


def test_of_two_tables_of_one_name_none_is_taken(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("en,de\na,x\n", "utf-8")
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(b"a\tx\n"))
    with pytest.raises(BadData, match=r"has train.tsv.gz and train.csv: keep one"):
        find_text(tmp_path / "train", EN_DE)
    assert list(find_text(tmp_path / "train.csv", EN_DE)) == [("a", "x")]


def test_test_sets_are_found_by_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "test_2016.en": "a\n",
            "test_2016.de.gz": "x\n",
            "test.tsv": "b\ty\n",
            "test_2016.fr": "z\n",
            "tests.md": "no text",
        },
    )
    found = find_tests(tmp_path, EN_DE)
    assert {name: list(text) for name, text in found.items()} == {
        "test": [("b", "y")],
        "test_2016": [("a", "x")],
    }


def test_a_text_can_be_read_again(tmp_path: Path) -> None:
    write(tmp_path, train_en="a\n", train_de="x\n")
    text = ParallelText(tmp_path / "train.en", tmp_path / "train.de")
    assert list(text) == list(text) == [("a", "x")]


def test_unchanged_files_are_known_by_their_stat_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, train_en="a\n", train_de="x\n")
    assert find_text(path, EN_DE).stat_fingerprint() is None  # only just written
    monkeypatch.setattr("tfzoo.data.lines.SETTLED", -1.0)
    first = find_text(path, EN_DE).stat_fingerprint()
    assert first == find_text(path, EN_DE).stat_fingerprint() is not None
    (tmp_path / "other").write_text("y\n")
    (tmp_path / "other").replace(tmp_path / "train.de")
    assert find_text(path, EN_DE).stat_fingerprint() != first
