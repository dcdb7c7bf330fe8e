"""The text of ``tfzoo fit RECIPE --help``: every key of a recipe with its type, its default and the
description in the docstring of the class that takes it.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from tfzoo.base.values import type_name
from tfzoo.config.sections import DEFAULTS, DESCRIPTIONS, TOP, Section, sections

ENTRY = re.compile(
    r"^(?= {4}[\w`]| *- )( *)(?:- )?((?:`*\w+`*|\.{3})(?:, (?:`*\w+`*|\.{3}))*): +"
    r"(.*(?:\n\1 +(?!- )\S.*)*)",
    re.MULTILINE,
)
"""``name: text`` or ``a, b, ..., c: text`` under ``Args:``, or the same as an item of a list."""
SEE = re.compile(r"[Ss]ee :class:`~?([\w.]+)\.(\w+)`")
EMPTY = inspect.Parameter.empty
MAX_DESCRIPTION = 160
"""Maximum number of characters of a description that has several sentences."""

HEAD = """\
usage: tfzoo fit RECIPE [--SECTION.KEY VALUE ...]

Every key of a recipe, with its type and default. A component also takes its own options, such as
--model.norm.eps 1e-6: tfzoo show norm rms lists them, tfzoo list norm the names."""


def help_text(task: Any) -> str:
    """Return the text for recipes of a task, a paragraph for each section."""
    width = min(shutil.get_terminal_size().columns, 100)
    lines = [HEAD]
    for name, rows in keys(sections(task)):
        lines += ["", name]
        for key, kind, default, text in rows:
            value = "" if default in (EMPTY, None) else f" = {default}"
            lines.append(f"  --{key} {kind}{value}")
            lines += textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)


def keys(
    of_task: Mapping[str, Section],
) -> Iterator[tuple[str, list[tuple[str, str, Any, str]]]]:
    """Yield the heading of each section, and type, default and description of each of its keys."""
    rows = [
        (key, readable(hint), DEFAULTS.get(key, EMPTY), DESCRIPTIONS.get(key, ""))
        for key, hint in TOP.items()
    ]
    yield "top level", rows
    for name, section in of_task.items():
        texts = descriptions(section.cls)
        rows = [
            (
                f"{name}.{key}",
                section.slots[key].upper() if key in section.slots else readable(hint),
                section.defaults.get(key, EMPTY),
                texts.get(key, ""),
            )
            for key, hint in section.hints.items()
        ]
        yield f"{name}: {summary(section.cls)}", rows


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
                    texts.setdefault(key, short_description(text))
    return texts


def entries(doc: str) -> Iterator[tuple[str, str]]:
    """Yield name and first paragraph of each argument that a docstring describes."""
    for _, names, text in ENTRY.findall(doc.partition("\nRaises:")[0]):
        yield from ((name, text) for name in re.findall(r"\w+", names))


def short_description(text: str) -> str:
    """A description without markup and without its default: its first sentence, and further ones up
    to :data:`MAX_DESCRIPTION` characters.
    """
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "").replace("`", "")
    text = re.sub(r"\(?\bDefaults?: [^.;]+?(?:\.\d+)?\)?(?:\.|$)", "", text)
    shortened = ""
    for sentence in re.split(r"(?<=[.;])\s+", " ".join(text.split())):
        if shortened and len(shortened) + len(sentence) > MAX_DESCRIPTION:
            break
        shortened = f"{shortened} {sentence}".strip()
    return shortened.rstrip(".;")


def summary(cls: type) -> str:
    """The first sentence of a class's docstring."""
    doc = vars(cls).get("__doc__") or vars(cls)["__init__"].__doc__ or ""
    text = " ".join(doc.strip().partition("\n\n")[0].split())
    return short_description(text.partition(". ")[0])


def readable(hint: Any) -> str:
    """A type in at most 60 characters."""
    text = type_name(hint)
    return text if len(text) <= 60 else f"{text[:57]}..."
