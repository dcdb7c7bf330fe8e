"""Runs a model before and after a swap and compares the outputs of each attention and the whole."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import tfzoo
from tfzoo.errors import BadOption
from tfzoo.swapping import huggingface, norms

TOLERANCE = 1e-9
OTHER = "euclidean"
"""An attention whose output differs from a model's own."""


@dataclass
class Row:
    """What became of an attention class, in which model."""

    attention: str
    model: str
    outcome: str
    reason: str = ""
    difference: float = 0.0


class NoFloat32(TorchFunctionMode):
    """Reads float64 where a function is called with float32."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        if func is Tensor.float:
            func = Tensor.double
        kwargs = {name: wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(wide, args), **kwargs)


def tensors(output: Any) -> Iterator[Tensor]:
    """The tensors of an output that are numbers with a fraction, in order; no caches."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, dict):
        for name, value in output.items():
            if name != "past_key_values" and "attentions" not in name:
                yield from tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from tensors(value)


@torch.no_grad()
def run(model: nn.Module, batch: dict[str, Any]) -> tuple[dict[str, list[Tensor]], list[Tensor]]:
    """Outputs of each attention, in the order of the calls, and of the model."""
    outputs: dict[str, list[Tensor]] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            outputs.setdefault(name, []).append(next(tensors(output)).detach())

        return hook

    handles = [
        module.register_forward_hook(keep(name))
        for name, module in model.named_modules()
        if huggingface.calls_interface(module)
    ]
    transformers.set_seed(2)
    try:
        with NoFloat32():
            given = {name: value() if callable(value) else value for name, value in batch.items()}
            whole = list(tensors(model(**given)))
    finally:
        for handle in handles:
            handle.remove()
    if not all(one.isfinite().all() for found in outputs.values() for one in found):
        raise ValueError("its outputs are not finite")
    return outputs, whole


def run_by_sdpa(model: Any, batch: dict[str, Any]) -> dict[str, list[Tensor]] | None:
    """Outputs of each attention by ``sdpa``; None where the model has none."""
    try:
        model.set_attn_implementation("sdpa")
        return run(model, batch)[0]
    except Exception:  # of any kind: it is somebody else's
        return None
    finally:
        model.set_attn_implementation("eager")


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference, in units of the largest number where that is over 1."""
    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    same = torch.where(one == other, torch.zeros_like(one), (one - other).abs())
    return float(same.max() / one.abs().max().clamp(min=1.0))


def largest(some: list[Tensor], others: list[Tensor]) -> float:
    """The largest :func:`distance` of two lists of outputs."""
    if len(some) != len(others):
        return math.inf
    return max((distance(*pair) for pair in zip(some, others, strict=True)), default=0.0)


def own_norms(model: nn.Module) -> dict[str, list[str]]:
    """The names of the norms that are ``layer``, and of those that are ``rms``."""
    like = next(model.parameters())
    found: dict[str, list[str]] = {"layer": [], "rms": []}
    for name, module in model.named_modules():
        if not name or not norms.is_norm(module):
            continue
        try:
            known = norms.find_norm(module, like)
        except norms.NotSwappable:
            continue
        x = torch.randn(1, 3, known.dim)
        differences = {}
        for kind in found:
            replacement, _ = norms.norm_replacement(module, known, kind)
            with torch.no_grad(), NoFloat32():
                differences[kind] = distance(module(x), replacement(x))
        found[min(differences, key=lambda kind: differences[kind])].append(name)
    return found


def swapped(model: Any) -> dict[str, str]:
    """Swap in the model's own attention and norms; return why attentions were refused, by name."""
    report = tfzoo.swap(model, attention="scaled_dot_product", allow=["unrotatable-attention"])
    for kind, names in own_norms(model).items():
        if names:
            literal = [re.sub(r"([\[\]*?])", r"[\1]", name) for name in names]
            tfzoo.swap(model, norm=kind, only=literal)
    return {one.name: one.reason for one in report.modules if one.outcome == "refused"}


def compare(model: Any, batch: dict[str, Any], wanted: set[str]) -> list[Row]:
    """A row for each attention class of the model that is wanted and was called."""
    before, whole = run(model, batch)
    by_sdpa = run_by_sdpa(model, batch)
    modules: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if name in before and type(module).__name__ in wanted:
            modules.setdefault(type(module).__name__, []).append(name)
    if not modules:
        return []
    title = type(model).__name__
    try:
        refused = swapped(model)
        after, whole_after = run(model, batch)
    except BadOption as error:
        reason = re.split(r"\s{2,}", str(error).splitlines()[-1])[-1]
        return [Row(kind, title, "refused", reason) for kind in modules]
    except Exception as error:  # of any kind: what ran before does not run now
        return [Row(kind, title, "different", told(error)) for kind in modules]
    reached = changed_by_another(model, batch, after)
    of_whole = largest(whole, whole_after)
    rows = []
    for kind, names in modules.items():
        if names[0] in refused:
            rows.append(Row(kind, title, "refused", refused[names[0]]))
        else:
            rows.append(Row(kind, title, *judged(before, by_sdpa, after, of_whole, names, reached)))
    return rows


def changed_by_another(
    model: Any, batch: dict[str, Any], after: dict[str, list[Tensor]]
) -> set[str]:
    """The names of the attentions whose output is another with ``OTHER`` swapped in."""
    tfzoo.swap(model, attention=OTHER, allow=["unrotatable-attention"])
    try:
        other = run(model, batch)[0]
    except Exception:  # of any kind: it is somebody else's
        return set()
    return {name for name in after if largest(after[name], other.get(name, [])) > 1e-6}


def judged(
    before: dict[str, list[Tensor]],
    by_sdpa: dict[str, list[Tensor]] | None,
    after: dict[str, list[Tensor]],
    of_whole: float,
    names: list[str],
    reached: set[str],
) -> tuple[str, str, float]:
    """Outcome, reason and difference of one class."""
    of_attention = max(largest(before[name], after.get(name, [])) for name in names)
    difference = max(of_attention, of_whole)
    if reached.isdisjoint(names):
        return "not reached", f"{OTHER} gives the same output", difference
    if difference < TOLERANCE:
        return "equal", "", difference
    if by_sdpa and max(largest(by_sdpa[name], after[name]) for name in names) < TOLERANCE:
        return "equal", "to its sdpa path, from which its eager path differs", difference
    return "different", f"attention {of_attention:.1e}, whole {of_whole:.1e}", difference


def told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]
