"""Ids on the disk are the ids that were written; that they are whole, the cache says."""

import pickle

import pytest

from tfzoo.data.prepare import Encoded, Sentences, write

IDS = [[5, 6, 7], [], [8], [70_000]]


@pytest.fixture
def written(tmp_path):
    write(tmp_path / "text", [IDS[:2], [], IDS[2:]])
    return tmp_path / "text"


def lists(sentences):
    return [
        sentences.ids[a:b].tolist()
        for a, b in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True)
    ]


def test_what_is_written_is_read(written):
    assert lists(Encoded(written)) == IDS == lists(Sentences.of(IDS))
    assert Encoded(written).lengths.tolist() == [3, 0, 1, 1]


def test_a_worker_is_sent_the_path_and_not_the_ids(tmp_path):
    write(tmp_path / "text", [[[1] * 100_000]])
    sent = pickle.dumps(Encoded(tmp_path / "text"))
    assert len(sent) < 1000
    assert lists(pickle.loads(sent)) == [[1] * 100_000]
