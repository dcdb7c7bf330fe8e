"""Where the text of a data module comes from: a built-in data set; files, which are found here;
rows that are given in Python, as a list of dicts or tuples, a pandas table, a ``datasets.Dataset``
or any other sequence; or data sets of Hugging Face's library ``datasets``, from its hub, by name,
or from a folder that its ``save_to_disk`` wrote. Since version 4 it runs no code of a data set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base import cache
from tfzoo.base.registry import create
from tfzoo.data.remote import addresses, explained, file_name, is_address, local_copy
from tfzoo.data.table import FORMS, Pair, Row, Text, TextFormat, ending_of, read_lines, table
from tfzoo.errors import BadData, BadOption, UnknownName, did_you_mean, listing, within

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?(:.+)?")
"""The name of a data set of the hub, and of one of its configurations."""

if TYPE_CHECKING:
    Split = Any
else:
    Split = str | list[str]
    """The text of a split. A recipe gives a path or several; Python may give the rows instead."""


@dataclass
class TextSource:
    """Where the text of all splits is. The options are checked at once; the text is found when
    :meth:`external` is called.

    Args:
        dataset: spec of a built-in data set, then :attr:`built_in`; or splits by name, such
            as a ``datasets.DatasetDict``.
        name: name of a data set on the hub.
        root: folder of the files, or one that ``save_to_disk`` wrote.
        train, val, test: rows; or paths of files, relative to ``root``; or, where a data set has
            splits with names, names of these.
        stream: whether ``train`` is found by :meth:`files` instead of being read as a whole.

    Raises:
        BadOption: none of these is given, or two that exclude each other.
    """

    dataset: Any
    name: str | None
    root: Any
    train: Any
    val: Any
    test: Any
    stream: bool

    def __post_init__(self) -> None:
        given, name, train = self.dataset, self.name, self.train
        sources = {"data.dataset": given, "data.name": name, "data.root": self.root}
        texts = [key for key, value in sources.items() if value is not None]
        if len(texts) > 1:
            raise BadOption(f"{' and '.join(texts)}: each names a text, so set one of them alone")
        if not texts and train is None:
            raise BadOption(
                "no text is given: set data.root (a folder), data.train (a file), data.name (of "
                "the Hub) or data.dataset (docs/data.md)"
            )
        if name is not None and (
            Path(name.partition(":")[0]).exists() or not HUB_NAME.fullmatch(name)
        ):
            raise BadOption(
                f" {name!r} is a path or no name; it takes the name of a data set of the Hub, "
                "owner/name or owner/name:config. A folder is data.root, a file data.train",
                key="data.name",
            )
        self.train = "train" if train is None else train
        if self.stream and (given is not None or name is not None or paths_of(self.train) is None):
            raise BadOption(
                " reads files: paths or addresses as data.train, or in data.root. Leave "
                "it out for other text, which is prepared as a whole",
                key="data.stream",
            )
        # the spec of a built-in data set has a name
        named = isinstance(given, Mapping) and "name" not in given
        self.splits: Mapping[str, Any] | None = given if named else None
        built_in = given is not None and not named
        if built_in and not train is self.val is self.test is None:
            raise BadOption(
                ", data.val and data.test are paths, but data.dataset has its own "
                "splits: set it to null (--data.dataset null)",
                key="data.train",
            )
        self.built_in: Any = create("dataset", given) if built_in else None
        self.root = None if self.root is None else Path(self.root).expanduser()
        self.tests = named_tests(self.test)

    def external(self, form: TextFormat) -> dict[str, Text]:
        """The splits that are not built in, without ``val`` if there is none."""
        saved = self.root if self.root is not None and is_saved(self.root) else None
        source = self.name or saved
        found = self.splits if source is None else loaded(source)
        if found is None:
            return self._local(form)
        name = str(source or "data.dataset")
        wanted = split_names(found, name, self.train, self.val, self.tests)
        return {
            ours: given_rows(found[theirs], form, f"{name}[{theirs!r}]")
            for ours, theirs in wanted.items()
        }

    def files(self, form: TextFormat) -> tuple[Path, list[str], TextFormat]:
        """The files of a training text that is read as a stream: the folder that they are relative
        to, their paths, and their form.
        """
        root = self.root or Path()
        return root, files_of(root, paths_of(self.train) or [], form), form

    def _local(self, form: TextFormat) -> dict[str, Text]:
        """The splits from files and rows."""
        root = self.root or Path()
        given = {"train": self.train, "val": self.val, **(self.tests or {})}
        if self.stream:
            del given["train"]
        in_folder = self.root is not None and any([*root.glob("val.*"), *root.glob("val/")])
        if self.val is None and not in_folder:
            del given["val"]
        found = {}
        for name, split in given.items():
            paths = paths_of(name if split is None else split)
            key = f"data.{name if name in ('train', 'val') else 'test'}"
            if paths is None:
                place = key if key == f"data.{name}" else f"{key}[{name!r}]"
                found[name] = given_rows(split, form, place)
                continue
            with within(key):
                found[name] = find_texts(root, paths, form)
        if self.tests is None and self.root is not None:
            found |= find_tests(root, form)
        return found


def paths_of(split: Split) -> list[str] | None:
    """The paths that a split is given by; None if rows are given."""
    several = split if isinstance(split, list | tuple) else [split]
    are_paths = several and all(isinstance(one, str | PathLike) for one in several)
    return [fspath(one) for one in several] if are_paths else None


def parallel(*files: Path) -> Text:
    """The pairs of lines of two files."""
    return Text(" and ".join(map(str, files)), partial(pairs_of, *files), files)


def pairs_of(source: Path, target: Path) -> Iterator[Row]:
    """The lines of two files of equal length, side by side."""
    both = zip_longest(read_lines(source), read_lines(target))
    for number, (first, second) in enumerate(both, 1):
        if first is None or second is None:
            shorter, longer = (source, target) if first is None else (target, source)
            raise BadData(
                f"{shorter} has {number - 1:,} lines, and {longer} has more; line n of one must "
                "belong to line n of the other"
            )
        yield f"{source} and {target}, line {number:,}", first, second


def rows_of(texts: Sequence[Text]) -> Iterator[Row]:
    """The rows of several texts, one text after the other."""
    return chain.from_iterable(text.rows() for text in texts)


def find_text(path: Path, form: TextFormat) -> Text:
    """The text of a split: ``corpus/train`` means the files ``train.en`` and ``train.de``, or a
    table such as ``train.tsv`` (``.csv``, ``.jsonl``, ``.parquet``), whose path may also be given
    with its ending. Where both endings are one, it means the lines of one file: ``train.txt``, or
    ``train`` itself. Each file is taken plain or, if there is no such file, as ``.gz``. A folder is
    one that ``save_to_disk`` wrote, or has class folders.
    """
    if is_saved(path):
        splits = loaded(path)
        if (path / "dataset_dict.json").is_file():
            raise BadData(
                f"{path} holds the splits {listing(splits)}: give it as data.root, or one of its "
                f"folders, {path / next(iter(splits))}"
            )
        return given_rows(splits["train"], form, str(path))
    if has_classes(path, form):
        return Text(str(path), partial(labelled_files, path))
    first, second = form.endings
    lines = [] if isinstance(first, Pair) else [f".{one}" for one in dict.fromkeys((first, second))]
    forms = [[""], lines, *([ending] for ending in FORMS)]
    tried = ([find_file(Path(f"{path}{ending}")) for ending in endings] for endings in forms)
    found = [[file for file in files if file] for files in tried if files and all(files)]
    if len(found) > 1:
        names = " and ".join(file.name for files in found for file in files)
        raise BadData(f"{path.parent} has {names}: keep one, or give the full path of one")
    if not found:
        raise missing(path, lines)
    [files] = found
    if len(files) == 2:
        return parallel(*files)
    if form.single or is_table(files[0].name):
        return table(files[0], form)
    raise BadData(
        f"{path} is no table by its ending, {', '.join(FORMS)}. Of two files of lines, give their "
        "path without its ending"
    )


def has_classes(folder: Path, form: TextFormat) -> bool:
    """Whether a folder has class folders with texts, ``pos/1.txt``, which stand for a table."""
    return form.header and not form.single and any(folder.glob("*/*.txt"))


def labelled_files(folder: Path) -> Iterator[Row]:
    """The texts in class folders, each with the name of its folder."""
    for file in sorted(folder.glob("*/*.txt")):
        yield str(file), "\n".join(read_lines(file)), file.parent.name


def find_file(path: Path) -> Path | None:
    """A file, or the same with ``.gz``; None if there is neither."""
    both = path, path.with_name(f"{path.name}.gz")
    return next((one for one in both if one.is_file()), None)


def missing(path: Path, lines: Sequence[str]) -> BadData:
    """The error for a split that is not there; ``lines`` are the endings of files of lines."""
    if path.is_dir():
        return BadData(
            f"{path} is a folder: one with train in it is data.root; of its files, give a pattern, "
            f"{path / '*'}"
        )
    there, wanted = [file.name for file in path.parent.glob("*")], path.name
    if not is_table(wanted):
        pair = " and ".join(f"{wanted}{ending}" for ending in lines) or wanted
        wanted = f"{pair} (or {wanted}{', '.join(FORMS)})"
    return BadData(
        f"no {wanted} in {path.parent}, plain or .gz.{did_you_mean(path.name, there)} "
        + (f"There: {listing(there)}" if path.parent.is_dir() else "There is no such folder")
    )


def find_texts(root: Path, paths: Sequence[str], form: TextFormat) -> Text:
    """The text of a split that is given by paths, relative to ``root``: each as for
    :func:`find_text`, an address, or a pattern such as ``part*.tsv`` or ``part*`` (for
    ``part1.en``, ``part1.de`` and so on), whose files are taken in the order of their names.
    """
    texts = [text_of(root, path, form) for path in files_of(root, paths, form)]
    if len(texts) == 1:
        return texts[0]
    return Text(f"{texts[0].path} and {len(texts) - 1} more", partial(rows_of, texts))


def files_of(root: Path, paths: Sequence[str], form: TextFormat) -> list[str]:
    """The paths and addresses that some stand for, patterns among them: each of a table, of a file
    of lines, or of two files without their endings.
    """
    ending, found = f".{form.endings[0]}", list[str]()
    for path in paths:
        names = addresses(path) if is_address(path) else matching(root, path)
        if "*" in path and not form.single:
            whole = (one for one in names if one.endswith(ending) or is_table(one))
            names = sorted({one.removesuffix(ending) for one in whole})
        if not names:
            raise BadData(f"no file matches {path if is_address(path) else root / path}")
        found += names
    return found


def is_table(path: str) -> bool:
    """Whether a path or an address has the ending of a table."""
    return ending_of(file_name(path)) in FORMS


def text_of(root: Path, path: str, form: TextFormat, quiet: bool = False) -> Text:
    """The text of one of :func:`files_of`; at an address, its copy in the cache, which is made
    without a word if ``quiet``, and only the file that is named is looked for.
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
    endings = (*FORMS, *(f".{ending}" for ending in form.endings))
    names = {
        Path(path.name.removesuffix(".gz"))
        for path in folder.glob("test*")
        if path.name.removesuffix(".gz").endswith(endings) or has_classes(path, form)
    }
    found = sorted({name.stem for name in names})
    return {name: find_text(folder / name, form) for name in found}


