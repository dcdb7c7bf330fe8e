"""Search finds what a plain restatement in Python finds."""

import itertools
import math
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from torch import Tensor

import tfzoo
import tfzoo.search as search_module
from tfzoo.base.host_copies import HostCopies
from tfzoo.base.special_ids import OWN
from tfzoo.errors import BadOption, NoNextToken
from tfzoo.masks import Mask
from tfzoo.models.initialise import initialise
from tfzoo.search import Search, _candidates, lengths_of
from tfzoo.search import search as search_with

BOS, EOS = OWN.bos, OWN.eos
search = partial(search_with, special=OWN)


@dataclass
class Steps:
    """The rows that a table model has decoded so far, and the sentence of each."""

    t: int = 0
    sentences: Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.long))
    previous: Tensor | None = None

    def reorder(self, rows):
        if self.previous is not None:
            self.previous = self.previous[rows]

    def keep_batch(self, sentences):
        self.sentences = self.sentences[sentences]


@dataclass
class Table:
    """The next token depends on step and last token alone: log probabilities ``(b t v v)``."""

    tables: Tensor
    max_positions: int | None = None
    steps: int = 0

    def init_cache(self, source, *, mask=None):
        return Steps(sentences=torch.arange(len(source)))

    def decode_step(self, tokens, cache):
        self.steps += len(tokens)
        rows = cache.sentences.repeat_interleave(len(tokens) // len(cache.sentences))
        cache.t += 1
        return self.tables[rows, cache.t - 1, tokens]


def random_table(b, length, v, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(b, length, v, v, generator=generator, dtype=torch.float64)
    logits[..., [0, BOS]] = -math.inf
    return Table(logits.log_softmax(-1), max_positions=length)


@dataclass
class Trigrams(Table):
    """The next token depends on the last two, so that each row of the cache has its own past."""

    def decode_step(self, tokens, cache):
        logits = super().decode_step(tokens, cache)
        previous = tokens if cache.previous is None else cache.previous
        cache.previous = tokens
        rows = cache.sentences.repeat_interleave(len(tokens) // len(cache.sentences))
        return logits + self.tables[rows, cache.t - 1, previous] / 2


def next_log_p(table, ids):
    """What :class:`Trigrams` says after ``ids``, without padding and BOS."""
    path = [BOS, BOS, *ids]
    logits = table[len(ids), path[-1]] + table[len(ids), path[-2]] / 2
    logits[[0, BOS]] = -math.inf
    return logits.log_softmax(-1)


def restated(table, limit, beam, alpha, n_best, until="best"):
    """Beam search over one sentence of a table ``(t v v)``, on lists: ids, score and whether it
    ended. It goes on until ``beam`` hypotheses have ended, and with ``best`` as long as another can
    become the best; without ``until``, up to the limit. A beam of 1 is greedy.
    """
    alive = [(0.0, [])]
    found = []
    for _ in range(limit):
        grown = [
            (log_p + more, [*ids, token])
            for log_p, ids in alive
            for token, more in enumerate(next_log_p(table, ids).tolist())
        ]
        grown = [one for one in sorted(grown, key=lambda one: -one[0]) if one[0] > -math.inf]
        for log_p, ids in grown[:beam]:
            if ids[-1] == EOS:
                found.append((ids[:-1], log_p / ((5 + len(ids)) / 6) ** alpha, True))
        alive = [one for one in grown[: 2 * beam] if one[1][-1] != EOS][:beam]
        if until and len(found) >= beam:
            best, sizes = (
                max(score for _, score, _ in found),
                range(len(alive[0][1]) + 1, limit + 1),
            )
            reach = (log_p / ((5 + n) / 6) ** alpha for log_p, _ in alive for n in sizes)
            if until == "beam" or beam == 1 or best >= max(reach, default=-math.inf):
                break
    else:
        found += [(ids, log_p / ((5 + len(ids)) / 6) ** alpha, False) for log_p, ids in alive]
    return sorted(found, key=lambda one: (not one[2], -one[1]))[:n_best]


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 2.0])
@pytest.mark.parametrize(("beam", "n_best"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 5)])
def test_search_is_what_its_restatement_finds(beam, n_best, alpha):
    """Sentences with limits of their own, also where a narrow beam misses the best."""
    for seed in range(6):
        b, v = 6, 7
        generator = torch.Generator().manual_seed(seed)
        tables = torch.randn(b, 14, v, v, generator=generator, dtype=torch.float64)
        tables[..., EOS] -= seed % 2 * 2.0  # sentences that seldom end: the limits cut
        model = Trigrams(tables, max_positions=14)
        source = torch.ones(b, 4, dtype=torch.long)
        for row in range(b):
            source[row, row % 4 + 1 :] = 0
        options = Search(beam, alpha, 0.5, n_best)
        limits = [10, 11, 11, 12, 10, 11]  # 10 and half of the source's 1 to 4 tokens
        mask = Mask(keys=source != 0)
        for row, found in enumerate(search(model, source, options, mask=mask)):
            wanted = restated(model.tables[row], limits[row], beam, alpha, n_best)
            assert [(h.ids, h.finished) for h in found] == [(ids, end) for ids, _, end in wanted]
            scores = [score for _, score, _ in wanted]
            assert [h.score for h in found] == pytest.approx(scores, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_no_open_hypothesis_could_have_become_better_than_what_is_returned(alpha):
    """Up to the limit, a beam of 3 finds nothing better. One that ends with 3 hypotheses misses it,
    most of all where the penalty favours long ones.
    """
    better = 0
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        tables = 3 * torch.randn(8, 12, 7, 7, generator=generator, dtype=torch.float64)
        tables[..., EOS] += 2.0
        model, source = Trigrams(tables, max_positions=12), torch.ones(8, 9, dtype=torch.long)
        for row, (best,) in enumerate(search(model, source, Search(3, alpha))):
            (wanted,) = restated(tables[row], 12, 3, alpha, 1, until="")
            (early,) = restated(tables[row], 12, 3, alpha, 1, until="beam")
            assert (best.ids, best.finished) == (wanted[0], wanted[2])
            assert best.score == pytest.approx(wanted[1], rel=1e-9)
            assert best.score >= early[1] - 1e-9
            better += best.score > early[1] + 1e-9
    assert better > 5


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("step", [0, 2, 4])
@pytest.mark.parametrize("late", [False, True])
def test_logits_that_give_no_next_token_are_one_clear_error(wrong, step, beam, late, monkeypatch):
    """Also where the host hears of them late."""
    if late:
        monkeypatch.setattr(search_module, "HostCopies", Late)
    model = random_table(3, 5, 6, 1)
    model.tables[..., EOS] = -50.0  # nothing ends before
    model.tables[1, step, :, 4] = wrong
    with pytest.raises(NoNextToken, match=r"sentence 1 of the batch.*NaN or \+inf"):
        search(model, torch.ones(3, 5, dtype=torch.long), Search(beam=beam))
    if beam == 1 and not late:  # the sentence is decoded no further
        assert model.steps == 15 - (4 - step)


def test_a_sentence_that_has_ended_is_decoded_no_further():
    model = random_table(3, 5, 6, 1)
    model.tables[..., EOS] = -50.0
    model.tables[1, 0, :, EOS] = 50.0
    search(model, torch.ones(3, 5, dtype=torch.long), Search(beam=1))
    assert model.steps == 5 + 1 + 5


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_whose_every_token_is_impossible_is_the_same_error(beam):
    model = random_table(3, 5, 6, 1)
    model.tables[2, 0] = -math.inf
    model.tables[2, 0, :, 0] = 0.0  # padding is never decoded
    with pytest.raises(NoNextToken, match="sentence 2 of the batch"):
        search(model, torch.ones(3, 5, dtype=torch.long), Search(beam=beam))


@pytest.mark.parametrize(
    ("max_length", "max_positions", "limits"),
    [
        (0.0, None, [10, 10]),
        (1.5, None, [14, 11]),
        (2.0, 12, [12, 12]),
        (1000.0, None, [3010, 1010]),
    ],
)
def test_limits_count_real_source_tokens(max_length, max_positions, limits):
    source, mask = torch.tensor([[5, 6, 3], [3, 0, 0]]), Mask.right(torch.tensor([3, 1]), 3)
    assert Search(max_length=max_length).limits(lengths_of(source, mask), max_positions) == limits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_log_probabilities_are_added_in_fp32(dtype):
    model = random_table(2, 12, 6, 0)
    model.tables[..., EOS] = -50.0
    model.tables = model.tables.log_softmax(-1).to(dtype)
    found = search(model, torch.ones(2, 1, dtype=torch.long), Search(length_penalty=0.0))
    table = model.tables.float().clone()
    table[..., [0, BOS]] = -math.inf
    for row, (best,) in enumerate(found):
        path = [BOS, *best.ids]
        log_p = table[row].log_softmax(-1)
        wanted = sum(log_p[t, path[t], path[t + 1]].item() for t in range(len(best.ids)))
        assert best.score == pytest.approx(wanted, rel=len(best.ids) * 2**-23)


def test_a_sentence_is_decoded_alike_in_any_company():
    model = tfzoo.Transformer(30, 16, 2, 2, dropout=0.0, position="relative_bias")
    initialise(model, 5)
    model.eval().double()
    source = torch.randint(4, 30, (6, 9))
    lengths = [9, 3, 5, 1, 7, 2]
    for row, length in enumerate(lengths):
        source[row, length:] = 0
    how = Search(beam=4, n_best=3)
    together = search(model, source, how, mask=Mask.right(torch.tensor(lengths), 9))
    for row, length in enumerate(lengths):
        alone = search(model, source[row : row + 1, :length], how)[0]
        assert [h.ids for h in alone] == [h.ids for h in together[row]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[row]], rel=1e-9)


