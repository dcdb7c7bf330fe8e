"""On a system without POSIX, every module can be imported: what only POSIX has is imported where it
is used.
"""

import ast
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from pathlib import Path

from tests import forked

EXTRAS = ("triton",)  # imported by the module that is its kernels, which is imported where it is
POSIX_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "posix")
POSIX_OF_OS = (
    *("fork", "forkpty", "killpg", "setsid", "setpgid", "getpgid", "getuid", "geteuid", "uname"),
    *("sched_getaffinity", "sched_setaffinity", "waitid", "wait3", "wait4", "mkfifo", "nice"),
    *("WNOHANG", "WIFSIGNALED", "getloadavg", "posix_fallocate", "statvfs"),
)
POSIX_OF_SIGNAL = (
    *("SIGUSR1", "SIGUSR2", "SIGKILL", "SIGHUP", "SIGCHLD", "SIGSTOP", "SIGCONT", "SIGALRM"),
    *("alarm", "pthread_sigmask", "setitimer"),
)


def failed_imports():
    """Modules of tfzoo that cannot be imported as on Windows, each with its error."""
    import datasets  # noqa: F401  # other packages import what their systems have
    import lightning.pytorch  # noqa: F401
    import wandb  # noqa: F401

    for name in POSIX_MODULES:
        sys.modules[name] = None
    for module, names in ((os, POSIX_OF_OS), (signal, POSIX_OF_SIGNAL)):
        for name in names:
            vars(module).pop(name, None)
    import tfzoo

    failed = []
    for found in pkgutil.walk_packages(tfzoo.__path__, "tfzoo."):
        if found.name == "tfzoo.__main__":
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            if getattr(error, "name", None) in EXTRAS:
                continue
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            if "tfzoo" in [file for file in files if "importlib" not in file][-1]:
                failed.append(f"{found.name}: {type(error).__name__}: {error}")
    return failed


@forked.requires_fork
def test_every_module_can_be_imported_without_what_only_posix_has():
    assert forked.call(failed_imports, fresh=True) == []


def test_no_text_is_read_or_written_in_the_encoding_of_the_system():
    """Windows reads and writes text in the code page of the country where no encoding is given."""
    places = {"open": 3, "read_text": 0, "write_text": 1}  # of the encoding, if it has no name
    found = []
    for path in sorted(Path(importlib.import_module("tfzoo").__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            builtin = isinstance(node.func, ast.Name) and node.func.id == "open"
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if builtin:
                name = "open"
            elif name not in ("read_text", "write_text"):
                continue
            mode = node.args[1] if builtin and len(node.args) > 1 else None
            binary = isinstance(mode, ast.Constant) and "b" in str(mode.value)
            named = len(node.args) > places[name] or any(
                one.arg == "encoding" for one in node.keywords
            )
            if not named and not binary:
                found.append(f"{path.name}:{node.lineno}")
    assert found == []
