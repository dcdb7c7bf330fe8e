"""Published architectures as sums of parts: one YAML file each, which holds plain values.

A file has

- ``title`` and ``paper``;
- ``model``: the class of the published model, such as ``LanguageModel``;
- ``stack``: the options of its layers (:class:`tfzoo.models.options.StackOptions`);
- ``options``: further options of each class that is built like it;
- ``transformers`` and ``weights``: a class of Hugging Face's ``transformers``, and which of its
  parameters each parameter of ``model`` is (:mod:`tfzoo.models.architectures.weights`);
- ``config``, ``classifier`` and ``token_classifier``: what a ``config.json`` of it says
  (:mod:`tfzoo.models.architectures.config`);
- ``apart``: lines of ``weights`` where source and target have embeddings of their own;
- ``prefix``, ``copies``, ``saved_as``, ``zero``, ``unused``: what else is in a file of its weights
  (:mod:`tfzoo.models.architectures.weights`).

Sizes are left out: depth and widths are the user's.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tfzoo.errors import BadOption, UnknownName

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Architecture:
    """The content of one file; see :mod:`tfzoo.models.architectures`."""

    title: str
    paper: str
    model: str
    stack: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]]
    transformers: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    classifier: Mapping[str, Any] = field(default_factory=dict)
    token_classifier: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    copies: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    saved_as: Mapping[str, str] = field(default_factory=dict)
    zero: Sequence[str] = ()
    unused: Sequence[str] = ()
    weights: Mapping[str, Any] | None = None
    apart: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_token(self) -> Mapping[str, Any]:
        """The options of a model that classifies each token."""
        return {"pooling": None, **self.token_classifier.get("options", {})}

    def classifier_with(self, pooling: Any) -> Mapping[str, Any]:
        """What classifies texts, or without a pooling their tokens."""
        return self.token_classifier if pooling is None else self.classifier


def names() -> list[str]:
    """The names of all architectures, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def text(name: str) -> str:
    """The file of an architecture."""
    if name not in names():
        raise UnknownName("architecture", str(name), names(), "tfzoo architectures")
    return (FOLDER / f"{name}.yaml").read_text("utf-8")


@cache
def architecture(name: str) -> Architecture:
    """The architecture of that name.

    Raises:
        UnknownName: there is none.
    """
    return Architecture(**yaml.safe_load(text(name)))


def options_like(name: Any, model: type) -> dict[str, Any]:
    """The options of a model that is built like an architecture: those of its layers, and those
    that the file has for the model's class or a class that it is derived from.

    >>> import tfzoo
    >>> options_like("llama", tfzoo.Transformer)["feedforward"]
    'swiglu'

    Raises:
        BadOption: the name is no string.
        UnknownName: there is no architecture of that name.
    """
    if not isinstance(name, str):
        raise BadOption(f"like is the name of one architecture, such as llama, not {name!r}")
    found = architecture(name)
    own = [found.options[cls.__name__] for cls in model.__mro__ if cls.__name__ in found.options]
    return deepcopy({**found.stack, **(own[0] if own else {})})
