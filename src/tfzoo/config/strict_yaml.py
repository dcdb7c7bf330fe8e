"""YAML of strangers: plain values only, of few levels, without aliases and repeated keys."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tfzoo.base.values import DEPTH
from tfzoo.errors import BadRecipe

PLAIN = ("null", "bool", "int", "float", "str", "seq", "map")
"""The tags of plain values; others, such as dates, sets or objects, are refused."""


class Loader(yaml.SafeLoader):
    """A ``SafeLoader`` with the scalars of YAML 1.2: ``no``, ``10:00`` and ``1_000`` are strings,
    ``1e-4`` is a number, of at most 40 digits. Aliases, with which a few lines are billions of
    values, are an error, and so are repeated keys.
    """

    yaml_constructors = {  # noqa: RUF012  # as the base class has it
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in PLAIN
    }
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as the base class has it

    depth = 0
    """The level of the current node."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, before values are built from it."""
        is_alias = self.check_event(yaml.AliasEvent)
        if is_alias or self.depth == DEPTH:
            problem = "no aliases, write it again" if is_alias else f"deeper than {DEPTH} levels"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, list | dict) or name in seen:
                problem = f"the key {name!r} occurs twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


for tag, pattern, first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]{0,39})$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]{1,40}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
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
        raise BadRecipe(f"{where}{line}: {error.problem or 'not YAML'}") from None
    except Exception as error:  # PyYAML fails in any way at a value that is not of its tag
        why = next(iter(str(error).splitlines()), "")
        raise BadRecipe(f"{where}: not YAML ({type(error).__name__}: {why})") from None
