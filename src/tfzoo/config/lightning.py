"""Lightning's two sections of a recipe, ``trainer`` and ``checkpoint``: jsonargparse reads them.

Names of callbacks, loggers and their options are looked up first, because jsonargparse's messages
about them are long. What it refuses otherwise is passed on in one line, with the key that it is
about.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch import loggers as lightning_loggers
from lightning.pytorch.cli import LightningArgumentParser

from tfzoo.config.merge import Merged, accepts, hint_of
from tfzoo.config.sections import DEFAULTS, LIGHTNING, TOP, Section
from tfzoo.config.security import ALLOWED, walk
from tfzoo.config.validation import readable
from tfzoo.errors import BadRecipe, did_you_mean
from tfzoo.values import is_plain

FILLED_IN = "<the run's folder>"
"""Stands where a logger is given the run's folder, which is known only when training begins."""
EXTRAS = {"TensorBoardLogger": "tensorboard"}
"""Packages that a logger needs, and tfzoo's extras that install them."""
LEAST = {
    "accumulate_grad_batches": 1,
    "check_val_every_n_epoch": 1,
    "gradient_clip_val": 0,
    "log_every_n_steps": 0,
}
"""The least that numbers of the Trainer can be, which it does not check itself."""
DOTTED = re.compile(r"\w+(\.\w+)+")

Options = Sequence[tuple[str, str | None]]


class Parser(LightningArgumentParser):
    """Lightning's parser, but a mistake is one error instead of a page of usage."""

    def error(self, message: str, ex: Exception | None = None) -> None:  # type: ignore[override]
        raise BadRecipe(message)


@dataclass
class LightningConfig:
    """The sections ``trainer`` and ``checkpoint``: as their parser has them, and as plain values
    (``recipe``) without those that are Lightning's defaults.
    """

    parser: Parser
    values: Namespace
    recipe: dict[str, Any]


def parse(merged: Merged, options: Options, trust: bool = False) -> LightningConfig:
    """Lightning's sections of a merged configuration, with the ``options`` of the command line that
    begin with their names.

    Raises:
        BadRecipe: a class or an option that does not exist, or a value of the wrong type.
    """
    tree = {name: dict(merged.tree.get(name) or {}) for name in sorted(LIGHTNING)}
    check_options(options, merged)
    for key in ("callbacks", "logger"):
        check_classes(tree["trainer"].get(key), key, merged.origin(f"trainer.{key}"))
    if tree["trainer"].get("logger"):
        loggers = as_list(tree["trainer"]["logger"])
        tree["trainer"]["logger"] = [with_folder(one, merged) for one in loggers]
    texts = [(key, "true" if text is None else text) for key, text in options]
    allow_imports([value for _, value in walk(tree)] + [text for _, text in texts] if trust else ())
    parser = make_parser({name: merged.sections[name] for name in tree})
    try:
        raw = [f"--{key}={text}" for key, text in texts]
        values = parser.parse_args(raw, namespace=parser.parse_object(tree))
    except BadRecipe as error:
        raise BadRecipe(blame(parser, tree, texts, merged, str(error))) from None
    check_ranges(values, merged)
    return LightningConfig(parser, values, plain(parser, values))


def check_ranges(values: Namespace, merged: Merged) -> None:
    """See that numbers of the Trainer are not smaller than it can use."""
    for key, least in LEAST.items():
        value = values.trainer[key]
        if value is not None and not least <= value < inf:
            origin = merged.origin(f"trainer.{key}")
            raise BadRecipe(f"{origin}: trainer.{key}={value} must be at least {least}")


def make_parser(sections: Mapping[str, Section]) -> Parser:
    """A parser of these sections."""
    parser = Parser(
        prog="tfzoo fit RECIPE",
        description="Every value of a recipe, with its type and default.",
        allow_abbrev=False,
    )
    for name, section in sections.items():
        if issubclass(section.cls, L.Trainer):
            parser.add_lightning_class_args(section.cls, name)
        else:
            skip = {*section.supplied} & {*parameters(section.cls)}
            parser.add_class_arguments(
                section.cls, name, skip=skip, instantiate=False, fail_untyped=False
            )
    return parser


def help_text(sections: Mapping[str, Section]) -> str:
    """Every key of these sections and of the top, with type and default."""
    parser = make_parser(sections)
    for key, kind in TOP.items():
        parser.add_argument(f"--{key}", type=kind, default=DEFAULTS.get(key))
    return str(parser.format_help())


