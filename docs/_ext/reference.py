"""Pages that are made from the code when the site is built, in docs/reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ablations
from docs._ext import api, collections, combinations, parts, pictures
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry, registry

FOLDER = "docs/reference"


def pages() -> Mapping[str, Callable[[], str]]:
    """What makes the text of each page, by its path in the folder."""
    found: dict[str, Callable[[], str]] = {
        "combinations.md": combinations.page,
        "recipes.md": collections.recipes,
        "architectures.md": collections.architectures_page,
        "api/index.md": api.index,
    }
    for name in api.names():
        found[f"api/{api.file(name)}.md"] = partial(api.page, name)
    for kind, entries in components().items():
        found[f"{kind}.md"] = partial(parts.index, kind, entries)
        for entry in entries:
            found[f"{kind}/{entry.name}.md"] = partial(parts.page, entry)
    return found


def components() -> Mapping[str, list[Entry]]:
    """tfzoo's own components by kind."""
    return {
        kind: [registry(kind).entry(name) for name in registry(kind).own_names()] for kind in KINDS
    }


def write(app: Any) -> None:
    """Write the pages that have changed and the pictures, and remove pages that are no more."""
    folder = Path(app.srcdir, FOLDER)
    texts = {folder / path: page() for path, page in pages().items()}
    for old in set(folder.rglob("*.md")) - texts.keys():
        old.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for entries in components().values():
        for entry in filter(pictures.has_picture, entries):
            pictures.write(entry, folder / entry.kind / f"{entry.name}.svg")


def complete(app: Any, docname: str, source: list[str]) -> None:
    """Add to a page what is made from the code and the runs."""
    if docname == "docs/components":
        source[0] = with_components(source[0])
    if docname == "docs/ablations":
        source[0] += f"\n{ablations.sections()}"


def with_components(text: str) -> str:
    """The page of components, whose headings are the kinds, with a table of each kind's parts."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kinds = [section.removeprefix("## ").partition("\n")[0] for section in sections]
    return head + "".join(
        f"{section.rstrip()}\n\n{parts.listed(components()[kind], f'reference/{kind}')}\n\n"
        for kind, section in zip(kinds, sections, strict=True)
    )


TRANSLATED = re.compile(r"\.([a-z]{2}(?:-[A-Z]{2})?)$")
"""The language at the end of a page's name, of those that are not in English."""


def describe_page(app: Any, docname: str, template: str, context: dict[str, Any], *_: Any) -> None:
    """A landing page needs no table of contents beside it; a translated page says its language."""
    language = TRANSLATED.search(docname)
    if TRANSLATED.sub("", docname) == app.config.root_doc:
        context["furo_hide_toc"] = True
    if language:
        context["language"] = language[1]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    app.connect("source-read", complete)
    app.connect("html-page-context", describe_page)
    api.connect(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
