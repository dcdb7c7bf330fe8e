"""The pages of the names that users import, made from their docstrings."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import tfzoo
from docs._ext import docstrings
from docs._ext.docstrings import ROLE, last_name, one_line
from docs._ext.tables import table

MODULES = ("tfzoo.contracts", "tfzoo.errors")
"""Documented as a whole."""
PACKAGES = ("tfzoo.plots", "tfzoo.testing")
"""Whose names load when touched, as those of tfzoo do."""
MET = (
    "tfzoo.models.options.StackOptions",
    "tfzoo.models.context.DecoderCache",
    "tfzoo.models.context.LayerCache",
    "tfzoo.models.context.Context",
    "tfzoo.models.mixer.Mixer",
    "tfzoo.data.tokenizer.Tokenizer",
    "tfzoo.data.tokenizer.TokenizerPair",
    "tfzoo.data.tokenizer.Vocabulary",
    "tfzoo.base.registry.Entry",
    "tfzoo.base.rotation.Rotation",
    "tfzoo.search.Decodable",
    "tfzoo.swapping.swap.SwapReport",
    "tfzoo.swapping.swap.SwappedModule",
    "tfzoo.tasks.classification.ClassificationAnswer",
    "tfzoo.learning.settings.Compute",
    "tfzoo.tasks.translation.Translation",
)
"""What arguments and results of exported names are."""


def groups() -> dict[str, list[str]]:
    """Full names under headings."""
    named = {name: getattr(tfzoo, name) for name in tfzoo.__all__}
    own = [f"tfzoo.{name}" for name, value in named.items() if not inspect.ismodule(value)]
    packages = [
        f"{package}.{name}" for package in PACKAGES for name in import_module(package).__all__
    ]
    return {
        "tfzoo": own,
        "Pictures and contract tests": packages,
        "Types of arguments and results": list(MET),
        "Contracts and errors": list(MODULES),
    }


def names() -> list[str]:
    """All of them."""
    return [name for group in groups().values() for name in group]


def page(name: str) -> str:
    """The page of one name, or of a module and all that it holds."""
    if name in MODULES:
        directive, options = "automodule", ["members"]
    else:
        is_class = isinstance(found(name), type)
        directive, options = ("autoclass", ["members"]) if is_class else ("autofunction", [])
    lines = [f".. {directive}:: {name}", *(f"   :{option}:" for option in options)]
    return "\n".join([f"# {title(name)}", "", "```{eval-rst}", *lines, "```", ""])


def title(name: str) -> str:
    """``LanguageModel``, ``plots.position_figure``."""
    package = next((one for one in PACKAGES if name.startswith(f"{one}.")), "")
    return name.removeprefix("tfzoo.") if package or name in MODULES else name.rpartition(".")[2]


def index() -> str:
    """The list of all pages."""
    parts = ["# API", "What users import, from its docstrings."]
    for heading, group in groups().items():
        rows = [[f"[{title(name)}]({file(name)}.md)", summary(name)] for name in group]
        files = "\n".join(file(name) for name in group)
        parts += [f"## {heading}", table(["name", "is"], rows)]
        parts.append(f"```{{toctree}}\n:hidden:\n\n{files}\n```")
    return "\n\n".join(parts) + "\n"


def summary(name: str) -> str:
    """The first paragraph of a docstring."""
    return ROLE.sub(last_name, one_line((inspect.getdoc(found(name)) or "").partition("\n\n")[0]))


def found(name: str) -> Any:
    """The module, class or function of that name."""
    if name in MODULES:
        return import_module(name)
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def file(name: str) -> str:
    """The name of its page, without the suffix."""
    return name.removeprefix("tfzoo.")


SLOT = re.compile(r"Annotated\[([^()]*?), [~.\w]*Slot\([^()]*\)\]")
ARGUMENT = re.compile(r"^( +)(\w+(?:, \w+)*): ")
SEE = re.compile(r"^( *)(\w+(?:, (?:\w+|\.\.\.))*): see :class:`~?([\w.]+)`\.$")
KEPT: dict[str, list[str]] = {}


def simplify(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A signature in which a component is a name or a mapping, without the mark of its kind."""
    return SLOT.sub(r"\1", signature or "") or None, returns


def keep(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep the docstring of a property from napoleon, which takes a colon for the end of a type."""
    if what in ("property", "attribute", "data"):
        KEPT[name] = lines[:]


def restore(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Undo what napoleon did to the docstring of a property."""
    if name in KEPT:
        lines[:] = KEPT.pop(name)


def expand(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Say of each argument what the class says that its docstring refers to:
    ``heads, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.``
    """
    if not isinstance(obj, type):
        return
    described = {
        key for line in lines if (entry := ARGUMENT.match(line)) for key in entry[2].split(", ")
    }
    for place, see in reversed([(n, SEE.match(line)) for n, line in enumerate(lines)]):
        if see is None:
            continue
        said = docstrings.arguments(found(see[3] if "." in see[3] else f"tfzoo.{see[3]}"))
        named = see[2].split(", ")
        if "..." in named:
            named = [
                key for key in inspect.signature(obj).parameters if key not in described - {*named}
            ]
        alike: dict[str, list[str]] = {}  # what is said of several arguments is said once
        for key in named:
            if key in said:
                alike.setdefault(said[key], []).append(key)
        lines[place : place + 1] = [
            f"{see[1]}{', '.join(keys)}: {text}" for text, keys in alike.items()
        ]


def connect(app: Any) -> None:
    """Called by the extension."""
    app.connect("autodoc-process-signature", simplify)
    app.connect("autodoc-process-docstring", expand, priority=300)
    app.connect("autodoc-process-docstring", keep, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
