"""Contracts of every position."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor

from tfzoo.base.registry import Entry
from tfzoo.base.rotation import Rotation
from tfzoo.contracts import Position
from tfzoo.errors import TfzooError
from tfzoo.testing.contract import (
    CLEAR,
    EXACT,
    Violation,
    assert_claimed,
    assert_differs,
    assert_dtype,
    assert_finite,
    assert_same,
    assert_shape,
    contract,
)
from tfzoo.testing.gradients import assert_gradients, gradients_of
from tfzoo.testing.samples import SIZES, build_randomized
from tfzoo.testing.subject import hooks

B, N, D, H, C, MOST = 3, 6, SIZES["dim"], SIZES["heads"], SIZES["head_dim"], SIZES["max_length"]
LENGTH = torch.tensor([[40], [31], [7]])


def both(entry: Entry) -> Iterator[Position]:
    """One for an encoder, and one for a decoder where it can stand there."""
    yield build_randomized(entry, causal=False)
    if "needs_length" not in entry.traits:
        yield build_randomized(entry, causal=True)


def acts(
    position: Position, x: Tensor, pos: Tensor, length: Tensor | None = LENGTH
) -> dict[str, Tensor]:
    """What each hook that the position overrides does to a text at these places, row by row: ``(b n
    *)``.
    """
    found: dict[str, Tensor] = {}
    b, n = x.shape[:2]
    turn, bias = position.angles(pos), position.bias(pos, pos)
    for hook in hooks(position.entry.name):
        if hook == "embed":
            found[hook] = position.embed(x, pos, length)
        elif turn is not None and hook == "angles":
            found[hook] = turn(x[..., None, :C].transpose(1, 2).expand(b, H, n, C)).transpose(1, 2)
        elif bias is not None and hook == "bias":
            found[hook] = bias.expand(b, H, n, n).transpose(1, 2)
    return found


def exact_angles(rotation: Rotation, far: int) -> float:
    """The bound for sums over ``c`` channels of products with angles of positions up to ``far``,
    which are rounded to the dtype of the angles.
    """
    return max(EXACT, float(C) * far * torch.finfo(rotation.cos.dtype).eps)


@contract("position")
def shapes_and_types_stay(entry: Entry) -> None:
    """Shapes: ``embed`` keeps ``(b n d)`` and the dtype, ``angles`` are ``(b|1 1 n c/2)`` in fp32
    or better, ``bias`` is ``(b|1 h q k)``.
    """
    for position in both(entry):
        for pos in (torch.arange(N)[None], torch.stack([torch.arange(N) + by for by in (0, 2, 5)])):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                x = torch.randn(B, N, D, dtype=dtype)
                out = position.embed(x, pos, LENGTH)
                assert_shape(out, x.shape, "embed: (b n d) in")
                assert_dtype(out, dtype, "what embed returns")
                assert_same(
                    out,
                    position.embed(x.double(), pos, LENGTH),
                    f"embed in {dtype}",
                    2 * torch.finfo(dtype).eps,
                )
            turn, bias = position.angles(pos), position.bias(pos[:, 2:5], pos)
            if turn is not None and (
                turn.cos.dtype not in (torch.float32, torch.float64)
                or turn.cos.shape[:3] != (len(pos), 1, N)
            ):
                raise Violation(
                    "angles: (b|1 1 n c/2) in float32 or better, not "
                    f"{tuple(turn.cos.shape)} {turn.cos.dtype}"
                )
            if bias is not None:
                assert_shape(bias, (len(pos), H, 3, N), "bias: (b|1 h q k) is wanted")


@contract("position")
def hooks_act_on_each_token_by_itself(entry: Entry) -> None:
    """What a hook does to a token depends on that token and its position alone, as in a cached
    step.
    """
    for position in both(entry):
        x, pos = torch.randn(B, N, D), torch.arange(N)[None]
        whole, part = acts(position, x, pos), acts(position, x[:, 2:5], pos[:, 2:5])
        for hook, one in part.items():
            assert_same(
                one,
                whole[hook][:, 2:5, ..., 2:5] if hook == "bias" else whole[hook][:, 2:5],
                f"{hook} of a part of the text",
            )
        bias = position.bias(pos[:, 4:], pos)
        if bias is not None:
            assert_same(
                bias.expand(B, -1, -1, -1).transpose(1, 2),
                whole["bias"][:, 4:],
                "bias of the last queries, as in a cached step",
            )


@contract("position")
def rows_may_have_their_own_positions(entry: Entry) -> None:
    """Each row may have positions of its own, ``(b n)``."""
    for position in both(entry):
        x, pos = torch.randn(B, N, D), torch.stack([torch.arange(N) + by for by in (0, 3, 20)])
        together = acts(position, x, pos)
        for row in range(B):
            for hook, one in acts(
                position, x[row : row + 1], pos[row : row + 1], LENGTH[row : row + 1]
            ).items():
                assert_same(one, together[hook][row : row + 1], f"{hook} of one row alone")


@contract("position")
def positions_are_distinguished(entry: Entry) -> None:
    """Two positions differ in at least one hook; a bias differs between the first few distances."""
    if not hooks(entry.name):
        return
    for position in both(entry):
        n = 12
        x, pos = torch.randn(1, 1, D).expand(1, n, D), torch.arange(n)[None]
        done = acts(position, x, pos, torch.tensor([[40]]))
        first = {hook: one[0] for hook, one in done.items() if hook != "bias"}
        if "bias" in done:
            first["bias"] = (
                done["bias"][0, -1].T[-6:].flip(0)
            )  # the last query's view of what stands 0 to 5 places before it
        for i, j in combinations(range(n), 2):
            seen = [one for one in first.values() if j < len(one)]
            if seen and all((one[i] - one[j]).abs().max() <= CLEAR for one in seen):
                raise Violation(f"places {i} and {j} are not told apart")


@contract("position")
def needs_length_says_the_truth(entry: Entry) -> None:
    """``embed`` reads the length of the text exactly where ``needs_length`` is declared, and then
    refuses a call without one.
    """
    position, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    if "needs_length" in entry.traits:
        assert_differs(
            position.embed(x, pos, LENGTH)[:, 1:],
            position.embed(x, pos, LENGTH + 9)[:, 1:],
            "claims to need the length, but ignores it",
        )
        try:
            position.embed(x, pos)
        except TfzooError:
            return
        raise Violation("claims to need the length, but takes none without a word")
    assert_same(
        position.embed(x, pos, LENGTH),
        position.embed(x, pos),
        "reads the length, but does not claim it",
        0.0,
    )


@contract("position")
def bounded_says_the_truth(entry: Entry) -> None:
    """Every position under ``max_length`` works; one at or over it is refused exactly where
    ``bounded`` is declared.
    """
    for position in both(entry):
        x = torch.randn(1, 2, D)
        for hook, one in acts(
            position, x, torch.tensor([[0, MOST - 1]]), torch.tensor([[MOST]])
        ).items():
            assert_finite(one, f"{hook} at the last place that max_length allows")
        try:
            far = acts(position, x, torch.tensor([[0, MOST]])) | acts(
                position, x, torch.tensor([[10 * MOST, 100 * MOST]])
            )
        except (IndexError, TfzooError):
            if "bounded" not in entry.traits:
                raise Violation(
                    "cannot stand at max_length, but does not claim to be bounded"
                ) from None
            continue
        for hook, one in far.items():
            assert_finite(one, f"{hook} far beyond max_length")
        if "bounded" in entry.traits:
            raise Violation("claims to be bounded, but stands at max_length and beyond")


@contract("position")
def bias_of_distance_says_the_truth(entry: Entry) -> None:
    """The bias depends on nothing but the distance of two positions, exactly where
    ``bias_of_distance`` is declared.
    """
    same = True
    for position in both(entry):
        pos = torch.arange(N)[None]
        near, far = position.bias(pos, pos), position.bias(pos + 7, pos + 7)
        bias = None if near is None or far is None else (near - far).abs().max()
        same = same and bias is not None and bool(bias < EXACT)
    assert_claimed(
        entry,
        "bias_of_distance",
        same,
        "claims bias_of_distance, but its bias does not depend on the distance alone",
        "the bias depends on the distance alone, but does not claim bias_of_distance",
    )


@contract("position")
def rotation_keeps_lengths_and_makes_products_depend_on_distance_alone(entry: Entry) -> None:
    """Rotation keeps lengths, and products of rotated queries and keys depend on the distance
    alone.
    """
    for position in both(entry):
        q, k = torch.randn(1, 1, 1, C), torch.randn(1, 1, 1, C)
        near, far = (position.angles(torch.arange(8)[None] + by) for by in (0, 1000))
        if near is None or far is None:
            return
        assert_same(
            near(q.expand(1, 1, 8, C)).norm(dim=-1),
            q.norm(dim=-1).expand(1, 1, 8),
            "lengths after a rotation",
            exact_angles(near, 1),
        )
        products = [
            turn(q.expand(1, 1, 8, C)) @ turn(k.expand(1, 1, 8, C)).mT for turn in (near, far)
        ]
        assert_same(
            products[1], products[0], "products 1000 positions later", exact_angles(far, 1008)
        )
        for distance in range(-6, 7):
            diagonal = products[0][0, 0].diagonal(distance)
            assert_same(
                diagonal,
                diagonal[:1].expand_as(diagonal),
                f"products at distance {distance}",
                exact_angles(near, 8),
            )
        assert_differs(
            products[0][0, :, 0, 1:2],
            products[0][0, :, 0, :1],
            "products at distances 0 and 1",
        )


@contract("position")
def angles_and_biases_are_as_exact_under_autocast(entry: Entry) -> None:
    """Autocast changes no hook, in fp32: it does not cast float64."""
    for position in both(entry):
        position.float()
        x, pos = torch.randn(1, 4, D).float(), torch.tensor([[0, 1, 30, 47]])
        before = acts(position, x, pos, LENGTH[:1])
        with torch.autocast("cpu", torch.bfloat16):
            for hook, one in acts(position, x, pos, LENGTH[:1]).items():
                assert_same(one, before[hook], f"{hook} under autocast")


@contract("position")
def gradients_reach_every_parameter(entry: Entry) -> None:
    """Gradients reach every parameter."""
    for position in both(entry):
        x, pos = torch.randn(B, N, D, requires_grad=True), torch.arange(N)[None]
        out = torch.cat([one.flatten() for one in acts(position, x, pos).values()] or [x])
        assert_gradients(gradients_of(out, position, x))
