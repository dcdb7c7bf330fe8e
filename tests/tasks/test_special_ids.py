"""The ids of padding, begin and end are the tokenizer's: with others, all results are the same."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tfzoo
from tests.test_search import random_table
from tfzoo.base.registry import registry
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.search import Search, search
from tfzoo.testing.training import example

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


def test_training_and_translations_are_the_same_with_other_ids():
    """The losses of five steps, with label smoothing; and what is translated, by beam search."""
    task, data = example(registry("task").entry("translation"))
    renumbered = renumber(task.tokenizer)
    again = type(data)(seed=0, **task.recipe["data"])
    again.tokenizers = renumbered
    again.prepare_data()
    other = type(task).build(task.recipe, renumbered).double()
    other.load_state_dict(
        {key: reordered(one, renumbered) for key, one in task.state_dict().items()}
    )
    losses = []
    for one, text in ((task, data), (other, again)):
        one.optim.label_smoothing = 0.1
        optimizer = torch.optim.SGD(one.train().parameters(), lr=0.01)
        for rows in range(0, 40, 8):
            loss, nll, count = one.loss(text.sets["train"][range(rows, rows + 8)])
            optimizer.zero_grad()
            (loss / count).backward()
            optimizer.step()
            losses.append([loss.item(), nll.sum().item(), count])
    np.testing.assert_allclose(losses[:5], losses[5:], rtol=1e-9)
    texts = ["twenty plus two", "one", ""]
    for beam in (1, 3):
        first, second = (one.predict(texts, beam=beam) for one in (task, other))
        assert [one.translation for one in first] == [one.translation for one in second]
        np.testing.assert_allclose(first[0].score, second[0].score, rtol=1e-9)


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


class Renumbered:
    """A tokenizer with other ids: the special ones are the last, in the opposite order."""

    def __init__(self, inner: Any):
        self.inner = inner
        special = sorted(inner.special.every, reverse=True)
        self.order = [one for one in range(len(inner)) if one not in special] + special
        self.new = {one: new for new, one in enumerate(self.order)}

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def state(self) -> str:
        return f"{self.special} {self.inner.state()}"

    @property
    def special(self) -> SpecialIds:
        kept = vars(self.inner.special).items()
        return SpecialIds(**{name: renamed(ids, self.new) for name, ids in kept})

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [renamed(ids, self.new) for ids in self.inner.encode(texts)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.inner.decode([[self.order[one] for one in row] for row in ids])
        return texts


def renamed(ids: Any, new: Mapping[int, int]) -> Any:
    """New ids in place of one, of several, or of None."""
    if isinstance(ids, list | tuple):
        return type(ids)(renamed(one, new) for one in ids)
    return None if ids is None else new[ids]


def renumber(tokenizer: Any) -> Any:
    """What holds the tokenizers of a task, with the ids of each :class:`Renumbered`."""
    if not is_dataclass(tokenizer):
        return Renumbered(tokenizer)
    held = {name: one for name, one in vars(tokenizer).items() if hasattr(one, "special")}
    made = {id(one): Renumbered(one) for one in held.values()}
    return replace(tokenizer, **{name: made[id(one)] for name, one in held.items()})  # type: ignore[type-var]  # it is one


def reordered(tensor: Tensor, tokenizer: Any) -> Tensor:
    """A parameter with a row for each id in the order of the renumbered tokenizers."""
    held = [tokenizer] if isinstance(tokenizer, Renumbered) else vars(tokenizer).values()
    orders = {len(one): torch.tensor(one.order) for one in held if isinstance(one, Renumbered)}
    for axis, size in enumerate(tensor.shape):
        tensor = tensor.index_select(axis, orders[size]) if size in orders else tensor
    return tensor
