"""The registry: components by kind and name.

A component is one file in the folder of its kind, of the component's name: names are known without
an import, and the file is imported when the component is asked for. A kind of short components is
one file. The class is decorated with :func:`register`. Of its constructor, arguments before the
star are supplied by the model, and keywords after it are options that a recipe may set.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tfzoo.base.kinds import KINDS
from tfzoo.base.terminal import notify
from tfzoo.base.values import (
    VARIADIC,
    check_range,
    convert,
    is_plain,
    parameters,
    type_name,
)
from tfzoo.errors import BadComponent, BadOption, UnknownName, did_you_mean, listing

Spec = str | Mapping[str, Any]
"""How YAML and Python name a component: ``"rms"``, or ``{"name": "rms", "eps": 1e-6}``."""

C = TypeVar("C", bound=type)

PACKAGES = Path(__file__).parents[2]


@dataclass(frozen=True)
class Entry:
    """A registered component: class, paper, traits, supplied arguments and options. Its ``str`` is
    a description.
    """

    kind: str
    name: str
    cls: type
    paper: str
    traits: frozenset[str]
    supplied: tuple[str, ...]
    options: Mapping[str, Parameter] = field(repr=False)

    @property
    def text(self) -> str:
        """The docstring for a terminal."""
        return plain_text(inspect.getdoc(self.cls))

    @property
    def summary(self) -> str:
        """The docstring's first paragraph, which has the formula, in one line."""
        return " ".join(self.text.partition("\n\n")[0].split())

    def __str__(self) -> str:
        lines = [f"{self.kind} {self.name}  ({class_path(self.cls)})", ""]
        lines += [self.text, "", f"Paper:    {self.paper or '-'}"]
        lines += [f"Supplied: {', '.join(self.supplied) or 'nothing'}"]
        lines += ["Traits:" + ("" if self.traits else "   none")]
        lines += [f"  {trait}: {KINDS[self.kind].traits[trait]}" for trait in sorted(self.traits)]
        lines += ["Options:" + ("" if self.options else "  none")]
        lines += [
            f"  {name}: {type_name(option.annotation)} = {option.default!r}"
            for name, option in self.options.items()
        ]
        return "\n".join(lines)


