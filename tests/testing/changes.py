"""Changes of a function or a class on its syntax tree, found by name wherever it stands.

Names of local variables and the layout of the source do not matter. In what a change says, ``_``,
``_1``, ``_2`` stand for any expression, ``arg_0`` for the first argument after ``self``, and any
other name that the module does not have for any local variable.
"""

import ast
import builtins
import copy
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.testing.patching import SOURCE

Definition = ast.FunctionDef | ast.ClassDef
Bound = dict[str, ast.expr]
"""What the names in a change stand for."""
Change = Callable[[Definition, set[str]], None]
"""Changes a definition in place; the names are those that its module has. Raises ValueError unless
there is exactly one place for it.
"""


def changed(address: str, change: Change) -> tuple[str, ast.Module]:
    """The file of ``[module:]function``, ``Class`` or ``Class.method``, and its changed tree."""
    file, tree, definition = find(address)
    change(definition, names_of(tree))
    return file, ast.fix_missing_locations(tree)


def find(address: str) -> tuple[str, ast.Module, Definition]:
    module, _, name = address.rpartition(":")
    found = []
    for path in places().get(name.partition(".")[0], ()):
        file = path.relative_to(SOURCE).as_posix()
        if not module or file == module.replace(".", "/") + ".py":
            tree = ast.parse(path.read_text("utf-8"))
            found += [(file, tree, node) for own, node in definitions(tree) if own == name]
    if len(found) != 1:
        raise ValueError(f"{address} stands in {[file for file, *_ in found] or 'no file'}")
    return found[0]


@cache
def places() -> dict[str, list[Path]]:
    """The files that define a function or a class of each name."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for name in re.findall(r"^(?:def|class) (\w+)", path.read_text("utf-8"), re.MULTILINE):
            found.setdefault(name, []).append(path)
    return found


def definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Functions, classes and methods with their names."""
    for node in tree.body:
        if isinstance(node, Definition):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def names_of(tree: ast.Module) -> set[str]:
    """Names that a module has: of what it imports and defines, and of Python itself."""
    found = {*dir(builtins), "self"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    for node in tree.body:
        if isinstance(node, Definition):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {ast.unparse(target) for target in targets}
    return found


# what can be changed


def returns(result: str) -> Change:
    """All that a function does is return this."""

    def change(definition: Definition, known: set[str]) -> None:
        definition.body = filled(ast.parse(f"return {result}").body, arguments(definition), known)

    return change


def replace(old: str, new: str) -> Change:
    """An expression, or some statements one after another, in place of others."""
    pattern, wanted = ast.parse(old).body, ast.parse(new).body

    def change(definition: Definition, known: set[str]) -> None:
        def new(node: Any) -> Any:
            if isinstance(pattern[0], ast.Expr) and isinstance(wanted[0], ast.Expr):
                bound = arguments(definition)
                found = matches(pattern[0].value, node, bound, known)
                return filled([wanted[0].value], bound, known)[0] if found else None
            for field in ("body", "orelse"):
                body: Any = getattr(node, field, None)
                for i in range(len(body)) if isinstance(body, list) else ():
                    bound, end = arguments(definition), i + len(pattern)
                    if matches(pattern, body[i:end], bound, known):
                        body = [*body[:i], *filled(wanted, bound, known), *body[end:]]
                        return with_fields(node, **{field: body})
            return None

        once(definition, new)

    return change


def always(asked: str = "_") -> Change:
    """What ``if`` asks is always the case."""
    return _answered(True, asked)


def never(asked: str = "_") -> Change:
    """What ``if`` asks is never the case."""
    return _answered(False, asked)


def _answered(answer: bool, asked: str) -> Change:
    pattern = ast.parse(asked, mode="eval").body

    def change(definition: Definition, known: set[str]) -> None:
        def new(node: Any) -> Any:
            if not isinstance(node, ast.If | ast.IfExp):
                return None
            if not matches(pattern, node.test, arguments(definition), known):
                return None
            if isinstance(node, ast.IfExp):
                return node.body if answer else node.orelse
            return with_fields(node, test=ast.Constant(answer))

        once(definition, new)

    return change


def keyword(name: str, value: str = "") -> Change:
    """A call gets another value for a keyword, or none."""

    def change(definition: Definition, known: set[str]) -> None:
        def new(node: Any) -> Any:
            if not isinstance(node, ast.Call) or name not in [one.arg for one in node.keywords]:
                return None
            keywords = [one for one in node.keywords if one.arg != name]
            if value:
                (inner,) = filled(
                    [ast.parse(value, mode="eval").body], arguments(definition), known
                )
                keywords.append(ast.keyword(name, inner))
            return with_fields(node, keywords=keywords)

        once(definition, new)

    return change


# how


def once(definition: Definition, new: Callable[[Any], Any]) -> None:
    """Put ``new(node)`` in the place of the one node for which it is not None."""
    found = []

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            other = new(node)
            if other is not None:
                found.append(node)
            inner = self.generic_visit(node)
            return inner if other is None else other

    vars(definition).update(vars(Exchange().visit(definition)))
    if len(found) != 1:
        raise ValueError(f"{definition.name} has {len(found)} such places")


def arguments(definition: Definition) -> Bound:
    """``arg_0`` and so on."""
    if isinstance(definition, ast.ClassDef):
        return {}
    names = [one.arg for one in definition.args.args if one.arg != "self"]
    return {f"arg_{i}": ast.Name(name, ast.Load()) for i, name in enumerate(names)}


def matches(pattern: Any, node: Any, bound: Bound, known: set[str]) -> bool:
    """Whether a node is what a pattern says; ``bound`` gets what its names stand for."""
    if isinstance(pattern, ast.Name) and pattern.id not in known:
        if not isinstance(node, ast.expr):
            return False
        if not re.fullmatch(r"_\d?", pattern.id) and getattr(node, "id", "self") in known:
            return False
        return ast.unparse(bound.setdefault(pattern.id, node)) == ast.unparse(node)
    if isinstance(pattern, list) and isinstance(node, list):
        pairs = zip(pattern, node, strict=False)
        return len(pattern) == len(node) and all(matches(*pair, bound, known) for pair in pairs)
    if isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and all(
            matches(value, getattr(node, field), bound, known)
            for field, value in ast.iter_fields(pattern)
            if field not in ("ctx", "kind", "type_comment")
        )
    return bool(pattern == node)


def filled(wanted: list[Any], bound: Bound, known: set[str]) -> list[Any]:
    """What stands in the place of a match: each name is what it stood for there."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in known | set(bound) | own:
                raise ValueError(f"{node.id} is not in what is replaced")
            other = copy.deepcopy(bound.get(node.id, node))
            return with_fields(other, ctx=node.ctx) if isinstance(other, ast.Name) else other

    nodes = [node for one in wanted for node in ast.walk(one) if isinstance(node, ast.Name)]
    own = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    return [Fill().visit(copy.deepcopy(one)) for one in wanted]


def with_fields(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
