"""Contracts of every weighting."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask
from tfzoo.testing.attention_calls import MIDDLE, B, H, Q, calls
from tfzoo.testing.contract import EXACT, Violation, assert_same, contract, difference, trait
from tfzoo.testing.gradients import jumps
from tfzoo.testing.samples import build_randomized


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


@trait("weighting", "softmax")
def is_the_softmax(entry: Entry) -> bool:
    """Weights are those of a softmax."""
    given, mask = scores(), Mask(causal=True)
    return difference(build_randomized(entry)(given, mask), mask.softmax(given)) <= EXACT


@trait("weighting", "sparse")
def some_weight_is_0(entry: Entry) -> bool:
    """A visible key has a weight of exactly 0."""
    return bool((build_randomized(entry)(scores(), Mask()) == 0).any())


@trait("weighting", "ignores_scores")
def scores_change_nothing(entry: Entry) -> bool:
    """Other scores give the same weights, and get no gradient."""
    weighting, given = build_randomized(entry), scores()
    slope = gradient(weighting, given, Mask(), torch.randn_like(given))
    same = difference(weighting(scores(), Mask()), weighting(given, Mask())) <= EXACT
    return same and not bool(slope.any())


@trait("weighting", "needs_positive_scores")
def weights_of_negative_scores_are_0(entry: Entry) -> bool:
    """All weights are 0 where no score exceeds 0."""
    return not bool(build_randomized(entry)(-scores().abs(), Mask()).any())


@trait("weighting", "discontinuous")
def jumps_somewhere(entry: Entry) -> bool:
    """Weights jump where scores hardly change."""
    weighting = build_randomized(entry)
    return jumps(lambda given: weighting(given, Mask()), scores(), scores())


@trait("weighting", "surrogate_gradient")
def gradient_is_not_the_slope(entry: Entry) -> bool:
    """The gradient differs from the slope of the weights."""
    weighting, given = build_randomized(entry), scores()
    upstream, direction, step = torch.randn_like(given), torch.randn_like(given), 1e-6
    ahead, behind = (weighting(given + by * direction, Mask()) for by in (step, -step))
    slope = ((ahead - behind) / (2 * step) * upstream).sum((1, 2, 3))
    claimed = (gradient(weighting, given, Mask(), upstream) * direction).sum((1, 2, 3))
    return difference(claimed, slope) > 1e-6
