"""A recipe as a plain tree: read strictly, and policed before anything in it could run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tfzoo.errors import BadRecipe

OPEN = ("callbacks", "loggers", "strategies", "profilers", "plugins", "accelerators")
ALLOWED = tuple(f"lightning.pytorch.{folder}" for folder in OPEN)
"""Where a class that a recipe names may come from."""

OUTPUT = {"dirpath", "save_dir", "default_root_dir", "root_dir", "log_dir", "dir", "directory"}
RUNS_CODE = {"LambdaCallback"}


class Loader(yaml.SafeLoader):
    """YAML 1.2 where people stumble over 1.1: ``no`` is a word, ``1e-4`` a number, ``10:00`` a time, a repeated key an error."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as the base class has it

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                name = self.construct_object(key, deep=True)
                if isinstance(name, list | dict) or name in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {name!r} stands twice", problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep)


for tag, pattern, first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+.0123456789"),
    ("merge", r"^<<$", "<"),
):
    letters = [letter if letter != "\0" else "" for letter in first]
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), letters)


def parse(text: str, where: str) -> Any:
    """The value that a YAML text holds; ``where`` is named in the error."""
    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark and "\n" in text else ""
        raise BadRecipe(f"{where}{line}: {error.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadRecipe(f"{where}: not YAML ({str(error).splitlines()[0]})") from None


def read(path: Path) -> dict[str, Any]:
    """The tree in a YAML file.

    Raises:
        BadRecipe: the file cannot be read, is not YAML, repeats a key or holds something else than sections.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    tree = parse(text, str(path))
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise BadRecipe(f"{path}: a recipe is a mapping (task: ..., model: ...), not {type(tree).__name__}")
    return tree


def police(tree: Mapping[str, Any], where: str) -> None:
    """Refuse what only code may do: import a class from elsewhere, call a function, write outside the run's folder.

    Looks at the plain tree alone: nothing named in it is imported.

    Raises:
        BadRecipe: naming the key, and ``--trust``.
    """
    for path, value in walk(tree):
        key = path.rpartition(".")[2]
        if key in OUTPUT and value is not None and path.startswith(("trainer.", "checkpoint.")):
            what = where if where == f"--{path}" else f"{where}: {path}"
            raise BadRecipe(f"{what}: a run writes into its own folder alone. Choose it with --run FOLDER")
        inside = path.startswith(("trainer.", "checkpoint."))
        named = key == "class_path" or re.fullmatch(r"trainer\.(callbacks|logger|strategy|profiler|plugins|accelerator)(\.\d+)?", path)
        if not isinstance(value, str) or not (named or (inside and imports(value))):
            continue
        if value.rpartition(".")[2] in RUNS_CODE or not allowed(value):
            raise BadRecipe(
                f"{where}: {path} names {value!r}. A recipe is data: it may name Lightning's own callbacks, loggers, strategies, "
                "profilers and plugins, nothing else. If you trust whoever wrote it and the code it names: --trust"
            )


def allowed(name: str) -> bool:
    """Whether a recipe may name this class: a short name, or one in Lightning's own folders of them."""
    return "." not in name or (
        name.startswith(tuple(f"{prefix}." for prefix in ALLOWED)) and all(part.isidentifier() for part in name.split("."))
    )


def imports(text: str) -> bool:
    """Whether a text could name something to import: a dotted name that begins with a module."""
    head, *rest = text.split(".")
    try:
        return bool(rest) and all(part.isidentifier() for part in (head, *rest)) and find_spec(head) is not None
    except (ImportError, ValueError):
        return True


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its dotted path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from walk(inner, f"{path}.{index}")
    else:
        yield path, value
