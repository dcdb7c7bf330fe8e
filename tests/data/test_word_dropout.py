"""Hidden words: as many as asked for, never a special id, the same in whatever batch."""

from __future__ import annotations

import numpy as np

from tfzoo.data.encoded import Sentences
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.parallel_batch import ParallelDataset
from tfzoo.data.word_dropout import WordDropout

ROWS = np.arange(200)


def ids(width: int = 50) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, (len(ROWS), width))


def test_as_many_are_hidden_as_asked_for() -> None:
    before = ids()
    for share in (0.1, 0.5, 0.9):
        after = WordDropout(share, seed=3)(before, ROWS, epoch=0)
        words = before > 3
        assert abs((after[words] == 1).mean() - share) < 0.02
        assert (after[~words] == before[~words]).all()
        assert ((after == before) | (after == 1)).all()


def test_nothing_is_hidden_at_share_zero() -> None:
    before = ids()
    assert WordDropout(0.0, seed=0)(before, ROWS, epoch=0) is before


def test_what_is_hidden_depends_on_seed_epoch_item_and_place_alone() -> None:
    before = ids()
    whole = WordDropout(0.3, seed=7)(before, ROWS, epoch=2)
    some = np.array([5, 190, 3])
    assert (WordDropout(0.3, seed=7)(before[some, :20], some, epoch=2) == whole[some, :20]).all()
    for other in (
        WordDropout(0.3, seed=8)(before, ROWS, 2),
        WordDropout(0.3, seed=7)(before, ROWS, 3),
    ):
        assert (
            0.2 < ((other == 1) & (whole == 1)).sum() / (whole == 1).sum() < 0.4
        )  # as chance has it


def test_neighbours_are_hidden_independently() -> None:
    hidden = WordDropout(0.5, seed=-1)(np.full((200, 50), 9), ROWS, epoch=0) == 1
    for one, other in ((hidden[:, 1:], hidden[:, :-1]), (hidden[1:], hidden[:-1])):
        assert abs((one & other).mean() - 0.25) < 0.02


def test_translation_hides_words_of_the_source_alone() -> None:
    sentences = [list(range(4, 24))] * 40
    pairs = ParallelDataset(
        Sentences.of(sentences),
        Sentences.of(sentences),
        np.arange(40),
        dropout=WordDropout(0.5, seed=0),
    )
    order = LengthBucketedSampler(*pairs.widths(), 10_000)
    [first] = [pairs[batch] for batch in order]
    order.set_epoch(1)
    [second] = [pairs[batch] for batch in order]
    for batch in (first, second):
        assert 0.4 < float((batch.source == 1).float().mean()) < 0.6
        assert not (batch.target == 1).any()
    assert (first.source != second.source).any()
