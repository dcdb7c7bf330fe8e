"""What the bytes of a file that is not UTF-8 look like."""

from __future__ import annotations

import codecs

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their encodings."""

WIDE = {"utf_16_le": "UTF-16LE", "utf_16_be": "UTF-16BE"}
NARROW = {
    "gb18030": "GB18030",
    "big5": "BIG5",
    "cp932": "SHIFT_JIS",
    "euc_jp": "EUC-JP",
    "cp949": "EUC-KR",
    "cp1252": "LATIN1",
    "cp1251": "WINDOWS-1251",
    "koi8_r": "KOI8-R",
}
"""Encodings that are looked for: Python's names, and those of iconv."""

SAMPLE = 2048
"""Bytes that are looked at."""

SANE = 4
"""How many times as many characters as errors a text has that is UTF-8 and damaged."""


def mark_of(head: bytes) -> tuple[str, int]:
    """The encoding that a file's first bytes name, and the length of the byte order mark; UTF-8
    if there is none.
    """
    return next(((name, len(mark)) for mark, name in MARKS if head.startswith(mark)), ("utf-8", 0))


def is_wide(head: bytes) -> bool:
    """Whether a file that begins with these bytes looks like UTF-16 without a byte order mark:
    a fifth of the bytes is 0.
    """
    return head[:SAMPLE].count(0) > len(head[:SAMPLE]) / 5


def advice(content: bytes, place: int, *, first: bool) -> str:
    """What to do about bytes that are not UTF-8 from ``place`` on. ``first`` says whether the file
    begins with ``content``.
    """
    begin = content.rfind(b"\n", 0, place) + 1
    lines = content[begin : begin + SAMPLE]
    if len(content) > begin + SAMPLE:  # whole lines, so that no character is cut
        lines = lines[: lines.rfind(b"\n") + 1] or lines
    text = content[max(0, place - SAMPLE) : place + SAMPLE].decode("utf-8", "replace")
    errors = text.count("\ufffd")
    if sum(sign > "\x7f" for sign in text) - errors > SANE * errors:
        return "the text around it is UTF-8, so these bytes are damaged; replace them"
    if first and b"\0" in content[:SAMPLE]:
        found = likeliest(
            content[: SAMPLE & -2 if len(content) > SAMPLE else len(content) & -2], WIDE
        )
    else:
        found = likeliest(lines, NARROW)
    if found is None:
        return "what encoding it has cannot be told; ask where it comes from, and convert a copy"
    return (
        f"the bytes look like {found}. Convert a copy, iconv -f {found} -t UTF-8 FILE > COPY, "
        "and see whether it reads well"
    )


def likeliest(content: bytes, names: dict[str, str]) -> str | None:
    """iconv's name of the encoding that these bytes most likely have; None if none fits."""
    from charset_normalizer import from_bytes

    found = from_bytes(content, steps=1, chunk_size=max(len(content), 1), cp_isolation=[*names])
    best = found.best()
    return None if best is None else names.get(best.encoding)
