"""Greedy and beam search for models with a cache."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from tfzoo.base.host_copies import HostCopies
from tfzoo.base.linear import constant_weights
from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.values import Named, check_range
from tfzoo.errors import BadOption, NoNextToken
from tfzoo.masks import Mask, keys_of

EXTRA_TOKENS = 10
"""Target tokens allowed in addition to ``max_length`` times the number of source tokens."""
BLOCK = 64
"""Tokens of a vocabulary whose largest log probability is found at once."""


class Cache(Protocol):
    """What a decoder keeps between steps. Models provide it, search uses it."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in this order (may repeat): hypotheses that go on, beams that move."""

    def keep_batch(self, sentences: Tensor) -> None:
        """Keep these sentences of the source, in this order; called before rows of the others are
        dropped.
        """


K = TypeVar("K", bound=Cache)
Choice = Callable[[Tensor], tuple[Tensor, Tensor]]

DECODING = ("max_positions", "init_cache", "decode_step")
"""The members of :class:`Decodable`."""


class Decodable(Protocol[K]):
    """The interface of a model for :func:`search`, such as :class:`tfzoo.Transformer`."""

    @property
    def max_positions(self) -> int | None:
        """The maximum number of target tokens, EOS included; None: any number."""

    def init_cache(self, source: Tensor, *, mask: Mask | None = None) -> K:
        """Encode the source ``(b k)``, and return a cache with one row per sentence. ``mask.keys``
        is False at padding; without a mask, there is none.
        """

    def decode_step(self, tokens: Tensor, cache: K) -> Tensor:
        """Append one token to each of ``r`` hypotheses, and return the logits of the next token:
        ``(r) -> (r v)``. Search changes the returned tensor in place.
        """


