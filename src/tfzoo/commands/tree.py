"""A recipe as a plain tree: read strictly, and policed before anything in it could run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tfzoo.errors import BadRecipe
from tfzoo.runs.bounds import DEPTH, leaves

OPEN = ("callbacks", "loggers", "strategies", "profilers", "plugins", "accelerators")
ALLOWED = tuple(f"lightning.pytorch.{folder}" for folder in OPEN)
"""Where a class that a recipe names may come from."""

FILE = 2**18
"""Bytes of a recipe at most; the longest of ours has 4,000."""
NODES = 10_000
"""Values in it, each counted as often as an alias repeats it."""
DIGITS = 40
OUTPUT = {"dirpath", "save_dir", "default_root_dir", "root_dir", "log_dir", "dir", "directory"}
RUNS_CODE = {"LambdaCallback"}
PASSED_ON = {"settings", "dict_kwargs"}
"""Keys whose values a logger hands to its own library, in which they may name programs to start."""
ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")
OUTSIDE = re.compile(r"^[/~\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:$|[/\\])")


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
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)

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


def parse(text: str, where: str) -> Any:
    """The value that a YAML text holds; ``where`` is named in the error."""
    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = (
            f", line {error.problem_mark.line + 1}" if error.problem_mark and "\n" in text else ""
        )
        raise BadRecipe(f"{where}{line}: {error.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadRecipe(f"{where}: not YAML ({str(error).splitlines()[0]})") from None


def read(path: Path) -> dict[str, Any]:
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
    tree = parse(text, str(path))
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise BadRecipe(
            f"{path}: a recipe is a mapping (task: ..., model: ...), not {type(tree).__name__}"
        )
    return tree


def police(tree: Mapping[str, Any], where: str) -> None:
    """Refuse what only code may do: import a class from elsewhere, call a function, fetch an
    address, write outside the run's folder.

    Looks at the plain tree alone: nothing named in it is imported.

    Raises:
        BadRecipe: naming the key, and ``--trust``.
    """
    for path, value in walk(tree):
        what = where if where == f"--{path}" else f"{where}: {path}"
        key = path.rpartition(".")[2]
        inside = path.startswith(("trainer.", "checkpoint."))
        if (
            inside
            and value is not None
            and (key in OUTPUT or (isinstance(value, str) and OUTSIDE.search(value)))
        ):
            raise BadRecipe(
                f"{what}: a run writes into its own folder alone. Choose it with --run FOLDER"
            )
        if inside and value is not None and PASSED_ON & {*path.split(".")}:
            raise BadRecipe(
                f"{what}: could start a program. If you trust whoever wrote it: --trust"
            )
        if not isinstance(value, str):
            continue
        if ADDRESS.match(value):
            raise BadRecipe(
                f"{what}: names the address {value!r}, and a recipe fetches nothing. If you trust whoever wrote it: --trust"
            )
        named = key == "class_path" or re.fullmatch(
            r"trainer\.(callbacks|logger|strategy|profiler|plugins|accelerator)(\.\d+)?", path
        )
        if not (named or (inside and imports(value))):
            continue
        if value.rpartition(".")[2] in RUNS_CODE or not allowed(value):
            raise BadRecipe(
                f"{where}: {path} names {value!r}. A recipe is data: it may name Lightning's own callbacks, loggers, strategies, "
                "profilers and plugins, nothing else. If you trust whoever wrote it and the code it names: --trust"
            )


def allowed(name: str) -> bool:
    """Whether a recipe may name this class: a short name, or one in a file of Lightning's own
    folders of them.

    In a file, not behind one: what a file imports, such as ``os``, has another name there too.
    """
    if "." not in name:
        return True
    spec = find_spec("lightning")  # of a package at the top: found, not imported
    places = list(spec.submodule_search_locations or ()) if spec else []
    module, _, cls = name.rpartition(".")
    inside = any(module == folder or module.startswith(f"{folder}.") for folder in ALLOWED)
    if (
        not inside
        or not cls[:1].isupper()
        or not all(part.isidentifier() for part in name.split("."))
    ):
        return False
    below = [Path(place, *module.split(".")[1:]) for place in places]
    return any(path.is_dir() or path.with_suffix(".py").is_file() for path in below)


def imports(text: str) -> bool:
    """Whether a text could name something to import: a dotted name that begins with a module, or a
    class within the text.
    """
    if "class_path" in text:
        return True
    head, *rest = text.split(".")
    try:
        return (
            bool(rest)
            and all(part.isidentifier() for part in (head, *rest))
            and find_spec(head) is not None
        )
    except (ImportError, ValueError):
        return True


def walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf with its dotted path."""
    return ((".".join(path), value) for path, value in leaves(tree))
