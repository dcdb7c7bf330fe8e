"""Text is UTF-8. A byte that is not is told with its line and place, and nothing is guessed."""

import gzip

import pytest

from tfzoo.data.table import read_lines
from tfzoo.errors import BadData


def error(path):
    with pytest.raises(BadData) as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["lines", "lines.gz"])
def test_the_mark_of_utf8_and_line_ends_are_no_text(name, tmp_path):
    content = "\ufeff\n这部\r\na\rb\u2028c\n\ufeff😀".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(read_lines(tmp_path / name)) == ["", "这部", "a\rb\u2028c", "\ufeff😀"]


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
    message = error(tmp_path / "lines")
    assert f"lines, line 20,001: not UTF-8 (byte {byte}). Convert a copy, iconv -f ENC" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_with_or_without_its_mark(encoding, tmp_path):
    (tmp_path / "lines").write_bytes("plain English\n".encode(encoding))
    assert "lines, line 1: not UTF-8 (byte 0x" in error(tmp_path / "lines")
