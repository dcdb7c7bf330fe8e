"""Rotary frequencies for text that is longer than a model was trained on.

Each scaling maps the frequencies ``base^(-2i/c)``, ``(c/2)``, to slower ones. A pair of channels
that turns many times within ``original_max_length`` tokens tells near tokens apart and stays as it
is; a pair that never completes a turn there would meet angles that it was not trained on.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from tfzoo.base.values import check_range
from tfzoo.errors import BadOption, listing


@dataclass
class Scaling:
    """``scaling(frequencies, base)`` gives the scaled frequencies. ``amplitude`` multiplies cosines
    and sines.
    """

    factor: float = 8.0
    amplitude = 1.0  # no field: no option

    def __call__(self, frequencies: Tensor, base: float) -> Tensor:
        raise NotImplementedError


@dataclass
class Linear(Scaling):
    """All pairs slower by ``factor`` (Chen et al. 2023, arXiv:2306.15595)."""

    def __call__(self, frequencies: Tensor, base: float) -> Tensor:
        return frequencies / self.factor


@dataclass
class NTK(Scaling):
    """A larger base: the slowest pair is slower by ``factor``, the fastest stays (Peng et al. 2023,
    arXiv:2309.00071, section 3.1).
    """

    def __call__(self, frequencies: Tensor, base: float) -> Tensor:
        share = torch.linspace(
            0, 1, len(frequencies), dtype=frequencies.dtype, device=frequencies.device
        )
        return frequencies / self.factor**share


@dataclass
class YaRN(Scaling):
    """Pairs that turn more than ``beta_fast`` times stay, those that turn less than ``beta_slow``
    times are slower by ``factor``, and in between is a ramp (Peng et al. 2023, arXiv:2309.00071,
    sections 3.2 and 3.4).

    The ramp is that of the authors' code and of ``transformers``, linear in the index of the pair;
    that of section 3.2 is linear in the number of turns. ``truncate`` begins and ends it at whole
    pairs, as that code does.
    """

    original_max_length: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        check_order("beta_slow", self.beta_slow, "beta_fast", self.beta_fast)
        if self.attention_factor is None:
            self.amplitude = 0.1 * math.log(self.factor) + 1.0
        else:
            self.amplitude = self.attention_factor

    def __call__(self, frequencies: Tensor, base: float) -> Tensor:
        pairs = len(frequencies)
        low, high = (self.pair(turns, pairs, base) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        index = torch.arange(pairs, dtype=frequencies.dtype, device=frequencies.device)
        ramp = ((index - low) / max(high - low, 1e-3)).clamp(0, 1)
        return frequencies * (1 - ramp) + frequencies / self.factor * ramp

    def pair(self, turns: float, pairs: int, base: float) -> float:
        """Where the pair stands that turns so often within ``original_max_length`` tokens."""
        return pairs * math.log(self.original_max_length / (2 * math.pi * turns)) / math.log(base)


@dataclass
class Llama3(Scaling):
    """Pairs that turn more than ``high_freq_factor`` times stay, those that turn less than
    ``low_freq_factor`` times are slower by ``factor``, and in between a ramp over the number of
    turns (Llama 3.1).
    """

    original_max_length: int = 8192
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        names = ("low_freq_factor", "high_freq_factor")
        check_order(names[0], self.low_freq_factor, names[1], self.high_freq_factor)

    def __call__(self, frequencies: Tensor, base: float) -> Tensor:
        low, high = self.low_freq_factor, self.high_freq_factor
        turns = frequencies * (self.original_max_length / (2 * math.pi))
        stays = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * (stays + (1 - stays) / self.factor)


SCALINGS: Mapping[str, type[Scaling]] = {
    "linear": Linear,
    "ntk": NTK,
    "yarn": YaRN,
    "llama3": Llama3,
}


def make_scaling(name: str, base: float, given: Mapping[str, float | None]) -> Scaling | None:
    """The scaling of that name with the options that are not None; None for ``none``."""
    options = {key: value for key, value in given.items() if value is not None}
    read = {one: {field.name for field in fields(cls)} for one, cls in SCALINGS.items()}
    for key, value in options.items():
        if key not in read.get(name, ()):
            others = listing(one for one, keys in read.items() if key in keys)
            raise BadOption(
                f"position 'rotary': {key} has no effect with scaling {name!r}. "
                f"Scalings that read it: {others}"
            )
        if key == "factor":
            check_range("position 'rotary': factor", value, ge=1)
        elif not isinstance(value, bool):
            whole = key == "original_max_length"
            check_range(f"position 'rotary': {key}", value, gt=0, whole=whole)
    if name == "yarn":
        check_range("position 'rotary': with scaling 'yarn', base", base, gt=1)
    return SCALINGS[name](**options) if name in SCALINGS else None


def check_order(low_name: str, low: float, high_name: str, high: float) -> None:
    """Raise BadOption unless one option is under the other."""
    if low >= high:
        raise BadOption(f"position 'rotary': {low_name}={low} must be under {high_name}={high}")
