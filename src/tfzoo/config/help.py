"""The text of ``tfzoo fit RECIPE --help SECTION``: every key of a section with its type, its
value, and the description in the docstring of the class that takes it.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tfzoo.base.values import type_name
from tfzoo.config.config import Config
from tfzoo.errors import UnknownName

ENTRY = re.compile(
    r"^(?= {4}[\w`]| *- )( *)(?:- )?((?:`*\w+`*|\.{3})(?:, (?:`*\w+`*|\.{3}))*): +"
    r"(.*(?:\n\1 +(?!- )\S.*)*)",
    re.MULTILINE,
)
"""``name: text`` or ``a, b, ..., c: text`` under ``Args:``, or the same as an item of a list."""
SEE = re.compile(r"[Ss]ee :class:`~?([\w.]+)\.(\w+)`")


def help_text(config: Config, name: str) -> str:
    """The keys of a section, below its first sentence, with what the recipe says or by default.

    Raises:
        UnknownName: the task has no section of that name.
    """
    if name not in config.sections:
        raise UnknownName("section", name, config.sections)
    section = config.sections[name]
    values = {**section.defaults, **config.recipe[name]}
    doc = inspect.getdoc(section.cls) or inspect.getdoc(vars(section.cls)["__init__"]) or ""
    lines = [f"{name}: {plain(doc.partition('. ')[0].partition(chr(10) * 2)[0])}", ""]
    width = min(shutil.get_terminal_size().columns, 100)
    texts = descriptions(section.cls)
    for key, hint in section.hints.items():
        kind = section.slots[key].upper() if key in section.slots else type_name(hint)
        value = values.get(key)
        lines.append(f"  --{name}.{key} {kind}{'' if value is None else f' = {value}'}")
        text = texts.get(key, "")  # of another package, which may not say it
        lines += textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    for key, kind in [*section.slots.items()][:1]:
        lines += ["", f"Names: tfzoo list {kind}. Options: tfzoo show {kind} NAME, set by"]
        lines += [f"--{name}.{key}.OPTION VALUE; so for each key in capitals."]
    return "\n".join(lines)


def descriptions(cls: type) -> dict[str, str]:
    """Return the description of each argument in the docstrings of a class, its constructor and its
    bases. ``see :class:`X``` stands for the descriptions in the docstring of X.
    """
    texts: dict[str, str] = {}
    for owner in cls.__mro__:
        for thing in (owner, vars(owner).get("__init__")):
            for key, text in entries(inspect.cleandoc(getattr(thing, "__doc__", None) or "")):
                if see := SEE.match(text):
                    other = getattr(import_module(see[1]), see[2])
                    texts = {**descriptions(other), **texts}
                else:
                    texts.setdefault(key, plain(text))
    return texts


def entries(doc: str) -> Iterator[tuple[str, str]]:
    """Yield name and first paragraph of each argument that a docstring describes."""
    for _, names, text in ENTRY.findall(doc.partition("\nRaises:")[0]):
        yield from ((name, text) for name in re.findall(r"\w+", names))


def plain(text: Any) -> str:
    """A description without markup and without its default."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("`", "")
    text = re.sub(r"\(?\bDefaults?: [^.;]+?(?:\.\d+)?\)?(?:\.|$)", "", text)
    return " ".join(text.split()).rstrip(".;")
