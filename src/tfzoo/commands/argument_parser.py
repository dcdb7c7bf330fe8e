"""The parser of every command: what it declares is what ``--help`` prints, what completion offers
and what the command line takes.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from tfzoo.base.terminal import print_result
from tfzoo.base.yaml_files import read_yaml
from tfzoo.config.recipe import Option, Source, local, next_option
from tfzoo.errors import TfzooError, did_you_mean


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` without abbreviations that raises ``TfzooError``, in one line, instead
    of printing its usage and exiting, and :class:`HelpPrinted` after ``--help``. In the name of an
    option ``_`` and ``-`` are the same.
    """

    def __init__(
        self,
        command: str,
        run: Callable[[argparse.Namespace], int],
        description: str,
        epilog: str = "",
        add_help: bool = True,
    ) -> None:
        super().__init__(
            f"tfzoo {command}",
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.command, self.run = command, run
        self.others: tuple[str, ...] = ()
        """What options begin with that it takes besides its own."""
        if add_help:
            self.add_argument("-h", "--help", action="help", help="show this help message and exit")

    def takes_recipe(self, what: str) -> None:
        """Take options that override the recipe of ``what``, the first argument."""
        self.others = ("--",)
        self.usage = f"{self.prog} {what} [--OPTION VALUE ...] [--SECTION.KEY VALUE ...]"
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

    def add_run(self) -> None:
        """Add the positional argument RUN."""
        self.add_argument(
            "run",
            metavar="RUN",
            help="a run's folder (its best checkpoint), a checkpoint, or a folder of transformers",
        )

    def add_device(self, default: str = "the first GPU, else the CPU") -> None:
        """Add the option ``--device``."""
        devices = "cpu, cuda, cuda:N or mps"
        self.add_argument("--device", metavar="D", help=f"{devices}; default: {default}")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The values of the command's own arguments; ``command``, with all words after it; and
        ``overrides``, the files and options that override a recipe.

        Raises:
            TfzooError: a word that the command does not take, or a value that is missing.
        """
        own, options, rest = list[str](), list[Option](), list(words)
        while rest:
            name, equals, value = rest[0].partition("=")
            hyphened = name.replace("_", "-")
            if hyphened in self._option_string_actions:
                own.append(f"{hyphened}{equals}{value}")
                del rest[0]
            elif name.startswith(self.others):
                options.append(next_option(rest, "--trust" in words))
                if "." not in name and (close := self.similar(hyphened)):
                    raise TfzooError(f"no option {name!r}.{close}")
            else:
                own.append(rest.pop(0))
        given = self.parse_intermixed_args(own)
        given.command = [self.command, *words]
        configs = getattr(given, "config", ())
        files = [Source(read_yaml(local(path)), path, given.trust) for path in configs]
        given.overrides = [*files, *options]
        return given

    def similar(self, option: str) -> str:
        """Which of the command's own options may have been meant."""
        names = [name[2:] for name in self._option_string_actions if name.startswith("--")]
        meant = "run" if option.startswith("--resume") else option.lstrip("-")
        return did_you_mean(meant, names, "--")

    def error(self, message: str) -> NoReturn:
        kind, _, missing = message.partition(": ")
        if kind == "unrecognized arguments":
            word = missing.split()[0]
            name, equals, value = word.partition("=")
            if word.startswith("-"):
                message = f"no option {word!r}.{self.similar(name)}"
            else:
                close = f" Did you mean --{name} {value}?" if equals else self.similar(name)
                message = f"one word too many: {word!r}.{close}"
        elif kind == "the following arguments are required":
            usage = self.format_usage().removeprefix("usage: ").replace("[-h] ", "")
            abouts = [one.help or "" for one in self._actions if one.metavar == missing]
            message = ". ".join([f"{missing} is missing: {' '.join(usage.split())}", *abouts])
        raise TfzooError(f"{message} ({self.prog} --help)")

    def offer(self, words: Mapping[str, Sequence[str]]) -> None:
        """What can stand for these arguments, by what ``--help`` calls them."""
        for action in self._actions:
            action.choices = words.get(str(action.metavar)) or action.choices

    def print_help(self, file: object = None) -> None:
        """Print the help."""
        print_result(self.format_help().rstrip())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpPrinted


class HelpPrinted(Exception):
    """``--help`` was given, and the help was printed: the command ends."""
