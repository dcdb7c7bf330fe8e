"""Parse Lightning's two sections of a recipe, ``trainer`` and ``checkpoint``, with jsonargparse.

Names of callbacks, loggers and their options are checked first, because jsonargparse's messages
about them are long. Its other errors are shortened to one line that begins with the key.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch import loggers as lightning_loggers
from lightning.pytorch.cli import LightningArgumentParser

from tfzoo.base.values import is_plain, leaves
from tfzoo.config.merge import Origins, as_list
from tfzoo.config.sections import lightning_sections
from tfzoo.config.security import ALLOWED
from tfzoo.errors import BadRecipe, did_you_mean

RUN_FOLDER = "<the run's folder>"
"""Placeholder for the run's folder, which is known only when training starts."""
NEEDED = {
    "TensorBoardLogger": (("tensorboard", "tensorboardX"), "'tfzoo[tensorboard]'"),
    "MLFlowLogger": (("mlflow",), "mlflow"),
    "CometLogger": (("comet_ml",), "comet-ml"),
    "LitLogger": (("litlogger",), "litlogger"),
}
"""The modules of which a logger needs one, and what to install for it."""
DOTTED = re.compile(r"\w+(\.\w+)+")


PARSED: dict[tuple[str, bool], tuple[Namespace, dict[str, Any]]] = {}
"""What the parser made of the sections with this text, which takes half of the time in which a
recipe is resolved. The cells of a sweep mostly share them.
"""


class Parser(LightningArgumentParser):
    """Lightning's parser, which raises an error instead of printing its usage."""

    def error(self, message: str, ex: Exception | None = None) -> None:  # type: ignore[override]
        raise BadRecipe(message)


@dataclass
class LightningConfig:
    """The sections ``trainer`` and ``checkpoint``.

    Args:
        parser: the parser, which instantiates the classes.
        values: the parsed values; callbacks, loggers and plugins are lists.
        recipe: the values that differ from Lightning's defaults, as plain values for a recipe.
    """

    parser: Parser
    values: Namespace
    recipe: dict[str, Any]


def parse(
    sections: Mapping[str, Mapping[str, Any]], origins: Origins, trust: bool
) -> LightningConfig:
    """Parse Lightning's sections, whose plain values are converted already.

    Raises:
        BadRecipe: a class or an option that does not exist, or a value of the wrong type.
    """
    plain = {name: dict(values) for name, values in sorted(sections.items())}
    trainer = plain["trainer"]
    for key in ("callbacks", "logger"):
        if trainer.get(key) and trainer[key] is not True:
            origin = origins.of(f"trainer.{key}")
            trainer[key] = [check_class(one, key, origin) for one in as_list(trainer[key])]
    allow_imports([value for _, value in leaves(plain)] if trust else ())
    parser, texts = lightning_parser(), (repr(plain), trust)
    if texts not in PARSED:
        try:
            values = parser.parse_object(plain)
        except BadRecipe as error:
            raise BadRecipe(explain_error(parser, plain, origins, str(error))) from None
        PARSED[texts] = values, plain_values(parser, values)
    parsed, recipe = deepcopy(PARSED[texts])
    if "mode" in plain["checkpoint"]:  # without one it is max here, and min for Lightning
        recipe["checkpoint"]["mode"] = parsed["checkpoint"]["mode"]
    # `typing` caches `int | float` and `float | int` as one type, so jsonargparse may convert 1 to
    # 1.0: limit_val_batches=1 is one batch, 1.0 is all of them.
    for name, section in lightning_sections().items():
        for key, value in sections[name].items():
            if is_plain(section.hints[key]):
                parsed[name][key] = value
                if key in recipe[name]:
                    recipe[name][key] = value
    for key in ("callbacks", "logger", "plugins"):
        one_or_more = parsed["trainer"][key]
        parsed["trainer"][key] = [] if isinstance(one_or_more, bool) else as_list(one_or_more)
    return LightningConfig(parser, parsed, recipe)


@cache
def lightning_parser() -> Parser:
    """Return the parser of Lightning's sections. Cached, since making it is slow."""
    parser = Parser(allow_abbrev=False)
    for name, section in lightning_sections().items():
        skip = section.supplied & inspect.signature(section.cls).parameters.keys()
        parser.add_class_arguments(
            section.cls, name, skip=skip, instantiate=False, fail_untyped=False
        )
    return parser


