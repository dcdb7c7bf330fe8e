"""Continuing a text with a language model: the most probable tokens, or sampled ones."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfzoo.base.values import check_range
from tfzoo.errors import BadOption
from tfzoo.masks import Mask, keys_of
from tfzoo.models.context import DecoderCache
from tfzoo.models.inputs import check_ids
from tfzoo.models.language_model import LanguageModel
from tfzoo.search import Search, continuations

CONTINUED = ("max_positions", "init_cache", "hidden", "logits", "decode_step")
"""What :func:`generate` uses of a model."""


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    mask: Mask | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Sequence[int] | Tensor | None = None,
    pad: int | None = None,
    generator: torch.Generator | None = None,
    beam: int = 1,
    length_penalty: float = 0.6,
) -> Tensor:
    """Continue each prompt: ``(b n) -> (b m)``, the new tokens alone.

    Each token is computed once; keys and values of earlier ones are cached. In training mode,
    dropout is applied: call ``model.eval()`` first.

    >>> import tfzoo, torch
    >>> model = tfzoo.LanguageModel(100, dim=16, heads=2, layers=1).eval()
    >>> prompts = torch.tensor([[5, 6, 7], [8, 9, 0]])
    >>> mask = tfzoo.Mask.right(torch.tensor([3, 2]), 3)  # the last 0 is padding
    >>> generate(model, prompts, 4, mask=mask, temperature=0.8, top_p=0.9, stop=3).shape[0]
    2

    Args:
        prompt: token ids, at least one in each row.
        max_new_tokens: the number of new tokens ``m``, less if all rows end with ``stop`` before.
        mask: which tokens of the prompts are real, ``Mask.right(lengths, n)``, or
            ``Mask(keys=...)`` of padding on any side; None: all are.
        temperature: divides the logits; 0: the most probable token, the first where equal.
        top_k: sample from the ``top_k`` most probable tokens.
        top_p: sample from the most probable tokens whose probabilities sum to ``top_p``, the last
            one included (Holtzman et al. 2020, arXiv:1904.09751, section 3.1), after ``top_k``.
        stop: the id that ends a row, or several. It is part of the output, and ``pad`` follows it.
        pad: fills rows that end before others, and is not generated unless it is a ``stop``; None:
            the first ``stop`` fills, and any id is generated.
        generator: the source of random numbers, on the model's device; the global one by default.
        beam: number of hypotheses of beam search, without ``temperature``: the continuation with
            the best score is returned, whether it ends with ``stop`` or not.
        length_penalty: of the score of a hypothesis, as in :class:`tfzoo.Search`.

    Raises:
        BadOption: no language model, an option out of range or without effect, prompts that are not
            ``(b n)``, or one without tokens or too long for the model's positions.
        NoNextToken: logits are NaN or +inf, or -inf for every token.
    """
    check_options(max_new_tokens, temperature, top_k, top_p, beam, length_penalty)
    if hasattr(model, "encode"):
        raise BadOption("generate continues text; tfzoo.search.search is for models with a source")
    if isinstance(stop, Tensor):
        stop = stop.flatten().tolist()
    stops = [stop] if isinstance(stop, int) else list(stop or [])
    for one in stops:
        check_range("stop", one, ge=0, whole=True)
    cache, logits = _read(model, prompt, max_new_tokens, mask)
    first = [logits]

    def decode_step(tokens: Tensor, cache: DecoderCache) -> Tensor:
        return first.pop() if first else model.decode_step(tokens, cache)

    def sample(logits: Tensor) -> tuple[Tensor, Tensor]:
        largest = logits.amax(-1)
        filtered = filter_logits(logits, temperature, top_k, top_p)
        filtered = filtered.masked_fill(~largest.isfinite()[:, None], 0.0)
        return largest, torch.multinomial(filtered.softmax(-1), 1, generator=generator)[:, 0]

    rows = continuations(
        decode_step,
        cache,
        [max_new_tokens] * len(prompt),
        Search(beam, length_penalty),
        ends=tuple(stops),
        never=frozenset() if pad is None else frozenset({pad}) - {*stops},
        device=prompt.device,
        choose=sample if temperature > 0 else None,
    )
    fill = pad if pad is not None else (stops or [0])[0]
    n = max(map(len, rows), default=0)
    padded = [row + [fill] * (n - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=prompt.device).view(len(rows), n)


def filter_logits(
    logits: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Logits of the distribution to sample from, ``(b v) -> (b v)``: divided by ``temperature``,
    and ``-inf`` at tokens that ``top_k`` and then ``top_p`` leave out. In fp32 or better.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if top_p is not None and top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        p = ordered.softmax(-1)
        before = p.cumsum(-1) - p  # the sum of all that are more probable
        ordered = ordered.masked_fill(before >= top_p, float("-inf"))
        logits = torch.empty_like(logits).scatter_(-1, order, ordered)
    return logits


def check_options(
    max_new_tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    beam: int,
    length_penalty: float,
) -> None:
    """Raise BadOption where an option of :func:`generate` is out of range or has no effect."""
    check_range("max_new_tokens", max_new_tokens, ge=1, whole=True)
    check_range("temperature", temperature, ge=0)
    check_range("top_k", top_k, ge=1, whole=True, optional=True)
    check_range("top_p", top_p, gt=0, le=1, optional=True)
    if temperature == 0 and not (top_k is None and top_p is None):
        raise BadOption("top_k and top_p choose what is sampled from: set temperature over 0")
    Search(beam, length_penalty)  # which checks both
    if beam > 1 and temperature > 0:
        raise BadOption(
            "beams search for the most probable text and temperature samples one: give one of both"
        )


def _read(
    model: LanguageModel,
    prompt: Tensor,
    max_new_tokens: int,
    mask: Mask | None,
) -> tuple[DecoderCache, Tensor]:
    """The cache of the prompts, and the logits of the token after each: ``(b v)``."""
    if missing := [name for name in CONTINUED if not hasattr(model, name)]:
        raise BadOption(
            f"{type(model).__name__} cannot continue a text: it has no {', '.join(missing)}. "
            "tfzoo.LanguageModel has; for a model of your own, see tfzoo.search.search"
        )
    check_ids("prompt", prompt)
    last = _last_tokens(model, prompt, max_new_tokens, mask)
    cache = model.init_cache()
    hidden = model.hidden(prompt, mask=mask, cache=cache)
    return cache, model.logits(hidden[torch.arange(len(prompt), device=prompt.device), last])


def _last_tokens(
    model: LanguageModel, prompt: Tensor, max_new_tokens: int, mask: Mask | None
) -> Tensor:
    """The place of the last token of each prompt, ``(b n) -> (b)``."""
    n, limit = prompt.shape[1], model.max_positions
    keys = keys_of(mask)
    if n == 0 or not (keys is None or bool(keys.any(1).all())):
        raise BadOption("a prompt without tokens: begin with one at least, such as BOS")
    if limit is not None and n + max_new_tokens - 1 > limit:
        raise BadOption(
            f"a prompt of {n} tokens and {max_new_tokens} new ones, but the model has {limit} "
            "positions: shorten the prompt, or raise max_length"
        )
    if keys is None:
        return torch.full((len(prompt),), n - 1, device=prompt.device)
    return n - 1 - keys.flip(1).to(torch.uint8).argmax(1)  # argmax is the first of the largest
