"""Greedy and beam search over any model that decodes with a cache."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from tfzoo.contracts import Cache
from tfzoo.errors import BadOption
from tfzoo.special_ids import BOS, EOS

STEEPEST = 10
"""The largest length penalty, up or down; 0 to 1 is usual."""
LONGEST = 1000
"""The most tokens for each of the source's."""

K = TypeVar("K", bound=Cache)


class Decodable(Protocol[K]):
    """What search needs of a model; :class:`tfzoo.Transformer` has it."""

    @property
    def pad(self) -> int:
        """The id of padding."""

    @property
    def max_positions(self) -> int | None:
        """The most tokens that the decoder can stand, None when any number."""

    def init_cache(self, source: Tensor) -> K: ...
    def decode_step(self, tokens: Tensor, cache: K) -> Tensor: ...


@dataclass(frozen=True)
class Hypothesis:
    """A decoded sentence: ids without begin and end, its score, and whether the model ended it."""

    ids: list[int]
    score: float
    finished: bool


@dataclass
class Search:
    """How to decode.

    Args:
        beam: hypotheses kept at a time; 1 is greedy.
        length_penalty: alpha of ``score = log p / ((5 + n) / 6) ** alpha``, ``n`` tokens with the
            end (Wu et al. 2016, eq. 14).
        max_length: where decoding is cut: so many times the source's tokens, plus 10.
        n_best: hypotheses returned a sentence, best first; at most ``beam``.

    Raises:
        BadOption: a number that no search can have.
    """

    beam: int = 1
    length_penalty: float = 0.6
    max_length: float = 2.0
    n_best: int = 1

    def __post_init__(self) -> None:
        if type(self.beam) is not int or self.beam < 1:
            raise BadOption(f"beam={self.beam} must be a whole number from 1 on (1 is greedy)")
        if type(self.n_best) is not int or not 1 <= self.n_best <= self.beam:
            raise BadOption(
                f"n_best={self.n_best} must be a whole number from 1 to beam={self.beam}"
            )
        if not abs(self.length_penalty) <= STEEPEST:
            raise BadOption(
                f"length_penalty={self.length_penalty} must be from {-STEEPEST} to {STEEPEST}"
            )
        if not 0 <= self.max_length <= LONGEST:
            raise BadOption(f"max_length={self.max_length} must be from 0 to {LONGEST}")

    def penalty(self, n: int) -> float:
        return float(((5 + n) / 6) ** self.length_penalty)

    def limits(self, source: Tensor, pad: int, max_positions: int | None) -> list[int]:
        """The most tokens, end included, that each sentence may get."""
        return [
            min(int(self.max_length * k) + 10, max_positions or sys.maxsize)
            for k in (source != pad).sum(1).tolist()
        ]


@torch.no_grad()
def search(
    model: Decodable[K], source: Tensor, how: Search | None = None
) -> list[list[Hypothesis]]:
    """Decode a batch ``(b k)``: ``n_best`` hypotheses a sentence, best first.

    Finished hypotheses come before ones that the limit cut. A finished sentence leaves the batch,
    so that it costs no more time.
    """
    how = how or Search()
    if len(source) == 0:
        return []
    limits = how.limits(source, model.pad, model.max_positions)
    return (
        _greedy(model, source, how, limits) if how.beam == 1 else _beam(model, source, how, limits)
    )


def _greedy(
    model: Decodable[K], source: Tensor, how: Search, limits: list[int]
) -> list[list[Hypothesis]]:
    device, b = source.device, source.shape[0]
    cache = model.init_cache(source)
    alive = torch.arange(b, device=device)
    left = torch.tensor(limits, device=device)
    total = torch.zeros(b, dtype=torch.float32, device=device)
    out = torch.full((b, max(limits)), EOS, device=device)
    tokens = torch.full((b,), BOS, device=device)
    finished = torch.zeros(b, dtype=torch.bool, device=device)
    for t in range(max(limits)):
        best, tokens = _log_probabilities(model, tokens, cache).max(-1)
        out[alive, t] = tokens
        total[alive] += best
        finished[alive] = tokens == EOS
        go_on = ((tokens != EOS) & (left[alive] > t + 1)).nonzero()[:, 0]
        if len(go_on) == 0:
            break
        if len(go_on) < len(alive):
            alive, tokens = alive[go_on], tokens[go_on]
            cache.keep_batch(go_on)
            cache.reorder(go_on)
    result = []
    for ids, score, done, limit in zip(
        out.tolist(), total.tolist(), finished.tolist(), limits, strict=True
    ):
        ids = ids[: ids.index(EOS)] if done else ids[:limit]
        result.append([Hypothesis(ids, score / how.penalty(len(ids) + done), done)])
    return result


