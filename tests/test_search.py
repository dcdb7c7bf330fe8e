"""Search finds what an exhaustive enumeration finds, and greedy is a beam of one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

import tfzoo
from tests.golden import load
from tfzoo.errors import BadOption
from tfzoo.models.initialise import initialise
from tfzoo.search import Search, search
from tfzoo.special_ids import BOS, EOS


@dataclass
class Steps:
    """The rows that a table model has decoded so far, and the sentence of each."""

    t: int = 0
    sentences: Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.long))
    pending: Tensor | None = None

    def reorder(self, rows: Tensor) -> None:
        pass

    def keep_batch(self, sentences: Tensor) -> None:
        self.sentences = self.sentences[sentences]


@dataclass
class Table:
    """A model whose next token depends on the step and the last token alone: ``tables`` is ``(b, t,
    v, v)``, log probabilities.
    """

    tables: Tensor
    pad: int = 0
    max_positions: int | None = None
    steps: int = 0

    def init_cache(self, source: Tensor) -> Steps:
        return Steps(sentences=torch.arange(len(source)))

    def decode_step(self, tokens: Tensor, cache: Steps) -> Tensor:
        self.steps += len(tokens)
        rows = cache.sentences.repeat_interleave(len(tokens) // len(cache.sentences))
        cache.t += 1
        return self.tables[rows, cache.t - 1, tokens]


def random_table(b: int, length: int, v: int, seed: int) -> Table:
    logits = 2 * torch.randn(b, length, v, v, generator=torch.Generator().manual_seed(seed))
    logits[..., [0, BOS]] = -math.inf
    return Table(logits.log_softmax(-1), max_positions=length)


def best_by_enumeration(
    table: Tensor, length: int, v: int, alpha: float
) -> tuple[list[int], float]:
    """The best finished sentence among all, as ``log p / ((5 + n) / 6) ** alpha``."""
    best: tuple[list[int], float] = ([], -math.inf)
    words = [token for token in range(v) if token not in (0, BOS, EOS)]
    for n in range(length):
        for ids in itertools.product(words, repeat=n):
            path = [BOS, *ids, EOS]
            log_p = sum(table[t, path[t], path[t + 1]].item() for t in range(n + 1))
            score = log_p / ((5 + n + 1) / 6) ** alpha
            if score > best[1]:
                best = (list(ids), score)
    return best


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(alpha: float, seed: int) -> None:
    v, length = 6, 4
    model = random_table(3, length, v, seed)
    found = search(
        model, torch.ones(3, 5, dtype=torch.long), Search(beam=200, length_penalty=alpha)
    )
    for row, best in enumerate(found):
        ids, score = best_by_enumeration(model.tables[row], length, v, alpha)
        assert best[0].ids == ids
        assert best[0].score == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize(
    "case_id", ["search/beam_v8_l6", "search/beam_v8_l6_b", "search/beam_wide"]
)
def test_a_wide_beam_finds_the_best_that_enumeration_found_elsewhere(case_id: str) -> None:
    case, arrays = load(case_id)
    # There unknown is 0 and padding 1; here it is the other way round.
    swap = torch.tensor([1, 0, *range(2, case["config"]["vocab"])])
    table = arrays["in.logprob_table"][:, swap][:, :, swap]
    length = case["config"]["max_new_tokens"]
    for key, wanted in case["data"]["exhaustive_best_finished"].items():
        if "gnmt" not in key:
            continue  # formulas that are not used here
        how = Search(
            beam=5000, n_best=len(wanted), length_penalty=float(key.rpartition("alpha=")[2])
        )
        found = search(
            Table(table[None], max_positions=length), torch.ones(1, length, dtype=torch.long), how
        )[0]
        for hypothesis, best in zip(found, wanted, strict=True):
            assert [*hypothesis.ids, EOS] == [
                {0: 1, 1: 0}.get(token, token) for token in best["tokens"]
            ]
            assert hypothesis.score == pytest.approx(best["score"], abs=1e-4)


def test_greedy_is_a_beam_of_one() -> None:
    model = tfzoo.Transformer(30, 16, 2, 1, dropout=0.0)
    initialise(model, 3)
    model.eval()
    source = torch.randint(4, 30, (5, 7))
    source[2, 4:] = 0
    greedy = search(model, source, Search(beam=1))
    from tfzoo import search as module

    how = Search(beam=1)
    beamed = module._beam(model, source, how, how.limits(source, 0, None))
    assert [[h.ids for h in one] for one in greedy] == [[h.ids for h in one] for one in beamed]
    torch.testing.assert_close(
        [one[0].score for one in greedy], [one[0].score for one in beamed], rtol=1e-5, atol=1e-5
    )


def test_a_sentence_is_decoded_alike_in_any_company() -> None:
    model = tfzoo.Transformer(30, 16, 2, 2, dropout=0.0, position="relative_bias")
    initialise(model, 5)
    model.eval()
    source = torch.randint(4, 30, (6, 9))
    lengths = [9, 3, 5, 1, 7, 2]
    for row, length in enumerate(lengths):
        source[row, length:] = 0
    how = Search(beam=4, n_best=3)
    together = search(model, source, how)
    for row, length in enumerate(lengths):
        alone = search(model, source[row : row + 1, :length], how)[0]
        assert [h.ids for h in alone] == [h.ids for h in together[row]]


def test_n_best_are_different_and_in_order() -> None:
    model = random_table(2, 6, 5, 0)
    for best in search(model, torch.ones(2, 5, dtype=torch.long), Search(beam=8, n_best=8)):
        assert len({tuple(h.ids) for h in best}) == len(best) > 1
        finished = [h.finished for h in best]
        assert finished == sorted(finished, reverse=True)
        for part in (True, False):
            scores = [h.score for h in best if h.finished is part]
            assert scores == sorted(scores, reverse=True)


def test_a_hypothesis_that_the_limit_cut_never_beats_a_finished_one() -> None:
    v = 5
    table = torch.full((1, 3, v, v), -5.0)
    table[..., 4] = -0.01  # going on is always likelier than to end
    table[..., EOS] = -3.0
    found = search(
        Table(table, max_positions=3), torch.ones(1, 3, dtype=torch.long), Search(beam=3, n_best=3)
    )[0]
    assert found[0].finished
    assert not found[-1].finished or all(h.finished for h in found)


def test_finished_sentences_stop_costing_time() -> None:
    v, length, b = 6, 30, 10
    table = torch.full((b, length, v, v), -10.0)
    table[0, ..., 4] = -0.01
    table[1:, ..., EOS] = -0.01  # all but the first end at once
    model = Table(table.log_softmax(-1), max_positions=length)
    search(model, torch.ones(b, 10, dtype=torch.long), Search(beam=1))
    assert model.steps == b + (length - 1)


NONE_OF_THEM = [
    *(
        {name: value}
        for name in ("max_length", "length_penalty")
        for value in (float("nan"), float("inf"), 1e4)
    ),
    *({name: value} for name in ("beam", "n_best") for value in (2.5, "3", True)),
]


def test_a_batch_without_sentences_has_no_translations() -> None:
    table = torch.zeros(1, 3, 5, 5).log_softmax(-1)
    for beam in (1, 2):
        assert (
            search(
                Table(table, max_positions=3), torch.ones(0, 4, dtype=torch.long), Search(beam=beam)
            )
            == []
        )


@pytest.mark.parametrize(
    "wrong",
    [{"beam": 0}, {"beam": 2, "n_best": 3}, {"n_best": 0}, {"max_length": -1.0}, *NONE_OF_THEM],
)
def test_numbers_that_no_search_can_have_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadOption):
        Search(**wrong)
