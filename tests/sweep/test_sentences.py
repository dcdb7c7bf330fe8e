"""Numbers in sentences: rounded by their interval, and p never across 5 %."""

import pytest

from tfzoo.sweep.judge.sentences import format_corrected, format_estimate, format_p, format_size


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.1234, 0.052, 0.194), "0.123 (95 % CI 0.052 to 0.194)"),
        ((0.01234, -0.2, 0.2), "0.01 (95 % CI -0.20 to 0.20)"),
        ((-0.001, -0.011, 0.009), "-0.001 (95 % CI -0.011 to 0.009)"),
        ((-0.01, -0.4, 0.4), "-0.01 (95 % CI -0.40 to 0.40)"),
        ((-0.075, -0.149, -0.00101), "-0.075 (95 % CI -0.149 to -0.001)"),
        ((1234.5, 1100.0, 1369.0), "1,234 (95 % CI 1,100 to 1,369)"),
    ],
)
def test_an_interval_says_how_many_digits_there_are(numbers, text):
    assert format_estimate(*numbers) == text


def test_a_p_is_not_rounded_across_five_percent():
    assert [format_p(p) for p in (0.0002, 0.001, 0.00301, 0.0499, 0.0501, 0.8, 1.0)] == [
        "p < 0.001",
        "p = 0.001",
        "p = 0.003",
        "p < 0.05",
        "p = 0.05",
        "p = 0.8",
        "p = 1",
    ]
    assert format_corrected(0.02, 1) == "p = 0.02"
    assert format_corrected(0.02, 4) == "p = 0.02 after Holm's correction for 4 comparisons"


def test_sizes_have_two_digits_and_no_exponent():
    assert [format_size(size) for size in (0.01234, 1.55, 43.21, 99.6, 1234.5)] == [
        "0.012",
        "1.6",
        "43",
        "100",
        "1,234",
    ]
