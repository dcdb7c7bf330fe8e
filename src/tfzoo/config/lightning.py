"""Lightning's half of a recipe: its own parser checks it, and the Trainer is made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch import loggers as lightning_loggers
from lightning.pytorch.cli import LightningArgumentParser

from tfzoo.config.merge import Draft
from tfzoo.config.sections import DEFAULTS, TOP
from tfzoo.config.security import ALLOWED, walk
from tfzoo.errors import BadRecipe, did_you_mean
from tfzoo.values import type_name

FILLED_IN = "<the run's folder>"


class Parser(LightningArgumentParser):
    """Lightning's parser, but a mistake is one error instead of a page of usage."""

    def error(self, message: str, ex: Exception | None = None) -> None:  # type: ignore[override]
        raise BadRecipe(message)


def parser(draft: Draft, trust: bool = False) -> Parser:
    """A parser of all sections; classes may come from Lightning alone, and where ``trust`` is set
    from where the recipe says.
    """
    named = [
        value
        for _, value in walk(draft.values)
        if isinstance(value, str) and re.fullmatch(r"\w+(\.\w+)+", value)
    ]
    named += [
        raw.partition("=")[2]
        for raw in draft.raw
        if re.fullmatch(r"\w+(\.\w+)+", raw.partition("=")[2])
    ]
    trusted = [
        name
        for name in named
        if not name.startswith("jsonargparse")
        and all(part.isidentifier() for part in name.split("."))
    ]
    set_parsing_settings(
        import_path_denylist=["*"],
        import_path_allowlist=[*ALLOWED, *(trusted if trust else ())],
        config_read_mode_urls_enabled=False,
        config_read_mode_fsspec_enabled=False,
    )
    result = Parser(
        prog="tfzoo fit RECIPE",
        description="Every value of a recipe, with its type and default.",
        allow_abbrev=False,
    )
    for key, kind in TOP.items():
        result.add_argument(f"--{key}", type=kind, default=DEFAULTS.get(key))
    for name, section in draft.known.items():
        if issubclass(section.cls, L.Trainer):
            result.add_lightning_class_args(section.cls, name)
        else:
            skip = {*section.supplied} & {*_parameters(section.cls)}
            result.add_class_arguments(
                section.cls, name, skip=skip, instantiate=False, fail_untyped=False
            )
    return result


def _parameters(cls: type) -> list[str]:
    import inspect

    return list(inspect.signature(cls).parameters)


def check(used: Parser, draft: Draft) -> Namespace:
    """All values, defaults included, of the types that they should be.

    Raises:
        BadRecipe: one line that says where the mistake stands.
    """
    values = {**draft.values, "trainer": {**draft.values.get("trainer", {})}}
    if values["trainer"].get("logger"):
        loggers = values["trainer"]["logger"]
        values["trainer"]["logger"] = [
            _complete(one, draft) for one in (loggers if isinstance(loggers, list) else [loggers])
        ]
    try:
        return used.parse_args(draft.raw, namespace=used.parse_object(values))
    except BadRecipe as error:
        raise BadRecipe(short(str(error), draft)) from None


def _complete(logger: Any, draft: Draft) -> Any:
    """A logger with the place where it writes filled in; the run's folder is known only later."""
    if not isinstance(logger, Mapping):
        return logger
    name = str(logger.get("class_path")).rpartition(".")[2]
    known = [name for name in dir(lightning_loggers) if name.endswith("Logger")]
    if "class_path" not in logger:
        raise BadRecipe(
            f"{draft.place('trainer.logger')}: name the logger first (--trainer.logger {known[-1]}), then its options"
        )
    cls = getattr(lightning_loggers, name, None)
    if cls is None and "." not in str(logger["class_path"]):
        raise BadRecipe(
            f"{draft.place('trainer.logger')}: no logger named {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}"
        )
    if cls is not None and "save_dir" in _parameters(cls):
        return {**logger, "init_args": {"save_dir": FILLED_IN, **logger.get("init_args", {})}}
    return logger


def short(message: str, draft: Draft) -> str:
    """jsonargparse's message in one line."""
    found = re.search(r'key "([\w.]+)"', message)
    key = found[1] if found else ""
    place = draft.place(key) if key else next(iter(draft.origin.values()), "recipe")
    if denied := re.search(r"Importing '([^']+)' is not allowed", message):
        return f"{place}: {key} names {denied[1]!r}, which a recipe may not: it is data, not code. If you trust it: --trust"
    if unknown := re.search(r"Expected a dot import path string: (\S+)", message):
        return f"{place}: {key}: no class named {unknown[1]!r}.{did_you_mean(unknown[1], lightning_callbacks.__all__)}"
    if unknown := re.search(r"unrecognized arguments: (\S+)", message):
        return f"no option {unknown[1].partition('=')[0]}"
    if unknown := re.search(
        r"[Oo]ption '([^']+)' is not accepted|does not accept option '([^']+)'", message
    ):
        return f"{place}: {_option(unknown[1] or unknown[2], draft)}"
    value = re.search(r"(?:Given value|Got value): (.*)", message)
    section, _, name = key.partition(".")
    if value and section in draft.known and name in draft.known[section].hints:
        return (
            f"{place}: {key} must be {readable(draft.known[section].hints[name])}, not {value[1]!r}"
        )
    return f"{place}: " + " ".join(line.strip() for line in message.splitlines()[:3])[:300]


def _option(name: str, draft: Draft) -> str:
    """What to say of an option that a class of Lightning's does not have."""
    for section in (lightning_callbacks, lightning_loggers):
        for path, value in walk(draft.values):
            cls = getattr(section, str(value).rpartition(".")[2], None)
            if (
                not path.endswith("class_path")
                or not isinstance(cls, type)
                or name in _parameters(cls)
            ):
                continue
            if close := did_you_mean(name, _parameters(cls)):
                return f"{cls.__name__} has no option {name!r}.{close}"
    return f"no option {name!r} there"


def readable(hint: Any) -> str:
    """A type as people write it."""
    text = re.sub(
        r"\b(?:typing|datetime|pathlib|collections\.abc)\.|\b(?:lightning|torch)(?:\.\w+)*\.(?=\w)",
        "",
        type_name(hint),
    )
    return text if len(text) <= 160 else f"{text[:160]}..."


def resolved(used: Parser, values: Namespace) -> dict[str, Any]:
    """The configuration as plain values: what a recipe may set, and of Lightning's own sections
    only what was set.
    """
    tree: dict[str, Any] = json.loads(
        used.dump(values, format="json", skip_unset=False, skip_validation=True)
    )
    defaults: dict[str, Any] = json.loads(
        used.dump(used.get_defaults(), format="json", skip_unset=False, skip_validation=True)
    )
    for section in ("trainer", "checkpoint"):
        tree[section] = {
            key: value for key, value in tree[section].items() if value != defaults[section][key]
        }
    for logger in as_list(tree["trainer"].get("logger")):
        if isinstance(logger, dict) and logger.get("init_args", {}).get("save_dir") == FILLED_IN:
            del logger["init_args"]["save_dir"]
    return {
        key: tree[key]
        for key in (*TOP, *(key for key in tree if key not in TOP))
        if tree[key] is not None
    }


def as_list(value: Any) -> Sequence[Any]:
    """The value if it is a list, else a list of it alone."""
    return value if isinstance(value, list) else [value]
