"""Contracts of attentions, in calls as a block makes them, of weightings, and of mixers, which are
called in an encoder and a decoder of one layer that hold nothing else: cache and masks are those of
use.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any, ClassVar

import torch
from torch import Tensor

from tfzoo.base.registry import Entry, create
from tfzoo.contracts import Attention, Weighting
from tfzoo.errors import listing
from tfzoo.masks import Mask
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.options import ATTENTION_OPTIONS, StackOptions
from tfzoo.models.rules import options_read
from tfzoo.testing.contract import Violation, assert_same, assert_same_gradients, contract
from tfzoo.testing.samples import (
    LEFT,
    RIGHT,
    SIZES,
    B,
    D,
    N,
    build_randomized,
    lengths_to_valid,
    randomize,
)
from tfzoo.testing.subject import pass_padding

H, Q, K, C, E = SIZES["heads"], 5, 7, SIZES["head_dim"], 6
MIDDLE, FAR = 40, 300
"""Numbers of keys."""


@dataclass
class Call:
    """One call of an attention: ``(b h q c), (b h k c), (b h k e)`` and who may look at whom."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool = False
    valid: Tensor | None = None
    start: int = 0
    allowed: Tensor | None = None
    bias: Tensor | None = None
    temperature: float = 1.0

    def inputs(self, attention: Attention) -> list[Tensor]:
        """What gradients are asked of: tensors, which then require them, and parameters."""
        given = (self.q, self.k, self.v, self.bias)
        return [x.requires_grad_() for x in given if x is not None] + [*attention.parameters()]

    def __call__(self, attention: Attention, dropout: float = 0.0) -> Tensor:
        return attention.forward(
            self.q,
            self.k,
            self.v,
            mask=self.mask,
            bias=self.bias,
            temperature=self.temperature,
            dropout=dropout,
        )

    @property
    def mask(self) -> Mask:
        return Mask(self.causal, self.valid, self.start, self.allowed)

    def visible(self) -> Tensor:
        """True where a query may look at a key, written down query by query: ``(b h q k)``."""
        (b, h, q, _), k = self.q.shape, self.k.shape[2]
        sees = torch.ones(b, h, q, k, dtype=torch.bool)
        if self.causal:
            sees &= torch.arange(k) <= self.start + torch.arange(q)[:, None]
        if self.valid is not None:
            sees &= self.valid[:, None, None]
        return sees if self.allowed is None else sees & self.allowed

    def reference(self, attention: Attention) -> Tensor:
        """The output by the formula, from the attention's own scores."""
        scores = attention.scores(self.q, self.k) / self.temperature
        if self.bias is not None:
            scores = scores + self.bias
        sees = self.visible()
        weights = torch.where(sees, (scores - scores.amax(-1, keepdim=True).detach()).exp(), 0.0)
        return attention.combine(weights / weights.sum(-1, keepdim=True).clamp(min=1e-30), self.v)


def draw(
    q: int = Q,
    k: int = K,
    e: int = E,
    *,
    lengths: list[int] | None = None,
    left: bool = False,
    bias: int = 0,
    allowed: tuple[int, int] | None = None,
    **options: Any,
) -> Call:
    """A call with random queries, keys and values; ``lengths`` are those of the texts, ``bias`` of
    how many texts it has one, ``allowed`` of how many texts and heads a random mask ``(b h q k)``:
    the first query may look at nothing, the second at one key.
    """
    call = Call(
        torch.randn(B, H, q, C), torch.randn(B, H, k, C), torch.randn(B, H, k, e), **options
    )
    if lengths is not None:
        call.valid = lengths_to_valid(lengths, k, left)
    if bias:
        call.bias = torch.randn(bias, H, q, k)
    if allowed is not None:
        call.allowed = torch.rand(*allowed, q, k) < 0.5
        call.allowed[:, :, :2] = False
        call.allowed[:, :, 1, 0] = True
    return call


