"""Numbers in Chinese words."""

from __future__ import annotations

DIGITS = "零一二三四五六七八九"
PLACES = ((1000, "千"), (100, "百"), (10, "十"), (1, ""))
LEVELS = ((10**8, "亿"), (10**4, "万"), (1, ""))


def chinese_number(number: int) -> str:
    """A number from 0 to 999,999,999,999 in standard Chinese numerals: ``10_010 -> 一万零一十``.

    - Digits are grouped in levels of four (万, 亿). One 零 stands for any run of zeros between
      other digits; zeros at the end of a level are not written: ``101_000 -> 十万一千``,
      ``100_100 -> 十万零一百``.
    - 10 to 19 are 十 to 十九 at the beginning of the number (also 十万), 一十 to 一十九 inside it:
      ``110 -> 一百一十``.
    - Two is always 二, the written standard (``200 -> 二百``, ``20_000 -> 二万``); spoken Chinese
      has 两 before 百, 千, 万, 亿.

    Raises:
        ValueError: the number is outside this range.
    """
    if not 0 <= number < 10**12:
        raise ValueError(f"{number} is not from 0 to 999,999,999,999")
    if number == 0:
        return DIGITS[0]
    text = ""
    for size, name in LEVELS:
        level = number // size % 10**4
        if level:
            gap = text and level < 1000
            text += ("零" if gap else "") + level_words(level) + name
    return text[1:] if text.startswith("一十") else text


def level_words(level: int) -> str:
    """A number from 1 to 9999, with 一十 for ten."""
    text, gap = "", False
    for size, name in PLACES:
        digit = level // size % 10
        if digit:
            text += ("零" if gap and text else "") + DIGITS[digit] + name
        gap = not digit
    return text
