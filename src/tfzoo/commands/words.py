"""The parser of the simple commands: no abbreviations, and a mistake is one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from tfzoo.errors import TfzooError, did_you_mean


class Words(argparse.ArgumentParser):
    """An ``ArgumentParser`` that raises instead of printing its usage."""

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        shape = argparse.RawDescriptionHelpFormatter
        super().__init__(
            f"tfzoo {command}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=shape,
        )

    def error(self, message: str) -> NoReturn:
        close = ""
        if message.startswith("unrecognized arguments: "):
            word = message.removeprefix("unrecognized arguments: ").split()[0]
            message = (
                f"no option {word!r}." if word.startswith("-") else f"one word too many: {word!r}."
            )
            close = did_you_mean(
                word.partition("=")[0],
                [name for name in self._option_string_actions if name.startswith("--")],
            )
        raise TfzooError(f"{message}{close} ({self.prog} --help)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Helped

    def read(self, args: list[str]) -> argparse.Namespace | None:
        """The parsed words, or None after ``--help`` was printed."""
        try:
            return self.parse_args(args)
        except Helped:
            return None


class Helped(Exception):
    """``--help`` was asked for and given."""