class Registry:
    """The components of one kind: own files, entry points of other packages, decorated classes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.registered: dict[str, Entry] = {}

    def names(self) -> list[str]:
        """All names, sorted, without importing a component."""
        return sorted({*self._files(), *self._points(), *self.registered})

    def own_names(self) -> list[str]:
        """Those of tfzoo itself, sorted."""
        return sorted(self._files())

    def entry(self, name: str) -> Entry:
        """The component of that name, imported if it is not yet; raises UnknownName."""
        if name not in self.registered:
            if name in self._files():
                import_module(self._module(name))
            elif name in self._points():
                cls = self._load(self._points()[name])
                if name not in self.registered:
                    self.add(cls, name)
        if name not in self.registered:
            raise UnknownName(self.kind, name, self.names(), f"tfzoo list {self.kind}")
        return self.registered[name]

    def add(self, cls: type, name: str, paper: str = "", traits: Iterable[str] = ()) -> None:
        """Register a class; a BadComponent where the name is taken, or it breaks a rule."""
        where = f"{self.kind} {name!r} ({class_path(cls)})"
        own = cls.__module__ == self._module(name)
        taken = self.registered.get(name)
        # A cell of a notebook that runs again defines the same class again.
        if taken is not None and class_path(taken.cls) != class_path(cls):
            raise BadComponent(
                f"{where}: the name is taken by {class_path(taken.cls)}. Choose another: a name "
                "means one component everywhere"
            )
        if name in self._files() and not own:
            raise BadComponent(f"{where}: the name is taken by one of tfzoo's own. Choose another")
        base = KINDS[self.kind].base
        if base and base not in map(class_path, cls.__mro__):
            raise BadComponent(f"{where}: it must be a subclass of {base}")
        unknown = set(traits) - KINDS[self.kind].traits.keys()
        if unknown:
            known = listing(KINDS[self.kind].traits)
            raise BadComponent(f"{where}: unknown trait {listing(unknown)}. Known: {known}")
        settings = KINDS[self.kind].settings
        supplied, options = ((), {}) if settings else self._constructor(cls, where)
        entry = Entry(self.kind, name, cls, paper, frozenset(traits), supplied, options)
        self.registered[name] = entry
        cls.entry = entry  # type: ignore[attr-defined]  # contracts.Component declares it

    def options(self, spec: Spec) -> tuple[Entry, dict[str, Any]]:
        """The component that a spec names and its options, checked and converted."""
        given: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
        name = given.pop("name", None)
        if not isinstance(name, str):
            hint = f". For no {self.kind}: 'none'" if "none" in self.names() else ""
            if given and name is None:
                hint = ": the name is missing"
            if isinstance(spec, type) or hasattr(spec, "forward"):
                hint = f": a class is named, by @tfzoo.register({self.kind!r}, NAME)"
            raise BadOption(
                f"{self.kind} wants a name or {{name: {self.names()[0]}, ...}}, not {spec!r}{hint}"
            )
        entry = self.entry(name)
        for key, value in given.items():
            if key not in entry.options:
                known = (
                    f"Options: {listing(entry.options)}" if entry.options else "It has no options"
                )
                raise BadOption(
                    f"{self.kind} {name!r} has no option {key!r}."
                    f"{did_you_mean(key, entry.options)} {known}"
                )
            try:
                given[key] = convert(value, entry.options[key].annotation)
            except ValueError as error:
                raise BadOption(f"{self.kind} {name!r}: {key} {error}") from None
        return entry, given

    def declared(self, attribute: str) -> dict[str, str]:
        """The text that each class of the kind declares as a class attribute, or as its ``summary``
        or ``paper``, by the component's name, where there is one. It is read from the source, as
        importing tasks takes seconds.
        """
        files = {name: str(path) for name, path in self._files().items()}
        for name, point in self._points().items():
            with suppress(ImportError, ValueError):
                spec = find_spec(point.module)
                files[name] = (spec and spec.origin) or ""
        found = {name: _declarations(file, name) for name, file in sorted(files.items())}
        return {name: texts[attribute] for name, texts in found.items() if attribute in texts}

    def declaring(self, attribute: str, text: str) -> list[str]:
        """The components whose class declares this text, as :meth:`declared` reads it."""
        return [name for name, one in self.declared(attribute).items() if one == text]

    @cache  # noqa: B019  # one registry a kind, for as long as the process lives
    def _files(self) -> Mapping[str, Path]:
        place = PACKAGES.joinpath(*KINDS[self.kind].package.split("."))
        if place.is_dir():
            return {path.stem: path for path in place.glob("[!_]*.py")}
        file = place.with_suffix(".py")
        registered = rf'^@register\("{self.kind}", "(\w+)"'
        return dict.fromkeys(re.findall(registered, file.read_text("utf-8"), re.MULTILINE), file)

    def _module(self, name: str) -> str:
        """Where one of tfzoo's own is."""
        package, file = KINDS[self.kind].package, self._files().get(name)
        return package if file and file.stem != name else f"{package}.{name}"

    @cache  # noqa: B019
    def _points(self) -> Mapping[str, EntryPoint]:
        points = {point.name: point for point in entry_points(group=f"tfzoo.{self.kind}")}
        for name in sorted(points.keys() & self._files()):
            notify(
                f"{self.kind} {name!r}: {points.pop(name).value} is left out, as it takes a name "
                "of tfzoo's own; its package must choose another"
            )
        return points

    def _load(self, point: EntryPoint) -> type:
        """The class that another package's entry point names."""
        try:
            found = point.load()
        except Exception as error:  # whatever that package does when it is imported
            raise BadComponent(
                f"{self.kind} {point.name!r}: cannot import {point.value} "
                f"({type(error).__name__}: {error})"
            ) from error
        if not isinstance(found, type):
            raise BadComponent(f"{self.kind} {point.name!r}: {point.value} is no class")
        return found

    def _constructor(self, cls: type, where: str) -> tuple[tuple[str, ...], dict[str, Parameter]]:
        owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if owner is object or owner.__module__.partition(".")[0] == "torch":
            return (), {}  # nothing is supplied, nothing can be set
        supplied, options = [], {}
        for parameter in parameters(vars(owner)["__init__"])[1:]:
            name = parameter.name
            if parameter.kind in VARIADIC:
                raise BadComponent(
                    f"{where}: no *{name} in a constructor: "
                    "a misspelt option would be dropped silently"
                )
            if parameter.kind is not parameter.KEYWORD_ONLY:
                if name not in KINDS[self.kind].supplied:
                    raise BadComponent(
                        f"{where}: {name!r} stands before the star, but a model supplies only "
                        f"{listing(KINDS[self.kind].supplied)}. Options stand after it: "
                        f"def __init__(self, ..., *, {name}: ... = ...)"
                    )
                supplied.append(name)
            elif parameter.default is parameter.empty or not is_plain(parameter.annotation):
                raise BadComponent(
                    f"{where}: option {name!r} needs a default and a plain type "
                    "(bool, int, float, str, Literal, None)"
                )
            else:
                options[name] = parameter
        return tuple(supplied), options


