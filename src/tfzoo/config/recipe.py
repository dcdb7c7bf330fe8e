"""What the files of a recipe and the options of a command line say: which files there are, how
options are read, which values are refused before anything that they name is imported, and what
``like`` stands for.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.base.values import check_number, is_text, leaves
from tfzoo.base.yaml_files import parse_yaml, read_yaml
from tfzoo.data.remote import is_address, refusal
from tfzoo.errors import BadRecipe, did_you_mean, listing, within
from tfzoo.models.architectures import options_like
from tfzoo.runs.folder import ADDRESS

TOP: dict[str, Any] = {
    "task": str,
    "from": str | None,
    "seed": int,
    "timeout": float,
    "explain": bool,
    "train_tokens": int | None,
}
"""The keys that belong to no section, with their types."""
CLASSES = {
    "callbacks": "lightning.pytorch.callbacks",
    "logger": "lightning.pytorch.loggers",
    "strategy": "lightning.pytorch.strategies",
    "profiler": "lightning.pytorch.profilers",
    "plugins": "lightning.pytorch.plugins",
    "accelerator": "lightning.pytorch.accelerators",
}
"""The arguments of the Trainer whose values are classes, and where Lightning has them."""
PACKAGE = Path(__file__).resolve().parents[1]
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".conll", ".txt")
"""The endings of what may be taken for a recipe, but is text."""
SWEEPS = "ablations"
"""The folder of sweeps, which vary a recipe."""
BASE = "base"
"""The key of a recipe that names its base."""
MAX_BASES = 10
"""Maximum number of recipes that are based on each other."""


@dataclass(frozen=True)
class Source:
    """Where values come from: a file, or an :class:`Option`.

    Args:
        values: nested as in a recipe.
        origin: what messages call it.
        trust: it may name code and addresses.

    Raises:
        BadRecipe: a value that is refused, see :func:`untrusted`, or that is no text.
    """

    values: Mapping[str, Any]
    origin: str
    trust: bool = False

    def __post_init__(self) -> None:
        for keys, value in leaves(self.values):
            key = ".".join(keys)
            check_number(keys, value, self.origin)
            reason = "" if self.trust else untrusted(key, value)
            if reason := reason if is_text(value) else f"{value!r} is no text":
                raise BadRecipe(f"{self.named(key)}: {reason}")

    def named(self, key: str) -> str:
        """What messages call a key of it."""
        return self.origin if self.origin == f"--{key}" else f"{self.origin}: {key}"


# Packaged recipes and other files -----------------------------------------------------------------


def packaged_folder() -> Path:
    """Where packaged files are: beside ``src`` in a checkout, else inside the package."""
    beside = PACKAGE.parents[1] / "recipes"
    return beside if PACKAGE.parent.name == "src" and beside.is_dir() else PACKAGE / "recipes"


def packaged() -> list[str]:
    """All names: ``translation/numbers``, ``ablations/norm`` and so on."""
    folder = packaged_folder()
    files = folder.rglob("*.yaml")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in files)


def packaged_recipes() -> list[str]:
    """The names of recipes, which ``tfzoo fit`` trains."""
    return [name for name in packaged() if name.partition("/")[0] != SWEEPS]


def packaged_sweeps() -> list[str]:
    """The names of sweeps, which ``tfzoo sweep`` runs."""
    return [name for name in packaged() if name.partition("/")[0] == SWEEPS]


def local(path: str) -> Path:
    """The path of a recipe's file; BadRecipe if it is an address, which is not fetched."""
    if URL.match(path):
        raise BadRecipe(f"{path} is an address, and no recipe is fetched: download it first")
    return Path(path)


