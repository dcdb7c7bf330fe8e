"""The argument parser of commands that take no recipe options."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from tfzoo.base.terminal import columns, print_result, reflow
from tfzoo.errors import TfzooError, did_you_mean
from tfzoo.training.device import DEVICES, device_name


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` without abbreviations that raises ``TfzooError``, in one line, instead
    of printing its usage and exiting, and :class:`HelpPrinted` after ``--help``.
    """

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            f"tfzoo {command}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_run(self) -> None:
        """Add the positional argument RUN."""
        self.add_argument(
            "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
        )

    def add_device(self) -> None:
        """Add the option ``--device``."""
        self.add_argument(
            "--device",
            type=device_name,
            metavar="D",
            help=f"{DEVICES}; default: the first GPU, else the CPU",
        )

    def add_engine(self) -> None:
        """Add the option ``--engine``."""
        self.add_argument(
            "--engine",
            default="torch",
            metavar="E",
            help="what decodes translations: torch, ctranslate2 or ctranslate2-int8, which is "
            "faster and close (default: %(default)s)",
        )

    def add_overwrite(self) -> None:
        """Add the option ``--overwrite``."""
        self.add_argument(
            "--overwrite",
            action="store_true",
            help="replace what is at --output: a file, or a folder that tfzoo wrote",
        )

    def error(self, message: str) -> NoReturn:
        suggestion = ""
        if message.startswith("unrecognized arguments: "):
            word = message.removeprefix("unrecognized arguments: ").split()[0]
            is_option = word.startswith("-")
            message = f"no option {word!r}." if is_option else f"one word too many: {word!r}."
            options = [name for name in self._option_string_actions if name.startswith("--")]
            suggestion = did_you_mean(word.partition("=")[0], options)
        elif message.startswith("the following arguments are required: "):
            missing = message.rpartition(": ")[2]
            usage = self.format_usage().removeprefix("usage: ").replace("[-h] ", "")
            message = f"{missing} is missing: {' '.join(usage.split())}"
        raise TfzooError(f"{message}{suggestion} ({self.prog} --help)")

    def print_help(self, file: object = None) -> None:
        """Print the help, in lines that fit into the terminal."""
        text = self.format_help().rstrip()
        print_result(text if columns(sys.stdout) is None else reflow(text))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpPrinted


class HelpPrinted(Exception):
    """``--help`` was given, and the help was printed: the command ends."""