def named_tests(test: Any) -> Mapping[str, Any] | None:
    """The test sets of ``data.test``, by name. A single path gets the name of its file, everything
    else that has no name is ``test``. Files of predictions are named after test sets.
    """
    if isinstance(test, str | PathLike) and "*" not in fspath(test):
        path = fspath(test)
        name = (file_name(path) if is_address(path) else Path(path).name).removesuffix(".gz")
        test = {Path(name).stem if is_table(name) else name: test}
    elif test is not None and not isinstance(test, Mapping):
        test = {"test": test}
    named: Mapping[str, Any] | None = test
    for name in named or ():
        if name in ("train", "val") or not re.fullmatch(r"\w[\w .+-]*", name):
            raise BadOption(
                f": a test set cannot be named {name!r}; give it a name: "
                "data.test: {NAME: path}, NAME of letters, digits, - _ .",
                key="data.test",
            )
    return named


def given_rows(rows: Any, form: TextFormat, path: str) -> Text:
    """The pairs of text in rows that were given in Python. A row is a dict with both columns, or a
    tuple of them; a column that is a pair of texts is two of these. A class that a
    ``datasets.Dataset`` stores as a number is given by its name. ``path`` is the name of the rows
    in error messages.
    """
    kind, classes = type(rows).__name__, dict[str, Any]()
    if hasattr(rows, "to_dict") and hasattr(rows, "notna"):  # a pandas table
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    by_index = hasattr(rows, "__len__") and hasattr(rows, "__getitem__")
    if isinstance(rows, Mapping | bytes) or not by_index:
        raise BadOption(
            f"{path} is of type {kind}, which is not read several times by index; give a list: "
            f"list(rows), as in [{{{form.names[0]!r}: ..., {form.names[-1]!r}: ...}}, ...]; "
            "several splits in one dict as dataset="
        )
    if hasattr(rows, "select_columns"):  # a datasets.Dataset
        rows = rows.with_format(None).select_columns(form.columns_of(rows.column_names, path))
        each = {name: getattr(one, "feature", one) for name, one in rows.features.items()}
        classes = {name: one for name, one in each.items() if hasattr(one, "int2str")}
    return Text(path, partial(pairs_in, rows, form, classes, path))


