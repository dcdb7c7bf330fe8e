"""Batches keep the limit, drop and repeat nothing, and follow from seed and epoch alone."""

from collections import Counter

import numpy as np
import pytest

from tfzoo.data.loaders import LengthBucketedSampler


def lengths(count=20_000, seed=0):
    """Like sentences and their translations: log-normal, one side about as long as the other."""
    random = np.random.default_rng(seed)
    source = np.exp(random.normal(2.6, 0.4, count))
    target = source * np.exp(random.normal(0, 0.15, count))
    return np.maximum(source, 1).astype(np.int64), np.maximum(target, 1).astype(np.int64)


def buckets(count=3000, max_tokens=1000, **options):
    return LengthBucketedSampler(*lengths(count), max_tokens, **options)


def everything(batches):
    return sorted(row for batch in batches for row in batch)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("max_tokens", [60, 1000, 4096])
def test_no_batch_is_larger_than_asked_on_either_side(shuffle, max_tokens):
    b = buckets(max_tokens=max_tokens, shuffle=shuffle)
    for batch in b:
        longest = max(b.source[batch].max(), b.target[batch].max())
        assert len(batch) == 1 or len(batch) * longest <= max_tokens


def test_a_sentence_longer_than_a_batch_is_one_of_its_own():
    b = LengthBucketedSampler(np.array([5, 100, 6, 7]), np.array([5, 5, 300, 7]), max_tokens=20)
    batches = list(b)
    assert [1] in batches
    assert [2] in batches
    assert everything(batches) == [0, 1, 2, 3]


def test_padding_is_under_a_tenth():
    b = LengthBucketedSampler(*lengths(), 4096)
    cells = sum(len(batch) * (b.source[batch].max() + b.target[batch].max()) for batch in b)
    assert 1 - (b.source.sum() + b.target.sum()) / cells < 0.1


def test_the_order_follows_from_seed_and_epoch_alone():
    first, second = buckets(seed=1), buckets(seed=1)
    for epoch in (3, 0, 2):
        second.set_epoch(epoch)
        list(second)  # what was asked before changes nothing
    first.set_epoch(2)
    assert list(first) == list(second) == list(first)


def test_epochs_and_seeds_differ_in_order_and_in_company():
    def batches(seed, epoch):
        b = buckets(seed=seed)
        b.set_epoch(epoch)
        return list(b)

    company = {frozenset(batch) for batch in batches(0, 0)}
    for other in (batches(0, 1), batches(1, 0)):
        assert len(company & {frozenset(batch) for batch in other}) < len(company) / 10


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(
    ("count", "world"),
    [(1, 1), (3000, 1), (3000, 2), (3000, 7), (3000, 64), (5, 5), (9, 4)],
)
def test_processes_share_an_epoch_and_take_equally_many_steps(shuffle, count, world):
    for epoch in (0, 1):
        shares = []
        for rank in range(world):
            b = buckets(count, rank=rank, world_size=world, shuffle=shuffle)
            b.set_epoch(epoch)
            shares.append(list(b))
            assert len(shares[-1]) == len(b)
        assert Counter(map(len, shares)) == {len(shares[0]): world}
        assert everything([batch for share in shares for batch in share]) == list(range(count))
        assert all(batch for share in shares for batch in share)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("world", [2, 3, 8, 64])
def test_processes_together_see_what_one_alone_would(shuffle, world):
    alone, together = buckets(shuffle=shuffle), buckets(world_size=world, shuffle=shuffle)
    for epoch in (0, 1):
        each = (b.epoch_batches(epoch) for b in (alone, together))
        batches, turns = ([rows.tolist() for rows in one] for one in each)
        last = (len(together) - 1) * world
        assert turns[:last] == batches[:last]
        assert everything(turns[last:]) == everything(batches[last:])


@pytest.mark.parametrize("shuffle", [True, False])
def test_processes_take_equally_many_steps_also_where_each_text_fills_a_batch(shuffle):
    given, options = [np.arange(50, 59)] * 2, {"world_size": 4, "shuffle": shuffle}
    shares = [list(LengthBucketedSampler(*given, 40, rank=rank, **options)) for rank in range(4)]
    assert [len(share) for share in shares] == [2, 2, 2, 2]
    batches = [batch for share in shares for batch in share]
    assert everything(batches) == list(range(9))
    assert sorted(map(len, batches))[-2:] == [1, 2]
    assert [0, 1] in map(sorted, batches)  # the two shortest


@pytest.mark.parametrize("world", [1, 2])
def test_an_epoch_can_be_entered_in_its_middle(world):
    whole, rest = (buckets(rank=world - 1, world_size=world) for _ in range(2))
    whole.set_epoch(4)
    rest.set_epoch(4, start=10)
    assert list(rest) == list(whole)[10:]
    rest.set_epoch(5)
    assert len(list(rest)) == len(rest)


def test_what_is_random_in_a_validation_is_so_in_each():
    """Masks and dropped tokens are a function of the epoch of a batch."""
    for shuffle, epochs in ((True, {3}), (False, {0})):
        b = buckets(shuffle=shuffle)
        b.set_epoch(3)
        assert {batch.epoch for batch in b} == epochs