def allow_imports(named: Sequence[Any]) -> None:
    """Let jsonargparse import Lightning's own classes, and of others those that are ``named``."""
    texts = [value for value in named if isinstance(value, str) and DOTTED.fullmatch(value)]
    own = [text for text in texts if not text.startswith("jsonargparse")]
    set_parsing_settings(
        import_path_denylist=["*"],
        import_path_allowlist=[*ALLOWED, *own],
        config_read_mode_urls_enabled=False,
        config_read_mode_fsspec_enabled=False,
    )


def check_options(options: Options, merged: Merged) -> None:
    """See that each option names an argument of the Trainer or of ModelCheckpoint and has a value,
    and that callbacks exist and have the options that follow them.
    """
    callback = ""
    for key, text in options:
        path = key.rstrip("+")
        hint = hint_of(path, merged.sections)
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
    """See that callbacks and loggers that are named briefly exist, have the options that they are
    given, and are installed.
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
                f"{origin}: no {what} named {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}"
            )
        if name in EXTRAS and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
            raise BadRecipe(
                f"{origin}: {name} needs a package that is not installed: "
                f"pip install 'tfzoo[{EXTRAS[name]}]'"
            )
        if isinstance(cls, type):
            check_arguments(cls, spec.get("init_args"), origin)


def check_arguments(cls: type, given: Any, origin: str) -> None:
    """See that a class has the arguments that it is given."""
    known = inspect.signature(cls).parameters
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise BadRecipe(
                f"{origin}: {cls.__name__} has no option {name!r}.{did_you_mean(name, known)}"
            )


def with_folder(logger: Any, merged: Merged) -> Any:
    """A logger whose ``save_dir`` is the run's folder."""
    if not isinstance(logger, Mapping):
        return logger
    if "class_path" not in logger:
        raise BadRecipe(
            f"{merged.origin('trainer.logger')}: name the logger first "
            "(--trainer.logger WandbLogger), then its options"
        )
    cls = getattr(lightning_loggers, str(logger["class_path"]).rpartition(".")[2], None)
    if cls is not None and "save_dir" in parameters(cls):
        return {**logger, "init_args": {"save_dir": FILLED_IN, **(logger.get("init_args") or {})}}
    return logger


def blame(
    parser: Parser, tree: Mapping[str, Any], options: Options, merged: Merged, message: str
) -> str:
    """One line about the first key that the parser refuses when it is given alone."""
    for path, value, raw, origin in alone(tree, options, merged):
        section, _, key = path.partition(".")
        try:
            start = parser.parse_object({section: {key: value}} if not raw else {})
            parser.parse_args(raw, namespace=start)
        except BadRecipe as error:
            hint, shown = merged.sections[section].hint(key), value
            if raw:
                shown = raw[0].partition("=")[2]
            if is_plain(hint):
                return f"{origin}: {path} must be {readable(hint)}, not {shown!r}"
            return f"{origin}: {path}: {one_line(str(error))}"
    return one_line(message)


def alone(
    tree: Mapping[str, Any], options: Options, merged: Merged
) -> Iterator[tuple[str, Any, list[str], str]]:
    """Each key with its value or its options of the command line, and where it came from."""
    for section, values in tree.items():
        for key, value in values.items():
            path = f"{section}.{key}"
            yield path, value, [], merged.origin(path)
    paths = dict.fromkeys(".".join(key.rstrip("+").split(".")[:2]) for key, _ in options)
    for path in paths:
        raw = [
            f"--{key}={text}"
            for key, text in options
            if re.fullmatch(rf"{re.escape(path)}(\+|\..*)?", key)
        ]
        yield path, None, raw, merged.origin(path)


def one_line(message: str) -> str:
    """A message of several lines, shortened."""
    return " ".join(message.split())[:400]


def plain(parser: Parser, values: Namespace) -> dict[str, Any]:
    """The values that are not Lightning's defaults, as plain ones."""

    def dumped(given: Namespace) -> dict[str, dict[str, Any]]:
        text = parser.dump(given, format="json", skip_unset=False, skip_validation=True)
        found: dict[str, dict[str, Any]] = json.loads(text)
        return found

    tree, defaults = dumped(values), dumped(parser.get_defaults())
    for logger in as_list(tree["trainer"].get("logger")):
        if isinstance(logger, dict) and logger.get("init_args", {}).get("save_dir") == FILLED_IN:
            del logger["init_args"]["save_dir"]
    return {
        section: {
            key: value for key, value in tree[section].items() if value != defaults[section][key]
        }
        for section in ("trainer", "checkpoint")
    }


def parameters(cls: type) -> list[str]:
    """The names of a constructor's arguments."""
    return list(inspect.signature(cls).parameters)


def as_list(value: Any) -> Sequence[Any]:
    """The value if it is a list, else a list of it alone."""
    return value if isinstance(value, list) else [value]
