"""The pages of recipes and of architectures, made from their files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from docs._ext.docstrings import one_line
from docs._ext.tables import code, table
from tfzoo.base.registry import Entry
from tfzoo.config.recipe import find_recipe, packaged_recipes
from tfzoo.models import architectures

HEADINGS = ("attention", "norm", "position", "feedforward", "residual", "mixer")
"""The kinds that the table of architectures shows."""


def recipes() -> str:
    """All recipes with what their headers say."""
    names = packaged_recipes()
    return "\n\n".join(
        [
            "# Recipes and their numbers",
            "Every packaged recipe, with what its header says: where the data comes from, what was "
            "measured and how. `tfzoo recipes NAME > PATH` copies one to change "
            "([recipes](../recipes.md)). The packaged sweeps: [what they showed](../ablations.md).",
            table(["recipe", "measured"], [[anchor(name), measured(name)] for name in names]),
            *(section for name in names for section in recipe(name)),
        ]
    )


def anchor(name: str) -> str:
    """A link to the section of a recipe."""
    return f"[{name}](#{name.replace('/', '')})"


def header(name: str) -> str:
    """The comment at the head of a recipe."""
    lines = find_recipe(name).read_text("utf-8").splitlines()
    return "\n".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in takewhile(lambda line: line.startswith("#"), lines)
    )


def measured(name: str) -> str:
    """What the header says was measured here."""
    found = re.search(r"Measured[^:]*: (.*?)(?=\nPublished|\n\n|\Z)", header(name), re.DOTALL)
    return one_line(found[1]) if found else "not trained here"


def recipe(name: str) -> Iterator[str]:
    """A section: the header, and the file."""
    text = find_recipe(name).read_text("utf-8")
    body = text.partition("\n\n")[2]
    title, *paragraphs = header(name).split("\n")
    yield f"## {name}"
    yield title
    yield "\n".join(
        f"    {line.strip()}" if line.startswith("  ") else line for line in paragraphs
    ).strip("\n")
    yield f"<details><summary>The file</summary>\n\n```yaml\n{body.rstrip()}\n```\n\n</details>"


def architectures_page() -> str:
    """All published architectures as sums of parts."""
    rows, sections = [], []
    for name in architectures.names():
        found = architectures.architecture(name)
        cells = [part(found.stack, kind) for kind in HEADINGS]
        rows.append([f"[{name}](#{name})", *cells])
        sections += [f"## {name}", f"{found.title}. {paper(found.paper)}"]
        file = re.split(r"^(?:transformers|weights):", architectures.text(name), flags=re.M)[0]
        sections.append(f"```yaml\n{file.rstrip()}\n```")
    return "\n\n".join(
        [
            "# Architectures, part by part",
            "Empty is the default. How they are used, and how equal they are to the published "
            "models: [architectures](../architectures.md).",
            table(["", *HEADINGS], rows),
            *sections,
        ]
    )


def paper(text: str) -> str:
    """A link where there is one."""
    if text.startswith("http"):
        return f"[Its site]({text})."
    linked = re.sub(r"arXiv:([\d.]+\d)", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"aclanthology:(\S+)", r"[\1](https://aclanthology.org/\1)", linked) + "."


def name_of(stack: Mapping[str, Any], kind: str) -> str:
    """The part of a kind that an architecture names; empty if it names none."""
    spec = stack.get(kind, "")
    return str(spec["name"] if isinstance(spec, Mapping) else spec)


def part(stack: Mapping[str, Any], kind: str) -> str:
    """A link to the part of a kind."""
    name = name_of(stack, kind)
    return f"[{code(name)}]({kind}/{name}.md)" if name else ""


def architectures_with(entry: Entry) -> str:
    """The architectures that name a part, with links."""
    found = [
        name
        for name in architectures.names()
        if name_of(architectures.architecture(name).stack, entry.kind) == entry.name
    ]
    return ", ".join(f"[{name}](../architectures.md#{name})" for name in found)
