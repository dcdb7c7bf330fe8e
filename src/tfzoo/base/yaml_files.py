"""YAML as tfzoo reads and writes it: recipes, sweep files and the configurations of runs, which may
be a stranger's.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfzoo.base.values import DEPTH
from tfzoo.errors import BadRecipe

MAX_BYTES = 2**18
"""Maximum size of a file: of text that is taken for a recipe, YAML reads 0.1 MB a second."""


class Loader(yaml.SafeLoader):
    """A ``SafeLoader`` with the scalars of YAML 1.2: ``no``, ``10:00`` and ``1_000`` are strings,
    ``1e-4`` is a number, of at most 40 digits. Tags of other values than plain ones are an error,
    such as dates and objects; so are repeated keys, and aliases, with which a few lines are
    billions of values.
    """

    yaml_constructors = {  # noqa: RUF012  # as the base class has it
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None
        or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
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


class Dumper(yaml.SafeDumper):
    """A ``SafeDumper`` that writes what occurs twice twice, and no alias, which is not read, and
    that quotes a text which :class:`Loader` would take for a number, such as ``1e5``.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


for tag, pattern, first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", [*"tTfF"]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]{0,39})$", [*"-+0123456789"]),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]{1,40}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        [*"-+.0123456789"],
    ),
):
    for cls in (Loader, Dumper):
        cls.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)


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


def read_yaml(path: Path) -> dict[str, Any]:
    """Load the mapping in a YAML file."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadRecipe(f"{path}: over {MAX_BYTES:,} bytes, the maximum size of a recipe")
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    values = parse_yaml(text, f"{path}")
    if not isinstance(values, dict | None):
        raise BadRecipe(
            f"{path}: a recipe is a mapping (task: ..., model: ...), not {type(values).__name__}"
        )
    return {str(key): value for key, value in (values or {}).items()}


def as_yaml(values: Mapping[str, Any]) -> str:
    """Plain values as a text in YAML, in the order of the keys."""
    return str(yaml.dump(dict(values), Dumper=Dumper, sort_keys=False, allow_unicode=True))
