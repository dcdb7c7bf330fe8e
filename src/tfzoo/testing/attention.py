"""What every attention promises."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tfzoo.contracts import Attention
from tfzoo.masks import Mask
from tfzoo.registry import Entry
from tfzoo.rotation import Rotation
from tfzoo.testing.promise import Violation, differ, finite, promise, same
from tfzoo.testing.samples import SIZES, lengths_to_valid, make

B, H, Q, K, C, E = 3, SIZES["heads"], 5, 7, SIZES["head_dim"], 6
MIDDLE, FAR = 40, 300
"""Numbers of keys: an attention may choose another way to multiply for longer texts."""


@dataclass
class Call:
    """One call of an attention: ``(b h q c), (b h k c), (b h k e)`` and who may look at whom."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool = False
    valid: Tensor | None = None
    start: int = 0
    bias: Tensor | None = None
    temperature: float = 1.0

    def __call__(self, attention: Attention, dropout: float = 0.0) -> Tensor:
        mask = Mask(self.causal, self.valid, self.start)
        return attention.forward(
            self.q,
            self.k,
            self.v,
            mask=mask,
            bias=self.bias,
            temperature=self.temperature,
            dropout=dropout,
        )

    def visible(self) -> Tensor:
        """True where a query may look at a key, written down one by one: ``(b q k)``."""
        (b, _, q, _), k = self.q.shape, self.k.shape[2]
        sees = torch.ones(b, q, k, dtype=torch.bool)
        for i in range(q):
            for j in range(k):
                if self.causal and j > self.start + i:
                    sees[:, i, j] = False
                if self.valid is not None:
                    sees[:, i, j] &= self.valid[:, j]
        return sees

    def reference(self, attention: Attention) -> Tensor:
        """The output by the formula, from the attention's own scores."""
        scores = attention.scores(self.q, self.k) / self.temperature
        if self.bias is not None:
            scores = scores + self.bias
        sees = self.visible()[:, None]
        weights = torch.where(sees, (scores - scores.amax(-1, keepdim=True).detach()).exp(), 0.0)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30) @ self.v


def draw(q: int = Q, k: int = K, e: int = E, **options: Any) -> Call:
    """A call with random queries, keys and values."""
    return Call(
        torch.randn(B, H, q, C), torch.randn(B, H, k, C), torch.randn(B, H, k, e), **options
    )


