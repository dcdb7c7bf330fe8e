"""The weights of a model of Hugging Face's ``transformers``, renamed for a tfzoo model.

The table ``weights`` of an architecture has one line for each parameter of the tfzoo model, or for
each module where all of its parameters have the same names in both models. ``*`` is the number of a
layer. A line says which parameter of the other model it is:

- ``name``: that one;
- ``[name, name]``: both, one after the other along the first axis;
- ``{of: name, rearrange: "d (p o) -> p o d", p: 3, take: 0}``: that one with its axes rearranged by
  einops, and the first slice of the result if there is ``take``. The size of an axis is a number or
  the name of an option of the model;
- ``{of: name, skip: 2}``: without the first two rows;
- ``{of: name, over_sqrt: dim}``: divided by the square root of the model's ``dim``.

Files differ in what they are called: those of an older ``transformers`` have no ``prefix``, which
the whole model puts before the names of its trunk, and ``gamma`` and ``beta`` for the weight and
bias of a norm. An architecture's file has, beside ``prefix``,

- ``copies``: names under which a file may hold a tensor, or one of several, a second time, which
  is then equal, or alone;
- ``saved_as``: names that ``save_pretrained`` writes in place of others;
- ``zero``: tensors that tfzoo's model has no place for, and that are added: they must be 0;
- ``unused``: patterns of tensors that change no output.
"""

import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from tfzoo.errors import BadOption, listing
from tfzoo.models.architectures import architecture

OLD_NAMES = (("weight", "gamma"), ("bias", "beta"))


class Tensors:
    """The tensors ``names`` of an architecture; ``read`` gives one by its name in the file."""

    def __init__(self, name: str, names: Collection[str], read: Callable[[str], Tensor]) -> None:
        self.architecture, self.names, self.read = architecture(name), frozenset(names), read
        self.copies = {
            name: [one] if isinstance(one, str) else one
            for name, one in self.architecture.copies.items()
        }
        self.seen: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.in_file(name) is not None

    def __getitem__(self, name: str) -> Tensor:
        found = self.in_file(name)
        if found is None:
            raise KeyError(name)
        self.seen.add(found)
        return self.read(found)

    def in_file(self, name: str) -> str | None:
        """The name in the file of what the architecture calls ``name``; None: it has none."""
        copies = [one for one, originals in self.copies.items() if name in originals]
        saved = self.architecture.saved_as.get(name, name)
        return next((other for one in (name, saved, *copies) for other in self.others(one)), None)

    def others(self, name: str) -> list[str]:
        """The names in the file by which one name may be meant."""
        prefix = f"{self.architecture.prefix}."
        found = [name, name.removeprefix(prefix)]
        for new, old in OLD_NAMES:
            if name.endswith(f".{new}"):
                found += [f"{one.removesuffix(new)}{old}" for one in found[:2]]
        return [one for one in found if one in self.names]

    def check_all_read(self) -> None:
        """Refuse a tensor that was not read, though it could change what a model computes."""
        said, left = self.architecture, self.names - self.seen
        prefix = f"{said.prefix}."
        for copy, originals in self.copies.items():
            for name in left.intersection(self.others(copy)):
                sources = [one for one in map(self.in_file, originals) if one not in (None, name)]
                if any(self.same(name, one) for one in sources if one):
                    left -= {name}
        for zero in said.zero:
            left -= {name for name in self.others(zero) if not self.read(name).any()}
        for pattern in said.unused:
            left -= {
                name
                for name in left
                if fnmatchcase(name, pattern) or fnmatchcase(f"{prefix}{name}", pattern)
            }
        if left:
            raise BadOption(
                f"tfzoo's model has no place for {listing(sorted(left), 3)}: more layers, "
                "another head, tensors that should be equal and are not, or another architecture"
            )

    def same(self, first: str, second: str) -> bool:
        """Whether two tensors of the file are equal."""
        one, other = self.read(first), self.read(second)
        return one.shape == other.shape and bool((one == other).all())


