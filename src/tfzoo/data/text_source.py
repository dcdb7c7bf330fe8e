"""Where the text of a data module comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.data.hub import hub_texts
from tfzoo.data.prepare import Examples
from tfzoo.data.table import FORMS
from tfzoo.data.text import find_tests, find_text, named_tests
from tfzoo.errors import BadOption
from tfzoo.registry import Spec, create


class TextSource:
    """The text of all splits: a built-in data set, one of Hugging Face's hub, or local files.

    Finds the text only when :meth:`external` is called; the options are checked at once.

    Args:
        dataset: spec of a built-in data set; :attr:`made` is then the data set.
        name: name of a data set on the hub; ``train``, ``val`` and ``test`` are then its splits.
        root: folder of the files.
        train, val, test: paths of the files, relative to ``root``.
        header: whether the first row of every table names its columns.

    Raises:
        BadOption: none of these is given, or two that exclude each other.
    """

    def __init__(
        self,
        dataset: Spec | None,
        name: str | None,
        root: str | None,
        train: str | None,
        val: str | None,
        test: str | Mapping[str, str] | None,
        *,
        header: bool,
    ) -> None:
        local = root is not None or (train is not None and name is None)
        if (dataset is not None) + (name is not None) + local != 1:
            raise BadOption(
                "data takes its text from exactly one of data.dataset, data.name, data.root and "
                "data.train"
            )
        if dataset is not None and not train is val is test is None:
            raise BadOption(
                "data.train, data.val and data.test are paths; data.dataset has its own splits"
            )
        self.made: Any = None if dataset is None else create("dataset", dataset)
        self.name, self.header = name, header
        self.root = None if root is None else Path(root).expanduser()
        self.train, self.val = train, val
        self.tests = named_tests(test, tuple(FORMS))

    def external(self, columns: tuple[str, str], endings: tuple[str, str]) -> dict[str, Examples]:
        """The splits from the hub or from files, without ``val`` if there is none. ``columns`` are
        those of tables, ``endings`` those of pairs of files (``train.en``, ``train.de``).

        Raises:
            BadOption, BadData: a split cannot be found.
        """
        if self.name is not None:
            return dict(hub_texts(self.name, columns, self.train, self.val, self.tests))
        root = self.root or Path()

        def find(path: str) -> Examples:
            return find_text(root / path, *endings, columns, header=self.header)

        splits = {"train": find(self.train or "train")}
        beside = self.root is not None and any(root.glob("val.*"))
        if self.val is not None or beside:
            splits["val"] = find(self.val or "val")
        if self.tests is not None:
            return splits | {name: find(path) for name, path in self.tests.items()}
        if self.root is None:
            return splits
        return splits | find_tests(root, *endings, columns, header=self.header)
