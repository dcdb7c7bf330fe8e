"""Token dropout: the right fraction, never a special id, the same in every batch."""

import numpy as np

from tfzoo.base.special_ids import OWN
from tfzoo.data.batches import ParallelDataset, TokenDropout
from tfzoo.data.loaders import LengthBucketedSampler
from tfzoo.data.prepare import Sentences

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
    sentences = [list(range(4, 24))] * 40
    pairs = ParallelDataset(
        Sentences.of(sentences),
        Sentences.of(sentences),
        OWN,
        dropout=TokenDropout(0.5, seed=0, special=OWN),
    )
    order = LengthBucketedSampler(*pairs.lengths(), 10_000)
    [first] = [pairs[batch] for batch in order]
    order.set_epoch(1)
    [second] = [pairs[batch] for batch in order]
    for batch in (first, second):
        assert 0.4 < float((batch.source == 1).float().mean()) < 0.6
        assert not (batch.target == 1).any()
    assert (first.source != second.source).any()
