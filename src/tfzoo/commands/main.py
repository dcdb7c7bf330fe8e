"""The command line ``tfzoo``: run a command and turn errors into messages and exit codes."""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module

from tfzoo import __version__
from tfzoo.base.loading import quick_imports
from tfzoo.base.memory import prepare_import
from tfzoo.base.processes import INTERRUPTED, Stopped, heard
from tfzoo.base.terminal import notify, print_refusal, print_result
from tfzoo.base.values import is_text
from tfzoo.commands.argument_parser import CommandParser, HelpPrinted
from tfzoo.errors import TfzooError, UnknownName

COMMANDS = {
    "list": ("contents", "list components, one per line"),
    "show": ("contents", "describe one component"),
    "check": ("contents", "run a component's contract tests"),
    "architectures": ("contents", "list published architectures, or print one"),
    "recipes": ("contents", "list the packaged recipes, or print one"),
    "cost": ("cost", "print what a recipe's model costs, by part"),
    "fit": ("fit", "train a recipe"),
    "predict": ("predict", "apply a trained run to text, line by line"),
    "score": ("predict", "score a trained run on its test sets, or on its validation text"),
    "attention": ("pictures", "write a page that shows a trained run's attention in a text"),
    "serve": ("serve", "a page and a JSON API for a trained run, on this machine"),
    "plot": ("pictures", "draw learning curves of runs, or a position encoding"),
    "sweep": ("sweep", "train every combination of parts and report the differences"),
    "report": ("sweep", "write the report of a sweep"),
    "export": ("export", "write a trained run for other programs, or to be shared"),
    "doctor": ("machine", "print versions, devices and the cache, and how to mend what is wrong"),
    "completion": ("completion", "print a completion script for bash or zsh"),
}
"""The file of each command, in this folder, and what it does. Its function ``NAME_parser`` declares
its arguments, of which help and completion are made, and what runs it.
"""

LONG = ("fit", "predict", "score", "sweep")
"""The commands that a scheduler may end, and expects the exit code of."""

OF_A_FILE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    errno.ENAMETOOLONG,
)
"""Errors of a file that may not be written, for which there is no room, or whose name cannot be."""


def command(name: str) -> CommandParser:
    """Import a command: the parser of the words after its name.

    Raises:
        UnknownName: there is none of that name.
    """
    if name not in COMMANDS:
        raise UnknownName("command", name, COMMANDS, "tfzoo --help")
    with quick_imports():
        module = import_module(f"tfzoo.commands.{COMMANDS[name][0]}")
    parser: CommandParser = getattr(module, f"{name}_parser")()
    return parser


def usage() -> str:
    """Return the text of ``tfzoo --help``."""
    lines = [
        "usage: tfzoo COMMAND ...",
        "",
        "Compose, train and compare Transformers from any parts.",
        "",
    ]
    lines += [f"  {name:<13} {text}" for name, (_, text) in COMMANDS.items()]
    lines += ["", "tfzoo COMMAND --help says more. To begin: tfzoo fit translation/numbers"]
    return "\n".join(lines)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 success, 1 failure, 2 bad input, 75 stopped by a
    signal, 130 stopped by Ctrl-C.
    """
    words = list(sys.argv[1:] if args is None else args)
    name = words[0] if words else ""
    code = 0 if words else 2
    try:
        if wrong := [word for word in words if not is_text(word)]:
            raise TfzooError(f"{wrong[0]!r} is no text")
        if name in ("", "--help", "-h", "help"):
            print_result(usage())
        elif name == "--version":
            print_result(f"tfzoo {__version__}")
        else:
            with suppress(HelpPrinted), heard() if name in LONG else nullcontext():
                prepare_import()
                parser = command(name)
                code = parser.run(parser.parse(words[1:]))
        sys.stdout.flush()
        return code
    except TfzooError as error:
        print_refusal(error)
        return error.code
    except Stopped as stop:
        notify(f"tfzoo: {name} was stopped by a signal")
        return int(str(stop))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has closed it
        with suppress(OSError, ValueError):  # Python flushes stdout again when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in OF_A_FILE:
            raise
        print_refusal(TfzooError(f"{error.filename or 'cannot write'}: {error.strerror}"))
        return TfzooError.code if error.errno == errno.ENAMETOOLONG else 1


def run() -> None:
    """The console script."""
    sys.exit(main())
