"""A fingerprint of the code of a class: what the code made before an edit is not taken for what it
makes now.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from types import CodeType, FunctionType, ModuleType
from typing import Any


def code_fingerprint(cls: type) -> str:
    """A hash of all code that ``cls`` can run: its methods and attributes, those that it inherits,
    and the functions, classes and constants of plain types that these use, as far as they lie in
    its own package or in tfzoo. Of other packages the version counts.

    It is computed from bytecode, so that comments and line numbers do not change it, and classes
    that are defined in a notebook have one too. It differs between versions of Python.
    """
    return Fingerprint({cls.__module__.partition(".")[0], "tfzoo"}).of(cls)


class Fingerprint:
    """Walks over code and what it refers to, each object once. ``packages`` are walked into."""

    def __init__(self, packages: set[str]) -> None:
        self.packages = packages
        self.seen: set[int] = set()
        self.parts: list[str] = []

    def of(self, thing: Any) -> str:
        """The hash of an object and of all that it refers to."""
        self.walk(thing)
        return blake2b("\0".join(self.parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def walk(self, thing: Any) -> None:
        """Add one object, and then what it refers to."""
        thing = inspect.unwrap(thing) if callable(thing) else thing
        if isinstance(thing, str | bytes | int | float | complex | None):
            self.parts.append(repr(thing))
        elif id(thing) in self.seen:
            return
        else:
            self.seen.add(id(thing))
            self.parts.append(type(thing).__name__)
            for part in self.inside(thing):
                self.walk(part)

    def inside(self, thing: Any) -> Iterator[Any]:
        """The parts of an object that a change of what it does would change."""
        module = thing.__name__ if isinstance(thing, ModuleType) else owner(thing)
        if isinstance(thing, type | FunctionType | ModuleType):
            yield thing.__name__
            if module.partition(".")[0] not in self.packages:
                yield package_version(module)
                return
        if isinstance(thing, ModuleType):
            for name, value in vars(thing).items():
                own = owner(value) in (module, "builtins", "re")  # its own code and constants
                if own and not name.startswith("__") and not isinstance(value, ModuleType):
                    yield from (name, value)
        elif isinstance(thing, type):
            yield from thing.__bases__
            for name, value in vars(thing).items():
                if name != "entry" and (hasattr(value, "__get__") or not name.startswith("__")):
                    yield from (name, value)
        elif isinstance(thing, FunctionType):
            yield from (thing.__defaults__, thing.__kwdefaults__)
            yield from (cell.cell_contents for cell in thing.__closure__ or ())
            yield from self.code(thing.__code__, thing.__globals__)
        elif isinstance(thing, property):
            yield from (thing.fget, thing.fset)
        elif isinstance(thing, cached_property):
            yield thing.func
        elif isinstance(thing, staticmethod | classmethod):
            yield thing.__func__
        elif isinstance(thing, re.Pattern):
            yield from (thing.pattern, thing.flags)
        elif isinstance(thing, set | frozenset):
            yield from sorted(map(repr, thing))
        elif isinstance(thing, Mapping):
            yield from (part for item in thing.items() for part in item)
        elif isinstance(thing, list | tuple):
            yield from thing
        elif module.partition(".")[0] in self.packages:
            yield type(thing)

    def code(self, code: CodeType, names: Mapping[str, Any]) -> Iterator[Any]:
        """The instructions of a function, its constants, and the globals that it names."""
        yield code.co_code
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self.code(constant, names)
            else:
                yield constant
        yield from (names[name] for name in code.co_names if name in names)
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME":
                module = str(instruction.argval)
                known = module.partition(".")[0] in self.packages and sys.modules.get(module)
                yield known or package_version(module)


def owner(thing: Any) -> str:
    """The name of the module that a function or class was defined in; of another object, the module
    of its class.
    """
    named = isinstance(thing, type | FunctionType)
    return str(getattr(inspect.unwrap(thing) if named else type(thing), "__module__", None) or "")


def package_version(module: str) -> str:
    """The installed version of a module's package; empty for the standard library."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return ""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return str(getattr(sys.modules.get(package), "__version__", ""))
