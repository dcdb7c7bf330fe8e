"""The page of a component, made from its registry entry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs._ext import collections, combinations, costs, pictures, shown
from docs._ext.docstrings import Docstring, read
from docs._ext.tables import code, table
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry
from tfzoo.base.values import type_name
from tfzoo.testing.samples import COMPONENT_KINDS

SECTIONS = {"schedule": "optim", "optimizer": "optim", "tokenizer": "data", "dataset": "data"}
"""The section of a recipe that names a component, where it is not ``model``."""


def page(entry: Entry) -> str:
    """The page, in Markdown."""
    said = read(entry.cls)
    parts = [
        f"# {entry.name}",
        f"*{entry.kind}* · `{entry.cls.__module__}.{entry.cls.__qualname__}`",
        said.summary,
        fenced("text", "\n".join(said.formulas), "formula"),
        paper(entry),
        pictures.of_part(entry),
        rest(said.details),
        *section("Use", use(entry)),
        *section("Options", options(entry, said)),
        *section("Traits", traits(entry)),
    ]
    if entry.kind in COMPONENT_KINDS:
        parts += section("Combines with", combinations.of_part(entry.kind, entry.name))
        parts += section("Cost", costs.section(entry))
    parts += section(
        "What the packaged sweeps showed", "\n".join(shown.of_part(entry.kind, entry.name))
    )
    parts += section("Architectures with it", collections.architectures_with(entry))
    parts += section("Example", fenced("pycon", said.example))
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, text: str) -> Iterator[str]:
    """A heading and what follows it, if anything does."""
    if text.strip():
        yield from (f"## {title}", text)


def fenced(language: str, text: str, css: str = "") -> str:
    """A block of code."""
    if not text:
        return ""
    block = f"```{language}\n{text.rstrip()}\n```"
    return f"<div class='{css}'>\n\n{block}\n\n</div>" if css else block


def rest(text: str) -> str:
    """reStructuredText within Markdown."""
    return f"````{{eval-rst}}\n{text}\n````" if text else ""


def paper(entry: Entry) -> str:
    """Where the component comes from, with links."""
    return f"From {linked(entry.paper)}." if entry.paper else ""


def linked(text: str) -> str:
    """A citation with a link to each paper of arXiv."""
    return re.sub(r"arXiv:([\d.]+\d)", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def use(entry: Entry) -> str:
    """How to name it in a recipe, and in Python."""
    section, kind, name = SECTIONS.get(entry.kind, "model"), entry.kind, entry.name
    blocks = [fenced("yaml", f"{section}:\n  {kind}: {name}")]
    if kind == "pooling":
        model = f'tfzoo.TransformerClassifier(8000, classes=2, dim=512, heads=8, pooling="{name}")'
        blocks.append(fenced("python", model))
    elif kind in COMPONENT_KINDS:
        blocks.append(fenced("python", f'tfzoo.Encoder(512, heads=8, layers=6, {kind}="{name}")'))
    return "\n\n".join(blocks)


def options(entry: Entry, said: Docstring) -> str:
    """A table of options, and what is refused."""
    if not entry.options:
        return "None."
    rows = [
        [
            code(name),
            code(type_name(one.annotation)),
            code(repr(one.default)),
            said.options.get(name, ""),
        ]
        for name, one in entry.options.items()
    ]
    lines = [table(["option", "type", "default", "does"], rows)]
    lines += [f"Raises `{error}`: {text}" for error, text in said.raises.items()]
    return "\n\n".join(lines)


def traits(entry: Entry) -> str:
    """What each trait means."""
    known = KINDS[entry.kind].traits
    return "\n".join(f"- `{trait}`: {known[trait]}." for trait in sorted(entry.traits))


def index(kind: str, entries: list[Entry]) -> str:
    """The page of a kind: its components, a line each."""
    names = "\n".join(f"{kind}/{one.name}" for one in entries)
    return "\n\n".join(
        [
            f"# {kind}",
            listed(entries, kind),
            f"```{{toctree}}\n:hidden:\n\n{names}\n```\n",
        ]
    )


def listed(entries: list[Entry], folder: str) -> str:
    """A table of components, whose pages are in a folder."""
    rows = [
        [
            f"[`{one.name}`]({folder}/{one.name}.md)",
            one.summary.replace("``", "`"),
            linked(one.paper),
        ]
        for one in entries
    ]
    return table(["name", "computes", "from"], rows)
