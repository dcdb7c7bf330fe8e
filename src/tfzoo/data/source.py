"""Where the text of a data module comes from: a built-in data set; files, which are found here;
rows that are given in Python, as a list of dicts or tuples, a pandas table, a ``datasets.Dataset``
or any other sequence; or data sets of Hugging Face's library ``datasets``, from its hub, by name,
or from a folder that its ``save_to_disk`` wrote. Since version 4 it runs no code of a data set.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.base import cache
from tfzoo.base.registry import Spec, create
from tfzoo.data.pairs import Pair
from tfzoo.data.remote import addresses, check_address, file_name, is_address, local_copy
from tfzoo.data.table import (
    FORMS,
    Row,
    Text,
    TextFormat,
    ending_of,
    find_file,
    missing,
    read_lines,
    table,
)
from tfzoo.errors import BadData, BadOption, UnknownName

Columns = tuple[str, str]


class Rows(Protocol):
    """A sequence of rows: it has a length, and an index from 0 gives a row."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


if TYPE_CHECKING:
    Split = str | PathLike[str] | Sequence[str] | Rows
else:
    Split = str | list[str]
    """The text of a split. A recipe gives a path or several; Python may give the rows instead."""


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
            raise BadOption("give exactly one of data.dataset, data.name, data.root and data.train")
        rows = train is not None and paths_of(train) is None
        if stream and (rows or not local):
            raise BadOption(
                "data.stream reads files: paths or addresses as data.train, or in data.root. Leave "
                "it out for other text, which is prepared as a whole"
            )
        if stream and root is val is None:
            raise BadOption("data.stream: give data.val too, files that are read as a whole")
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
        self.name, self.val_required, self.stream = name, val_required or stream, stream
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

    def files(self, columns: Columns, endings: Columns) -> tuple[Path, list[str], TextFormat]:
        """The files of a training text that is read as a stream: the folder that they are relative
        to, their paths, and their form.

        Raises:
            BadOption, BadData: none can be found.
        """
        root = self.root or Path()
        if self.root is not None and is_saved(self.root):
            raise BadOption(f"data.stream reads files, and {self.root} is a folder of data sets")
        form = TextFormat(columns, endings, self.header, self.delimiter)
        return root, files_of(root, paths_of(self.train) or ["train"], form), form

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


def paths_of(split: Split | None) -> list[str] | None:
    """The paths that a split is given by; None if rows are given."""
    if isinstance(split, str | PathLike):
        return [fspath(split)]
    several = isinstance(split, list | tuple) and len(split) > 0
    if several and all(isinstance(one, str | PathLike) for one in split):  # type: ignore[union-attr]
        return [fspath(one) for one in split]  # type: ignore[union-attr]
    return None


def parallel(*files: Path) -> Text:
    """The pairs of lines of two files."""
    return Text(" and ".join(map(str, files)), partial(pairs_of, *files), files)


def pairs_of(source: Path, target: Path) -> Iterator[Row]:
    """The lines of two files, side by side.

    Raises:
        BadData: the files differ in length.
    """
    both = zip_longest(read_lines(source), read_lines(target))
    for number, (first, second) in enumerate(both, 1):
        if first is None or second is None:
            lines = [
                f"{file} has {sum(1 for _ in read_lines(file)):,} lines"
                for file in (source, target)
            ]
            raise BadData(f"{', '.join(lines)}; line n of one must belong to line n of the other")
        yield f"{source} and {target}, line {number:,}", first, second


def rows_of(texts: Sequence[Text]) -> Iterator[Row]:
    """The rows of several texts, one text after the other."""
    return chain.from_iterable(text.rows() for text in texts)


