"""A component's docstring, cut into what its page shows."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

SECTION = re.compile(r"^(Options|Raises|Args|Attributes|Returns):\n((?:(?: .*)?(?:\n|$))+)", re.M)
ENTRY = re.compile(r"^(\w+):[ \n]")
ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): ")
CODE = re.compile(r"``(.+?)``", re.DOTALL)
ROLE = re.compile(r":\w+:`~?([^`]+)`")


@dataclass(frozen=True)
class Docstring:
    """What a docstring says.

    Attributes:
        summary: the first paragraph, in one line.
        formulas: its formulas, one each.
        details: the paragraphs after it, as reStructuredText.
        options: what each option does, in Markdown.
        raises: when each error is raised, in Markdown.
        example: the doctest, empty if there is none.
    """

    summary: str
    formulas: list[str]
    details: str
    options: dict[str, str]
    raises: dict[str, str]
    example: str


def read(cls: type) -> Docstring:
    """The docstring of a class."""
    text = inspect.getdoc(cls) or ""
    text, _, example = text.partition("\n>>> ")
    sections = {match[1]: match[2] for match in SECTION.finditer(text)}
    text = SECTION.sub("", text).replace(" Options: none.", "")
    summary, _, details = text.strip().partition("\n\n")
    summary = one_line(summary)
    return Docstring(
        summary=summary,
        formulas=[code for code in CODE.findall(summary) if " " in code] or CODE.findall(summary),
        details=ROLE.sub(last_name, details.strip()),
        options=entries(sections.get("Options", "")),
        raises=entries(sections.get("Raises", "")),
        example=f">>> {example.rstrip()}\n" if example else "",
    )


def entries(section: str) -> dict[str, str]:
    """The entries of a section, ``name: text`` with further lines indented."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(section).splitlines():
        start = ENTRY.match(line + "\n")
        if start:
            name = start[1]
            found[name] = line.removeprefix(f"{name}:").strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {key: ROLE.sub(last_name, text) for key, text in found.items()}


def arguments(cls: type) -> dict[str, str]:
    """What a class says of each of its arguments, in one line each, as reStructuredText."""
    found: dict[str, str] = {}
    names: list[str] = []
    sections = {match[1]: match[2] for match in SECTION.finditer(inspect.getdoc(cls) or "")}
    for line in inspect.cleandoc(sections.get("Args", "")).splitlines():
        if start := ARGUMENT.match(line):
            names = start[1].split(", ")
            found |= dict.fromkeys(names, line.removeprefix(start[0]))
        else:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def last_name(role: re.Match[str]) -> str:
    """``:class:`~tfzoo.base.rotation.Rotation``` as code."""
    return f"``{role[1].rpartition('.')[2]}``"


def one_line(text: str) -> str:
    """A paragraph in one line."""
    return " ".join(text.split())
