"""Contracts of every attention."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import torch
from torch.nn.functional import one_hot

from tfzoo.base.dropout import dropout as drop
from tfzoo.base.registry import Entry
from tfzoo.base.rotation import Rotation
from tfzoo.testing.attention_calls import (
    FAR,
    MIDDLE,
    B,
    C,
    E,
    H,
    K,
    Q,
    calls,
    draw,
    draw_allowed,
    mixes_heads,
)
from tfzoo.testing.contract import (
    CLEAR,
    Violation,
    assert_claimed,
    assert_differs,
    assert_dtype,
    assert_finite,
    assert_same,
    assert_same_if,
    assert_shape,
    contract,
)
from tfzoo.testing.samples import build_randomized, lengths_to_valid


@contract("attention")
def a_score_for_each_query_and_key(entry: Entry) -> None:
    """Shapes: ``prepare_keys`` keeps ``(b h k ...)``, ``scores`` is ``(b h q k)``, the output ``(b
    h q e)``.
    """
    attention, call = build_randomized(entry), draw()
    keys = attention.prepare_keys(call.k)
    if keys.shape[:3] != (B, H, K):
        raise Violation(
            "prepare_keys(k) must keep batch, heads and tokens: "
            f"{tuple(keys.shape)} of {tuple(call.k.shape)}"
        )
    scores = attention.scores(call.q, call.k)
    assert_shape(scores, (B, H, Q, K), "scores(q, k) must be (b h q k)")
    out = call(attention)
    assert_shape(out, (B, H, Q, E), "the output must be (b h q e), e of the values")


@contract("attention")
def the_output_is_the_softmax_of_its_own_scores(entry: Entry) -> None:
    """``forward`` equals ``combine(softmax(scores / temperature + bias), v)`` over the visible
    keys, for short, middle and long texts; ``combine`` is ``weights v`` unless overridden.
    """
    attention = build_randomized(entry)
    for name, call in calls():
        assert_same(call(attention), call.reference(attention), name)


@contract("attention")
def gradients_are_those_of_its_own_scores(entry: Entry) -> None:
    """The gradients of ``forward`` are those of that formula."""
    attention = build_randomized(entry)
    for name, call in calls():
        inputs = [x.requires_grad_() for x in (call.q, call.k, call.v, call.bias) if x is not None]
        inputs += list(attention.parameters())
        upstream = torch.randn_like(call(attention))
        actual = torch.autograd.grad((call(attention) * upstream).sum(), inputs)
        expected = torch.autograd.grad((call.reference(attention) * upstream).sum(), inputs)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, f"gradient, {name}")


@contract("attention")
def the_map_is_what_the_output_is_made_with(entry: Entry) -> None:
    """``weights`` combined with ``v`` are the output; each row of ``weights`` that sees a key sums
    to 1.
    """
    attention = build_randomized(entry)
    for name, call in calls():
        weights = attention.weights(
            call.q, call.k, mask=call.mask, bias=call.bias, temperature=call.temperature
        )
        assert_same(attention.combine(weights, call.v), call(attention), f"combined, {name}")
        assert_same(
            weights.sum(-1),
            call.visible().any(-1).to(weights.dtype),
            f"weights add up to one, {name}",
        )


@contract("attention")
def hidden_keys_have_no_influence(entry: Entry) -> None:
    """A masked key has exactly no influence, however large its score, its bias or its value."""
    attention = build_randomized(entry)
    for name, call in calls():
        hidden = ~call.visible()
        never = hidden.all(2)[..., None]  # keys that no query of the row may look at
        unread = ~call.reads(attention).any(2)[..., None]
        # What is hidden gets scores that no finite penalty would outweigh.
        bias = torch.zeros(hidden.shape) if call.bias is None else call.bias
        lifted = replace(call, bias=bias.masked_fill(hidden, 1e5))
        assert_same(lifted(attention), call(attention), f"hidden scores of 100,000, {name}")
        other = replace(
            call,
            k=torch.where(never, 50 * torch.randn_like(call.k), call.k),
            v=torch.where(unread, 1e4, call.v),
        )
        assert_same(other(attention), call(attention), f"other hidden keys and values, {name}")


@contract("attention")
def every_visible_key_has_influence(entry: Entry) -> None:
    """Every visible key has influence."""
    attention = build_randomized(entry)
    for call in (
        draw(q=K, causal=True),
        draw(valid=lengths_to_valid([7, 5, 2], K)),
        draw(allowed=draw_allowed(), valid=lengths_to_valid([7, 5, 2], K)),
    ):
        before, sees = call(attention), call.reads(attention)
        for key in range(K):
            v = call.v.clone()
            v[:, :, key] += 100.0
            changed = (replace(call, v=v)(attention) - before).abs().amax(-1) > CLEAR
            if not torch.equal(changed, sees[..., key]):
                raise Violation(
                    f"key {key} reaches queries {changed.nonzero().tolist()}, "
                    f"visible to {sees[..., key].nonzero().tolist()}"
                )


@contract("attention")
def a_query_that_may_look_at_nothing_gets_zeros(entry: Entry) -> None:
    """A fully masked row, and a row without a key, gives zeros and finite gradients."""
    attention = build_randomized(entry)
    blind = [
        draw(valid=lengths_to_valid([7, 3, 0], K)),
        draw(k=FAR, e=C, valid=lengths_to_valid([FAR, 3, 0], FAR)),
    ]
    blind.append(draw(q=K, causal=True, valid=lengths_to_valid([7, 3, 1], K, left=True)))
    blind.append(replace(blind[0], bias=torch.randn(B, H, Q, K)))
    blind.append(draw(allowed=draw_allowed(1, H)))
    blind.append(draw(k=FAR, e=C, allowed=draw_allowed(k=FAR)))
    blind += [draw(k=0), draw(k=0, causal=True, bias=torch.randn(1, H, Q, 0))]
    for call in blind:
        nothing = ~call.reads(attention).any(-1)
        inputs = [
            x.requires_grad_() for x in (call.q, call.k, call.v, call.bias) if x is not None
        ] + list(attention.parameters())
        for dropout in (0.0, 0.5):
            out = call(attention, dropout)
            if bool(out[nothing].ne(0).any()):
                raise Violation("not zero where nothing is visible")
            for gradient in torch.autograd.grad(out.square().sum(), inputs):
                assert_finite(gradient, "gradient where nothing is visible")


@contract("attention")
def queries_and_keys_of_zeros_are_harmless(entry: Entry) -> None:
    """A query or a key of exactly 0 gives finite outputs, and gradients that are not thousands of
    times as large as elsewhere.
    """
    attention = build_randomized(entry)
    for name in ("q", "k"):
        call, sizes = draw(), []
        for zeros in (False, True):
            x = getattr(call, name).detach().clone()
            x[:, :, 1] *= not zeros
            out = replace(call, **{name: x.requires_grad_()})(attention)
            assert_finite(out, f"output, {name} of zeros")
            (found,) = torch.autograd.grad(out.square().sum(), x)
            sizes.append(found[:, :, 1].abs().max().item())
        if not sizes[1] <= 1e3 * (sizes[0] + CLEAR):
            raise Violation(f"{name} of zeros has a gradient of {sizes[1]:.2g}, not {sizes[0]:.2g}")


@contract("attention")
def temperature_divides_scores_and_towards_zero_is_a_hard_maximum(entry: Entry) -> None:
    """``temperature`` divides the scores; towards 0 the softmax becomes a hard maximum."""
    attention, call = build_randomized(entry), draw()
    assert_differs(replace(call, temperature=3.0)(attention), call(attention), "temperature 3")
    best = attention.scores(call.q, call.k).argmax(-1)
    hard = attention.combine(one_hot(best, K).to(call.v.dtype), call.v)
    assert_same(replace(call, temperature=1e-8)(attention), hard, "temperature 0.00000001")


@contract("attention")
def dropout_drops_weights_and_scales_the_others(entry: Entry) -> None:
    """``dropout`` drops that share of the weights, scales the others by ``1 / (1 - dropout)``. An
    attention that combines several heads draws it by :func:`tfzoo.base.dropout.dropout`.
    """
    attention = build_randomized(entry)
    if mixes_heads(attention):
        return
    for k in (K, FAR):
        call = draw(k=k)
        call.v = torch.eye(k).expand(B, H, k, k)  # so that the output is the weights
        weights = call(attention)
        dropped = call(attention, dropout=0.25)
        assert_same(call(attention), weights, "no dropout, twice")
        assert_same(
            dropped, torch.where(dropped == 0, 0.0, weights / 0.75), "weights that are kept"
        )
        share = ((dropped == 0) & (weights > 0)).float().mean().item()
        if not abs(share - 0.25) < (0.12 if k == K else 0.03):
            raise Violation(f"dropout of 0.25 drops {share:.0%} of the weights")


@contract("attention")
def gradients_pass_the_weights_that_dropout_kept(entry: Entry) -> None:
    """Under dropout, gradients pass exactly the weights that were kept."""
    attention = build_randomized(entry)
    for k in (K, 2 * MIDDLE):
        call = draw(k=k, e=k, valid=lengths_to_valid([k, k - 2, 1], k))
        inputs = [x.requires_grad_() for x in (call.q, call.k, call.v)] + list(
            attention.parameters()
        )
        weights = attention.weights(call.q, call.k, mask=call.mask)
        torch.manual_seed(4)
        if mixes_heads(attention):
            dropped = drop(weights, 0.25)
        else:  # the output is the weights if the values are the identity
            as_values = replace(call, v=torch.eye(k).expand(B, H, k, k))
            dropped = weights * (as_values(attention, 0.25).detach() != 0) / 0.75
        torch.manual_seed(4)
        out, expected = call(attention, 0.25), attention.combine(dropped, call.v)
        assert_same(out, expected, "the same draw")
        upstream = torch.randn_like(out)
        pairs = zip(
            *(torch.autograd.grad((one * upstream).sum(), inputs) for one in (out, expected)),
            strict=True,
        )
        for one, other in pairs:
            assert_same(one, other, "gradient under dropout")


@contract("attention")
def keys_are_prepared_one_by_one(entry: Entry) -> None:
    """``prepare_keys`` treats each key by itself, as a cache holds what it returned when each token
    came.
    """
    attention, call = build_randomized(entry), draw()
    pieces = [attention.prepare_keys(call.k[:, :, i : i + 1]) for i in range(K)]
    assert_same(torch.cat(pieces, 2), attention.prepare_keys(call.k), "keys of single tokens")


@contract("attention")
def prepared_keys_give_what_plain_keys_give(entry: Entry) -> None:
    """``keys_prepared=True`` with the result of ``prepare_keys`` gives what plain keys give."""
    attention = build_randomized(entry)
    for name, call in calls():
        keys = attention.prepare_keys(call.k)
        options = {"mask": call.mask, "bias": call.bias}
        plain = attention.forward(call.q, call.k, call.v, **options)
        prepared = attention.forward(call.q, keys, call.v, **options, keys_prepared=True)
        assert_same(prepared, plain, f"the output, {name}")
        plain = attention.weights(call.q, call.k, **options)
        prepared = attention.weights(call.q, keys, **options, keys_prepared=True)
        assert_same(prepared, plain, f"the map, {name}")


@contract("attention")
def half_precision_under_autocast_is_close(entry: Entry) -> None:
    """bf16 in gives bf16 out, off from float64 by at most twice what the formula in plain PyTorch
    is off.
    """
    attention = build_randomized(entry)
    single = deepcopy(attention).float()
    actual, plain = 0.0, 0.0
    for name, call in calls():
        q, k, v = (x.bfloat16() for x in (call.q, call.k, call.v))
        exact = replace(call, q=q.double(), k=k.double(), v=v.double())(attention)
        low = replace(call, q=q, k=k, v=v, bias=None if call.bias is None else call.bias.float())
        with torch.autocast("cpu", torch.bfloat16):
            out, reference = low(single), low.reference(single)
        assert_dtype(out, torch.bfloat16, f"the output, {name},")
        actual += ((out.double() - exact).norm() / exact.norm()).item() ** 2
        plain += ((reference.double() - exact).norm() / exact.norm()).item() ** 2
    if not actual**0.5 <= 2 * plain**0.5:
        raise Violation(f"bfloat16: off by {actual**0.5:.3g}, plain PyTorch by {plain**0.5:.3g}")


@contract("attention")
def rotatable_says_the_truth(entry: Entry) -> None:
    """Rotating queries and keys by one angle changes no output exactly where the trait
    ``rotatable`` is declared.
    """
    attention = build_randomized(entry)
    for halves in (False, True):
        call = draw()
        angles = torch.rand(1, 1, 1, C // 2) * 6.28
        turn = Rotation(angles.cos(), angles.sin(), halves)
        turned = replace(call, q=turn(call.q), k=turn(call.k))
        assert_same_if(
            "rotatable" in entry.traits,
            turned(attention),
            call(attention),
            "claims to be rotatable, but a common turn changes the output",
            "is rotatable, but does not claim it",
        )


@contract("attention")
def nonpositive_says_the_truth(entry: Entry) -> None:
    """No score exceeds 0 exactly where the trait ``nonpositive`` is declared."""
    attention, call = build_randomized(entry), draw(q=MIDDLE, k=MIDDLE)
    found = bool((attention.scores(call.q, call.k) <= 0).all())
    assert_claimed(
        entry,
        "nonpositive",
        found,
        "claims that no score exceeds 0, but some do",
        "no score exceeds 0, but that is not claimed",
    )


@contract("attention")
def mixes_heads_says_the_truth(entry: Entry) -> None:
    """An output depends on the values of other heads exactly where the trait ``mixes_heads`` is
    declared.
    """
    attention, call = build_randomized(entry), draw()
    v = call.v.clone()
    v[:, :1] += torch.randn_like(v[:, :1])
    others, before = replace(call, v=v)(attention)[:, 1:], call(attention)[:, 1:]
    assert_same_if(
        "mixes_heads" not in entry.traits,
        others,
        before,
        "mixes heads, but does not claim it",
        "claims to mix heads, but an output depends on its own",
    )
