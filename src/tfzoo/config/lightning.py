"""Parse Lightning's two sections of a recipe, ``trainer`` and ``checkpoint``, with jsonargparse.

Names of callbacks, loggers and their options are checked first, because jsonargparse's messages
about them are long. Its other errors are shortened to one line that names the key.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import inf
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch import loggers as lightning_loggers
from lightning.pytorch.cli import LightningArgumentParser

from tfzoo.config.merge import Merged, Origins, accepts, option_type
from tfzoo.config.sections import DEFAULTS, LIGHTNING, TOP, Section, lightning_sections
from tfzoo.config.security import ALLOWED
from tfzoo.config.validation import readable_type
from tfzoo.errors import BadRecipe, did_you_mean
from tfzoo.runs.bounds import leaves
from tfzoo.values import is_plain

RUN_FOLDER = "<the run's folder>"
"""Placeholder for the run's folder, which is known only when training starts."""
EXTRAS = {"TensorBoardLogger": "tensorboard"}
"""The extra of tfzoo that installs what a logger needs."""
MINIMUM = {
    "accumulate_grad_batches": 1,
    "check_val_every_n_epoch": 1,
    "gradient_clip_val": 0,
    "log_every_n_steps": 0,
}
"""The smallest values of arguments that the Trainer does not check itself."""
DOTTED = re.compile(r"\w+(\.\w+)+")

Options = Sequence[tuple[str, str | None]]


class Parser(LightningArgumentParser):
    """Lightning's parser, which raises an error instead of printing its usage."""

    def error(self, message: str, ex: Exception | None = None) -> None:  # type: ignore[override]
        raise BadRecipe(message)


@dataclass
class LightningConfig:
    """The sections ``trainer`` and ``checkpoint``.

    Args:
        parser: the parser, which instantiates the classes.
        values: the parsed values.
        recipe: the values that are not Lightning's defaults, as plain values.
    """

    parser: Parser
    values: Namespace
    recipe: dict[str, Any]


def parse(merged: Merged, options: Options, trust: bool = False) -> LightningConfig:
    """Parse Lightning's sections of a merged configuration and the command-line ``options`` that
    belong to them.

    Raises:
        BadRecipe: a class or an option that does not exist, or a value of the wrong type.
    """
    given = {name: dict(merged.values.get(name) or {}) for name in sorted(LIGHTNING)}
    trainer, origins = given["trainer"], merged.origins
    check_options(options, merged)
    for key in ("callbacks", "logger"):
        check_classes(trainer.get(key), key, origins.of(f"trainer.{key}"))
    if trainer.get("logger"):
        origin = origins.of("trainer.logger")
        trainer["logger"] = [set_folder(one, origin) for one in as_list(trainer["logger"])]
    texts = [(key, "true" if text is None else text) for key, text in options]
    named = [value for _, value in leaves(given)] + [text for _, text in texts]
    allow_imports(named if trust else ())
    parser = lightning_parser()
    try:
        values = parser.parse_object(given)
        if texts:
            values = parser.parse_args([f"--{key}={text}" for key, text in texts], namespace=values)
    except BadRecipe as error:
        raise BadRecipe(explain_error(parser, given, texts, merged, str(error))) from None
    check_ranges(values, origins)
    return LightningConfig(parser, values, plain_values(parser, values))


def check_ranges(values: Namespace, origins: Origins) -> None:
    """Check that arguments of the Trainer are finite and not smaller than :data:`MINIMUM`."""
    for key, least in MINIMUM.items():
        value = values.trainer[key]
        if value is not None and not least <= value < inf:
            origin = origins.of(f"trainer.{key}")
            raise BadRecipe(f"{origin}: trainer.{key}={value} must be at least {least}")


@cache
def lightning_parser() -> Parser:
    """Return the parser of Lightning's sections. To make it takes as long as to parse."""
    return make_parser(lightning_sections())


def make_parser(sections: Mapping[str, Section]) -> Parser:
    """Return a parser of these sections."""
    parser = Parser(
        prog="tfzoo fit RECIPE",
        description="Every value of a recipe, with its type and default.",
        allow_abbrev=False,
    )
    for name, section in sections.items():
        if issubclass(section.cls, L.Trainer):
            parser.add_lightning_class_args(section.cls, name)
        else:
            skip = section.supplied & inspect.signature(section.cls).parameters.keys()
            parser.add_class_arguments(
                section.cls, name, skip=skip, instantiate=False, fail_untyped=False
            )
    return parser


def help_text(sections: Mapping[str, Section]) -> str:
    """Return every key of these sections and of the top level, with type and default."""
    parser = make_parser(sections)
    for key, kind in TOP.items():
        parser.add_argument(f"--{key}", type=kind, default=DEFAULTS.get(key))
    return str(parser.format_help())


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


