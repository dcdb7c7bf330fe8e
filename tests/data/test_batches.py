"""A batch holds the sentences it was asked for and tells the truth about its padding."""

import pickle

import numpy as np
import pytest

from tfzoo.base.special_ids import OWN
from tfzoo.data.batches import ParallelDataset, TokenDropout, row_lengths
from tfzoo.data.loaders import LengthBucketedSampler
from tfzoo.data.prepare import Encoded, Sentences, write

SOURCE = [[11, 12, 13], [], [14], [15, 16]]
TARGET = [[21], [22, 23], [24, 25, 26, 27], [28]]


@pytest.fixture
def pairs():
    texts = [(f"s{i}", f"t{i}") for i in range(4)]
    return ParallelDataset(Sentences.of(SOURCE), Sentences.of(TARGET), OWN, texts)


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
    assert batch.index == [1, 3]
    assert (batch.source_text, batch.target_text) == (["s1", "s3"], ["t1", "t3"])
    assert batch.source.tolist() == [[3, 0, 0], [15, 16, 3]]


def test_a_batch_moves_to_a_device_as_a_whole(pairs):
    batch = pairs[[0, 1]]
    moved = batch.to("meta")
    assert all(one.is_meta for one in (moved.source, moved.target, moved.non_padding))
    assert batch.source.device.type == "cpu"
    assert (moved.index, moved.source_text, len(moved)) == (batch.index, batch.source_text, 2)


def lists(sentences):
    return [
        sentences.ids[a:b].tolist()
        for a, b in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True)
    ]


def test_a_worker_is_sent_the_path_and_not_the_ids(tmp_path):
    write(tmp_path, [[[1] * 100_000], [], [[], [70_000]]])
    sent = pickle.dumps(Encoded(tmp_path))
    assert len(sent) < 1000
    ids = [[1] * 100_000, [], [70_000]]
    assert lists(pickle.loads(sent)) == ids == lists(Sentences.of(ids))


ROWS = np.arange(200)


def ids():
    return np.random.default_rng(0).integers(0, 100, (len(ROWS), 50))


def test_as_many_are_dropped_as_asked_for():
    before = ids()
    for p in (0.1, 0.5, 0.9):
        after = TokenDropout(p, seed=3, special=OWN)(before, ROWS, epoch=0)
        words = before > 3
        assert abs((after[words] == 1).mean() - p) < 0.02
        assert (after[~words] == before[~words]).all()
        assert ((after == before) | (after == 1)).all()


def test_neighbours_are_dropped_independently():
    dropped = TokenDropout(0.5, seed=-1, special=OWN)(np.full((200, 50), 9), ROWS, epoch=0) == 1
    for one, other in ((dropped[:, 1:], dropped[:, :-1]), (dropped[1:], dropped[:-1])):
        assert abs((one & other).mean() - 0.25) < 0.02


def test_translation_drops_tokens_of_the_source_only():
    sentences = Sentences.of([list(range(4, 24))] * 40)
    dropout = TokenDropout(0.5, seed=0, special=OWN)
    pairs = ParallelDataset(sentences, sentences, OWN, dropout=dropout)
    order = LengthBucketedSampler(*pairs.lengths(), 10_000)
    [first] = [pairs[batch] for batch in order]
    order.set_epoch(1)
    [second] = [pairs[batch] for batch in order]
    for batch in (first, second):
        assert 0.4 < float((batch.source == 1).float().mean()) < 0.6
        assert not (batch.target == 1).any()
    assert (first.source != second.source).any()
