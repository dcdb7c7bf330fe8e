"""Byte order marks are obeyed; other encodings are refused by what they look like, and never with
advice that destroys the text.
"""

import codecs
import gzip
import io
from itertools import product

import pytest

from tfzoo.data.lines import BLOCK, decoded, read_lines
from tfzoo.errors import BadData

ENGLISH = "an English line before it\n"
TEXTS = {
    "zh": "这部电影非常好看，我很喜欢。导演的水平真的不怎么样。\n",
    "ja": "この映画はとても面白かったです。時間を無駄にしました。\n",
    "fr": "Le café était fermé, où êtes-vous allés déjà? Ça va très bien, merci.\n",
    "de": "Die Straße ist für größere Fahrzeuge gesperrt, schöne Grüße.\n",
    "ru": "Этот фильм очень хороший, мне понравилось.\n",
}


def error(path):
    with pytest.raises(BadData) as caught:
        list(read_lines(path))
    return str(caught.value)


@pytest.mark.parametrize("name", ["lines", "lines.gz"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_is_obeyed(mark, encoding, name, tmp_path, monkeypatch):
    monkeypatch.setattr("tfzoo.data.lines.BLOCK", 7)  # characters are cut
    content = mark + "".join(["\n", *TEXTS.values(), "\r\n", "a\rb\u2028c\n😀"]).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = list(read_lines(tmp_path / name))
    assert found == ["", *(text[:-1] for text in TEXTS.values()), "", "a\rb\u2028c", "😀"]


@pytest.mark.parametrize(
    ("language", "encoding", "said"),
    [
        ("zh", "gb18030", "GB18030"),
        ("zh", "gbk", "GB18030"),
        ("zh", "big5", "BIG5"),
        ("zh", "utf-16-le", "UTF-16LE"),
        ("zh", "utf-16-be", "UTF-16BE"),
        ("fr", "utf-16-le", "UTF-16LE"),
        ("ja", "shift_jis", "SHIFT_JIS"),
        ("fr", "latin-1", "LATIN1"),
        ("de", "latin-1", "LATIN1"),
        ("ru", "cp1251", "WINDOWS-1251"),
    ],
)
def test_another_encoding_is_refused_by_what_it_looks_like(language, encoding, said, tmp_path):
    for times, english in product((1, 3, 400), (0, 1, 9)):
        text = ENGLISH * english + TEXTS[language] * times
        (tmp_path / "lines").write_bytes(text.encode(encoding, "ignore"))
        message = error(tmp_path / "lines")
        assert f"the bytes look like {said}. Convert a copy, iconv -f {said} -t UTF-8" in message
        if "utf" not in encoding:
            assert f"lines, line {english + 1}: not UTF-8 (byte 0x" in message


def test_a_damaged_byte_in_utf8_is_no_other_encoding(tmp_path):
    content = (TEXTS["zh"] * 40).encode()
    (tmp_path / "lines").write_bytes(content[:1000] + b"\xff" + content[1000:])
    assert "the text around it is UTF-8, so these bytes are damaged" in error(tmp_path / "lines")
    (tmp_path / "lines").write_bytes(codecs.BOM_UTF16_LE + "ab\n".encode("utf-16-le") + b"\x00\xdc")
    assert "line 2: not UTF-16-LE (byte 0x00 at position 1)" in error(tmp_path / "lines")


def test_what_cannot_be_told_is_not_guessed(tmp_path):
    (tmp_path / "lines").write_bytes(bytes(range(128, 256)) * 3)
    message = error(tmp_path / "lines")
    assert "iconv" not in message
    assert "cannot be told" in message


def test_the_place_of_a_bad_byte_is_told_across_blocks(tmp_path):
    line = "é" * 999 + "\n"
    count = 2 * BLOCK // len(line.encode())
    content = (line * count).encode() + b"abc\xff" + line.encode()
    (tmp_path / "lines").write_bytes(content)
    assert f"line {count + 1:,}: not UTF-8 (byte 0xff at position 4)" in error(tmp_path / "lines")


def test_a_line_is_read_as_soon_as_it_ends():
    class Slow(io.BytesIO):
        def read1(self, size=-1, /):
            return self.readline()

    stream = Slow(b"first\nsecond\nthird")
    lines = decoded(stream, "standard input")
    assert next(lines) == "first"
    assert stream.tell() == len(b"first\n")
    assert list(lines) == ["second", "third"]