def allow_imports(named: Sequence[Any]) -> None:
    """Allow jsonargparse to import Lightning's own classes and the ``named`` ones, nothing else."""
    texts = [value for value in named if isinstance(value, str) and DOTTED.fullmatch(value)]
    own = [text for text in texts if not text.startswith("jsonargparse")]
    set_parsing_settings(
        import_path_denylist=["*"],
        import_path_allowlist=[*ALLOWED, *own],
        config_read_mode_urls_enabled=False,
        config_read_mode_fsspec_enabled=False,
    )


def check_class(value: Any, key: str, origin: str) -> dict[str, Any]:
    """Return a callback or a logger as ``{class_path: ..., init_args: ...}``. The default of a
    logger's ``save_dir`` is the run's folder.

    Raises:
        BadRecipe: it does not exist, has no such option, or is not installed.
    """
    what = key.removesuffix("s")
    spec = dict(value) if isinstance(value, Mapping) else {"class_path": value}
    if "class_path" not in spec:
        raise BadRecipe(f"{origin}: name the {what} first (--trainer.{key} NAME), then its options")
    module = {"callbacks": lightning_callbacks, "logger": lightning_loggers}[key]
    path = str(spec["class_path"])
    package, _, name = path.rpartition(".")
    cls = None if package and not package.startswith("lightning.") else getattr(module, name, None)
    if not isinstance(cls, type) and "." not in path:  # a name, or a module such as `wandb`
        known = [name for name in dir(module) if name.endswith("Logger")]
        known = known if key == "logger" else list(module.__all__)
        raise BadRecipe(
            f"{origin}: no {what} named {name!r}.{did_you_mean(name, known)} "
            f"Known: {', '.join(known)}"
        )
    if not isinstance(cls, type):  # of another package: jsonargparse imports it
        return spec
    modules, install = NEEDED.get(name, ((), ""))
    if modules and not any(map(find_spec, modules)):
        raise BadRecipe(
            f"{origin}: {name} needs a package that is not installed: pip install {install}"
        )
    check_arguments(cls, spec.get("init_args"), origin)
    if key == "logger" and "save_dir" in inspect.signature(cls).parameters:
        spec["init_args"] = {"save_dir": RUN_FOLDER, **(spec.get("init_args") or {})}
    return spec


def check_arguments(cls: type, options: Any, origin: str) -> None:
    """Check that the constructor of a class has these arguments."""
    known = inspect.signature(cls).parameters
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return
    for name in options if isinstance(options, Mapping) else ():
        if name not in known:
            raise BadRecipe(
                f"{origin}: {cls.__name__} has no option {name!r}.{did_you_mean(name, known)}"
            )


def explain_error(
    parser: Parser, sections: Mapping[str, Any], origins: Origins, message: str
) -> str:
    """Return one line about the first key that the parser also refuses when it is given alone; the
    parser's own message if there is none.
    """
    for section, values in sections.items():
        for key, value in values.items():
            try:
                parser.parse_object({section: {key: value}})
            except BadRecipe as error:
                path = f"{section}.{key}"
                return f"{origins.of(path)}: {path}: {one_line(str(error))}"
    return one_line(message)


def one_line(message: str) -> str:
    """Join the lines of a message and shorten it."""
    return " ".join(message.split())[:400]


def plain_values(parser: Parser, values: Namespace) -> dict[str, Any]:
    """Return the values that are not Lightning's defaults, as plain values."""
    plain, defaults = dumped(parser, values), default_values(parser)
    for logger in as_list(plain["trainer"].get("logger")):
        if isinstance(logger, dict) and logger.get("init_args", {}).get("save_dir") == RUN_FOLDER:
            del logger["init_args"]["save_dir"]
    return {
        section: {
            key: value for key, value in plain[section].items() if value != defaults[section][key]
        }
        for section in ("trainer", "checkpoint")
    }


@cache
def default_values(parser: Parser) -> dict[str, dict[str, Any]]:
    """Return Lightning's defaults as plain values."""
    return dumped(parser, parser.get_defaults())


def dumped(parser: Parser, values: Namespace) -> dict[str, dict[str, Any]]:
    """Return parsed values as plain values."""
    text = parser.dump(values, format="json", skip_unset=False, skip_validation=True)
    plain: dict[str, dict[str, Any]] = json.loads(text)
    return plain
