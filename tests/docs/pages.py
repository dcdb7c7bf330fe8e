"""The fenced blocks of README.md and docs/."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from sybil import Document
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

ROOT = Path(__file__).parents[2]
MADE = ("docs/_", "docs/reference/")
"""Where the site's own files are, and pages that it makes from the code."""
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(
        page
        for path in (ROOT / "docs").rglob("*.md")
        if not (page := path.relative_to(ROOT).as_posix()).startswith(MADE)
        and not page.endswith(".zh-CN.md")
    ),
]
TRANSLATED = ["README.zh-CN.md", "docs/index.zh-CN.md"]
"""Pages in Chinese: their commands and code are those of the English ones."""
FENCES = FencedCodeBlockLexer(r"\w*")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page, its standard input, and what the page says it prints, or None."""

    words: tuple[str, ...]
    stdin: str
    printed: str | None


def blocks(page: str, *languages: str) -> list[Block]:
    document = Document.parse(str(ROOT / page))
    found = [
        Block(lexed.lexemes["language"], lexed.lexemes["source"]) for lexed in FENCES(document)
    ]
    return [block for block in found if not languages or block.language in languages]


def commands(page: str) -> list[Command]:
    """The ``tfzoo`` commands of ``sh`` blocks, and those after ``$`` in ``console`` blocks."""
    found = []
    for block in blocks(page, "sh", "console"):
        if block.language == "sh":
            found += [command(line, None) for line in block.text.splitlines() if "tfzoo" in line]
            continue
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            found.append(command(line, printed))
    return [one for one in found if one.words]


def command(line: str, printed: str | None) -> Command:
    words = shlex.split(line, comments=True)
    before, after = (
        (words[: words.index("|")], words[words.index("|") + 1 :]) if "|" in words else ([], words)
    )
    is_ours = after[:1] == ["tfzoo"]  # not the lines that install it first
    return Command(tuple(after[1:]) if is_ours else (), " ".join(before[1:]) + "\n", printed)


def run(page: str) -> None:
    """Run a page's Python, as written, in one namespace. Errors name the page and its line."""
    document = Document.parse(str(ROOT / page), PythonCodeBlockParser())
    document.namespace["__name__"] = "__main__"
    for example in document.examples():
        example.evaluate()
