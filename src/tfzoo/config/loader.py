"""YAML, read strictly: a recipe as a tree of plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfzoo.errors import BadRecipe
from tfzoo.runs.bounds import DEPTH

FILE = 2**18
"""Bytes of a recipe at most; the longest of ours has 4,000."""
NODES = 10_000
"""Values in it, each counted as often as an alias repeats it."""
DIGITS = 40


class TooLarge(BadRecipe):
    """A YAML text with more values, levels or digits than a recipe has."""


class Limit(yaml.MarkedYAMLError):
    """Where such a text was left."""


class Loader(yaml.SafeLoader):
    """YAML 1.2 where people stumble over 1.1: ``no`` is a word, ``1e-4`` a number, ``10:00`` a
    time, a repeated key an error.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as the base class has it

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.nodes = self.depth = self.reach = 0
        self.sizes: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A node, counted with all that aliases repeat in it, before any value is made of it."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias, before, above = self.check_event(yaml.AliasEvent), self.nodes, self.reach
        self.depth += 1
        self._limit(self.depth > DEPTH, f"nested deeper than {DEPTH} levels", mark)
        self.reach = self.depth
        node = super().compose_node(parent, index)
        if is_alias:
            self._limit(id(node) not in self.sizes, "an alias of what it stands in", mark)
            size, height = self.sizes[id(node)]
            self.nodes, self.reach = self.nodes + size, self.depth + height
            self._limit(self.reach > DEPTH, f"nested deeper than {DEPTH} levels", mark)
        else:
            self.nodes += 1
            self.sizes[id(node)] = self.nodes - before, self.reach - self.depth
        self._limit(
            self.nodes > NODES,
            f"more than {NODES:,} values, those that aliases repeat counted",
            mark,
        )
        self.depth, self.reach = self.depth - 1, max(above, self.reach)
        return node

    def construct_scalar(self, node: Any) -> Any:
        number = isinstance(node, yaml.ScalarNode) and node.tag.rpartition(":")[2] in (
            "int",
            "float",
        )
        self._limit(
            number and len(node.value) > DIGITS,
            f"a number of more than {DIGITS} digits",
            node.start_mark,
        )
        return super().construct_scalar(node)

    def _limit(self, broken: bool, problem: str, mark: Any) -> None:
        if broken:
            raise Limit(problem=problem, problem_mark=mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                name = self.construct_object(key, deep=True)
                if isinstance(name, list | dict) or name in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {name!r} stands twice", problem_mark=key.start_mark
                    )
                seen.add(name)
        return super().construct_mapping(node, deep)


for tag, pattern, first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    ("merge", r"^<<$", "<"),
):
    letters = [letter if letter != "\0" else "" for letter in first]
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), letters)


def parse_yaml(text: str, where: str) -> Any:
    """The value that a YAML text holds; ``where`` is named in the error."""
    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = (
            f", line {error.problem_mark.line + 1}" if error.problem_mark and "\n" in text else ""
        )
        kind = TooLarge if isinstance(error, Limit) else BadRecipe
        raise kind(f"{where}{line}: {error.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadRecipe(f"{where}: not YAML ({str(error).splitlines()[0]})") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The tree in a YAML file.

    Raises:
        BadRecipe: the file cannot be read, is not YAML, repeats a key or holds something else than
            sections.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE + 1)
        if len(data) > FILE:
            raise BadRecipe(f"{path}: over {FILE:,} bytes, as no recipe is")
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    tree = parse_yaml(text, str(path))
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise BadRecipe(
            f"{path}: a recipe is a mapping (task: ..., model: ...), not {type(tree).__name__}"
        )
    return tree


def as_yaml(tree: Mapping[str, Any]) -> str:
    """A tree of plain values as the text of a recipe."""
    text: str = yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True)
    return text.rstrip()
