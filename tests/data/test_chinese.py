"""Chinese numerals against known answers."""

import pytest

from tfzoo.data.sets.numbers import chinese_number

KNOWN = {
    0: "零",
    1: "一",
    2: "二",
    10: "十",
    12: "十二",
    20: "二十",
    21: "二十一",
    100: "一百",
    101: "一百零一",
    110: "一百一十",
    111: "一百一十一",
    200: "二百",
    212: "二百一十二",
    999: "九百九十九",
    1000: "一千",
    1001: "一千零一",
    1010: "一千零一十",
    1100: "一千一百",
    1101: "一千一百零一",
    2002: "二千零二",
    10_000: "一万",
    10_001: "一万零一",
    10_010: "一万零一十",
    10_100: "一万零一百",
    11_000: "一万一千",
    20_305: "二万零三百零五",
    100_000: "十万",
    100_001: "十万零一",
    101_000: "十万一千",
    100_100: "十万零一百",
    110_000: "十一万",
    120_034: "十二万零三十四",
    210_000: "二十一万",
    305_060: "三十万五千零六十",
    999_999: "九十九万九千九百九十九",
    1_100_000: "一百一十万",
    10_000_000: "一千万",
    100_000_000: "一亿",
    100_010_000: "一亿零一万",
    1_010_000_010: "十亿一千万零一十",
}


@pytest.mark.parametrize(("number", "words"), KNOWN.items())
def test_known_numbers(number, words):
    assert chinese_number(number) == words


def test_no_two_numbers_share_their_words():
    assert len({chinese_number(n) for n in range(200_000)}) == 200_000


@pytest.mark.parametrize("number", [-1, 10**12])
def test_what_has_no_words_is_refused(number):
    with pytest.raises(ValueError, match=str(number)):
        chinese_number(number)
