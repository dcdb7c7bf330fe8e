"""The settings of a task: the keyword arguments of its constructor; how layers are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, make_dataclass
from typing import Any, get_type_hints

from torch import nn

from tfzoo.base.values import PLAIN, Named, leaves
from tfzoo.errors import BadOption
from tfzoo.learning.optim import Optim
from tfzoo.models.transformer_layer import TransformerLayer


@dataclass
class Compute(Named):
    """How layers are computed in training. These options change results by rounding errors only.

    Args:
        compile: compile the layers with ``torch.compile``, for GPUs: on a CPU it does not pay. The
            first steps take longer.
        activation_checkpointing: store only the inputs of layers, and compute their activations
            again in the backward pass, which costs one more forward pass.

    Raises:
        BadOption: both at once; they do not work together (pytorch/pytorch#166926).
    """

    compile: bool = False
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.compile and self.activation_checkpointing:
            raise BadOption(
                "compile and activation_checkpointing do not work together "
                "(pytorch/pytorch#166926); choose one"
            )

    def apply(self, model: nn.Module) -> None:
        """Set both options on every layer of a model."""
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.compiled = self.compile
                module.activation_checkpointing = self.activation_checkpointing


@dataclass(kw_only=True)
class Settings:
    """The settings of every task. A task with more derives its own dataclass from this one. A field
    whose type is a dataclass is a section of the recipe; others are numbers, strings, lists or
    dicts, and stand in the section ``options``.
    """

    optim: Optim = field(default_factory=Optim)
    compute: Compute = field(default_factory=Compute)
    seed: int = 0

    @classmethod
    def sections(cls) -> dict[str, type]:
        """The settings that are a section of a recipe, by name."""
        hints = get_type_hints(cls)
        return {one.name: hints[one.name] for one in fields(cls) if is_dataclass(hints[one.name])}

    @classmethod
    def options(cls) -> dict[str, type]:
        """The section ``options`` of a recipe, where there are settings for it."""
        others = {*cls.sections(), "seed"}
        hints = get_type_hints(cls)
        plain = [(one.name, hints[one.name], one) for one in fields(cls) if one.name not in others]
        return {"options": make_dataclass("Options", plain)} if plain else {}

    @classmethod
    def of(cls, owner: str, given: Mapping[str, Any]) -> Settings:
        """The settings with these values; ``owner`` is the task's name in messages. A BadOption for
        a value that a checkpoint could not restore.
        """
        sections = cls.sections()
        for name, value in given.items():
            section = sections.get(name)
            plain = all(isinstance(leaf, PLAIN) for _, leaf in leaves({name: value}))
            if not (isinstance(value, section) if section else plain):
                wanted = f"{section.__name__}(...)" if section else "a number, string, list or dict"
                shown = f"{' '.join(repr(value).split()):.60}"
                raise BadOption(
                    f"{owner}: a checkpoint could not restore {name}={shown}; it must be {wanted}"
                )
        return cls(**given)

    def recipe(self) -> dict[str, Any]:
        """The settings as a recipe has them."""
        values, sections = asdict(self), self.sections()
        options = {key: one for key, one in values.items() if key not in (*sections, "seed")}
        kept = {key: values[key] for key in ("seed", *sections)}
        return {**kept, "options": options} if options else kept
