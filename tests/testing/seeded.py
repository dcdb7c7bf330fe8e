"""Run one check in a process of its own, with one line of tfzoo changed. Imports nothing of tfzoo
itself.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import multiprocessing
import os
import re
import sys
from collections.abc import Sequence
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tfzoo"
SLOW = "compiled"


TOKEN = re.compile(r'"""(?:.|\n)*?"""|"(?:\\.|[^"\n])*"|\'(?:\\.|[^\'\n])*\'|#.*|\w+|[^\w\s]')


def tokens(source: str) -> list[re.Match[str]]:
    """Tokens of source text, without comments and without the comma before a closing bracket, which
    a formatter adds and removes.
    """
    found = [one for one in TOKEN.finditer(source) if not one[0].startswith("#")]
    return [
        one
        for one, following in zip(found, [*found[1:], None], strict=True)
        if not (one[0] == "," and following is not None and following[0] in ")]}")
    ]


def changed(source: str, fragment: str, replacement: str) -> str:
    """``source`` with ``replacement`` in place of ``fragment``, compared token by token, so that
    line breaks, indentation and comments make no difference.

    Raises:
        ValueError: the fragment does not stand in the source exactly once.
    """
    there, wanted = tokens(source), [one[0] for one in tokens(fragment)]
    n = len(wanted)
    texts = [one[0] for one in there]
    places = [i for i in range(len(there) - n + 1) if texts[i : i + n] == wanted]
    if len(places) != 1:
        raise ValueError(f"{fragment!r} stands there {len(places)} times")
    start, end = there[places[0]].start(), there[places[0] + n - 1].end()
    column = start - (source.rfind("\n", 0, start) + 1)
    block = inspect.cleandoc(replacement).replace("\n", "\n" + " " * column)
    return source[:start] + block + source[end:]


class Changed(importlib.abc.MetaPathFinder):
    """Finds one module with other source than its file has."""

    def __init__(self, file: str, source: str) -> None:
        self.path, self.source = SOURCE / file, source
        self.name = "tfzoo." + file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=Loader(fullname, str(self.path), self.source)
        )


class Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.changed = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.changed, self.path, "exec")


def passes(check: str, file: str | None = None, source: str = "") -> tuple[bool, str]:
    """Whether a check passes, with ``source`` in place of a file's; and what it said.

    A check is a pytest node (``tests/...::test_...``), a promise of a component (``norm rms
    the_state_dict_holds_all``, or ``norm rms *`` for all of them that are fast, and the example in
    its docstring), or of a stack or a classifier (``stack encoder-...-pre the_source_is_read``).
    """
    if file is None:
        return _unchanged(check)
    return _elsewhere(check, file, source)


@cache
def _unchanged(check: str) -> tuple[bool, str]:
    return _elsewhere(check, None, "")


def _elsewhere(check: str, file: str | None, source: str) -> tuple[bool, str]:
    context = multiprocessing.get_context(
        "forkserver"
    )  # one that has loaded what takes long, from which the others are forked
    context.set_forkserver_preload(["torch._inductor", "lightning.pytorch", "pytest"])
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(check, file, source, there))
    process.start()
    there.close()
    try:
        passed, said = here.recv()
    except EOFError:
        raise RuntimeError(f"{check}: the process died") from None
    process.join()
    if passed is None:
        raise RuntimeError(f"{check}: {said}")
    return passed, said


def _run(check: str, file: str | None, source: str, there: Connection) -> None:
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    if file is not None:
        sys.meta_path.insert(0, Changed(file, source))
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        try:
            there.send(_check(check))
        except Exception as error:  # a change that breaks an import is no bug that a test caught
            there.send((None, f"{type(error).__name__}: {error}"))


def _check(check: str) -> tuple[bool | None, str]:
    import torch

    torch.set_num_threads(1)
    if "::" in check:
        import pytest

        code = pytest.main([check, "-q", "-p", "no:xdist", "-p", "no:cacheprovider"])
        return (None if code not in (0, 1) else code == 0), f"pytest ended with {code!r}"
    where, name, promise = check.split()
    problems = {"stack": _of_stack, "classifier": _of_classifier}.get(
        where, partial(_of_component, where)
    )(name, promise)
    return not problems, "; ".join(problems)


def _of_stack(name: str, promise: str) -> list[str]:
    import torch

    from tfzoo.testing.stacks import broken, build_allowing, combinations

    (stack,) = [stack for stack in combinations() if str(stack) == name]
    torch.manual_seed(0)
    rules, subject = build_allowing(stack)
    found = {} if subject is None else broken(subject, rules)
    return [found[key] for key in found if key == promise.replace("_", " ")]


def _of_classifier(name: str, promise: str) -> list[str]:
    import torch

    from tfzoo.testing.classifier_promises import CLASSIFIER_PROMISES
    from tfzoo.testing.classifiers import choices
    from tfzoo.testing.stacks import broken, build_allowing

    (choice,) = [choice for choice in choices() if str(choice) == name]
    torch.manual_seed(0)
    rules, subject = build_allowing(choice)
    found = {} if subject is None else broken(subject, rules, CLASSIFIER_PROMISES)
    return [found[key] for key in found if key == promise.replace("_", " ")]


def _of_component(kind: str, name: str, promise: str) -> list[str]:
    import doctest

    from tfzoo.registry import registry
    from tfzoo.testing.contract import promises
    from tfzoo.testing.promise import outcome

    entry = registry(kind).entry(name)
    asked = [
        one
        for one in promises(kind)
        if promise == one.__name__ or (promise == "*" and not one.__name__.startswith(SLOW))
    ]
    if not asked:
        raise ValueError(f"no promise named {promise}")
    for one in asked:
        result = outcome(one, entry)
        if not result.ok:
            return [f"{result.name}: {result.message}"]
    example = promise == "*" and doctest.testmod(sys.modules[entry.cls.__module__]).failed
    return ["the example in its docstring"] if example else []