CALLS: Mapping[str, Mapping[str, Any]] = {
    "no mask": {},
    "causal": {"q": K, "causal": True},
    "cached step": {"q": 1, "causal": True, "start": K - 1},
    "cached steps": {"q": 3, "causal": True, "start": 2},
    "padding on the right": {"lengths": [7, 5, 1]},
    "padding on the left, causal": {"q": K, "lengths": [7, 5, 1], "left": True, "causal": True},
    "bias, padding and temperature": {"bias": B, "lengths": [7, 5, 0], "temperature": 0.4},
    "any mask of each head, bias": {"allowed": (1, H), "bias": 1},
    "cached steps, any mask": {"q": 3, "causal": True, "start": 2, "allowed": (B, 1)},
    # for longer texts, an attention may choose another way to multiply
    "middle text, causal": {"q": MIDDLE, "k": MIDDLE, "e": C, "causal": True},
    "middle text, padding on the left, causal, bias": {
        **{"q": MIDDLE, "k": MIDDLE, "causal": True, "lengths": [40, 3, 0], "left": True, "bias": 1}
    },
    "middle text, any mask, causal": {
        **{"q": MIDDLE, "k": MIDDLE, "e": C, "causal": True, "allowed": (B, 1)}
    },
    "long text": {"k": FAR, "e": C},
    "long text, any mask, padding": {
        **{"k": FAR, "e": C, "allowed": (1, 1), "lengths": [FAR, 7, 0]}
    },
    "long text, padding": {"k": FAR, "e": C, "lengths": [FAR, 7, 0], "temperature": 1.7},
    "long text, bias, causal": {"q": 150, "k": 150, "e": C, "causal": True, "bias": 1},
    "long text, cached steps": {"q": 3, "k": FAR, "e": C, "causal": True, "start": FAR - 6},
    "long text, causal": {"q": FAR // 2, "k": FAR // 2, "causal": True},
}
"""Calls of every sort that a block makes, by name."""


def calls() -> Iterator[tuple[str, Call]]:
    """Those, drawn at random."""
    return ((name, draw(**given)) for name, given in CALLS.items())


@contract("attention")
def the_output_is_the_softmax_of_its_own_scores(entry: Entry) -> None:
    """``forward`` equals ``combine(softmax(scores / temperature + bias), v)`` over the visible
    keys, zeros where there is none, for short, middle and long texts; so do its gradients.
    ``combine`` is ``weights v`` unless overridden.
    """
    attention = build_randomized(entry)
    for name, call in calls():
        inputs = call.inputs(attention)
        out, expected = call(attention), call.reference(attention)
        assert_same(out, expected, name)
        assert_same_gradients(out, expected, inputs, name)


@contract("attention")
def hidden_keys_have_no_influence(entry: Entry) -> None:
    """A masked key has exactly no influence, however large its score."""
    attention = build_randomized(entry)
    for name, call in calls():
        hidden = ~call.visible()
        bias = torch.zeros(hidden.shape) if call.bias is None else call.bias
        lifted = replace(call, bias=bias.masked_fill(hidden, 1e5))
        assert_same(lifted(attention), call(attention), f"hidden scores of 100,000, {name}")


def cases() -> Iterator[tuple[str, Tensor, Mask, Tensor]]:
    """Scores ``(b h q k)``, a mask, and True where it shows a key, ``(b h q k)``; by name."""
    for name, call in calls():
        if call.bias is None and call.k.shape[2] <= MIDDLE:
            yield name, call.q @ call.k.mT, call.mask, call.visible()


def scores(k: int = MIDDLE) -> Tensor:
    """Random scores of a few units: ``(b h q k)``."""
    return 2.0 * torch.randn(B, H, Q, k)


def gradient(weighting: Weighting, given: Tensor, mask: Mask, upstream: Tensor) -> Tensor:
    """The gradient of the scores, for this one of the weights; zeros where there is none."""
    given = given.detach().requires_grad_()
    weights = weighting(given, mask)
    if not weights.requires_grad:
        return torch.zeros_like(given)
    found = torch.autograd.grad(weights, given, upstream, allow_unused=True)[0]
    return torch.zeros_like(given) if found is None else found


@contract("weighting")
def hidden_keys_have_no_weight(entry: Entry) -> None:
    """A hidden key has a weight of exactly 0, and its score, NaN too, no influence and no
    gradient.
    """
    weighting = build_randomized(entry)
    for name, given, mask, visible in cases():
        weights, upstream = weighting(given, mask), torch.randn_like(given)
        if bool(weights[~visible].ne(0).any()):
            raise Violation(f"a hidden key has a weight, {name}")
        for other in (1e5, -1e5, -inf, nan):
            changed = weighting(given.masked_fill(~visible, other), mask)
            assert_same(changed, weights, f"hidden scores of {other}, {name}", 0.0)
        hidden = given.masked_fill(~visible, nan)
        for found in (gradient(weighting, one, mask, upstream) for one in (given, hidden)):
            if bool(found[~visible].ne(0).any()):
                raise Violation(f"a hidden score has a gradient, {name}")


@contract("weighting")
def a_score_of_minus_infinity_hides_as_the_mask_does(entry: Entry) -> None:
    """A score of -inf, which a bias gave, is the same as a key hidden by the mask."""
    weighting = build_randomized(entry)
    for name, given, mask, visible in cases():
        upstream = torch.randn_like(given)
        shown = given.masked_fill(~visible, -inf)
        assert_same(weighting(shown, Mask()), weighting(given, mask), name)
        found = gradient(weighting, shown, Mask(), upstream)
        assert_same(found, gradient(weighting, given, mask, upstream), f"gradient, {name}")


BETWEEN = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0]]).bool()