def find_text(path: Path, form: TextFormat) -> Text:
    """The text of a split: ``corpus/train`` means the files ``train.en`` and ``train.de``, or a
    table such as ``train.tsv`` (``.csv``, ``.jsonl``, ``.parquet``), whose path may also be given
    with its ending. Where both endings are one, it means the lines of one file: ``train.txt``, or
    ``train`` itself. Each file is taken plain or, if there is no such file, as ``.gz``.

    Raises:
        BadData: there is no such file; the message says what was looked for and what is there.
    """
    first, second = form.endings
    lines = path.parent / f"{path.name}.{first}"
    named = find_file(path, *[lines] * (first == second))
    if named and (form.single or is_table(path.name)):
        return table(named, form)
    if is_table(path.name):
        raise missing(path.parent, [path.name])
    pair = dict.fromkeys(form.endings if not isinstance(first, Pair) else ())
    names = [f"{path.name}.{ending}" for ending in pair]
    files = {name: file for name in names if (file := find_file(path.parent / name))}
    if len(files) == 2:
        return parallel(*files.values())
    tables = [file for ending in FORMS if (file := find_file(Path(f"{path}{ending}")))]
    if len(tables) > 1 and not files:
        both = " and ".join(file.name for file in tables)
        raise BadData(f"{path.parent} has {both}: keep one, or give the full path of one")
    if tables and not files:
        return table(tables[0], form)
    if path.is_dir() or named is not None:
        raise BadData(
            f"{path} is no table by its ending, {', '.join(FORMS)}. Of two files of lines, give "
            "their path without its ending; of a folder with train in it, data.root"
        )
    forms = f"{path.name}{', '.join(FORMS)}"
    lacking = [name for name in names if name not in files]
    raise missing(path.parent, lacking or [forms], forms if lacking and not files else "")


def find_texts(root: Path, paths: Sequence[str], form: TextFormat) -> Text:
    """The text of a split that is given by paths, relative to ``root``: each as for
    :func:`find_text`, an address, or a pattern such as ``part*.tsv`` or ``part*`` (for
    ``part1.en``, ``part1.de`` and so on), whose files are taken in the order of their names.

    Raises:
        BadData: there is no such file.
    """
    texts = [text_of(root, path, form) for path in files_of(root, paths, form)]
    if len(texts) == 1:
        return texts[0]
    return Text(f"{texts[0].path} and {len(texts) - 1} more", partial(rows_of, texts))


def files_of(root: Path, paths: Sequence[str], form: TextFormat) -> list[str]:
    """The paths and addresses that some stand for, patterns among them: each of a table, of a file
    of lines, or of two files without their endings.

    Raises:
        BadOption, BadData: not an address, or no file matches.
    """
    ending, found = f".{form.endings[0]}", list[str]()
    for path in paths:
        names = addresses(path) if is_address(path) else matching(root, path)
        if "*" in path and not form.single:
            names = [one for one in names if one.endswith(ending) or is_table(one)]
            names = sorted({one.removesuffix(ending) for one in names})
        if not names:
            raise BadData(f"no file matches {path if is_address(path) else root / path}")
        found += names
    return found


def name_of(path: str) -> str:
    """The name of the file at a path or an address."""
    return file_name(path) if is_address(path) else Path(path).name


def is_table(path: str) -> bool:
    """Whether a path or an address has the ending of a table."""
    return ending_of(name_of(path)) in FORMS


def text_of(root: Path, path: str, form: TextFormat, quiet: bool = False) -> Text:
    """The text of one of :func:`files_of`; at an address, its copy in the cache, which is made
    without a word if ``quiet``, and only the file that is named is looked for.

    Raises:
        BadOption, BadData: it cannot be read.
    """
    if not is_address(path):
        return find_text(root / path, form)
    if is_table(path) or form.single:
        return table(local_copy(path, quiet), form)
    return parallel(*(local_copy(f"{path}.{ending}", quiet) for ending in form.endings))


