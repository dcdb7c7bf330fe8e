"""Adapters: a few new parameters beside the linear maps of a model, whose own are kept."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from tfzoo.base.loading import require
from tfzoo.base.values import Named, check_range
from tfzoo.errors import BadOption, UnknownName
from tfzoo.learning.optim import check_patterns, matches
from tfzoo.models.initialise import seed_of

METHODS = ("delora", "gralora", "hira", "hra", "loha", "lokr", "lora", "oft")
"""The methods of PEFT whose adapters change a linear map, and are merged into it exactly."""
WITHIN = ".base_layer."
"""Stands in the names of parameters of a linear map that has an adapter."""

M = TypeVar("M", bound=nn.Module)


@dataclass
class Adapter(Named):
    """An adapter of the library PEFT: all parameters of the model are kept as they are, and a few
    new ones are trained beside some of its linear maps. ``lora`` adds ``(alpha / rank) x A^T B^T``
    to ``x W^T`` (Hu et al. 2021, arXiv:2106.09685), with ``B`` 0 at the start.

    Args:
        name: ``lora``, or another method of PEFT: delora, gralora, hira, hra, loha, lokr, oft; None
            is no adapter.
        rank: of the product that is added; None is PEFT's default.
        targets: the linear maps that get one, by name or pattern, such as ``[query, value]``,
            ``[decoder.layers.3]`` or ``["*"]`` for all.
        train: parameters that are trained beside the adapter, by the same patterns: ``[head]``;
            None: those that start anew, which the weights that training begins with do not have.
        options: further options of the method, numbers and booleans, by PEFT's names, such as
            ``{lora_alpha: 16, lora_dropout: 0.1}``.

    Raises:
        UnknownName: PEFT has no such method, or one that is not merged exactly.
        BadOption: another key is set without ``name``; an option that the method has not, or a
            value that it refuses; no ``targets``, or one that names no linear map.
        TfzooError: PEFT is not installed.
    """

    name: str | None = None
    rank: int | None = None
    targets: list[str] | None = None
    train: list[str] | None = None
    options: dict[str, bool | int | float] | None = None

    def __post_init__(self) -> None:
        check_range("adapter.rank", self.rank, ge=1, whole=True, optional=True)
        if self.name is None:
            for key in ("rank", "targets", "train", "options"):
                if getattr(self, key):
                    raise BadOption(" needs adapter.name, such as lora", key=f"adapter.{key}")
            return
        if self.name not in METHODS:
            raise UnknownName("adapter", self.name, METHODS)
        if not self.targets:
            raise BadOption(
                ": name the linear maps that get one: [query, value]", key="adapter.targets"
            )
        require("peft", "adapter")
        self._config([])

    def check_model(self, model: nn.Module) -> None:
        """Raise a BadOption, which names the parts there are, unless each pattern names a part of a
        model, which may be without memory.
        """
        if self.name is not None:
            self._targets(model)
            check_patterns(
                "adapter.train", self.train, [name for name, _ in model.named_parameters()]
            )

    def apply(self, model: nn.Module, seed: int, anew: Iterable[str] = ()) -> None:
        """Give a model the adapter, once, and leave nothing else of it to train but what
        :attr:`train` says; ``anew`` are the names of the parameters that start anew. A BadOption
        where a pattern names no part of the model, or PEFT refuses a value.
        """
        if self.name is None or is_adapted(model):
            return
        self.check_model(model)
        from peft import inject_adapter_in_model

        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(seed, "adapter"))
            try:
                inject_adapter_in_model(self._config(self._targets(model)), model)
            except (ValueError, TypeError, KeyError, NotImplementedError) as error:
                raise refused(self.name, error) from None
        del model.peft_config
        names = set(anew) if self.train is None else set[str]()
        for name, parameter in model.named_parameters():
            own = name.replace(WITHIN, ".")
            if own in names or matches(own, self.train or ()):
                parameter.requires_grad_(True)

    def _targets(self, model: nn.Module) -> list[str]:
        linear = [name for name, one in model.named_modules() if isinstance(one, nn.Linear)]
        check_patterns("adapter.targets", self.targets, linear, of="linear map")
        return [name for name in linear if matches(name, self.targets or ())]

    def _config(self, targets: list[str]) -> Any:
        from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING as CLASSES

        named = {str(kind.value).lower(): cls for kind, cls in CLASSES.items()}
        options: dict[str, Any] = {**(self.options or {}), "target_modules": targets}
        if self.rank is not None:
            options["r"] = self.rank
        if self.name == "oft" and self.rank:  # it has either
            options["oft_block_size"] = 0
        try:
            return named[str(self.name)](**options)
        except (ValueError, TypeError) as error:
            raise refused(str(self.name), error) from None


def refused(name: str, error: Exception) -> BadOption:
    """The refusal of a value by PEFT."""
    return BadOption(f"adapter {name!r}: {' '.join(str(error).split())[:300]}")


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has an adapter that is not merged."""
    return holds_adapter(f".{name}" for name, _ in model.named_parameters())


def holds_adapter(names: Iterable[str]) -> bool:
    """Whether names of parameters are of a model that has an adapter."""
    return any(WITHIN in name for name in names)


def merge(model: nn.Module) -> None:
    """Add the adapter to the linear maps beside which it stands, which have their names and classes
    again. Nothing of it is left; all parameters can be trained.
    """
    if not is_adapted(model):
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, module in list(model.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            model.set_submodule(name, module.get_base_layer())
    model.requires_grad_(True)


def merged(model: M) -> M:
    """The model, or a copy of it where there is an adapter to merge."""
    if is_adapted(model):
        model = copy.deepcopy(model)
        merge(model)
    return model