def find_recipe(recipe: str, folder: Path = Path(), offered: Sequence[str] = ()) -> Path:
    """The file of a recipe or sweep, given its packaged name, or its path from a folder. An error
    lists the packaged names that are ``offered``, by default recipes.
    """
    path, known = folder / local(recipe).expanduser(), packaged()
    if path.name.removesuffix(".gz").endswith(TEXT_SUFFIXES):
        raise BadRecipe(
            f"{recipe} is no recipe, which is a .yaml file; text is given to one: "
            f"tfzoo fit classification/files --data.train {recipe} (tfzoo recipes lists all)"
        )
    if path.is_file():
        return path
    if (name := recipe.removesuffix(".yaml")) in known:
        return packaged_folder() / f"{name}.yaml"
    if (path / "config.yaml").is_file():
        raise BadRecipe(f"{recipe} is the folder of a run: its recipe is {path / 'config.yaml'}")
    beside = (file.name for file in path.parent.glob("*.y*ml"))
    close = did_you_mean(path.name, beside, recipe.removesuffix(path.name))
    if path.suffix in (".yaml", ".yml"):
        raise BadRecipe(f"no file {recipe}.{close} tfzoo recipes lists the packaged ones")
    last = {one.rpartition("/")[2]: one for one in known}
    alike = [one for one in known if one.startswith(f"{recipe.partition('/')[0]}/")]
    near = "" if alike and "/" not in recipe else did_you_mean(recipe, known)
    hint = close or (f" Did you mean {last[recipe]!r}?" if recipe in last else near)
    raise BadRecipe(
        f"no recipe named {recipe!r}.{hint} Known: "
        f"{listing(alike or offered or packaged_recipes())} (tfzoo recipes), or the path of a YAML "
        "file"
    )


def load_recipe(recipe: str, trust: bool = False) -> list[Source]:
    """The files of a recipe, which is given by its packaged name or its path: its bases stand
    before it. With ``trust``, it may name classes outside Lightning, also in modules beside it.

    ``base`` is a path, relative to the folder of the file that holds it, or a packaged name.
    """
    path, folder = find_recipe(recipe), packaged_folder()
    if trust and (beside := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, beside)
    sources: list[Source] = []
    while True:
        inside = path.is_relative_to(folder)
        origin = path.relative_to(folder).as_posix() if inside else str(path)
        values = read_yaml(path)
        if {"recipe", "axes"} & values.keys():
            raise BadRecipe(
                f"{origin} varies a recipe, which one training cannot: tfzoo sweep {recipe}"
            )
        base = values.pop(BASE, None)
        sources.insert(0, Source(values, origin, trust))
        if base is None:
            return sources
        if not isinstance(base, str):
            raise BadRecipe(f"{origin}: {BASE} is the name or the path of one recipe, not {base!r}")
        if len(sources) > MAX_BASES:
            raise BadRecipe(f"{recipe}: recipes that are based on each other: {origin}, {base}")
        with within(f"{origin}: {BASE}"):
            path = find_recipe(base, path.parent)


def header_of(name: str) -> str:
    """The first paragraph of a file's comment header; ``""`` if there is none."""
    lines = find_recipe(name).read_text("utf-8").splitlines()
    header = takewhile(lambda line: line.startswith("# "), lines)
    return " ".join(line.removeprefix("# ").strip() for line in header)


# Options ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Option(Source):
    """One option of a command line.

    Args:
        key: the dotted key after ``--``, without a ``+`` at its end.
        adds: the key was typed with a ``+`` at its end: the value is appended to a list.
        text: the value as it was typed, None if there is none.
        value: the text as YAML, or the text itself if it is not YAML; True if there is none. Lists
            and mappings are in brackets.
    """

    key: str
    adds: bool
    text: str | None
    value: Any


def parse_options(words: Sequence[str], trust: bool = False) -> list[Option]:
    """Words of which each is an option or its value: ``--key value``, ``--key=value``, or ``--key``
    without a value, at the end or before another option.
    """
    options, rest = list[Option](), list(words)
    while rest:
        options.append(next_option(rest, trust))
    return options


def next_option(rest: list[str], trust: bool) -> Option:
    """Take one option off the words of a command line."""
    name, equals, text = rest.pop(0).removeprefix("--").partition("=")
    value: Any = True
    parts = name.removesuffix("+").split(".")
    key = ".".join([*(part.replace("-", "_") for part in parts[:2]), *parts[2:]])
    typed = text if equals else rest.pop(0) if rest and not rest[0].startswith("--") else None
    if typed is not None:
        try:
            value = parse_yaml(typed, f"--{key}")
        except BadRecipe:  # not every text is YAML, such as a path
            value = typed
        if isinstance(value, list | dict) and typed[0] not in "[{":
            value = typed
    adds = name.endswith("+")
    return Option(
        nested(key, value), f"--{key}", trust, key=key, adds=adds, text=typed, value=value
    )


