"""What only code may do is refused in a recipe, before anything that it names is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfzoo.config.loader import TooLarge, parse_yaml
from tfzoo.errors import BadRecipe
from tfzoo.runs.bounds import leaves, numbers

OPEN = ("callbacks", "loggers", "strategies", "profilers", "plugins", "accelerators")

ALLOWED = tuple(f"lightning.pytorch.{folder}" for folder in OPEN)
"""Where a class that a recipe names may come from."""

OUTPUT = {"dirpath", "save_dir", "default_root_dir", "root_dir", "log_dir", "dir", "directory"}

RUNS_CODE = {"LambdaCallback"}

PASSED_ON = {"settings", "dict_kwargs"}
"""Keys whose values a logger hands to its own library, in which they may name programs to start."""

ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")

OUTSIDE = re.compile(r"^[/~\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:$|[/\\])")


def check_tree(tree: Mapping[str, Any], origin: str, trust: bool) -> None:
    """Refuse what a stranger's recipe could do harm with: numbers that no machine has the memory for
    and, without ``trust``, all that runs code.

    Raises:
        BadRecipe: naming the key.
    """
    numbers(tree, origin)
    if not trust:
        refuse_code(tree, origin)


def check_option(key: str, text: str | None, trust: bool) -> None:
    """Refuse an option of the command line as :func:`check_tree` does, read as YAML and as text."""
    if text is None:
        return
    key = key.rstrip("+")
    try:
        value = parse_yaml(text, f"--{key}")
    except TooLarge:
        raise
    except BadRecipe:  # a text is allowed to be no YAML; where it must be, its parser says so
        value = text
    for part in reversed(key.split(".")):
        value = {part: value}
    check_tree(value, f"--{key}", trust)


def refuse_code(tree: Mapping[str, Any], where: str) -> None:
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
