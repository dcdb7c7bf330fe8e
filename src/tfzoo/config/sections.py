"""The schema of a recipe: the sections of a task and the type, default and component slot of each
key, read from the signatures of constructors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, get_args, get_origin

from tfzoo.base.arguments import arguments
from tfzoo.base.values import members

TOP: dict[str, Any] = {
    "task": str,
    "from": str | None,
    "seed": int,
    "timeout": float,
    "explain": bool,
    "train_tokens": int | None,
    "samples": int | None,
}
"""The keys that belong to no section, with their types."""
DESCRIPTIONS = {
    "task": "what is trained; see tfzoo list task",
    "from": "what training starts with: a run, a folder of transformers, or hf://owner/name",
    "seed": "the seed of parameters, batches and dropout",
    "timeout": "seconds without progress after which one of several processes counts as hung",
    "explain": "log diagnostics of attention and gradients",
    "train_tokens": "training ends at the first step with at least this many tokens of training "
    "data, unless another limit ends it earlier",
    "samples": "how many texts each validation prints with what the model makes of them, of a task "
    "that prints any; None: the task's own number",
}
DEFAULTS = {"seed": 0, "timeout": 1800.0, "explain": False}
RANGES = {
    "seed": (0, 2**32 - 1),
    "timeout": (1, 2**31),
    "train_tokens": (1, 2**63 - 1),
    "samples": (0, 10_000),
    "trainer.accumulate_grad_batches": (1, 1_000_000),
    "trainer.num_nodes": (1, 100_000),
    "trainer.check_val_every_n_epoch": (1, inf),
    "trainer.gradient_clip_val": (0, inf),
    "trainer.log_every_n_steps": (0, inf),
}
"""The smallest and the largest value of each numeric top-level key, and of arguments that the
Trainer does not check itself.
"""
LIGHTNING = frozenset({"trainer", "checkpoint"})
"""The sections of Lightning's ``Trainer`` and ``ModelCheckpoint``."""
FOLDER_ARGUMENTS = frozenset({"dirpath", "default_root_dir"})
"""Arguments of Lightning that tfzoo sets to the run's folder; a recipe cannot set them."""


@dataclass(frozen=True)
class Section:
    """One section of a recipe.

    Args:
        cls: the class whose constructor arguments are the keys.
        hints: the type of each key.
        defaults: the default of each key that has one.
        slots: the kind of component of each key that takes one.
        supplied: the arguments of ``cls`` that a recipe cannot set.
    """

    cls: type
    hints: Mapping[str, Any]
    defaults: Mapping[str, Any]
    slots: Mapping[str, str]
    supplied: frozenset[str] = frozenset()

    def is_nested(self, key: str) -> bool:
        """Whether the value of a key is a dict with keys of the same section, which override them
        for a part of the model, as in ``model: {norm: layer, encoder: {norm: batch}}``.
        """
        kinds = members(self.hints.get(key))
        return key not in self.slots and dict[str, Any] in kinds

    def type_of(self, key: str, *inner: str) -> Any:
        """The type of a key, or of a key within its value: ``str`` for an option of a component,
        which the registry converts later; ``Any`` if it is not known.
        """
        hint = self.hints.get(key, Any)
        if inner and key in self.slots:
            return str
        if inner and self.is_nested(key):
            return self.type_of(*inner)
        values = [get_args(one)[1] for one in members(hint) if get_origin(one) is dict]
        return hint if not inner else values[0] if values else Any


def sections(task: Any) -> dict[str, Section]:
    """Return the sections of a task: ``model``, ``data``, its settings such as ``optim``, and
    Lightning's ``trainer`` and ``checkpoint``.
    """
    classes = {"model": task.Model, "data": task.Data, **task.settings()}
    supplied = {"model": frozenset(task.model_arguments()), "data": frozenset({"seed"})}
    own = {key: make_section(cls, supplied.get(key, frozenset())) for key, cls in classes.items()}
    if not task.smooths_labels:
        changed = {**own["optim"].defaults, "label_smoothing": 0.0}
        own["optim"] = replace(own["optim"], defaults=changed)
    return {**own, **lightning_sections()}


@cache
def lightning_sections() -> dict[str, Section]:
    """Return Lightning's sections, which are the same for all tasks."""
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    classes = {"trainer": Trainer, "checkpoint": ModelCheckpoint}
    return {key: make_section(cls, FOLDER_ARGUMENTS) for key, cls in classes.items()}


def make_section(cls: type, supplied: frozenset[str]) -> Section:
    """Return the section whose keys are the arguments of ``cls``, except ``supplied``."""
    taken = {key: one for key, one in arguments(cls).items() if key not in supplied}
    hints = {key: one.annotation for key, one in taken.items()}
    slots = {
        key: slot.kind
        for key, hint in hints.items()
        for part in (hint, *get_args(hint))
        for slot in getattr(part, "__metadata__", ())
    }
    defaults = {key: one.default for key, one in taken.items() if one.default is not one.empty}
    return Section(cls, hints, defaults, slots, supplied)
