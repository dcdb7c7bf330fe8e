"""On a system without POSIX every module can be imported."""

import importlib
import os
import pkgutil
import signal
import sys
import traceback

from tests import forked

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
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            if "tfzoo" in [file for file in files if "importlib" not in file][-1]:
                failed.append(f"{found.name}: {type(error).__name__}: {error}")
    return failed


@forked.requires_fork
def test_every_module_can_be_imported_without_what_only_posix_has():
    assert forked.call(failed_imports, fresh=True) == []
