"""Chinese numerals against known answers."""

import pytest

from tfzoo.data.sets.numbers import chinese_number

KNOWN = {
    0: "零",
    2: "二",
    10: "十",
    12: "十二",
    21: "二十一",
    101: "一百零一",
    111: "一百一十一",
    1010: "一千零一十",
    1100: "一千一百",
    2002: "二千零二",
    10_010: "一万零一十",
    20_305: "二万零三百零五",
    100_100: "十万零一百",
    110_000: "十一万",
    305_060: "三十万五千零六十",
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