def convert_weights(name: str, model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of ``model``, made of that of the ``transformers`` model of an architecture.

    ``model.load_state_dict(convert_weights("llama", model, peer.state_dict()))`` gives ``model``
    the weights of ``peer``.

    Raises:
        UnknownName: there is no architecture of that name.
        BadOption: a parameter that is not in the table, or not in ``state``; a tensor of ``state``
            that ``model`` has no place for.
    """
    tensors = Tensors(name, state, state.__getitem__)
    found = converted(name, model, tensors)
    tensors.check_all_read()
    return found


def converted(
    name: str, model: nn.Module, tensors: Tensors, bare: bool = False
) -> dict[str, Tensor]:
    """As :func:`convert_weights`; what is left of ``tensors`` may be read later. Where they are of
    a model that is ``bare``, without a head, the parameters of the head are left out.
    """
    table = table_of(name, model)

    def value_of(said: Any, suffix: str, layer: str) -> Tensor:
        """What one line of the table says; ``suffix`` is appended to its names."""
        if isinstance(said, str):
            found = f"{said.replace('*', layer)}{suffix}"
            if found not in tensors:
                raise BadOption(
                    f"no parameter {found!r}: these are not weights of {name!r}, or of fewer "
                    "layers than this model has"
                )
            return tensors[found]
        if isinstance(said, list):
            return torch.cat([value_of(one, suffix, layer) for one in said])
        sizes = sizes_of(said, model)
        scale = sizes.pop("over_sqrt", 1) ** 0.5
        value = value_of(said["of"], suffix, layer)[said.get("skip", 0) :]
        if "rearrange" in said:
            value = rearrange(value, said["rearrange"], **sizes)
        if scale != 1:
            value = value / scale
        return value[said["take"]] if "take" in said else value

    return {
        own: value_of(*line(table, own, name), layer_of(own))
        for own in model.state_dict()
        if not (
            bare and is_left_out(own, line(table, own, name), architecture(name).prefix, tensors)
        )
    }


def is_left_out(own: str, said: tuple[Any, str], prefix: str, state: Tensors) -> bool:
    """Whether a model without a head lacks a parameter: one outside the trunk ``prefix``, or of a
    pooling that was not saved.
    """
    first, suffix = said
    if isinstance(first, list):
        first = first[0]
    first = first["of"] if isinstance(first, Mapping) else first
    if own.startswith("pooling.") and f"{first}{suffix}" not in state:
        return True
    return bool(prefix) and not first.startswith(f"{prefix}.")


def table_of(name: str, model: nn.Module) -> dict[str, Any]:
    """The weights of a model that is built like an architecture: those of a classifier have the
    same layers and a head of their own.
    """
    said = architecture(name)
    table = dict(said.weights or {})
    config: Mapping[str, Any] = getattr(model, "config", {})
    if config.get("tie") in ("target", "none"):
        table |= said.apart
    if "classes" not in config:
        return table
    layers = {re.sub("^decoder", "encoder", key): value for key, value in table.items()}
    head = {"head", "head.weight", "head.bias", "projection", "output_bias"}
    own = {key: value for key, value in layers.items() if key not in head}
    return {**own, **said.classifier_with(config["pooling"]).get("weights", {})}


def line(table: Mapping[str, Any], own: str, name: str) -> tuple[Any, str]:
    """What the table says about a parameter, and what is appended to the names there."""
    starred = re.sub(r"\.\d+\.", ".*.", own)
    module, _, last = starred.rpartition(".")
    if starred in table:
        return table[starred], ""
    if module in table:
        return table[module], f".{last}"
    raise BadOption(f"architecture {name!r} has no weights for {own}: its parts were changed")


def layer_of(own: str) -> str:
    """The number of the layer in the name of a parameter or a module; "" where there is none.

    >>> layer_of("decoder.layers.3.norm.weight")
    '3'
    """
    return next(iter(re.findall(r"\.(\d+)\.", own)), "")


def sizes_of(said: Mapping[str, Any], model: Any) -> dict[str, int]:
    """The numbers in a line, which may be the names of options of the model."""
    sizes = {key: one for key, one in said.items() if key not in OWN}
    return {key: model.config[one] if isinstance(one, str) else one for key, one in sizes.items()}


OWN = frozenset({"of", "rearrange", "take", "skip"})
"""The keys of a line that are no sizes: the others are those of axes, and ``over_sqrt``."""
