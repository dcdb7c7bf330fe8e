"""YAML of strangers: plain values only, of limited size, without repeated keys."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tfzoo.base.values import DEPTH
from tfzoo.errors import BadRecipe

MAX_VALUES = 10_000
"""Maximum number of values of a recipe. A value counts each time that an alias repeats it."""
MAX_DIGITS = 40
"""Maximum number of digits of a number."""


PLAIN = ("null", "bool", "int", "float", "str", "seq", "map")
"""The tags of plain values; others, such as dates, sets or objects, are refused."""


class TooLarge(BadRecipe):
    """A YAML text with more values, levels or digits than are allowed."""


class Limit(yaml.MarkedYAMLError):
    """The position at which a YAML text exceeds a limit."""


class Loader(yaml.SafeLoader):
    """A ``SafeLoader`` with the scalars of YAML 1.2: ``no``, ``10:00`` and ``1_000`` are strings,
    ``1e-4`` is a number. A repeated key is an error, and so are more values, levels or digits than
    the limits.
    """

    yaml_constructors = {  # noqa: RUF012  # as the base class has it
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in PLAIN
    }
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as the base class has it

    nodes = 0
    """Values so far; those that an alias repeats are counted again."""
    depth = 0
    """The level of the current node."""
    deepest = 0
    """The deepest level below the current node so far."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node and count it, with everything that aliases repeat, before values are built
        from it.
        """
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias, before, above = self.check_event(yaml.AliasEvent), self.nodes, self.deepest
        self.depth += 1
        self._limit(self.depth > DEPTH, f"nested deeper than {DEPTH} levels", mark)
        self.deepest = self.depth
        node = super().compose_node(parent, index)
        if is_alias:
            self._limit(not hasattr(node, "size"), "an alias that contains itself", mark)
            size, height = node.size  # type: ignore[union-attr]  # set below
            self.nodes, self.deepest = self.nodes + size, self.depth + height
            self._limit(self.deepest > DEPTH, f"nested deeper than {DEPTH} levels", mark)
        else:
            self.nodes += 1
            # its number of values and of levels
            node.size = self.nodes - before, self.deepest - self.depth  # type: ignore[union-attr]
        self._limit(
            self.nodes > MAX_VALUES,
            f"more than {MAX_VALUES:,} values, counting those that aliases repeat",
            mark,
        )
        self.depth, self.deepest = self.depth - 1, max(above, self.deepest)
        return node

    def construct_scalar(self, node: Any) -> Any:
        number = isinstance(node, yaml.ScalarNode) and node.tag.rpartition(":")[2] in (
            "int",
            "float",
        )
        self._limit(
            number and len(node.value) > MAX_DIGITS,
            f"a number of more than {MAX_DIGITS} digits",
            node.start_mark,
        )
        return super().construct_scalar(node)

    def _limit(self, exceeded: bool, problem: str, mark: Any) -> None:
        if exceeded:
            raise Limit(problem=problem, problem_mark=mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                name = self.construct_object(key, deep=True)
                if isinstance(name, list | dict) or name in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {name!r} occurs twice", problem_mark=key.start_mark
                    )
                seen.add(name)
        return super().construct_mapping(node, deep)


for tag, pattern, first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
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
    """Parse a YAML text; error messages begin with ``where``."""
    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = (
            f", line {error.problem_mark.line + 1}" if error.problem_mark and "\n" in text else ""
        )
        kind = TooLarge if isinstance(error, Limit) else BadRecipe
        raise kind(f"{where}{line}: {error.problem or 'not YAML'}") from None
    except Exception as error:  # PyYAML fails in any way at a value that is not of its tag
        why = next(iter(str(error).splitlines()), "")
        raise BadRecipe(f"{where}: not YAML ({type(error).__name__}: {why})") from None
