"""Refuse recipes that would run code, fetch URLs or write outside the run's folder, before anything
that they name is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfzoo.base.values import check_number, is_text, leaves
from tfzoo.config.lightning import CLASSES
from tfzoo.data.remote import is_address, refusal
from tfzoo.errors import BadRecipe
from tfzoo.runs.folder import ADDRESS

OUTPUT_KEYS = {
    *("dirpath", "save_dir", "default_root_dir", "root_dir", "log_dir", "dir", "directory"),
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

LONGEST = 200
"""The most characters of a text in Lightning's sections: some name files, and steps are added."""

TRUST = "If you trust whoever wrote it: --trust"


def check_values(values: Mapping[str, Any], origin: str, trust: bool) -> None:
    """Check nested values of a recipe. Numbers that would need more memory than any machine has are
    always refused; code, URLs and output folders are refused without ``trust``.

    Raises:
        BadRecipe: naming the key.
    """
    for keys, value in leaves(values):
        check_number(keys, value, origin)
        if not is_text(value):
            raise BadRecipe(f"{origin}: {'.'.join(keys)} is {value!r}, which is no text")
        is_lightning = keys[0] in ("trainer", "checkpoint")
        if is_lightning and len(str(value)) > LONGEST:
            raise BadRecipe(
                f"{origin}: {'.'.join(keys)} has {len(str(value))} characters; the most is "
                f"{LONGEST}: it may name a file"
            )
        if not trust and value is not None and (is_lightning or isinstance(value, str)):
            check_value(".".join(keys), value, origin, is_lightning)


def check_value(path: str, value: Any, origin: str, is_lightning: bool) -> None:
    """Refuse a value that names a class outside Lightning, a function, a URL or a folder.

    ``is_lightning`` is whether it is in one of Lightning's sections, whose strings may name classes
    and paths. The value is only compared, never imported.

    Raises:
        BadRecipe: naming the key and the option that allows it.
    """
    where = origin if origin == f"--{path}" else f"{origin}: {path}"
    keys = path.split(".")
    if is_lightning:
        if keys[-1] in OUTPUT_KEYS or (isinstance(value, str) and OUTSIDE.search(value)):
            raise BadRecipe(
                f"{where}: a run writes into its own folder alone. Choose it with --run FOLDER"
            )
        if FORWARDED_KEYS & {*keys}:
            raise BadRecipe(f"{where}: could start a program. {TRUST}")
    if not isinstance(value, str):
        return
    if ADDRESS_KEY.match(path) and is_address(value):
        if reason := refusal(value, trusted=False):
            raise BadRecipe(f"{where}: {reason}")
        return
    if path == "from" and ADDRESS.fullmatch(value):
        return
    if URL.match(value):
        raise BadRecipe(
            f"{where}: names the address {value!r}, and a recipe fetches nothing. {TRUST}"
        )
    packages = tuple(f"{package}." for package in CLASSES.values())
    if CLASS_KEY.fullmatch(path) and "." in value and not value.startswith(packages):
        raise BadRecipe(
            f"{origin}: {path} names {value!r}. A recipe is data: it may name Lightning's own "
            "callbacks, loggers, strategies, profilers and plugins, nothing else. "
            "If you trust whoever wrote it and the code it names: --trust"
        )
