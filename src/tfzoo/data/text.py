"""Files of lines, one or two parallel ones, and finding the files or the table of a split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from glob import glob
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tfzoo.data.lines import find_file, missing, read_lines
from tfzoo.data.pairs import Pair
from tfzoo.data.remote import addresses, file_name, is_address, local_copy
from tfzoo.data.table import FORMS, Row, Text, TextFormat, Words, ending_of, table
from tfzoo.errors import BadData, BadOption


def lines_of(path: Path) -> Iterator[Row]:
    """The lines of a file, as a table of one column has them: each as both cells of a row."""
    for number, line in enumerate(read_lines(path), 1):
        yield f"{path}, line {number:,}", line, line


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
    first, named = form.endings[0], find_file(path)
    if is_table(path.name) or (isinstance(first, Words) and named is not None):
        if named is None:
            raise missing(path.parent, [path.name])
        return table(named, form)
    if form.single and (file := find_file(path, path.parent / f"{path.name}.{first}")):
        return Text(str(file), partial(lines_of, file), (file,))
    names = [f"{path.name}.{ending}" for ending in dict.fromkeys(form.endings)]
    if isinstance(first, Pair):
        names = []
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
    first, found = form.endings[0], list[str]()
    pairs = not (form.single or isinstance(first, Words))
    for path in paths:
        names = addresses(path) if is_address(path) else matching(root, path)
        if "*" in path and pairs:
            ending = f".{first}"
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
    if is_table(path) or form.single or isinstance(form.endings[0], Words):
        file = local_copy(path, quiet)
        lines = form.single and not is_table(path)
        return Text(str(file), partial(lines_of, file), (file,)) if lines else table(file, form)
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