def missing_for_decoding(model: object) -> list[str]:
    """The members of :class:`Decodable` that a model does not have."""
    return [name for name in DECODING if not hasattr(model, name)]


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sentence.

    Args:
        ids: token ids without BOS and EOS.
        score: log probability divided by the length penalty.
        finished: True if it ended with EOS, False if it reached the length limit.
    """

    ids: list[int]
    score: float
    finished: bool


@dataclass
class Search(Named):
    """Options of decoding.

    Args:
        beam: number of hypotheses per sentence; 1 is greedy search.
        length_penalty: alpha of ``score = log p / ((5 + n) / 6) ** alpha``, where ``n`` is the
            number of tokens, EOS included (Wu et al. 2016, eq. 14).
        max_length: a translation has at most ``max_length`` times the number of source tokens, plus
            10, tokens; EOS counts on both sides. ``model.max_positions`` is another limit.
        n_best: number of hypotheses returned per sentence, at most ``beam``.

    Raises:
        BadOption: a number out of range.
    """

    beam: int = 1
    length_penalty: float = 0.6
    max_length: float = 2.0
    n_best: int = 1

    def __post_init__(self) -> None:
        check_range("beam", self.beam, ge=1, le=1000, whole=True)
        check_range("n_best", self.n_best, ge=1, le=self.beam, whole=True)
        check_range("length_penalty", self.length_penalty, ge=-10, le=10)
        check_range("max_length", self.max_length, ge=0, le=1000)

    def penalty(self, n: int) -> float:
        """The divisor of the log probability of ``n`` tokens: ``((5 + n) / 6) ** alpha``."""
        return float(((5 + n) / 6) ** self.length_penalty)

    def limits(self, lengths: list[int], max_positions: int | None) -> list[int]:
        """The maximum number of target tokens, EOS included, for sources of so many tokens."""
        most = max_positions or sys.maxsize
        return [min(int(self.max_length * k) + EXTRA_TOKENS, most) for k in lengths]


def lengths_of(source: Tensor, mask: Mask | None) -> list[int]:
    """The number of real tokens of each row of ``(b k)``."""
    keys = keys_of(mask)
    return [source.shape[1]] * len(source) if keys is None else keys.sum(1).tolist()


@torch.no_grad()
def search(
    model: Decodable[K],
    source: Tensor,
    options: Search | None = None,
    *,
    special: SpecialIds | None = None,
    mask: Mask | None = None,
) -> list[list[Hypothesis]]:
    """Decode a batch ``(b k)``: ``n_best`` hypotheses per sentence, best first.

    Finished hypotheses come before those that reached the length limit. Sentences that are done are
    removed from the batch.

    Args:
        special: the ids of the target's tokenizer, ``tokenizer.special``: decoding begins with its
            ``start``, goes on with its ``forced_bos``, and ends at any of its ``ends``.
        mask: which source tokens are real, ``Mask.right(lengths, k)`` or ``Mask(keys=...)``; None:
            all are.

    Raises:
        BadOption: the model is not :class:`Decodable`, ``source`` is no tensor, or ``special`` is
            missing.
        NoNextToken: logits are NaN or +inf, or -inf for every token.
    """
    if missing := missing_for_decoding(model):
        raise BadOption(
            f"{type(model).__name__} cannot decode: it has no {', '.join(missing)}. "
            "tfzoo.search.Decodable says what they do"
        )
    options = options or Search()
    if not isinstance(special, SpecialIds):
        raise BadOption(
            f"search needs special=tokenizer.special or SpecialIds(...), not {special!r}"
        )
    if not isinstance(source, Tensor):
        raise BadOption(f"source must be a tensor of ids (b k), not a {type(source).__name__}")
    if len(source) == 0:
        return []
    limits = options.limits(lengths_of(source, mask), model.max_positions)
    log_probabilities = _LogProbabilities(
        model.decode_step, special.ends, special.never, source.device, special.forced_bos
    )
    cache = model.init_cache(source, mask=mask)
    if options.beam > 1:
        found = _beam(log_probabilities, cache, options, limits, special.start)
        return [
            sorted(one, key=lambda h: (not h.finished, -h.score))[: options.n_best] for one in found
        ]
    return [
        [Hypothesis(ids[: len(ids) - ended], log_p / options.penalty(len(ids)), ended)]
        for ids, log_p, ended in _write(log_probabilities, cache, limits, special.start)
    ]


@torch.no_grad()
def continuations(
    decode_step: Callable[[Tensor, K], Tensor],
    cache: K,
    limits: list[int],
    options: Search,
    *,
    ends: tuple[int, ...],
    never: frozenset[int],
    device: torch.device,
    choose: Choice | None = None,
) -> list[list[int]]:
    """The best continuation of each prompt in a cache, with the id that ends it, or the tokens that
    ``choose`` chooses: most continuations reach the limit.

    Args:
        decode_step: that of a :class:`Decodable`. Its first call gives the logits after the prompt,
            whatever tokens it is called with.
        limits: the maximum number of new tokens of each prompt.
        options: of the search; ``n_best`` is 1, ``max_length`` has no effect.
        ends: the ids that end a continuation. Beams do not note which of them it was: the first.
        never: ids that are not written.
        choose: of each row of logits, ``(b v)``, a number that is finite if there is a next token,
            and the token, ``(b)`` each; None: the most probable one.
    """
    if not limits:
        return []
    is_beam = options.beam > 1
    log_probabilities = _LogProbabilities(decode_step, ends, never, device, normalised=is_beam)
    if not is_beam:
        return [ids for ids, _, _ in _write(log_probabilities, cache, limits, 0, choose)]
    found = _beam(log_probabilities, cache, options, limits, start=0)
    best = [max(one, key=lambda h: h.score) for one in found]
    return [[*one.ids, *ends[: one.finished]] for one in best]


@constant_weights()
def _write(
    log_probabilities: _LogProbabilities[K],
    cache: K,
    limits: list[int],
    start: int,
    choose: Choice | None = None,
) -> list[tuple[list[int], float, bool]]:
    """Of each sentence, one token after another, the most probable or the chosen one: the ids, with
    the one that ends it, their log probability, and whether it ended.
    """
    device, b = log_probabilities.ends.device, len(limits)
    batch, copies = _Batch(b, device), HostCopies(device)
    limit, at_limit = torch.tensor(limits, device=device), {*limits}
    done = torch.zeros(b, dtype=torch.bool, device=device)
    tokens = torch.full((b,), start, device=device)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    for t in range(max(limits)):
        alive = batch.alive
        log_p, tokens = (choose or _most_probable)(log_probabilities(tokens, cache))
        steps.append((batch.known, tokens, log_p))
        done[alive] = done[alive] | log_probabilities.end(tokens) | ~log_p.isfinite()
        if t + 1 in at_limit:
            done |= limit <= t + 1
        rows = batch.keep(copies.next(done))
        if len(rows) == 0:
            break
        if len(rows) < len(tokens):
            tokens = tokens[rows]
            cache.keep_batch(rows)
            cache.reorder(rows)
    # What follows the end or the limit belongs to no sentence.
    ids: list[list[int]] = [[] for _ in limits]
    scores, ended, ends = [0.0] * b, [False] * b, log_probabilities.ends.tolist()
    columns = (torch.cat([*one]).tolist() for one in zip(*steps, strict=True))
    for row, token, score in zip(*columns, strict=True):
        if not ended[row] and len(ids[row]) < limits[row]:
            if not isfinite(score):
                raise NoNextToken(row)
            ids[row].append(token)
            scores[row] += score
            ended[row] = token in ends
    return list(zip(ids, scores, ended, strict=True))


@constant_weights()
def _beam(
    log_probabilities: _LogProbabilities[K],
    cache: K,
    options: Search,
    limits: list[int],
    start: int,
) -> list[list[Hypothesis]]:
    """All hypotheses that were found, in no order."""
    device, b, beam = log_probabilities.ends.device, len(limits), options.beam
    count = beam * (1 + len(log_probabilities.ends))
    batch, copies = _Batch(b, device), HostCopies(device)
    found, at_limit = _Found(limits, options, device), {*limits}
    prefixes = torch.empty((b, 1, 0), dtype=torch.long, device=device)
    scores = torch.zeros((b, 1), device=device)
    tokens = torch.full((b,), start, device=device)
    for t in range(max(limits)):
        alive, width = batch.alive, scores.shape[1]
        top, parent, token = _candidates(scores, log_probabilities(tokens, cache), count)
        ends = log_probabilities.end(token)
        found.add_finished(alive, prefixes, parent, ends, top)
        # The `beam` best candidates that do not end with EOS, best first.
        order = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam]
        scores, parent, token = (x.gather(1, order) for x in (top, parent, token))
        scores = scores.masked_fill(ends.gather(1, order), -inf)
        prefixes = torch.cat(
            [prefixes.gather(1, parent[..., None].expand(-1, -1, t)), token[..., None]], dim=2
        )
        if t + 1 in at_limit:
            found.add_unfinished(alive, prefixes, scores)
        found.close(alive, scores[:, 0], t + 1)
        rows = batch.keep(found.check(copies.next(found.state)))
        if len(rows) == 0:
            break
        cache.reorder((rows[:, None] * width + parent[rows]).flatten())
        if len(rows) < len(scores):
            cache.keep_batch(rows)
            scores, token, prefixes = scores[rows], token[rows], prefixes[rows]
        tokens = token.flatten()
    return found.hypotheses()


class _Batch:
    """The sentences that are decoded, on the device and as the host knows them."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.known = torch.arange(size)
        self.all = self.alive = self.known.to(device)

    def keep(self, done: Tensor | None) -> Tensor:
        """Drop the sentences that the host knows to be done, ``(b)`` on the host or None; the rows
        of the others, on the device.
        """
        if done is None or not bool((done[self.known] != 0).any()):
            return self.all
        keep = (done[self.known] == 0).nonzero()[:, 0]
        rows = keep.to(self.alive.device, non_blocking=True)
        self.known, self.alive = self.known[keep], self.alive[rows]
        self.all = self.all[: len(keep)]
        return rows


