"""On a system without POSIX, every module can be imported: what only POSIX has is imported where it
is used.
"""

from __future__ import annotations

import subprocess
import sys

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
AS_ON_WINDOWS = f"""
import importlib, os, pkgutil, signal, sys, traceback
import lightning.pytorch, datasets, wandb  # other packages import what their systems have

for name in {POSIX_MODULES!r}:
    sys.modules[name] = None
for name in {POSIX_OF_OS!r}:
    vars(os).pop(name, None)
for name in {POSIX_OF_SIGNAL!r}:
    vars(signal).pop(name, None)
import tfzoo
failed = []
for module in pkgutil.walk_packages(tfzoo.__path__, "tfzoo."):
    if module.name == "tfzoo.__main__":
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if "tfzoo" in [file for file in files if "importlib" not in file][-1]:
            failed.append(f"{{module.name}}: {{type(error).__name__}}: {{error}}")
print("\\n".join(failed))
"""


def test_every_module_can_be_imported_without_what_only_posix_has() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == ""
