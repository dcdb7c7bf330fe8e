"""A batch holds the sentences it was asked for and tells the truth about its padding."""

import numpy as np
import pytest

from tfzoo.base.special_ids import OWN
from tfzoo.data.batches import ParallelDataset, row_lengths
from tfzoo.data.prepare import Sentences

SOURCE = [[11, 12, 13], [], [14], [15, 16]]
TARGET = [[21], [22, 23], [24, 25, 26, 27], [28]]


@pytest.fixture
def pairs():
    return ParallelDataset(
        Sentences.of(SOURCE),
        Sentences.of(TARGET),
        OWN,
        [(f"s{i}", f"t{i}") for i in range(4)],
    )


@pytest.mark.parametrize(
    ("rows", "source", "target"),
    [([0, 1], True, True), ([0, 3], True, False), ([2], False, False), ([1, 1], False, False)],
)
def test_padding_is_told_truly(pairs, rows, source, target):
    batch = pairs[rows]
    for padded, ids, lengths in (
        (source, batch.source, batch.source_lengths),
        (target, batch.target, batch.target_lengths),
    ):
        assert (lengths is not None) is padded is bool((ids == 0).any())
        assert row_lengths(ids, lengths) == (ids != 0).sum(1).tolist()


def test_texts_and_places_follow_the_rows(pairs):
    pairs.rows = np.array([3, 1])
    assert len(pairs) == 2
    batch = pairs[[1, 0]]
    assert (batch.index, batch.source_text, batch.target_text) == (
        [1, 3],
        ["s1", "s3"],
        ["t1", "t3"],
    )
    assert batch.source.tolist() == [[3, 0, 0], [15, 16, 3]]


def test_a_batch_moves_to_a_device_as_a_whole(pairs):
    batch = pairs[[0, 1]]
    moved = batch.to("meta")
    assert {moved.source.device.type, moved.target.device.type, moved.non_padding.device.type} == {
        "meta"
    }
    assert batch.source.device.type == "cpu"
    assert (moved.index, moved.source_text, len(moved)) == (batch.index, batch.source_text, 2)
