"""Ids on the disk are the ids that were written; that they are whole, the cache says."""

import pickle

from tfzoo.data.prepare import Encoded, Sentences, write


def lists(sentences):
    return [
        sentences.ids[a:b].tolist()
        for a, b in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True)
    ]


def test_a_worker_is_sent_the_path_and_not_the_ids(tmp_path):
    write(tmp_path / "text", [[[1] * 100_000], [], [[], [70_000]]])
    sent = pickle.dumps(Encoded(tmp_path / "text"))
    assert len(sent) < 1000
    ids = [[1] * 100_000, [], [70_000]]
    assert lists(pickle.loads(sent)) == ids == lists(Sentences.of(ids))
