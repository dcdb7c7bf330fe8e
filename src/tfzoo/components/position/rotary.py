"""Queries and keys are rotated, so that their products depend on distance."""

from typing import Literal

import torch
from torch import Tensor

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.rotary_scaling import make_scaling
from tfzoo.base.rotation import Rotation
from tfzoo.base.values import check_range
from tfzoo.contracts import Position
from tfzoo.errors import BadOption


@register("position", "rotary", paper="arXiv:2104.09864, eq. 15 and 34")
class Rotary(Position):
    """Rotate pair ``i`` of a query's and key's channels by the angle ``pos / base^(2i/c)``: scores
    depend on distance alone.

    Overrides ``angles``: ``(b|1 n)`` to the :class:`~tfzoo.base.rotation.Rotation` of
    ``(b h n c)``. Nothing is trained.

    Su et al. 2021, sections 3.2.2 and 3.4.2. Angles in fp32, or in float64 after ``.double()``; in
    bf16 they would be visibly wrong from position 58 on.

    Options:
        base: the slowest pair has a period of about ``2 pi base`` tokens.
        layout: ``interleaved`` pairs channels ``2i, 2i+1`` (RoFormer, GPT-J), ``half`` pairs ``i, i
            + c/2`` (Llama, GPT-NeoX). Weights trained with one do not fit the other.
        fraction: the share of channels that are rotated, the first ones (GPT-J and GPT-NeoX: 0.25);
            ``c`` above is then their number, and the others pass unchanged.
        scaling: slower rotation, for text longer than that of training: of all pairs (``linear``),
            of the slow ones more than the fast ones (``ntk``), or only of those that turn few times
            within ``original_max_length`` tokens (``yarn``, whose ramp in between is that of its
            code, not of its paper; ``llama3``). The options below belong to it; None is the value
            in parentheses.
        factor: how much slower (8).
        original_max_length: the length of text in training (8192).
        beta_fast: pairs that turn more often stay, in ``yarn`` (32).
        beta_slow: pairs that turn less often are slower by all of ``factor``, in ``yarn`` (1).
        truncate: the ramp between these pairs begins and ends at whole ones, in ``yarn``.
        attention_factor: multiplies rotated queries and keys, so scores by its square, in ``yarn``
            (``0.1 ln(factor) + 1``).
        low_freq_factor: pairs that turn less often are slower by all of ``factor``, in ``llama3``
            (1).
        high_freq_factor: pairs that turn more often stay, in ``llama3`` (4).

    Raises:
        BadOption: an option is out of its range or has no effect with this ``scaling``, or the
            number of rotated channels is odd.

    >>> import tfzoo, torch
    >>> rotation = tfzoo.create("position", "rotary", head_dim=2).angles(torch.arange(2)[None])
    >>> rotation(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
    tensor([[[[1.0000, 0.0000],
              [0.5403, 0.8415]]]])
    """

    precision: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
        fraction: float = 1.0,
        scaling: Literal["none", "linear", "ntk", "yarn", "llama3"] = "none",
        factor: float | None = None,
        original_max_length: int | None = None,
        beta_fast: float | None = None,
        beta_slow: float | None = None,
        truncate: bool = True,
        attention_factor: float | None = None,
        low_freq_factor: float | None = None,
        high_freq_factor: float | None = None,
    ) -> None:
        super().__init__()
        check_range("position 'rotary': base", base, gt=0)
        check_range("position 'rotary': fraction", fraction, gt=0, le=1)
        self.rotated = round(head_dim * fraction)
        if self.rotated % 2 or not self.rotated:
            of = "" if fraction == 1 else f", times fraction={fraction},"
            raise BadOption(
                f"position 'rotary' rotates pairs of channels, so the width of a head{of} must be "
                f"even, not {self.rotated}: set head_dim" + (" or fraction" if of else "")
            )
        self.base, self.layout = base, layout
        self.scaling = make_scaling(
            scaling,
            base,
            {
                "factor": factor,
                "original_max_length": original_max_length,
                "beta_fast": beta_fast,
                "beta_slow": beta_slow,
                "truncate": None if truncate else False,
                "attention_factor": attention_factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
            },
        )
        # Empty; tells the dtype that the module was moved to.
        self.register_buffer("precision", torch.empty(0), persistent=False)

    def angles(self, pos: Tensor) -> Rotation:
        dtype = compute_dtype(self.precision)
        channel = torch.arange(0, self.rotated, 2, dtype=dtype, device=pos.device)
        frequencies = self.base ** (channel / -self.rotated)
        if self.scaling is not None:
            frequencies = self.scaling(frequencies, self.base)
        angles = pos[..., None, :, None] * frequencies
        cos, sin = angles.cos(), angles.sin()
        if self.scaling is not None and self.scaling.amplitude != 1.0:
            cos, sin = cos * self.scaling.amplitude, sin * self.scaling.amplitude
        return Rotation(cos, sin, halves=self.layout == "half")