def matching(root: Path, path: str) -> list[str]:
    """The paths of files that a pattern stands for, without ``.gz``, in the order of their names. A
    path without ``*`` stands for itself.
    """
    if "*" not in path:
        return [path]
    pattern = re.sub(r"[\[?]", r"[\g<0>]", str(Path(path).expanduser()))  # * alone is special
    files = [one for gz in ("", ".gz") for one in glob(f"{pattern}{gz}", root_dir=root)]
    return sorted({one.removesuffix(".gz") for one in files if (root / one).is_file()})


def find_tests(folder: Path, form: TextFormat) -> dict[str, Text]:
    """The test sets in a folder, by name: each ``test*`` that is a pair of files or a table."""
    names = (Path(path.name.removesuffix(".gz")) for path in folder.glob("test*"))
    endings = (*FORMS, *(f".{ending}" for ending in form.endings))
    found = sorted({name.stem for name in names if name.suffix in endings})
    return {name: find_text(folder / name, form) for name in found}


def named_tests(test: Any) -> Mapping[str, Any] | None:
    """The test sets of ``data.test``, by name. A single path gets the name of its file, everything
    else that has no name is ``test``.

    Raises:
        BadOption: a name that another split has, or that cannot be part of a file name: files of
            predictions are named after test sets.
    """
    if isinstance(test, str | PathLike) and "*" not in fspath(test):
        name = name_of(fspath(test)).removesuffix(".gz")
        test = {Path(name).stem if is_table(name) else name: test}
    elif test is not None and not isinstance(test, Mapping):
        test = {"test": test}
    named: Mapping[str, Any] | None = test
    for name in named or ():
        if name in ("train", "val") or not re.fullmatch(r"\w[\w .+-]*", name):
            raise BadOption(
                f"data.test: a test set cannot be named {name!r}; give it a name: "
                "data.test: {NAME: path}, NAME of letters, digits, - _ ."
            )
    return named


def given_rows(rows: Any, columns: tuple[str, str], path: str) -> Text:
    """The pairs of text in rows that were given in Python. A row is a dict with both ``columns``,
    or a tuple of them; a column that is a pair of texts is two of these. A class that a
    ``datasets.Dataset`` stores as a number is given by its name. ``path`` is the name of the rows
    in error messages.

    Raises:
        BadOption: the rows have no length or no index, or are a dict.
        BadData: a data set lacks a column; while iterating: a row is something else, lacks a
            column, or has a cell that is not text.
    """
    kind, classes = type(rows).__name__, dict[str, Any]()
    form = TextFormat(columns)
    if is_from("pandas", "DataFrame", rows):
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    by_index = hasattr(rows, "__len__") and hasattr(rows, "__getitem__")
    if isinstance(rows, Mapping | bytes) or not by_index:
        raise BadOption(
            f"{path} is of type {kind}, which is not read several times by index; give a list: "
            f"list(rows), as in [{{{columns[0]!r}: ..., {columns[1]!r}: ...}}, ...]; several "
            "splits in one dict as dataset="
        )
    if is_from("datasets", "Dataset", rows):
        read = form.columns_of(rows.column_names, path)
        rows = rows.with_format(None).select_columns(read)
        for name, feature in rows.features.items():
            if hasattr(one := getattr(feature, "feature", feature), "int2str"):
                classes[name] = one
    return Text(path, partial(pairs_in, rows, form, classes, path))


def pairs_in(rows: Any, form: TextFormat, classes: Mapping[str, Any], path: str) -> Iterator[Row]:
    """The rows of :func:`given_rows`, with their places as Python names them."""
    names = form.names
    for number, row in zip(range(len(rows)), rows, strict=False):
        where = f"{path}[{number}]"
        if isinstance(row, tuple | list) and len(row) == len(names):
            row = dict(zip(names[::-1], row[::-1], strict=True))  # of equal names the first counts
        if isinstance(row, Mapping):
            named = {
                column: class_of(kind, row[column], f"{where}: {column!r}")
                for column, kind in classes.items()
            }
            yield form.row({**row, **named}, where)
            continue
        kind = type(row).__name__
        if isinstance(row, tuple | list):
            kind += f" of {len(row)}"
            kind += "; for pairs of texts, set data.text_column to two names" * (len(row) == 3)
        wanted = f"({', '.join(names)}) or {{{', '.join(f'{name!r}: ...' for name in names)}}}"
        raise BadData(f"{where}: a row is {wanted}, not a {kind}")