@pytest.mark.parametrize("v", [5, 64, 200, 650])
@pytest.mark.parametrize("count", [1, 4, 30])
def test_candidates_are_the_best_of_all_continuations(v, count):
    generator = torch.Generator().manual_seed(v)
    scores = torch.randn(3, 2, generator=generator)
    log_p = torch.randn(6, v, generator=generator)
    scores[1, 0], log_p[2] = -math.inf, math.nan  # after an impossible prefix
    total = scores[..., None] + log_p.view(3, 2, v)
    total[1, 0] = -math.inf
    wanted = total.flatten(1).topk(min(count, 2 * v), dim=1)
    top, parent, token = _candidates(scores, log_p, count)
    assert torch.equal(top, wanted.values)
    real = ~top.isneginf()
    assert torch.equal((parent * v + token)[real], wanted.indices[real])


@pytest.mark.parametrize(
    "wrong",
    [
        *({"beam": beam} for beam in (0, 1001, 2.5, True)),
        *({"n_best": n} for n in (0, 3)),
        *({"max_length": length} for length in (-1.0, 1000.5, math.nan)),
        *({"length_penalty": penalty} for penalty in (10.5, -10.5, math.inf)),
    ],
)
def test_numbers_that_no_search_can_have_are_refused(wrong):
    with pytest.raises(BadOption):
        Search(**{"beam": 2, **wrong})