def check_options(options: Options, merged: Merged) -> None:
    """Check that each option names an argument of the Trainer or of ModelCheckpoint and has a
    value, and that callbacks exist and accept the options that follow them.
    """
    callback = ""
    for key, text in options:
        path = key.rstrip("+")
        hint = option_type(path, merged.sections)
        if text is None and not accepts(hint, bool):
            raise BadRecipe(f"--{key} needs a value")
        section, name, *inner = path.split(".")
        merged.origins[f"{section}.{name}"] = f"--{section}.{name}"
        if path == "trainer.callbacks" and text is not None:
            callback = text if text.isidentifier() else ""
            check_classes(callback or None, name, f"--{path}")
        elif name == "callbacks" and inner and callback:
            check_classes(
                {"class_path": callback, "init_args": {inner[-1]: text}}, name, f"--{path}"
            )


def check_classes(given: Any, key: str, origin: str) -> None:
    """Check that callbacks and loggers given without a module exist, accept their options, and are
    installed.
    """
    module = {"callbacks": lightning_callbacks, "logger": lightning_loggers}[key]
    for one in as_list(given):
        spec = one if isinstance(one, Mapping) else {"class_path": one}
        if not isinstance(path := spec.get("class_path"), str):
            continue
        name, what = path.rpartition(".")[2], key.removesuffix("s")
        cls = getattr(module, name, None)
        if cls is None and "." not in path:
            known = [name for name in dir(module) if name.endswith("Logger")]
            known = known if key == "logger" else list(module.__all__)
            raise BadRecipe(
                f"{origin}: no {what} named {name!r}.{did_you_mean(name, known)} "
                f"Known: {', '.join(known)}"
            )
        if name in EXTRAS and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
            raise BadRecipe(
                f"{origin}: {name} needs a package that is not installed: "
                f"pip install 'tfzoo[{EXTRAS[name]}]'"
            )
        if isinstance(cls, type):
            check_arguments(cls, spec.get("init_args"), origin)


def check_arguments(cls: type, given: Any, origin: str) -> None:
    """Check that the constructor of a class has these arguments."""
    known = inspect.signature(cls).parameters
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise BadRecipe(
                f"{origin}: {cls.__name__} has no option {name!r}.{did_you_mean(name, known)}"
            )


def set_folder(logger: Any, origin: str) -> Any:
    """Return the logger with the placeholder of the run's folder as its ``save_dir``."""
    if not isinstance(logger, Mapping):
        return logger
    if "class_path" not in logger:
        raise BadRecipe(
            f"{origin}: name the logger first (--trainer.logger WandbLogger), then its options"
        )
    cls = getattr(lightning_loggers, str(logger["class_path"]).rpartition(".")[2], None)
    if cls is not None and "save_dir" in inspect.signature(cls).parameters:
        return {**logger, "init_args": {"save_dir": RUN_FOLDER, **(logger.get("init_args") or {})}}
    return logger


def explain_error(
    parser: Parser, given: Mapping[str, Any], options: Options, merged: Merged, message: str
) -> str:
    """Return one line about the first key that the parser also refuses when it is given alone; the
    parser's own message if there is none.
    """
    for path, value, raw, origin in each_key(given, options, merged.origins):
        section, _, key = path.partition(".")
        try:
            start = parser.parse_object({section: {key: value}} if not raw else {})
            parser.parse_args(raw, namespace=start)
        except BadRecipe as error:
            hint, shown = merged.sections[section].hints[key], value
            if raw:
                shown = raw[0].partition("=")[2]
            if is_plain(hint):
                return f"{origin}: {path} must be {readable_type(hint)}, not {shown!r}"
            return f"{origin}: {path}: {one_line(str(error))}"
    return one_line(message)


def each_key(
    given: Mapping[str, Any], options: Options, origins: Origins
) -> Iterator[tuple[str, Any, list[str], str]]:
    """Yield each key with its value, its command-line options and its origin."""
    for section, values in given.items():
        for key, value in values.items():
            path = f"{section}.{key}"
            yield path, value, [], origins.of(path)
    paths = dict.fromkeys(".".join(key.rstrip("+").split(".")[:2]) for key, _ in options)
    for path in paths:
        raw = [
            f"--{key}={text}"
            for key, text in options
            if re.fullmatch(rf"{re.escape(path)}(\+|\..*)?", key)
        ]
        yield path, None, raw, origins.of(path)


def one_line(message: str) -> str:
    """Join the lines of a message and shorten it."""
    return " ".join(message.split())[:400]


def plain_values(parser: Parser, values: Namespace) -> dict[str, Any]:
    """Return the values that are not Lightning's defaults, as plain values."""
    found, defaults = dumped(parser, values), default_values(parser)
    for logger in as_list(found["trainer"].get("logger")):
        if isinstance(logger, dict) and logger.get("init_args", {}).get("save_dir") == RUN_FOLDER:
            del logger["init_args"]["save_dir"]
    return {
        section: {
            key: value for key, value in found[section].items() if value != defaults[section][key]
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


def as_list(value: Any) -> Sequence[Any]:
    """Return a list as it is, and any other value in a list of its own."""
    return value if isinstance(value, list) else [value]
