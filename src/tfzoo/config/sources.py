"""The sources of a configuration, as plain values: packaged recipes, files and options of a command
line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from tfzoo.base.values import is_plain, members
from tfzoo.config.strict_yaml import parse_yaml
from tfzoo.errors import BadRecipe, did_you_mean, listing

PACKAGE = Path(__file__).resolve().parents[1]
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".conll", ".txt")
"""The endings of what may be taken for a recipe, but is text."""
SWEEPS = "ablations"
"""The folder of sweeps, which vary a recipe."""
BASE = "base"
"""The key of a recipe that names its base."""
MAX_BYTES = 2**18
"""Maximum size of a recipe. The longest packaged one has about 4,000 bytes."""


@dataclass(frozen=True)
class ConfigSource:
    """A file or a checkpoint with values of a configuration: the nested values, its name for
    messages, and its path.
    """

    values: Mapping[str, Any]
    origin: str
    path: Path | None = None


@dataclass(frozen=True)
class Option:
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

    def read(self, hint: Any) -> Any:
        """The value of a key of this type: the text as it was typed if the key takes a string, or
        if YAML reads the text as another type than the key's (it is converted later); otherwise the
        text parsed as YAML.

        Raises:
            BadRecipe: no value, and the key is no boolean.
        """
        kinds, is_text = members(hint), not isinstance(self.value, list | dict)
        if self.text is None and bool not in kinds and hint is not Any:
            raise BadRecipe("needs a value")
        if self.text in ("null", "None"):
            return self.text if is_plain(hint) and type(None) not in kinds else None
        if type(self.value) in kinds and not isinstance(self.value, str):
            return self.value
        return self.text if is_plain(hint) or (str in kinds and is_text) else self.value

    @property
    def origin(self) -> str:
        """The option as messages name it."""
        return f"--{self.key}"

    @property
    def values(self) -> dict[str, Any]:
        """The value as a recipe nests it."""
        return nested(self.key, self.value)


Source = ConfigSource | Option
"""Where values come from; of several sources, the later ones override the earlier ones."""


def nested(key: str, value: Any) -> dict[str, Any]:
    """A value under its dotted key.

    >>> nested("model.norm.eps", 1)
    {'model': {'norm': {'eps': 1}}}
    """
    for name in reversed(key.split(".")):
        value = {name: value}
    return dict(value)


def parse_options(words: Sequence[str]) -> list[Option]:
    """Words of which each is an option or its value; see :func:`next_option`."""
    options, rest = list[Option](), list(words)
    while rest:
        options.append(next_option(rest))
    return options


def next_option(rest: list[str]) -> Option:
    """Take one option off the words of a command line: ``--key value``, ``--key=value``, or
    ``--key`` without a value, at the end or before another option.

    Raises:
        BadRecipe: a value that is larger than a recipe may be.
    """
    key, equals, value = rest.pop(0).removeprefix("--").partition("=")
    text = value if equals else None
    if not equals and rest and not rest[0].startswith("--"):
        text = rest.pop(0)
    name = key.removesuffix("+")
    return Option(name, key.endswith("+"), text, parse_text(name, text))


def parse_text(key: str, text: str | None) -> Any:
    """Parse the text of an option as YAML."""
    if text is None:
        return True
    try:
        value = parse_yaml(text, f"--{key}")
    except BadRecipe:  # not every text is YAML, such as a path
        return text
    return text if isinstance(value, list | dict) and text[0] not in "[{" else value


def load_recipe(name: str) -> list[ConfigSource]:
    """The files of a recipe, which is given by its packaged name or its path: that which it is
    based on, the base of that and so on stand before it.

    ``base`` is a path, relative to the folder of the file that holds it, or a packaged name.

    Raises:
        BadRecipe: no such file, a file that is not a YAML mapping, or bases that form a cycle.
    """
    path = find_recipe(name)
    origin = str(path) if Path(name).is_file() else f"{name.removesuffix('.yaml')}.yaml"
    sources: list[ConfigSource] = []
    seen: list[Path] = []
    while True:
        values = read_yaml(path)
        if {"recipe", "axes"} & values.keys():
            raise BadRecipe(
                f"{origin} varies a recipe, which one training cannot: tfzoo sweep {name}"
            )
        base = values.pop(BASE, None)
        sources.insert(0, ConfigSource(values, origin, path))
        seen.append(path.resolve())
        if base is None:
            return sources
        path, origin = find_base(base, path, origin)
        if path.resolve() in seen:
            chain = " -> ".join(str(one) for one in [*seen, path.resolve()])
            raise BadRecipe(f"{seen[0]}: recipes that are based on each other: {chain}")


def find_base(base: Any, path: Path, origin: str) -> tuple[Path, str]:
    """Return the file that ``base`` in the file ``path`` names, and its name for messages."""
    if not isinstance(base, str):
        raise BadRecipe(f"{origin}: {BASE} is the name or the path of one recipe, not {base!r}")
    beside = path.parent / Path(base).expanduser()
    if beside.is_file():
        return beside, str(beside)
    name = base.removesuffix(".yaml")
    if name in packaged():
        return find_recipe(name), f"{name}.yaml"
    known = packaged_recipes()
    raise BadRecipe(
        f"{origin}: {BASE}: no recipe {base!r}, neither packaged nor a file beside {path.name}."
        f"{did_you_mean(base, known)} Packaged: {listing(known)}"
    )


def read_config(text: str) -> ConfigSource:
    """Read the file of ``--config``. A URL is an error."""
    scheme, colon, _ = text.partition(":")
    if colon and scheme.isidentifier() and not Path(text).exists():
        raise BadRecipe(
            f"--config reads files only, not {text!r}: download it, look at it, then give its path"
        )
    return ConfigSource(read_yaml(Path(text)), text)


def packaged_folder() -> Path:
    """Return the folder of all packaged files: ``recipes`` beside ``src`` in a checkout, inside the
    package in an installation.
    """
    beside = PACKAGE.parents[1] / "recipes"
    return beside if PACKAGE.parent.name == "src" and beside.is_dir() else PACKAGE / "recipes"


def packaged() -> list[str]:
    """Return all names: ``translation/numbers``, ``ablations/norm`` and so on."""
    folder = packaged_folder()
    files = folder.rglob("*.yaml")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in files)


def packaged_recipes() -> list[str]:
    """Return the names of recipes, which ``tfzoo fit`` trains."""
    return [name for name in packaged() if name.partition("/")[0] != SWEEPS]


def packaged_sweeps() -> list[str]:
    """Return the names of sweeps, which ``tfzoo sweep`` runs."""
    return [name for name in packaged() if name.partition("/")[0] == SWEEPS]


def find_recipe(recipe: str) -> Path:
    """Return the file of a recipe or sweep, given its packaged name or its path.

    Raises:
        BadRecipe: there is no such file.
    """
    path, known = Path(recipe), packaged()
    if path.name.removesuffix(".gz").endswith(TEXT_SUFFIXES):
        raise BadRecipe(
            f"{recipe} is no recipe, which is a .yaml file; text is given to one: "
            f"tfzoo fit classification/files --data.train {recipe} (tfzoo recipes lists all)"
        )
    if path.is_file():
        return path
    if recipe.removesuffix(".yaml") in known:
        return packaged_folder() / f"{recipe.removesuffix('.yaml')}.yaml"
    if (path / "config.yaml").is_file():
        raise BadRecipe(f"{recipe} is the folder of a run: its recipe is {path / 'config.yaml'}")
    if of_task := [name for name in known if name.startswith(f"{recipe}/")]:
        raise BadRecipe(f"{recipe!r} is no recipe, but these are: {', '.join(of_task)}")
    last = {name.rpartition("/")[2]: name for name in known}
    hint = f" Did you mean {last[recipe]!r}?" if recipe in last else did_you_mean(recipe, known)
    if path.suffix in (".yaml", ".yml") or path.is_absolute():
        raise BadRecipe(f"no recipe file {recipe}.{hint} (tfzoo recipes lists the packaged ones)")
    folder = f"{recipe.partition('/')[0]}/"
    known = [name for name in known if name.startswith(folder)] or known
    raise BadRecipe(
        f"no recipe named {recipe!r}.{hint} Known: {listing(known)} (tfzoo recipes), "
        "or the path of a YAML file"
    )


def header_of(name: str) -> str:
    """Return the first paragraph of a file's comment header; ``""`` if there is none."""
    lines = find_recipe(name).read_text("utf-8").splitlines()
    header = takewhile(lambda line: line.startswith("# "), lines)
    return " ".join(line.removeprefix("# ").strip() for line in header)


def read_yaml(path: Path) -> dict[str, Any]:
    """Load the mapping in a YAML file.

    Raises:
        BadRecipe: the file cannot be read, is not YAML, repeats a key or is not a mapping.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadRecipe(f"{path}: over {MAX_BYTES:,} bytes, the maximum size of a recipe")
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    values = parse_yaml(text, str(path))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadRecipe(
            f"{path}: a recipe is a mapping (task: ..., model: ...), not {type(values).__name__}"
        )
    return {str(key): value for key, value in values.items()}