@cache
def _declarations(file: str, name: str) -> Mapping[str, str]:
    """What the class that a file registers under a name says, as :meth:`Registry.declared`."""
    try:
        tree = ast.parse(Path(file).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, str] = {}
    for node in [one for one in tree.body if isinstance(one, ast.ClassDef)]:
        for call in [one for one in node.decorator_list if isinstance(one, ast.Call)]:
            if [ast.literal_eval(one) for one in call.args[1:]] == [name]:
                doc = plain_text(ast.get_docstring(node))
                found["summary"] = " ".join(doc.partition("\n\n")[0].split())
                found |= {
                    str(one.arg): ast.literal_eval(one.value)
                    for one in call.keywords
                    if one.arg == "paper"
                }
        found |= {
            ast.unparse(one.targets[0]): one.value.value
            for one in node.body
            if isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Constant)
            and isinstance(one.value.value, str)
        }
    return found


def plain_text(doc: str | None) -> str:
    """A docstring for a terminal."""
    text = (doc or "").strip().replace("``", "`")
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)


def class_path(cls: type) -> str:
    """Where a class is defined, and its name there: ``package.module.Class``."""
    return f"{cls.__module__}.{cls.__qualname__}"


REGISTRIES = {kind: Registry(kind) for kind in KINDS}


def task_for(label: str) -> str:
    """``task: regression``: what reads labels of a kind, which tasks declare as ``label``."""
    names = registry("task").declaring("label", label)
    return f"task: {' or '.join(names) or 'one of your own'}"


def registry(kind: str) -> Registry:
    """The registry of a kind; raises UnknownName where there is none."""
    if kind not in REGISTRIES:
        raise UnknownName("kind of component", kind, KINDS)
    return REGISTRIES[kind]


def register(
    kind: str, name: str, *, paper: str = "", traits: Iterable[str] = ()
) -> Callable[[C], C]:
    """Class decorator that registers a component under a name, with its paper and its traits."""

    def decorate(cls: C) -> C:
        registry(kind).add(cls, name, paper, traits)
        return cls

    return decorate


SIZES = {"dim": 1, "heads": 1, "head_dim": 1, "max_length": 1}
SIZES |= {"layer": 0, "layers": 0, "decoder_layers": 0}
"""What a model supplies that is a number, and the least of it."""


def create(kind: str, spec: Spec, **supplied: Any) -> Any:
    """An instance of the component that a spec names: ``create("norm", "rms", dim=512)``. It takes
    what it needs of ``supplied``.

    Raises:
        UnknownName: no such kind or component.
        BadOption: an option that it does not have, or a value that it cannot take; or an argument
            that a model does not supply, or that is missing and has no value for a part ``alone``.
    """
    entry, options = registry(kind).options(spec)
    if gather := getattr(entry.cls, "gather", None):
        supplied = gather(supplied)
    for key in supplied.keys() - KINDS[kind].supplied:
        raise BadOption(
            f"{key!r} is nothing that a model supplies to {kind}; "
            + (
                f'as an option: create("{kind}", {{"name": "{entry.name}", "{key}": ...}})'
                if key in entry.options
                else f"{entry.name!r} takes {', '.join(entry.supplied) or 'nothing'}"
            )
        )
    supplied = {**getattr(entry.cls, "alone", {}), **supplied}
    missing = [key for key in entry.supplied if key not in supplied]
    if missing:
        call = ", ".join([f'"{kind}"', f'"{entry.name}"', *(f"{key}=..." for key in missing)])
        raise BadOption(f"{kind} {entry.name!r} also needs {', '.join(missing)}: create({call})")
    sizes = {key: supplied[key] for key in entry.supplied if key in SIZES}
    for key, size in sizes.items():
        where = f"{kind} {entry.name!r}: {key}"
        check_range(where, size, ge=SIZES[key], whole=True, optional=True)
    made = entry.cls(**{key: supplied[key] for key in entry.supplied}, **options)
    if sizes:
        made.built_for = sizes
    return made


def describe(kind: str, name: str) -> Entry:
    """Formula, paper, options and traits of a component: ``print(describe("attention",
    "additive"))``.
    """
    return registry(kind).entry(name)


def list_components() -> dict[str, list[str]]:
    """All names by kind, without importing a component."""
    return {kind: registry(kind).names() for kind in KINDS}


@dataclass(frozen=True)
class Slot:
    """Marks a parameter that takes the spec of a component: ``Annotated[Spec, Slot("norm")]``."""

    kind: str


Named = str | dict[str, Any]
AttentionSpec = Annotated[Named, Slot("attention")]
WeightingSpec = Annotated[Named, Slot("weighting")]
MixerSpec = Annotated[Named, Slot("mixer")]
ResidualSpec = Annotated[Named, Slot("residual")]
NormSpec = Annotated[Named, Slot("norm")]
PositionSpec = Annotated[Named, Slot("position")]
FeedForwardSpec = Annotated[Named, Slot("feedforward")]
PoolingSpec = Annotated[Named, Slot("pooling")]
ScheduleSpec = Annotated[Named, Slot("schedule")]
OptimizerSpec = Annotated[Named, Slot("optimizer")]
TokenizerSpec = Annotated[Named, Slot("tokenizer")]
DatasetSpec = Annotated[Named, Slot("dataset")]