def sides(entry: Entry) -> list[Encoder | Decoder]:
    """An encoder, and a decoder where there can be one, that compute what the mixer does."""
    none = dict.fromkeys(("residual", "norm", "feedforward", "position"), "none")
    options: dict[str, Any] = {"mixer": entry.name, "dropout": 0.0, **none}
    modules: list[Encoder | Decoder] = [Encoder(D, SIZES["heads"], 1, **options)]
    if "bidirectional" not in entry.traits:
        modules.append(Decoder(D, SIZES["heads"], 1, cross_attention=False, **options))
    for module in modules:
        pass_padding(module)
        randomize(module.eval())
    return modules


@contract("mixer")
def a_prompt_may_be_padded(entry: Entry) -> None:
    """Decoding goes on after a prompt with padding on either side, of nothing but padding, or with
    padding between tokens, as it does after the prompt without padding.
    """
    for module in sides(entry)[1:]:
        x = torch.randn(B, N + 4, D)
        for prompt in (RIGHT, LEFT, BETWEEN, lengths_to_valid([6, 0, 3], N)):
            valid = torch.cat([prompt, BETWEEN[:, :2], torch.ones(B, 2).bool()], 1)
            cache, steps = module.init_cache(), []
            for part, real in zip(
                torch.split(x, [3, 3, 2, 1, 1], 1),
                torch.split(valid, [3, 3, 2, 1, 1], 1),
                strict=True,
            ):
                mask = None if bool(real.all()) else Mask(keys=real)
                part = torch.where(real[..., None], part, 1e4)
                steps.append(module(part, mask=mask, cache=cache))
            for out, row, real in zip(torch.cat(steps, 1), x, valid, strict=True):
                assert_same(out[real], module(row[real][None])[0], "a prompt with padding")


@contract("mixer")
def reads_says_the_truth(entry: Entry) -> None:
    """Of the options of attention, the constructor reads those that ``reads`` names."""

    class Recorded(StackOptions):
        names: ClassVar[set[str]] = set()

        def __getattribute__(self, name: str) -> Any:
            Recorded.names.add(name)
            return super().__getattribute__(name)

    options = Recorded(heads=SIZES["heads"])
    Recorded.names.clear()
    create("mixer", entry.name, dim=D, options=options)
    read = Recorded.names & ATTENTION_OPTIONS
    if read != options_read(entry):
        raise Violation(f"reads {listing(read)}, but claims {listing(options_read(entry))}")
