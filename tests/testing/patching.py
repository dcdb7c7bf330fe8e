"""Run changed source in a process that has loaded tfzoo already.

A change inside a function replaces the code of that function, wherever it is referred to. A change
outside (a default, a decorator, a constant) makes the process import tfzoo again.
"""

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tfzoo"


REMEMBERED: list[Any] = []


def remember() -> None:
    """Look for tfzoo's functions and caches now, and not again in forks of this process: a look at
    an object copies its memory into the fork.
    """
    gc.unfreeze()  # base/loading.py hides what is imported from the search for garbage
    REMEMBERED[:] = [
        one
        for one in gc.get_objects()
        if isinstance(one, _lru_cache_wrapper)
        or (isinstance(one, FunctionType) and one.__code__.co_filename.startswith(str(SOURCE)))
    ]


def apply(file: str, source: str | ast.Module) -> None:
    """Make this process run ``source`` in place of a file under ``src/tfzoo``."""
    if module_name(file) in sys.modules:
        if replace(file, source):
            return
        for loaded in [one for one in sys.modules if one.partition(".")[0] in ("tfzoo", "tests")]:
            del sys.modules[loaded]
    substitute(file, source)


def replace(file: str, source: str | ast.Module) -> bool:
    """Give the functions of a loaded file the code that they have in ``source``. False, and nothing
    is done, where something outside of functions has changed.
    """
    path = SOURCE / file
    old = compile(path.read_text("utf-8"), str(path), "exec")
    new = compile(source, str(path), "exec")
    olds, news = list(_codes(old)), list(_codes(new))
    if [one.co_qualname for one in olds] != [one.co_qualname for one in news]:
        return False
    changed = {}
    for one, other in zip(olds, news, strict=True):
        if one.co_flags & 2:  # a function has fast locals, a class body or a module has not
            if one.co_freevars != other.co_freevars:
                return False
            changed |= {one: other} if _deep(one) != _deep(other) else {}
        elif _itself(one) != _itself(other):
            return False
    known = REMEMBERED or gc.get_objects()
    functions = [
        one
        for one in known
        if isinstance(one, FunctionType) and one.__code__.co_filename == str(path)
    ]
    found = {function.__code__ for function in functions}
    if not all(one in found for one in changed if "<locals>" not in one.co_qualname):
        return False
    for function in functions:  # those that others have made, such as a decorator's, too
        function.__code__ = changed.get(function.__code__, function.__code__)
    for one in known:  # what the old code returned is forgotten
        if isinstance(one, _lru_cache_wrapper) and one.__wrapped__ in functions:
            one.cache_clear()
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a file, and of all functions and classes in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _itself(code: CodeType) -> tuple[Any, ...]:
    consts = tuple(repr(one) for one in code.co_consts if not isinstance(one, CodeType))
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars


def _deep(code: CodeType) -> list[tuple[Any, ...]]:
    return [_itself(one) for one in _codes(code)]


def substitute(file: str, source: str | ast.Module) -> None:
    """Make the next import of a file run ``source``."""
    path = SOURCE / file
    code = compile(source, str(path), "exec")
    sys.meta_path.insert(0, _Finder(module_name(file), path, code))


def module_name(file: str) -> str:
    return "tfzoo." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module with other source than its file has."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        if fullname != self.name:
            return None
        loader = _Loader(fullname, str(self.path), self.code)
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.changed = code

    def get_code(self, fullname: str) -> CodeType:
        return self.changed