def _beam(
    model: Decodable[K], source: Tensor, how: Search, limits: list[int]
) -> list[list[Hypothesis]]:
    device, b, beam = source.device, source.shape[0], how.beam
    found: list[list[Hypothesis]] = [[] for _ in range(b)]
    cache = model.init_cache(source)
    alive = list(range(b))  # sentences still searched
    prefixes = torch.empty((b, 1, 0), dtype=torch.long, device=device)
    scores = torch.zeros((b, 1), dtype=torch.float32, device=device)
    tokens = torch.full((b,), BOS, device=device)
    for t in range(max(limits)):
        log_p = _log_probabilities(model, tokens, cache)
        v, width = log_p.shape[-1], scores.shape[1]
        grown = (scores.reshape(-1, 1) + log_p).reshape(len(alive), -1)
        # Of 2 * beam candidates at most beam end here, so that beam are left to go on (each parent
        # has one end).
        top, flat = grown.topk(min(2 * beam, width * v), dim=1)
        parent, token = flat // v, flat % v
        ends = token == EOS
        _harvest(found, alive, how, prefixes, parent, ends, top)
        # The best that do not end, in their order.
        order = (ends | top.isneginf()).to(torch.int8).sort(dim=1, stable=True).indices[:, :beam]
        scores, parent, token = (
            top.gather(1, order),
            parent.gather(1, order),
            token.gather(1, order),
        )
        scores = scores.masked_fill(ends.gather(1, order), float("-inf"))
        prefixes = torch.cat(
            [prefixes.gather(1, parent[..., None].expand(-1, -1, t)), token[..., None]], dim=2
        )
        best = scores[:, 0].tolist()
        go_on = [
            row
            for row, sentence in enumerate(alive)
            if _may_improve(found[sentence], best[row], t + 1, limits[sentence], how)
        ]
        for row, sentence in enumerate(alive):
            if t + 1 == limits[sentence]:
                found[sentence] += _cut(prefixes[row], scores[row], how)
        if not go_on:
            break
        rows = torch.tensor(go_on, device=device)
        cache.reorder((rows[:, None] * width + parent[rows]).flatten())
        if len(go_on) < len(alive):
            cache.keep_batch(rows)
            alive = [alive[row] for row in go_on]
            scores, token, prefixes = scores[rows], token[rows], prefixes[rows]
        tokens = token.flatten()
    return [sorted(one, key=lambda h: (not h.finished, -h.score))[: how.n_best] for one in found]


def _log_probabilities(model: Decodable[K], tokens: Tensor, cache: K) -> Tensor:
    """``(r) -> (r v)`` in fp32; padding and begin are never decoded."""
    logits = model.decode_step(tokens, cache).float()
    logits[:, [model.pad, BOS]] = float("-inf")
    return logits.log_softmax(-1)


def _harvest(
    found: list[list[Hypothesis]],
    alive: list[int],
    how: Search,
    prefixes: Tensor,
    parent: Tensor,
    ends: Tensor,
    top: Tensor,
) -> None:
    """Take the candidates that end and stand among the best ``beam``."""
    penalty = how.penalty(prefixes.shape[2] + 1)
    taken = (
        ends & (torch.arange(ends.shape[1], device=ends.device) < how.beam) & ~top.isneginf()
    ).nonzero()
    for row, column in taken.tolist():
        ids = prefixes[row, parent[row, column]].tolist()
        found[alive[row]].append(Hypothesis(ids, top[row, column].item() / penalty, finished=True))


def _may_improve(found: list[Hypothesis], best: float, n: int, limit: int, how: Search) -> bool:
    """Whether to search a sentence further: ``beam`` hypotheses have not ended, and one could still
    enter the ``n_best`` of those.
    """
    if n >= limit or best == float("-inf") or len(found) >= how.beam:
        return False
    finished = sorted((h.score for h in found), reverse=True)
    if len(finished) < how.n_best:
        return True
    # Log probabilities only fall, the penalty that divides them only grows.
    reachable = max(best / how.penalty(n + 1), best / how.penalty(limit))
    return reachable > finished[how.n_best - 1]


def _cut(prefixes: Tensor, scores: Tensor, how: Search) -> list[Hypothesis]:
    """Hypotheses that reached the limit without an end."""
    pairs = zip(prefixes.tolist(), scores.tolist(), strict=True)
    return [
        Hypothesis(ids, score / how.penalty(len(ids)), finished=False)
        for ids, score in pairs
        if score > float("-inf")
    ]
