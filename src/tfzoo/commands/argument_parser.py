"""The parser of every command: what it declares is what ``--help`` prints, what completion offers
and what the command line takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn

from tfzoo.base.terminal import print_result
from tfzoo.base.values import parse_number
from tfzoo.config.sources import Option, next_option, read_config
from tfzoo.errors import TfzooError, did_you_mean
from tfzoo.training.device import DEVICES, device_name

SECTIONS = {
    "model": "",
    "data": "",
    "optim": "",
    "compute": "",
    "trainer": "Lightning's Trainer",
    "checkpoint": "its ModelCheckpoint",
    "adapter": "LoRA",
    "search": "of a translator",
    "loss": "of a classifier",
}
"""The sections of recipes, and what is to be said of them."""


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` without abbreviations that raises ``TfzooError``, in one line, instead
    of printing its usage and exiting, and :class:`HelpPrinted` after ``--help``.
    """

    def __init__(
        self, command: str, description: str, epilog: str = "", add_help: bool = True
    ) -> None:
        super().__init__(
            f"tfzoo {command}",
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for kind in (int, float):
            self.register("type", kind, partial(parse_number, kind=kind))
        self.command = command
        self.sections: tuple[str, ...] = ()
        """Of options ``--SECTION.KEY``, which the command takes besides its own."""
        self.keys: list[str] = []
        """Of options of a recipe that the help lists."""
        self.of_recipe = False
        """Whether any option that is not its own is one of a recipe."""
        if add_help:
            self.add_argument("-h", "--help", action="help", help="show this help message and exit")

    def takes_options(self, *sections: str) -> None:
        """Take options ``--SECTION.KEY VALUE`` of these sections."""
        self.sections = sections

    def takes_recipe(self, *sections: str) -> None:
        """Take options that override a recipe, above all those of these sections."""
        self.takes_options(*sections)
        self.of_recipe = True
        words = f"{self.prog} {self.first_word()}"
        self.usage = f"{words} [--OPTION VALUE ...] [--SECTION.KEY VALUE ...]"
        self.add_argument(
            "--config",
            metavar="FILE",
            action="append",
            default=[],
            help="a YAML file that overrides the recipe; may be repeated",
        )
        self.add_argument(
            "--trust",
            action="store_true",
            help="allow the recipe to name classes outside Lightning; this runs their code",
        )

    def add_key(self, key: str, metavar: str, about: str) -> None:
        """Add ``--KEY``, an option of the recipe: it is not among the values of :meth:`parse`."""
        self.add_argument(f"--{key}", metavar=metavar, default=argparse.SUPPRESS, help=about)
        self.keys.append(f"--{key}")

    def add_recipe(self) -> None:
        """Add the positional argument RECIPE, one."""
        self.add_argument(
            "recipe",
            metavar="RECIPE",
            nargs="*",
            help="a packaged name (see tfzoo recipes) or the path of a YAML file",
        )

    def add_run(self) -> None:
        """Add the positional argument RUN."""
        self.add_argument(
            "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
        )

    def add_device(self, default: str = "the first GPU, else the CPU") -> None:
        """Add the option ``--device``."""
        self.add_argument(
            "--device", type=device_name, metavar="D", help=f"{DEVICES}; default: {default}"
        )

    def add_overwrite(self) -> None:
        """Add the option ``--overwrite``."""
        self.add_argument(
            "--overwrite",
            action="store_true",
            help="replace the file at --output",
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The values of the command's own arguments; ``words``, with the command before them; and
        ``overrides``, the files and options that override a recipe.

        Raises:
            TfzooError: a word that the command does not take, or a value that is missing.
        """
        own, options = self._split(words)
        given = self.parse_intermixed_args(own)
        configs = [read_config(path) for path in getattr(given, "config", ())]
        for key in [option.key for option in options if self.of_recipe]:
            is_known = "." in key or f"--{key}" in self.keys
            if not is_known and (close := did_you_mean(key, self._names(), "--")):
                raise TfzooError(f"no option '--{key}'.{close}")
        given.words = [self.command, *words]
        given.overrides = [*configs, *options]
        if "recipe" in given:
            given.recipe = self._one_recipe(given)
        return given

    def _split(self, words: Sequence[str]) -> tuple[list[str], list[Option]]:
        """The words of the command's own arguments, and the options of its sections."""
        own, options, rest = list[str](), list[Option](), list(words)
        sections = tuple(f"--{name}." for name in self.sections)
        while rest:
            key, equals, value = rest[0].partition("=")
            action = None if key in self.keys else self._option_string_actions.get(key)
            is_other = key.startswith("--" if self.of_recipe else sections)
            if action is None and is_other:
                options.append(next_option(rest))
                continue
            own.append(rest.pop(0))
            if action is not None and action.nargs is None:  # it takes one value
                is_last = not rest or rest[0].startswith("--")
                if not value and (equals or is_last or not rest[0]):
                    raise TfzooError(f"{key} needs a value: {help_of(action)}")
                own += [] if equals else [rest.pop(0)]
        return own, options

    def _one_recipe(self, given: argparse.Namespace) -> str:
        """The one RECIPE; without one, ``--help`` prints the help of the command.

        Raises:
            TfzooError: there is none, or more than one.
        """
        if not given.recipe and getattr(given, "help", False):
            self.print_help()
            self.exit()
        if not given.recipe:
            raise TfzooError(
                f"{self.command} needs a recipe: {self.prog} translation/numbers "
                "(tfzoo recipes lists all)"
            )
        name, *others = given.recipe
        if others:
            raise TfzooError(f"one recipe at a time, but also given: {' '.join(others)}")
        return str(name)

    def _names(self) -> list[str]:
        """The command's own options, without ``--``."""
        return [name[2:] for name in self._option_string_actions if name.startswith("--")]

    def options(self) -> list[str]:
        """What can begin an option: ``--run``, ``--model.``."""
        return [
            *(f"--{name}" for name in sorted(self._names())),
            *(f"--{name}." for name in self.sections),
        ]

    def offer(self, words: Mapping[str, Sequence[str] | None]) -> None:
        """Say what can stand for arguments that the help calls by these names."""
        for action in self._actions:
            action.choices = words.get(str(action.metavar)) or action.choices

    def first_word(self) -> str:
        """What the help calls the first word that is no option; "" if there is none."""
        return next((str(a.metavar) for a in self._actions if not a.option_strings), "")

    def error(self, message: str) -> NoReturn:
        suggestion = ""
        if message.startswith("unrecognized arguments: "):
            word = message.removeprefix("unrecognized arguments: ").split()[0]
            is_option = word.startswith("-")
            message = f"no option {word!r}." if is_option else f"one word too many: {word!r}."
            options = [f"--{name}" for name in self._names()]
            suggestion = did_you_mean(word.partition("=")[0], options)
        elif message.startswith("the following arguments are required: "):
            missing = message.rpartition(": ")[2]
            usage = self.format_usage().removeprefix("usage: ").replace("[-h] ", "")
            abouts = [help_of(one) for one in self._actions if one.metavar == missing]
            about = "".join(f". {missing}: {about}" for about in abouts)
            message = f"{missing} is missing: {' '.join(usage.split())}{about}"
        raise TfzooError(f"{message}{suggestion} ({self.prog} --help)")

    def print_help(self, file: object = None) -> None:
        """Print the help."""
        print_result(self.format_help().rstrip())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpPrinted


def help_of(action: argparse.Action) -> str:
    """What the help says of an argument."""
    return (action.help or "") % vars(action)


class HelpPrinted(Exception):
    """``--help`` was given, and the help was printed: the command ends."""