def pairs_in(rows: Any, form: TextFormat, classes: Mapping[str, Any], path: str) -> Iterator[Row]:
    """The rows of :func:`given_rows`, with their places as Python names them."""
    names = form.names
    for number, row in zip(range(len(rows)), rows, strict=False):
        where = f"{path}[{number}]"
        if isinstance(row, tuple | list) and len(row) == len(names):
            row = dict(zip(names[::-1], row[::-1], strict=True))  # of equal names the first counts
        if not isinstance(row, Mapping):
            wanted = f"({', '.join(names)}) or {{{', '.join(f'{name!r}: ...' for name in names)}}}"
            raise BadData(
                f"{where}: a row is {wanted}, not a {type(row).__name__}, {str(row)[:40]}; for "
                "pairs of texts, set data.text_column to two names"
            )
        named = {
            # a test set whose labels are not published has -1
            column: None if row[column] in (None, -1) else kind.int2str(row[column])
            for column, kind in classes.items()
        }
        yield form.row({**row, **named}, where)


def split_names(
    found: Mapping[str, Any], name: str, train: Any, val: Any, tests: Mapping[str, Any] | None
) -> dict[str, str]:
    """The names that a data set has for tfzoo's splits: train, val if there is one, and the test
    sets. Splits that are not given are looked up under their usual names.

    A split that is given as a test set is never used for ``val``: no checkpoint may be selected on
    a test set.
    """
    if not all(isinstance(split, str | None) for split in (train, val, *(tests or {}).values())):
        raise BadOption(f"{name} has splits; data.train, data.val and data.test name them")
    wanted: dict[str, str | None] = {
        "train": train,
        "val": val or first(found, ("validation", "val", "dev"), tests or {}),
    }
    wanted |= tests if tests is not None else {"test": first(found, ("test",), wanted)}
    names = {ours: theirs for ours, theirs in wanted.items() if theirs}
    for split in names.values():
        if split not in found:
            raise UnknownName(f"split of {name}", split, found)
    return names


def first(found: Mapping[str, Any], names: Sequence[str], taken: Mapping[str, Any]) -> str | None:
    """The first of these names that the data set has and that is not taken."""
    return next((name for name in names if name in found and name not in taken.values()), None)


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` of the library ``datasets`` wrote this folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


def loaded(source: str | Path) -> Mapping[str, Any]:
    """All splits of a data set of the library ``datasets``: one of the hub, whose name
    ``owner/name:config`` selects one of several configurations, or one in a folder that
    ``save_to_disk`` wrote. A single data set is training's.
    """
    from datasets import load_dataset, load_from_disk

    remedy = (
        "Check the name (owner/name, or owner/name:config) and that huggingface.co can be reached; "
        "without a network, give local files: data.root"
    )
    with explained(f"the data set {str(source)!r}", remedy):
        if isinstance(source, Path):
            found = load_from_disk(str(source))
        else:
            repository, _, config = source.partition(":")
            folder = cache.folder() / cache.SHELF / "hub"
            found = load_dataset(repository, config or None, cache_dir=str(folder))
    return found if isinstance(found, Mapping) else {"train": found}
