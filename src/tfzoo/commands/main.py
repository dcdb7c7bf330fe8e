"""The command line: which command, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from tfzoo.errors import TfzooError, UnknownName
from tfzoo.terminal import print_error, print_result

COMMANDS = {
    "list": "components of a kind, a line each",
    "show": "everything known about one component",
    "check": "run a component's contract tests",
    "recipes": "packaged recipes: list, print, copy to edit",
    "fit": "train what a recipe describes",
    "validate": "score a trained run on its validation text",
    "test": "score a trained run on its test sets",
    "predict": "write a trained run's predictions for its test sets",
    "translate": "text in, translations out, one line per line",
    "classify": "text in, labels and probabilities out, one line per line",
    "sweep": "run and report an ablation: swap parts, learn which mattered",
    "report": "what a sweep showed: page, text, table of all runs",
    "export": "make one file of a trained run, to use and to hand on",
    "cache": "where prepared data lies, how large it is, clear it",
}


def usage() -> str:
    """What ``tfzoo --help`` prints."""
    lines = [
        "usage: tfzoo COMMAND ...",
        "",
        "Compose, train and compare Transformers of any parts.",
        "",
    ]
    lines += [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    lines += ["", "tfzoo COMMAND --help says more. To begin: tfzoo fit translation/numbers"]
    return "\n".join(lines)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 failed, 2 bad input, 75 stopped by a signal, 130
    by Ctrl-C.
    """
    words = list(sys.argv[1:] if args is None else args)
    try:
        code = command(words)
        sys.stdout.flush()
        return code
    except TfzooError as error:
        print_error(error)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has enough
        _close_stdout()
        return 0


def command(words: list[str]) -> int:
    """Run the command that the first word names."""
    if not words or words[0] in ("--help", "-h", "help"):
        print_result(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print_result(f"tfzoo {_version()}")
        return 0
    if words[0] not in COMMANDS:
        raise UnknownName("command", words[0], COMMANDS, "tfzoo --help")
    run = import_module(f"tfzoo.commands.{words[0]}").run
    return int(run(["--help" if word == "-h" else word for word in words[1:]]))


def run() -> None:
    """The console script."""
    sys.exit(main())


def _version() -> str:
    try:
        return version("tfzoo")
    except PackageNotFoundError:
        import tfzoo

        return str(getattr(tfzoo, "__version__", "unknown"))


def _close_stdout() -> None:
    """Python flushes stdout once more at its end and would complain again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
