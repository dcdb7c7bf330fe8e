"""The table of swap's peers: nothing in it differs, and a part comes out again."""

import pytest

from benchmarks.swap_transformers.page import read


def outcomes():
    """The outcome of each class."""
    return {row["attention"]: row["outcome"] for row in read()}


def test_no_model_of_the_page_differs_and_a_tenth_or_less_was_not_compared():
    found = [*outcomes().values()]
    assert len(found) > 400
    assert "different" not in found
    assert sum(one.startswith("not") for one in found) <= 0.1 * len(found)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bert", "gemma2", "gpt_oss", "llama", "opt", "vit", "whisper"])
def test_what_the_page_says_comes_out_again(name):
    from benchmarks.swap_transformers.families import family, files

    (module,) = files([name])
    for row in family(module):
        assert row.outcome == outcomes()[row.attention], row
