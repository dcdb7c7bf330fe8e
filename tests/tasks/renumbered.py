"""Tokenizers that give other ids to all tokens, special ones included."""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.special_ids import SpecialIds


class Renumbered:
    """A tokenizer with other ids: the special ones are the last, in the opposite order."""

    def __init__(self, inner: Any):
        self.inner = inner
        special = sorted(inner.special.every, reverse=True)
        self.order = [one for one in range(len(inner)) if one not in special] + special
        self.new = {one: new for new, one in enumerate(self.order)}

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def state(self) -> str:
        return f"{self.special} {self.inner.state()}"

    @property
    def special(self) -> SpecialIds:
        kept = vars(self.inner.special).items()
        return SpecialIds(**{name: renamed(ids, self.new) for name, ids in kept})

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [renamed(ids, self.new) for ids in self.inner.encode(texts)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.inner.decode([[self.order[one] for one in row] for row in ids])
        return texts


def renamed(ids: Any, new: Mapping[int, int]) -> Any:
    """New ids in place of one, of several, or of None."""
    if isinstance(ids, list | tuple):
        return type(ids)(renamed(one, new) for one in ids)
    return None if ids is None else new[ids]


def renumber(tokenizer: Any) -> Any:
    """What holds the tokenizers of a task, with the ids of each :class:`Renumbered`."""
    if not is_dataclass(tokenizer):
        return Renumbered(tokenizer)
    held = {name: one for name, one in vars(tokenizer).items() if hasattr(one, "special")}
    made = {id(one): Renumbered(one) for one in held.values()}
    return replace(tokenizer, **{name: made[id(one)] for name, one in held.items()})  # type: ignore[type-var]  # it is one


def reordered(tensor: Tensor, tokenizer: Any) -> Tensor:
    """A parameter with a row for each id in the order of the renumbered tokenizers."""
    held = [tokenizer] if isinstance(tokenizer, Renumbered) else vars(tokenizer).values()
    orders = {len(one): torch.tensor(one.order) for one in held if isinstance(one, Renumbered)}
    for axis, size in enumerate(tensor.shape):
        tensor = tensor.index_select(axis, orders[size]) if size in orders else tensor
    return tensor
