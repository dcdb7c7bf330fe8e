"""What a recipe may hold: the sections of a task, their keys, types and component slots, read from
signatures.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

from tfzoo.errors import BadRecipe, did_you_mean, listing
from tfzoo.registry import Slot
from tfzoo.renamed import hint, renamed_keys

TASKS = {
    "translation": "tfzoo.tasks.translation:TranslationTask",
    "classification": "tfzoo.tasks.classification:ClassificationTask",
}
TOP: dict[str, Any] = {
    "task": str,
    "seed": int,
    "timeout": float,
    "explain": bool,
    "train_tokens": int | None,
}
"""``timeout``: seconds without progress after which one of several processes counts as hung;
``explain``: log what explains the scores; ``train_tokens``: training ends at the first step at
which it has seen so many, if no other limit ends it before.
"""
DEFAULTS = {"seed": 0, "timeout": 1800.0, "explain": False}
RANGES = {"seed": (0, 2**32 - 1), "timeout": (1, 2**31), "train_tokens": (1, 2**63 - 1)}
"""The least and the most of each number at the top."""
LIGHTNING = frozenset({"trainer", "checkpoint"})
"""The sections that jsonargparse reads: Lightning's ``Trainer`` and ``ModelCheckpoint``."""
FOLDERS = frozenset({"dirpath", "default_root_dir"})
"""Arguments of Lightning that are given the run's folder."""


@dataclass(frozen=True)
class Section:
    """One section: the class that takes its keys, the types and defaults of the keys, the kinds of
    component slots, and the arguments of the class that are not for a recipe to say.
    """

    cls: type
    hints: Mapping[str, Any]
    defaults: Mapping[str, Any]
    slots: Mapping[str, str]
    supplied: frozenset[str] = frozenset()

    def current(self, key: str, where: str) -> str:
        """The present name of a key. For one that was renamed, a hint is printed."""
        new = renamed_keys(self.cls).get(key)
        if new is None:
            return key
        print_hint(f"{where}: {hint(key, new)}")
        return new

    def is_side(self, key: str) -> bool:
        """Whether the key holds options of its own section, as ``encoder: {norm: batch}`` does."""
        return key not in self.slots and dict[str, Any] in parts(self.hints[key])

    def hint(self, key: str, inner: str = "") -> Any:
        """The type of ``key`` or of the dotted name ``inner`` within it; ``str`` for an option of a
        component, which the component converts, and ``Any`` where nothing is known.
        """
        if not inner:
            return self.hints[key]
        if key in self.slots:
            return str
        first, _, rest = inner.partition(".")
        if self.is_side(key):
            return self.hint(first, rest) if first in self.hints else Any
        values = [get_args(part)[1] for part in parts(self.hints[key]) if get_origin(part) is dict]
        return values[0] if values else Any


@cache
def print_hint(text: str) -> None:
    """Print a hint on stderr, once."""
    print(f"tfzoo: {text}", file=sys.stderr)


def task_class(name: Any) -> Any:
    """The class of a task; imports lightning. Raises BadRecipe where there is none."""
    if name is None:
        raise BadRecipe(f"no task; begin with task: {listing(TASKS)}")
    if not isinstance(name, str) or name not in TASKS:
        raise BadRecipe(
            f"no task {name!r}.{did_you_mean(str(name), TASKS)} Known: {listing(TASKS)}"
        )
    module, _, attribute = TASKS[name].partition(":")
    return getattr(import_module(module), attribute)


def sections(task: Any) -> dict[str, Section]:
    """All sections of a task: model and data, its settings such as optim, and Lightning's trainer
    and checkpoint.
    """
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    classes = {
        "model": task.Model,
        "data": task.Data,
        **task.settings(),
        "trainer": Trainer,
        "checkpoint": ModelCheckpoint,
    }
    supplied = {
        "model": frozenset(task.model_arguments()),
        "data": frozenset({"seed"}),
        "trainer": FOLDERS,
        "checkpoint": FOLDERS,
    }
    return {key: section(cls, supplied.get(key, frozenset())) for key, cls in classes.items()}


def section(cls: type, supplied: frozenset[str]) -> Section:
    """The section whose keys are the arguments of ``cls``, without those that others supply."""
    hints = get_type_hints(inspect.unwrap(cls.__init__), include_extras=True)  # type: ignore[misc]
    parameters = {
        key: value
        for key, value in list(inspect.signature(cls.__init__).parameters.items())[1:]
        if key not in supplied
    }  # type: ignore[misc]
    slots = {
        key: slot.kind
        for key in parameters
        for slot in parts(hints.get(key, Any))
        if isinstance(slot, Slot)
    }
    defaults = {
        key: parameter.default
        for key, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }
    return Section(cls, {key: hints.get(key, Any) for key in parameters}, defaults, slots, supplied)


def parts(hint: Any) -> list[Any]:
    """The members of a union, of nested ones too, and what ``Annotated`` adds."""
    if hasattr(hint, "__metadata__"):
        return [*parts(get_args(hint)[0]), *hint.__metadata__]
    if type(hint).__name__ in ("UnionType", "_UnionGenericAlias", "Union"):
        return [inner for part in get_args(hint) for inner in parts(part)]
    return [hint]


def misplaced(known: Mapping[str, Section], key: str, within: str = "") -> str:
    """What to say of a key that a recipe does not have there."""
    homes = [name for name, one in known.items() if key in one.hints and name != within]
    here: Iterable[str] = known[within].hints if within else [*known, *TOP]
    if key in TOP:
        return f"`{key}` belongs at the top, not under `{within}`"
    if key in known:
        return f"`{key}` is a section of its own, not a key of `{within}`"
    if homes:
        return f"`{key}` belongs under {' or '.join(f'`{home}`' for home in homes)}{within and f', not under `{within}`'}"
    if any(key in one.supplied for one in known.values()):
        return f"`{key}` is not for a recipe to say: tokenizer and data give vocabulary sizes and classes, --run the folder"
    what = f"{within} has no key {key!r}." if within else f"no section {key!r}."
    if close := did_you_mean(key, here):
        return what + close
    for name, one in known.items():
        if close := did_you_mean(key, one.hints):
            return f"{what}{close[:-1]}, under `{name}`?"
    return f"{what} Known: {listing(here, 40)}"