def calls() -> Iterator[tuple[str, Call]]:
    """Calls of every sort that a block makes, by name."""
    yield "no mask", draw()
    yield "causal", draw(q=K, causal=True)
    yield "cached step", draw(q=1, causal=True, start=K - 1)
    yield "cached steps", draw(q=3, causal=True, start=2)
    yield "padding on the right", draw(valid=lengths_to_valid([7, 5, 1], K))
    yield (
        "padding on the left, causal",
        draw(q=K, valid=lengths_to_valid([7, 5, 1], K, left=True), causal=True),
    )
    yield "bias", draw(bias=torch.randn(1, H, Q, K))
    yield (
        "bias, padding and temperature",
        draw(bias=torch.randn(B, H, Q, K), valid=lengths_to_valid([7, 5, 0], K), temperature=0.4),
    )
    yield "temperature", draw(temperature=2.5)
    yield "middle text", draw(q=MIDDLE, k=MIDDLE)
    yield "middle text, causal", draw(q=MIDDLE, k=MIDDLE, e=C, causal=True)
    yield (
        "middle text, padding on the left, causal, bias",
        draw(
            q=MIDDLE,
            k=MIDDLE,
            causal=True,
            valid=lengths_to_valid([40, 3, 0], MIDDLE, left=True),
            bias=torch.randn(1, H, MIDDLE, MIDDLE),
        ),
    )
    yield "long text", draw(k=FAR, e=C)
    yield (
        "long text, padding",
        draw(k=FAR, e=C, valid=lengths_to_valid([FAR, 7, 0], FAR), temperature=1.7),
    )
    yield "long text, cached steps", draw(q=3, k=FAR, e=C, causal=True, start=FAR - 6)
    yield "long text, causal", draw(q=FAR // 2, k=FAR // 2, causal=True)


@promise("attention")
def a_score_for_each_query_and_key(entry: Entry) -> None:
    attention, call = make(entry), draw()
    keys = attention.prepare_keys(call.k)
    if keys.shape[:3] != (B, H, K):
        raise Violation(
            f"prepare_keys(k) must keep batch, heads and tokens: {tuple(keys.shape)} of {tuple(call.k.shape)}"
        )
    if attention.scores(call.q, call.k).shape != (B, H, Q, K):
        raise Violation(
            f"scores(q, k) must be (b h q k): {tuple(attention.scores(call.q, call.k).shape)}"
        )
    if call(attention).shape != (B, H, Q, E):
        raise Violation(
            f"the output must be (b h q e), values of their own width: {tuple(call(attention).shape)}"
        )


@promise("attention")
def the_output_is_the_softmax_of_its_own_scores(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        same(call(attention), call.reference(attention), name)


@promise("attention")
def gradients_are_those_of_its_own_scores(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        inputs = [x.requires_grad_() for x in (call.q, call.k, call.v, call.bias) if x is not None]
        inputs += list(attention.parameters())
        upstream = torch.randn_like(call(attention))
        actual = torch.autograd.grad((call(attention) * upstream).sum(), inputs)
        expected = torch.autograd.grad((call.reference(attention) * upstream).sum(), inputs)
        for one, other in zip(actual, expected, strict=True):
            same(one, other, f"gradient, {name}", 1e-3)


@promise("attention")
def the_map_is_what_the_output_is_made_with(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        mask = Mask(call.causal, call.valid, call.start)
        weights = attention.weights(
            call.q, call.k, mask=mask, bias=call.bias, temperature=call.temperature
        )
        same(weights @ call.v, call(attention), f"weights @ v, {name}")
        same(
            weights.sum(-1),
            call.visible().any(-1)[:, None].expand(weights.shape[:-1]).float(),
            f"weights add up to one, {name}",
        )


@promise("attention")
def hidden_keys_have_no_influence(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        hidden = ~call.visible()
        never = hidden.all(1)[:, None, :, None]  # keys that no query of the row may look at
        # What is hidden gets scores that no finite penalty would outweigh.
        bias = torch.zeros(B, H, *hidden.shape[1:]) if call.bias is None else call.bias
        lifted = replace(call, bias=bias.masked_fill(hidden[:, None], 1e5))
        same(lifted(attention), call(attention), f"hidden scores of 100,000, {name}")
        other = replace(
            call,
            k=torch.where(never, 50 * torch.randn_like(call.k), call.k),
            v=torch.where(never, 1e4, call.v),
        )
        same(other(attention), call(attention), f"other hidden keys and values, {name}")


@promise("attention")
def every_visible_key_has_influence(entry: Entry) -> None:
    attention = make(entry)
    for call in (draw(q=K, causal=True), draw(valid=lengths_to_valid([7, 5, 2], K))):
        before, sees = call(attention), call.visible()
        for key in range(K):
            v = call.v.clone()
            v[:, :, key] += 100.0
            changed = (replace(call, v=v)(attention) - before).abs().amax((1, 3)) > 1e-6
            if not torch.equal(changed, sees[:, :, key]):
                raise Violation(
                    f"key {key} reaches queries {changed.nonzero().tolist()}, visible to {sees[:, :, key].nonzero().tolist()}"
                )


@promise("attention")
def a_query_that_may_look_at_nothing_gets_zeros(entry: Entry) -> None:
    attention = make(entry)
    blind = [
        draw(valid=lengths_to_valid([7, 3, 0], K)),
        draw(k=FAR, e=C, valid=lengths_to_valid([FAR, 3, 0], FAR)),
    ]
    blind.append(draw(q=K, causal=True, valid=lengths_to_valid([7, 3, 1], K, left=True)))
    blind.append(replace(blind[0], bias=torch.randn(B, H, Q, K)))
    for call in blind:
        nothing = ~call.visible().any(-1)
        inputs = [
            x.requires_grad_() for x in (call.q, call.k, call.v, call.bias) if x is not None
        ] + list(attention.parameters())
        for dropout in (0.0, 0.5):
            out = call(attention, dropout)
            if bool(out.transpose(1, 2)[nothing].ne(0).any()):
                raise Violation("not zero where nothing is visible")
            for gradient in torch.autograd.grad(out.square().sum(), inputs):
                finite(gradient, "gradient where nothing is visible")


@promise("attention")
def temperature_divides_scores_and_towards_zero_is_a_hard_maximum(entry: Entry) -> None:
    attention, call = make(entry), draw()
    differ(replace(call, temperature=3.0)(attention), call(attention), "temperature 3")
    best = attention.scores(call.q, call.k).argmax(-1)
    hard = call.v.gather(2, best[..., None].expand(-1, -1, -1, E))
    same(replace(call, temperature=1e-5)(attention), hard, "temperature 0.00001")


@promise("attention")
def dropout_drops_weights_and_scales_the_others(entry: Entry) -> None:
    attention = make(entry)
    for k in (K, FAR):
        call = draw(k=k)
        call.v = torch.eye(k).expand(B, H, k, k)  # so that the output is the weights
        weights = call(attention)
        dropped = call(attention, dropout=0.25)
        same(call(attention), weights, "no dropout, twice")
        same(dropped, torch.where(dropped == 0, 0.0, weights / 0.75), "weights that are kept")
        share = ((dropped == 0) & (weights > 0)).float().mean().item()
        if not abs(share - 0.25) < (0.12 if k == K else 0.03):
            raise Violation(f"dropout of 0.25 drops {share:.0%} of the weights")


@promise("attention")
def gradients_pass_the_weights_that_dropout_kept(entry: Entry) -> None:
    attention = make(entry)
    for k in (K, 2 * MIDDLE):
        call = draw(k=k, e=k, valid=lengths_to_valid([k, k - 2, 1], k))
        inputs = [x.requires_grad_() for x in (call.q, call.k, call.v)] + list(
            attention.parameters()
        )
        torch.manual_seed(4)
        kept = replace(call, v=torch.eye(k).expand(B, H, k, k))(attention, 0.3).detach() != 0
        torch.manual_seed(4)
        out = call(attention, 0.3)
        mask = Mask(call.causal, call.valid, call.start)
        expected = attention.weights(call.q, call.k, mask=mask) * kept / 0.7 @ call.v
        same(out, expected, "the same draw", 1e-3)
        upstream = torch.randn_like(out)
        pairs = zip(
            *(torch.autograd.grad((one * upstream).sum(), inputs) for one in (out, expected)),
            strict=True,
        )
        for one, other in pairs:
            same(one, other, "gradient under dropout", 1e-3)


@promise("attention")
def keys_are_prepared_one_by_one(entry: Entry) -> None:
    """A cache holds what ``prepare_keys`` returned when each token came."""
    attention, call = make(entry), draw()
    pieces = [attention.prepare_keys(call.k[:, :, i : i + 1]) for i in range(K)]
    same(torch.cat(pieces, 2), attention.prepare_keys(call.k), "keys of single tokens")


@promise("attention")
def prepared_keys_give_what_plain_keys_give(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        keys = attention.prepare_keys(call.k)
        options = {"mask": Mask(call.causal, call.valid, call.start), "bias": call.bias}
        plain = attention.forward(call.q, call.k, call.v, **options)
        prepared = attention.forward(call.q, keys, call.v, **options, keys_prepared=True)
        same(prepared, plain, f"the output, {name}")
        plain = attention.weights(call.q, call.k, **options)
        prepared = attention.weights(call.q, keys, **options, keys_prepared=True)
        same(prepared, plain, f"the map, {name}")


@promise("attention")
def rotatable_says_the_truth(entry: Entry) -> None:
    """Scores stay when queries and keys are turned alike, if the trait is claimed and only then."""
    attention, claimed = make(entry), "rotatable" in entry.traits
    for halves in (False, True):
        call = draw()
        angles = torch.rand(1, 1, 1, C // 2) * 6.28
        turn = Rotation(angles.cos(), angles.sin(), halves)
        turned = replace(call, q=turn(call.q), k=turn(call.k))
        if claimed:
            same(
                turned(attention),
                call(attention),
                "claims to be rotatable, but a common turn changes the output",
            )
        else:
            differ(
                turned(attention),
                call(attention),
                "is rotatable, but does not claim it",
                least=1e-5,
            )


@promise("attention")
def a_text_does_not_see_the_others_of_its_batch(entry: Entry) -> None:
    attention, call = make(entry), draw(valid=lengths_to_valid([7, 5, 2], K))
    together = call(attention)
    order = torch.tensor([2, 0, 1])
    shuffled = Call(
        call.q[order],
        call.k[order],
        call.v[order],
        valid=call.valid[order] if call.valid is not None else None,
    )
    same(shuffled(attention), together[order], "another order")
    same(
        Call(call.q[1:2], call.k[1:2, :, :5], call.v[1:2, :, :5])(attention),
        together[1:2],
        "alone and without padding",
    )


@promise("attention")
def half_precision_under_autocast_is_close(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        low = [x.bfloat16() for x in (call.q, call.k, call.v)]
        with torch.autocast("cpu", torch.bfloat16):
            out = replace(call, q=low[0], k=low[1], v=low[2])(attention)
        if out.dtype != torch.bfloat16:
            raise Violation(f"bfloat16 in, {out.dtype} out, {name}")
        expected = replace(call, q=low[0].float(), k=low[1].float(), v=low[2].float())(attention)
        same(out, expected, f"bfloat16, {name}", 6e-2)


@promise("attention")
def double_precision_in_double_precision_out(entry: Entry) -> None:
    attention = make(entry)
    for name, call in calls():
        expected = call(attention)
        bias = None if call.bias is None else call.bias.double()
        double = replace(call, q=call.q.double(), k=call.k.double(), v=call.v.double(), bias=bias)
        out = double(attention.double())
        attention.float()
        if out.dtype != torch.float64:
            raise Violation(f"float64 in, {out.dtype} out, {name}")
        same(out, expected, f"float64, {name}")
