"""Contracts of every weighting."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask
from tfzoo.testing.attention_calls import MIDDLE, B, H, K, Q, calls
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
from tfzoo.testing.gradients import assert_gradients_finite
from tfzoo.testing.samples import build_randomized, lengths_to_valid


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
def a_weight_for_each_score(entry: Entry) -> None:
    """Weights have the shape and the dtype of the scores, fp32 or float64, also under autocast."""
    weighting = build_randomized(entry)
    for name, given, mask, _ in cases():
        assert_shape(weighting(given, mask), given.shape, f"(b h q k) in, {name}")
    weighting, single = weighting.float(), scores().float()
    with torch.autocast("cpu", torch.bfloat16):
        weights = weighting(single, Mask())
    assert_dtype(weights, torch.float32, "the output under autocast")
    assert_same(weights, weighting(single, Mask()), "autocast", 0.0)


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
        for other in (1e5, -1e5, float("-inf"), float("nan")):
            changed = weighting(given.masked_fill(~visible, other), mask)
            assert_same(changed, weights, f"hidden scores of {other}, {name}", 0.0)
        nan = given.masked_fill(~visible, float("nan"))
        for found in (gradient(weighting, one, mask, upstream) for one in (given, nan)):
            if bool(found[~visible].ne(0).any()):
                raise Violation(f"a hidden score has a gradient, {name}")


@contract("weighting")
def a_score_of_minus_infinity_hides_as_the_mask_does(entry: Entry) -> None:
    """A score of -inf, which a bias gave, is the same as a key hidden by the mask."""
    weighting = build_randomized(entry)
    for name, given, mask, visible in cases():
        upstream = torch.randn_like(given)
        shown = given.masked_fill(~visible, float("-inf"))
        assert_same(weighting(shown, Mask()), weighting(given, mask), name)
        found = gradient(weighting, shown, Mask(), upstream)
        assert_same(found, gradient(weighting, given, mask, upstream), f"gradient, {name}")


@contract("weighting")
def a_query_that_may_look_at_nothing_gets_zeros(entry: Entry) -> None:
    """A fully masked row gives zeros and finite gradients."""
    weighting, given = build_randomized(entry), scores(K).requires_grad_()
    nothing = torch.zeros(B, 1, Q, K, dtype=torch.bool)
    valid = lengths_to_valid([7, 3, 0], K)
    for mask, blind in ((Mask(allowed=nothing), slice(None)), (Mask(keys=valid), slice(2, None))):
        weights = weighting(given, mask)
        if bool(weights[blind].ne(0).any()):
            raise Violation("not zero where nothing is visible")
        through = [given, *weighting.parameters()]
        assert_gradients_finite([weights], through, "a query that may look at nothing")


@contract("weighting")
def each_query_by_itself(entry: Entry) -> None:
    """Another order of the batch or of the queries orders the weights alike, and so does another
    order of the keys.
    """
    weighting = build_randomized(entry)
    for name, given, mask, visible in cases():
        weights = weighting(given, mask)
        for axis in (0, 2, 3):
            flipped = weighting(given.flip(axis), Mask(allowed=visible.flip(axis)))
            assert_same(flipped.flip(axis), weights, f"another order of axis {axis}, {name}")


@contract("weighting")
def large_scores_are_harmless(entry: Entry) -> None:
    """Scores of +-10,000 give finite weights and gradients in fp32."""
    weighting = build_randomized(entry).float()
    given = scores().float().sign() * 1e4
    assert_finite(weighting(given, Mask()), "weights")
    assert_finite(gradient(weighting, given, Mask(), torch.randn_like(given)), "gradient")


@contract("weighting")
def the_slope_of_a_constant_sum_is_zero(entry: Entry) -> None:
    """Where weights sum to one whatever the scores are, the gradient of their sum is 0, also where
    scores are equal or a weight just reaches 0.
    """
    weighting, whole = build_randomized(entry), torch.randint(-3, 3, (B, H, Q, K)).double()
    for given in (whole, whole / 2, scores(K)):
        sums = weighting(given, Mask()).sum(-1)
        if bool((sums - 1.0).abs().max() > CLEAR):
            return
        slope = gradient(weighting, given, Mask(), torch.ones_like(given))
        assert_same(slope, torch.zeros_like(slope), "the gradient of a sum that is always 1")


@contract("weighting")
def softmax_says_the_truth(entry: Entry) -> None:
    """Weights are those of a softmax exactly where ``softmax`` is declared."""
    weighting, given, mask = build_randomized(entry), scores(), Mask(causal=True)
    weights, softmax = weighting(given, mask), mask.softmax(given)
    assert_same_if(
        "softmax" in entry.traits,
        weights,
        softmax,
        "claims to be the softmax",
        "is the softmax, but does not claim it",
    )


@contract("weighting")
def sparse_says_the_truth(entry: Entry) -> None:
    """A visible key can have a weight of exactly 0 exactly where ``sparse`` is declared."""
    found = bool((build_randomized(entry)(scores(), Mask()) == 0).any())
    assert_claimed(
        entry,
        "sparse",
        found,
        "claims to be sparse, but every visible key has a weight",
        "some visible key has a weight of 0, but that is not claimed",
    )


@contract("weighting")
def ignores_scores_says_the_truth(entry: Entry) -> None:
    """Other scores give the same weights, and get no gradient, exactly where ``ignores_scores`` is
    declared.
    """
    weighting, given = build_randomized(entry), scores()
    weights = weighting(given, Mask())
    slope = gradient(weighting, given, Mask(), torch.randn_like(given))
    assert_same_if(
        "ignores_scores" in entry.traits,
        weighting(scores(), Mask()),
        weights,
        "claims to ignore scores",
        "ignores scores, but claims not to",
    )
    assert_same_if(
        "ignores_scores" in entry.traits,
        slope,
        torch.zeros_like(slope),
        "claims to ignore scores: gradient",
        "no gradient of scores, but none is claimed",
    )


@contract("weighting")
def needs_positive_scores_says_the_truth(entry: Entry) -> None:
    """All weights are 0 where no score exceeds 0 exactly where ``needs_positive_scores`` is
    declared.
    """
    found = not bool(build_randomized(entry)(-scores().abs(), Mask()).any())
    assert_claimed(
        entry,
        "needs_positive_scores",
        found,
        "claims to need positive scores, but others have weights",
        "scores under 0 have no weight, but that is not claimed",
    )


@contract("weighting")
def discontinuous_says_the_truth(entry: Entry) -> None:
    """Weights jump where two scores are equal exactly where ``discontinuous`` is declared."""
    weighting, near = build_randomized(entry), CLEAR / 1000
    ordered = torch.sort(2.0 * torch.randn(MIDDLE)).values.expand(MIDDLE - 1, H, 1, MIDDLE)
    pairs = torch.arange(MIDDLE - 1)
    middle = (ordered[:, 0, 0].diagonal() + ordered[:, 0, 0].diagonal(1)) / 2

    def crossing(first: float) -> Tensor:
        """Row ``i`` has nearly the same score at keys ``i`` and ``i + 1``."""
        given = ordered.clone()
        given[pairs, ..., pairs] = (middle + first)[:, None, None]
        given[pairs, ..., pairs + 1] = (middle - first)[:, None, None]
        return weighting(given, Mask())  # type: ignore[no-any-return]

    jumps = bool((crossing(near) - crossing(-near)).abs().max() > CLEAR)
    assert_claimed(
        entry,
        "discontinuous",
        jumps,
        "claims to be discontinuous, but no weight jumps where two scores are equal",
        "weights jump where two scores are equal, but that is not claimed",
    )


@contract("weighting")
def surrogate_gradient_says_the_truth(entry: Entry) -> None:
    """The gradient differs from the slope of the weights exactly where ``surrogate_gradient`` is
    declared.
    """
    weighting, given = build_randomized(entry), scores()
    upstream, direction, step = torch.randn_like(given), torch.randn_like(given), 1e-6
    ahead, behind = (weighting(given + by * direction, Mask()) for by in (step, -step))
    slope = ((ahead - behind) / (2 * step) * upstream).sum((1, 2, 3))
    claimed = (gradient(weighting, given, Mask(), upstream) * direction).sum((1, 2, 3))
    if "surrogate_gradient" in entry.traits:
        assert_differs(
            claimed[:, None], slope[:, None], "the gradient is that of the weights", 1e-3
        )
    else:
        assert_same(claimed, slope, "the gradient is not that of the weights", 1e-6)