class Late(HostCopies):
    """What the host knows of a GPU: the step before."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.late = True

    def next(self, x):
        return super().next(x.clone())


@pytest.mark.parametrize("alpha", [0.0, 0.6, -1.0, 2.0])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_host_that_is_a_step_late_finds_the_same(beam, alpha, monkeypatch):
    for seed, n_best in itertools.product(range(6), {1, beam}):
        options = Search(beam, alpha, n_best=n_best, max_length=0.5)
        source = torch.full((5, 9), 5)
        mask = Mask.right(torch.tensor([9, 1, 4, 9, 7]), 9)
        steps, found = [], []
        for kind in (HostCopies, Late):
            table = random_table(5, 14, 6 + 10 * (seed % 2), seed)
            table.tables[3, :, :, EOS] += 4.0
            monkeypatch.setattr(search_module, "HostCopies", kind)
            found.append(search(table, source, options, mask=mask))
            steps.append(table.steps)
        assert found[0] == found[1]
        assert steps[0] <= steps[1] <= steps[0] + 5 * beam  # a step more of each sentence


def test_search_says_what_it_needs():
    model, source = tfzoo.Transformer(9, dim=4, heads=1, layers=1), torch.ones(1, 2).long()
    for given in ({}, {"special": (2, 3)}):
        with pytest.raises(BadOption, match=r"search needs special=tokenizer\.special or Spec"):
            tfzoo.search.search(model, source, **given)
    with pytest.raises(BadOption, match="source must be a tensor of ids"):
        tfzoo.search.search(model, [[5, 6]], special=OWN)