class _Found:
    """The hypotheses of each sentence, on the device: up to ``2 beam`` that ended with EOS, among
    them the ``beam`` best, then up to ``beam`` that reached the limit. ``state`` ``(b)`` is 0 while
    a sentence is decoded, then 1, or 2 where there is no next token. What is written behind the
    last sentence belongs to none.
    """

    def __init__(self, limits: list[int], options: Search, device: torch.device) -> None:
        # Scores in the precision of the host, where there is one.
        exact = torch.float32 if device.type == "mps" else torch.float64
        penalties = [options.penalty(limit) for limit in limits]
        self.options, self.slots = options, 3 * options.beam
        self.limit = torch.tensor(limits, device=device)
        self.penalty_at_limit = torch.tensor(penalties, dtype=exact, device=device)
        self.state = torch.zeros(len(limits), dtype=torch.int8, device=device)
        self.count, places = torch.zeros_like(self.limit), len(limits) * self.slots + 1
        self.log_p = torch.full((places,), -inf, dtype=exact, device=device)
        self.score, self.length = self.log_p.clone(), self.count.new_zeros(places)
        self.ids = torch.zeros((places, 8), dtype=torch.long, device=device)

    def put(
        self, alive: Tensor, slot: Tensor, here: Tensor, prefixes: Tensor, log_p: Tensor, eos: int
    ) -> None:
        """Hypotheses ``(s w n)`` into slots ``(s w)``, those that are ``here``."""
        n = prefixes.shape[2]
        while n > self.ids.shape[1]:
            self.ids = torch.cat([self.ids, torch.zeros_like(self.ids)], 1)
        index = torch.where(here, alive[:, None] * self.slots + slot, len(self.ids) - 1)
        self.ids[index, :n] = prefixes
        self.length[index] = torch.full_like(index, n)  # a number would be copied to the device
        self.log_p[index] = log_p.to(self.log_p.dtype)
        self.score[index] = self.log_p[index] / self.options.penalty(n + eos)

    def add_finished(
        self, alive: Tensor, prefixes: Tensor, parent: Tensor, ends: Tensor, top: Tensor
    ) -> None:
        """The candidates that end with EOS and are among the best ``beam``."""
        parent, ends, top = (x[:, : self.options.beam] for x in (parent, ends, top))
        here = ends & ~top.isneginf() & (self.state[alive] == 0)[:, None]
        # A step adds up to `beam`, in place of the worst of twice as many: the best stay.
        worst = self.finished(alive).sort(dim=1, stable=True).indices
        slot = worst.gather(1, (here.cumsum(1) - 1).clamp(min=0))
        prefixes = prefixes.gather(1, parent[..., None].expand(-1, -1, prefixes.shape[2]))
        self.put(alive, slot, here, prefixes, top, eos=1)
        self.count[alive] += here.sum(1)

    def finished(self, alive: Tensor) -> Tensor:
        """The scores of what has ended, ``(s 2*beam)``; -inf where a place is free."""
        return self.score[:-1].view(-1, self.slots)[alive, : 2 * self.options.beam]

    def add_unfinished(self, alive: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        """The hypotheses of sentences that have reached their limit."""
        at_limit = (self.limit[alive] == prefixes.shape[2]) & (self.state[alive] == 0)
        slot = 2 * self.options.beam + torch.arange(scores.shape[1], device=scores.device)
        here = at_limit[:, None] & (scores > -inf)
        self.put(alive, slot, here, prefixes, scores, eos=0)

    def close(self, alive: Tensor, best: Tensor, n: int) -> None:
        """Note the sentences that are done.

        They are when no continuation of up to the limit can have a score among the ``n_best``; or
        when ``beam`` hypotheses are finished and none can be the best. ``best`` ``(s)`` is the
        highest log probability of the unfinished hypotheses, which have ``n`` tokens.
        """
        options, best = self.options, best.to(self.log_p.dtype)
        # log p never rises, and the penalty is monotonic in the length: one of both ends is best.
        reachable = torch.maximum(
            best / options.penalty(n + 1), best / self.penalty_at_limit[alive]
        )
        finished = self.finished(alive).topk(options.n_best).values  # -inf while there are fewer
        enough = (self.count[alive] >= options.beam) & (reachable <= finished[:, 0])
        goes_on = (reachable > finished[:, -1]) & ~enough & (self.limit[alive] > n)
        state = self.state[alive]
        self.state[alive] = torch.where(state == 0, (~goes_on).to(torch.int8) + best.isnan(), state)

    def check(self, state: Tensor | None) -> Tensor | None:
        """The same state, on the host."""
        if state is not None and bool((state == 2).any()):
            raise NoNextToken(int((state == 2).nonzero()[0]))
        return state

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Those of each sentence, finished ones first."""
        self.check(self.state.cpu())
        ids, log_p, length = (x.tolist() for x in (self.ids, self.log_p, self.length))
        found: list[list[Hypothesis]] = [[] for _ in self.limit]
        for place in range(len(found) * self.slots):
            if log_p[place] > -inf:
                finished = place % self.slots < 2 * self.options.beam
                score = log_p[place] / self.options.penalty(length[place] + finished)
                one = Hypothesis(ids[place][: length[place]], score, finished)
                found[place // self.slots].append(one)
        return found


class _LogProbabilities(Generic[K]):
    """Log probabilities of the next token, ``(r) -> (r v)``, in fp32 or better. The ids of
    ``never`` have probability 0; those of ``ends`` end a sentence; the first token is ``forced``.
    Where they are not ``normalised``, they are the logits themselves.
    """

    def __init__(
        self,
        decode_step: Callable[[Tensor, K], Tensor],
        ends: tuple[int, ...],
        never: frozenset[int],
        device: torch.device,
        forced: int | None = None,
        normalised: bool = True,
    ) -> None:
        self.decode_step, self.forced, self.normalised = decode_step, forced, normalised
        self.never = torch.tensor(sorted(never), dtype=torch.long, device=device)
        self.ends = torch.tensor(ends, dtype=torch.long, device=device)

    def __call__(self, tokens: Tensor, cache: K) -> Tensor:
        logits = self.decode_step(tokens, cache)
        if len(self.never):
            logits.index_fill_(1, self.never, -inf)
        if self.forced is not None:
            logits.fill_(-inf)[:, self.forced] = 0.0
            self.forced = None
        if not self.normalised:
            return logits
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def end(self, tokens: Tensor) -> Tensor:
        """Whether a sentence ends with each of these tokens."""
        return (tokens[..., None] == self.ends).any(-1)


def _most_probable(log_p: Tensor) -> tuple[Tensor, Tensor]:
    """The log probability of the best continuation of each sentence, and its token: ``(s v) -> (s),
    (s)``.
    """
    if log_p.device.type != "cpu":
        return log_p.max(1)
    top, _, token = _candidates(log_p.new_zeros(len(log_p), 1), log_p, 1)
    return top[:, 0], token[:, 0]


def _candidates(scores: Tensor, log_p: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` continuations of each sentence, best first: their log probabilities,
    parent hypotheses and tokens, ``(s w), (s*w v) -> (s count)`` each, for ``s`` sentences of ``w``
    hypotheses.

    With ``w`` times one more than the ids that end a sentence, at least ``w`` do not end it.

    On a CPU they are looked for among the ``count`` blocks of the vocabulary that have the largest
    maxima: PyTorch finds these several numbers at a time, where ``topk`` and ``max`` take each
    alone.
    """
    (s, w), v, device = scores.shape, log_p.shape[1], log_p.device
    if device.type != "cpu":
        total = scores[..., None] + log_p.view(s, w, v)
        total = total.masked_fill(scores.isneginf()[..., None], -inf).flatten(1)
        top, among = total.topk(min(count, w * v), dim=1)
        parent = among // v
        return top, parent, among - parent * v
    blocks = v // BLOCK
    whole, log_p = blocks * BLOCK, log_p.view(s, w, v)
    largest = scores[..., None] + log_p[..., :whole].unflatten(-1, (blocks, BLOCK)).amax(-1)
    # After an impossible prefix, logits may be NaN.
    largest = largest.masked_fill(scores.isneginf()[..., None], -inf).flatten(1)
    block = largest.topk(min(count, w * blocks), dim=1).indices
    first = block // max(blocks, 1) * v + block % max(blocks, 1) * BLOCK
    rest = torch.arange(w, device=device)[:, None] * v + torch.arange(whole, v, device=device)
    inside = first[..., None] + torch.arange(BLOCK, device=device)
    among = torch.cat([inside.flatten(1), rest.flatten().expand(s, -1)], 1)
    parent = among // v
    score = scores.gather(1, parent)
    total = (score + log_p.flatten(1).gather(1, among)).masked_fill(score.isneginf(), -inf)
    top, index = total.topk(min(count, total.shape[1]), dim=1)
    parent, among = parent.gather(1, index), among.gather(1, index)
    return top, parent, among - parent * v