def class_of(kind: Any, value: Any, where: str) -> Any:
    """The name of a class, or those of several. ``kind`` is a ``datasets.ClassLabel``."""
    try:
        return value if value is None else kind.int2str(value)
    except ValueError:
        raise BadData(
            f"{where} is {value}, which is no class: this split has no labels; choose another"
        ) from None


def split_names(
    found: Mapping[str, Any], name: str, train: Any, val: Any, tests: Mapping[str, Any] | None
) -> dict[str, str]:
    """The names that a data set has for tfzoo's splits: train, val if there is one, and the test
    sets. Splits that are not given are looked up under their usual names.

    A split that is given as a test set is never used for ``val``: no checkpoint may be selected on
    a test set.

    Raises:
        BadOption: a split is given by something else than a name.
        UnknownName: there is no such split.
    """
    if not all(isinstance(split, str | None) for split in (train, val, *(tests or {}).values())):
        raise BadOption(f"{name} has splits; data.train, data.val and data.test name them")
    wanted: dict[str, str | None] = {
        "train": train or "train",
        "val": val or first(found, ("validation", "val", "dev"), tests or {}),
    }
    wanted |= tests if tests is not None else {"test": first(found, ("test",), wanted)}
    names = {ours: theirs for ours, theirs in wanted.items() if theirs}
    for split in names.values():
        if split not in found:
            raise UnknownName(f"split of {name}", split, found)
    return names


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` of the library ``datasets`` wrote this folder."""
    single = ("state.json", "dataset_info.json")
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in single
    )


def saved(folder: Path) -> Mapping[str, Any]:
    """The splits in a folder that ``save_to_disk`` wrote; a single data set is training's."""
    from datasets import DatasetDict, load_from_disk

    with explained(f"the data set in {folder}", "Save it again"):
        found = load_from_disk(str(folder))
    return found if isinstance(found, DatasetDict) else {"train": found}


@contextmanager
def explained(name: str, remedy: str) -> Iterator[None]:
    """Say in one line why a data set cannot be loaded, and what to do.

    Raises:
        BadData: the library ``datasets`` fails.
    """
    try:
        yield
    except Exception as error:  # of many classes, from several libraries
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(f"cannot load {name} ({why}). {remedy}") from None


def fetched(name: str) -> Mapping[str, Any]:
    """All splits of a data set; ``owner/name:config`` selects one of several configurations.

    Raises:
        BadOption: the name is a path.
        BadData: the data set cannot be downloaded.
    """
    from datasets import load_dataset

    if Path(name).expanduser().exists():
        raise BadOption(
            f"data.name {name!r} is a path; data.name is a data set of Hugging Face's hub, "
            "data.root a folder"
        )
    repository, _, config = name.partition(":")
    folder = cache.folder() / cache.SHELF / "hub"
    remedy = (
        "Check the name (owner/name, or owner/name:config) and that huggingface.co can be reached; "
        "without a network, give local files: data.root"
    )
    with explained(f"the data set {name!r}", remedy):
        found: Mapping[str, Any] = load_dataset(repository, config or None, cache_dir=str(folder))
    return found


def first(found: Mapping[str, Any], names: Sequence[str], taken: Mapping[str, Any]) -> str | None:
    """The first of these names that the data set has and that is not taken."""
    return next((name for name in names if name in found and name not in taken.values()), None)


def is_from(package: str, cls: str, value: object) -> bool:
    """Whether a value is an instance of a class of a package. Does not import the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, getattr(module, cls, ()))
