"""The ids of padding, begin and end are the tokenizer's: with others, all results are the same."""

import itertools
from dataclasses import replace

import pytest
import torch

import tfzoo
from tests.test_search import random_table
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.search import Search, search

SIZES = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.0}


class Numbers:
    """A tokenizer of numbers with the special ids that it is given."""

    def __init__(self, special: SpecialIds) -> None:
        self.special = special

    def __len__(self):
        return 30

    def encode(self, texts):
        return [[int(word) for word in text.split()] for text in texts]

    def decode(self, ids):
        return [" ".join(str(one) for one in row if one not in self.special.every) for row in ids]

    def state(self):
        return str(self.special)


@pytest.mark.parametrize("beam", [1, 200])
def test_a_text_ends_with_any_of_several_ids(beam):
    v, length = 6, 3
    special = replace(OWN, also_eos=(5,))
    model = random_table(2, length, v, seed=2)
    how = Search(beam=beam, length_penalty=0.0)
    found = search(model, torch.ones(2, 5, dtype=torch.long), how, special=special)
    for row, best in enumerate(found):
        table = model.tables[row]
        if beam == 1:
            path = [OWN.bos]
            while len(path) <= length and path[-1] not in special.ends:
                path.append(int(table[len(path) - 1, path[-1]].argmax()))
            assert best[0].ids == [one for one in path[1:] if one not in special.ends]
            continue
        scores = {
            words: sum(float(table[t, a, b]) for t, (a, b) in enumerate(itertools.pairwise(path)))
            for n in range(length)
            for middle in itertools.product((1, 4), repeat=n)
            for end in special.ends
            if (words := (*middle, end)) and (path := (OWN.bos, *words))
        }
        words = max(scores, key=scores.__getitem__)
        assert tuple(best[0].ids) == words[:-1]
        assert best[0].score == pytest.approx(scores[words], rel=1e-9)


def test_a_decoder_may_begin_with_padding_or_with_the_end():
    """As T5 and Marian do, and BART."""
    model = random_table(1, 3, 6, seed=0)
    marian = SpecialIds(pad=0, bos=2, eos=3, decoder_start=0)
    model.tables[:, 0, 0] = model.tables[:, 0, 2]
    found, wanted = (
        search(model, torch.ones(1, 5, dtype=torch.long), special=one)[0][0]
        for one in (marian, OWN)
    )
    assert found == wanted
    assert OWN.never == {0, 2}
    assert marian.never == {0}
    assert SpecialIds(pad=1, bos=0, eos=2, decoder_start=2).never == {1}


def test_batches_take_the_ids_that_they_are_given():
    special = SpecialIds(pad=9, unk=3, bos=0, eos=2)
    pairs = tfzoo.ParallelBatch.collate([([5, 3], [8]), ([5], [6, 4])], special)
    assert pairs.source.tolist() == [[5, 3, 2], [5, 2, 9]]
    assert pairs.target.tolist() == [[0, 8, 2, 9], [0, 6, 4, 2]]
    assert pairs.non_padding.tolist() == [0, 1, 3, 4, 5]
    texts = tfzoo.ClassificationBatch.collate([([5, 1], 0), ([5], 1)], special)
    assert texts.tokens.tolist() == [[5, 1, 2], [5, 2, 9]]
    model = tfzoo.TransformerClassifier(12, 2, **SIZES).eval()
    alone = model(torch.tensor([[5, 2]]))
    torch.testing.assert_close(model(texts.tokens, mask=texts.mask())[1:], alone)
