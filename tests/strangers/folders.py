"""What stands in the place of a file, and files with other contents."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

Change = Callable[[Path], None]
TOKENIZER = "tokenizer.json"


def text(content: str | bytes, name: str = TOKENIZER) -> Change:
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return lambda folder: (folder / name).write_bytes(raw) and None


def large(opening: str, repeated: str, count: int, closing: str, name: str = TOKENIZER) -> Change:
    """A file that is long, made when it is needed."""
    return lambda folder: text(opening + repeated * count + closing, name)(folder)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # such a name must be short
    made.bind(path.name)
    made.close()
    os.chdir(here)


def link(target: str) -> Change:
    return lambda path: path.symlink_to(target)


NO_FILES: dict[str, Change] = {
    "a pipe": pipe,
    "a link to endless zeros": link("/dev/zero"),
    "a link to a terminal": link("/dev/tty"),
    "a link to nothing": link("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": Path.mkdir,
    "a socket": listening,
    "empty": Path.touch,
}


def instead(name: str, make: Change, folder: Path) -> None:
    (folder / name).unlink()
    make(folder / name)
