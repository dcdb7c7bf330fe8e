"""Where the text of a data module comes from."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tfzoo.base.registry import Spec, create
from tfzoo.data.remote import check_address, is_address
from tfzoo.data.rows import Split, fetched, given_rows, is_saved, saved, split_names
from tfzoo.data.stream import Files
from tfzoo.data.table import Text, TextFormat
from tfzoo.data.text import files_of, find_tests, find_texts, named_tests
from tfzoo.errors import BadOption

Columns = tuple[str, str]


class TextSource:
    """The text of all splits: a built-in data set, one of Hugging Face's library or hub, files, or
    rows that were given in Python.

    Finds the text only when :meth:`external` is called; the options are checked at once.

    Args:
        dataset: spec of a built-in data set, then :attr:`built_in`; or splits by name, such
            as a ``datasets.DatasetDict``.
        name: name of a data set on the hub.
        root: folder of the files, or one that ``save_to_disk`` wrote.
        train, val, test: rows; or paths of files, relative to ``root``; or, where a data set has
            splits with names, names of these.
        delimiter: what stands between the columns of a ``.csv``.
        header: whether the first row of every table names its columns.
        val_required: whether files without ``val`` are refused.
        stream: whether ``train`` is found by :meth:`files` instead of being read as a whole.

    Raises:
        BadOption: none of these is given, or two that exclude each other.
    """

    def __init__(
        self,
        dataset: Spec | None,
        name: str | None,
        root: str | None,
        train: Split | None,
        val: Split | None,
        test: Split | Mapping[str, Split] | None,
        delimiter: str,
        *,
        header: bool,
        val_required: bool,
        stream: bool = False,
    ) -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise BadOption(
                f"data.delimiter {delimiter!r} must be one character that is no quotation mark and "
                'no line end; a tab is "\\t" in YAML'
            )
        given: Any = dataset
        local = root is not None or (train is not None and given is None and name is None)
        sources = (given is not None) + (name is not None) + local
        if not sources:
            raise BadOption(
                "no text is given: set data.root to a folder, data.train to a file or data.name to "
                "a data set of the Hub (docs/data.md)"
            )
        if sources > 1:
            raise BadOption(
                "data takes its text from exactly one of data.dataset, data.name, data.root and "
                "data.train"
            )
        if stream:
            check_stream(train, local, val is not None or root is not None)
        if val_required and local and root is None and val is None:
            raise BadOption(
                "data.val is not given, nor data.root, a folder to find it in; "
                "data.val_fraction 0.1 holds a part of data.train out"
            )
        # the spec of a built-in data set has a name
        self.splits: Mapping[str, Any] | None = (
            given if isinstance(given, Mapping) and "name" not in given else None
        )
        built_in = given is not None and self.splits is None
        if built_in and not train is val is test is None:
            raise BadOption(
                "data.train, data.val and data.test are paths, but data.dataset has its own "
                "splits: set it to null (--data.dataset null)"
            )
        self.built_in: Any = create("dataset", given) if built_in else None
        self.name, self.val_required = name, val_required or stream
        self.stream = stream
        self.header, self.delimiter = header, delimiter
        self.root = None if root is None else Path(root).expanduser()
        self.train, self.val = train, val
        self.tests = named_tests(test)
        for split in (train, val, *(self.tests or {}).values()):
            for path in paths_of(split) or () if local else ():
                if is_address(path):
                    check_address(path)
        if root is not None and is_address(str(root)):
            raise BadOption("data.root is a folder on this machine; give addresses as data.train")

    def external(self, columns: Columns, endings: Columns) -> dict[str, Text]:
        """The splits that are not built in, without ``val`` if there is none. ``columns`` are those
        of tables and rows, ``endings`` those of pairs of files (``train.en``, ``train.de``).

        Raises:
            BadOption, BadData: a split cannot be found.
        """
        if self.splits is not None:
            return self._named(self.splits, columns, "data.dataset")
        if self.root is not None and is_saved(self.root):
            return self._named(saved(self.root), columns, str(self.root))
        if self.name is not None:
            return self._named(fetched(self.name), columns, self.name)
        return self._local(columns, endings)

    def files(self, columns: Columns, endings: Columns) -> Files:
        """The files of a training text that is read as a stream.

        Raises:
            BadOption, BadData: none can be found.
        """
        root = self.root or Path()
        if self.root is not None and is_saved(self.root):
            raise BadOption(f"data.stream reads files, and {self.root} is a folder of data sets")
        form = TextFormat(columns, endings, self.header, self.delimiter)
        return Files(root, files_of(root, paths_of(self.train) or ["train"], form), form)

    def _named(self, found: Mapping[str, Any], columns: Columns, name: str) -> dict[str, Text]:
        """The splits of a data set that is there already."""
        wanted = split_names(found, name, self.train, self.val, self.tests)
        return {
            ours: given_rows(found[theirs], columns, f"{name}[{theirs!r}]")
            for ours, theirs in wanted.items()
        }

    def _local(self, columns: Columns, endings: Columns) -> dict[str, Text]:
        """The splits from files and rows."""
        root = self.root or Path()
        form = TextFormat(columns, endings, self.header, self.delimiter)
        given = {"train": self.train, "val": self.val, **(self.tests or {})}
        if self.stream:
            del given["train"]
        if not (
            self.val is not None or self.val_required or (self.root and any(root.glob("val.*")))
        ):
            del given["val"]
        found = {}
        for name, split in given.items():
            paths = [name] if split is None else paths_of(split)
            place = f"data.{name}" if name in ("train", "val", "test") else f"data.test[{name!r}]"
            found[name] = (
                given_rows(split, columns, place)
                if paths is None
                else find_texts(root, paths, form)
            )
        if self.tests is None and self.root is not None:
            found |= find_tests(root, form)
        return found


def check_stream(train: Split | None, local: bool, has_val: bool) -> None:
    """Check what is read as a stream.

    Raises:
        BadOption: no files, or no ``val`` beside them.
    """
    if not local or (train is not None and paths_of(train) is None):
        raise BadOption(
            "data.stream reads files: paths or addresses as data.train, or in data.root. Leave it "
            "out for other text, which is prepared as a whole"
        )
    if not has_val:
        raise BadOption("data.stream: give data.val too, files that are read as a whole")


def paths_of(split: Split | None) -> list[str] | None:
    """The paths that a split is given by; None if rows are given."""
    if isinstance(split, str | PathLike):
        return [fspath(split)]
    several = isinstance(split, list | tuple) and len(split) > 0
    if several and all(isinstance(one, str | PathLike) for one in split):  # type: ignore[union-attr]
        return [fspath(one) for one in split]  # type: ignore[union-attr]
    return None
