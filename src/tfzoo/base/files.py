"""Files that are read whole, whoever wrote them; and files and folders that get their name when
they are complete: until then they stand beside it, under a temporary one that nothing else has.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun, TfzooError

TEMPORARY = "*.[0-9]*-[0-9]*.tmp"
"""The names of :func:`temporary_name`, as a pattern."""
NUMBERS = count(1)


def check_regular(path: Path) -> None:
    """Raise BadRun where a file is missing, or is a device or pipe, which might never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        raise BadRun(f"{path} is no file, but a folder, pipe or device. It was not read")


def text_of(path: Path) -> str:
    """The text of a regular file."""
    check_regular(path)
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise BadRun(f"{path} is damaged: it is not UTF-8") from None


def json_of(path: Path) -> Any:
    """The content of a file of JSON."""
    text = text_of(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged ({type(error).__name__}) and cannot be read") from None


def object_of(path: Path) -> dict[str, Any]:
    """The object in a file of JSON; empty where there is no file, or it is damaged."""
    try:
        value = json_of(path)
    except BadRun:
        return {}
    return value if isinstance(value, dict) else {}


# Written whole ------------------------------------------------------------------------------------


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty temporary file. It becomes ``path`` once its content is on the disk, if the block
    ends without an error; otherwise ``path`` stays as it was. It has the mode of any new file, also
    if the block replaces it by a file with another.
    """
    temporary = temporary_name(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode & 0o777
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with suppress(OSError):  # some file systems cannot flush a folder
        sync(path.parent)


@contextmanager
def output(path: Path) -> Iterator[Path]:
    """A temporary file that becomes the one that a user names, whose folder is made; of a link,
    what it leads to.

    Raises:
        TfzooError: it cannot be written.
    """
    place = path.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as temporary:
            yield temporary
    except OSError as error:
        raise TfzooError(f"cannot write {path}: {error.strerror or error}") from None


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def temporary_name(path: Path) -> Path:
    """A name beside ``path`` that nothing else has."""
    return path.with_name(f"{path.name}.{os.getpid()}-{next(NUMBERS)}.tmp")


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk. Windows opens no folder."""
    if os.name == "nt" and path.is_dir():
        return
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder, which becomes ``folder`` if the block ends without an error. Its files
    get the mode of any new file, and their names once they are on the disk.
    """
    check_new(folder)
    place = folder.resolve()
    temporary = temporary_name(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        mode = temporary.stat().st_mode & 0o666
        for path in temporary.iterdir():
            path.chmod(mode)
            sync(path)
        sync(temporary)
        if place.is_dir():  # a shell may stand in it
            for path in temporary.iterdir():
                path.replace(place / path.name)
        else:
            temporary.replace(place)
    except OSError as error:
        raise TfzooError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_new(folder: Path) -> None:
    """Raise TfzooError where something else than an empty folder is at the path of a new one."""
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise TfzooError(f"{folder} exists: remove it, or write elsewhere")