def nested(key: str, value: Any) -> dict[str, Any]:
    """The value of a dotted key, as a recipe nests it."""
    first, _, rest = key.partition(".")
    return {first: nested(rest, value) if rest else value}


# Task, order and `like` ---------------------------------------------------------------------------

FROM = "from"
FIRST = ("model.like", "data.name", "data.root", "trainer.callbacks")
"""The options that are read first, as they change what others mean."""


def task_of(sources: Sequence[Source]) -> Any:
    """The class of the task that sources name; its import takes seconds."""
    source = next((one for one in reversed(sources) if "task" in one.values), sources[0])
    name = source.values.get("task")
    with within(source.origin):
        if not isinstance(name, str):
            raise BadRecipe(f"no task; begin with task: {listing(registry('task').names())}")
        if "lightning" not in sys.modules:
            notify("loading: PyTorch and Lightning")
        task = task_class(name)
    silence_lightning()
    return task


def order(source: Source) -> int:
    """When a source is merged: files before options, a component before its options; but options
    of a callback belong to the callback before them.
    """
    if not isinstance(source, Option):
        return -1
    return 0 if source.key.startswith(FIRST) else source.key.count(".")


def with_architecture(sources: list[Source], task: Any) -> list[Source]:
    """The sources with the options that the last ``like: NAME`` in a section ``model`` stands for,
    before the source that says it, whose other keys override them.
    """
    for place, source in reversed([*enumerate(sources)]):
        model = source.values.get("model")
        name = model.get("like") if isinstance(model, Mapping) else None
        if name is not None:
            with within(source.named("model.like")):
                options = options_like(name, task.Model)
            origin = f"{source.origin} (like: {name})"
            sources.insert(place, Source({"model": options}, origin, source.trust))
            break
    return sources


# What is refused ----------------------------------------------------------------------------------

OUTPUT_KEYS = {
    *("dirpath", "save_dir", "default_root_dir", "root_dir", "log_dir", "dir", "directory")
}
"""Arguments of Lightning's classes that choose where they write."""
FORWARDED_KEYS = {"settings", "dict_kwargs"}
"""Arguments that a logger passes on to its own library, where they can name programs to start."""
CLASS_KEY = re.compile(rf"trainer\.({'|'.join(CLASSES)})(\.\d+)?|(.*\.)?class_path")
"""Keys whose values name classes."""
ADDRESS_KEY = re.compile(r"data\.(train|val|test)(\.|$)")
"""Keys whose values may be addresses that :func:`tfzoo.data.remote.refusal` accepts."""
URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")
OUTSIDE = re.compile(r"^[/~\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:$|[/\\])")
"""Matches absolute paths and paths with ``..``."""
TRUST = "If you trust whoever wrote it: --trust"


def untrusted(key: str, value: Any) -> str:
    """Why a stranger may not set a key to a value; "" where it is allowed."""
    keys = key.split(".")
    if keys[0] in ("trainer", "checkpoint") and value is not None:
        if keys[-1] in OUTPUT_KEYS or (isinstance(value, str) and OUTSIDE.search(value)):
            return "a run writes into its own folder alone. Choose it with --run FOLDER"
        if FORWARDED_KEYS & {*keys}:
            return f"could start a program. {TRUST}"
    if not isinstance(value, str) or (key == "from" and ADDRESS.fullmatch(value)):
        return ""
    if ADDRESS_KEY.match(key) and is_address(value):
        return refusal(value, trusted=False)
    if URL.match(value):
        return f"{value!r} is an address, and a recipe fetches nothing. {TRUST}"
    packages = tuple(f"{package}." for package in CLASSES.values())
    if CLASS_KEY.fullmatch(key) and "." in value and not value.startswith(packages):
        return (
            f"{value!r} is no class of Lightning's. A recipe is data: it may name Lightning's own "
            "callbacks, loggers, strategies, profilers and plugins, nothing else. "
            "If you trust whoever wrote it and the code it names: --trust"
        )
    return ""
