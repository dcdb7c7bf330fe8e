"""Single changes of source text, as a tool that looks for untested lines makes them."""

import ast
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.testing.changes import with_fields

SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
TYPES = ("TypeVar", "TypeVarTuple", "cast")
UNORDERED = ("max", "min", "isinstance", "hasattr", "getattr", "setattr")
"""Calls whose swapped arguments mean the same, or can never run."""
KEPT = ("device", "strict")
"""Keywords that no test without a GPU can tell from none, and that are assertions."""


@dataclass(frozen=True)
class Mutation:
    """One change. ``reach`` is the first and the last line of what it changes: of a statement in a
    function, without the body of a compound one; of the function whose default it is; or of the
    whole file.
    """

    file: str
    line: int
    column: int
    old: str
    new: str
    reach: tuple[int, int]
    way: tuple[Any, ...]
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.old}  ->  {self.new}"

    def tree(self, source: str) -> ast.Module:
        """The source with this change."""
        tree = ast.parse(source)
        owner: Any = tree
        for field, index in self.way[:-1]:
            owner = getattr(owner, field) if index is None else getattr(owner, field)[index]
        field, index = self.way[-1]
        old = getattr(owner, field) if index is None else getattr(owner, field)[index]
        new = ast.copy_location(_changes(old)[self.number], old)
        if index is None:
            setattr(owner, field, new)
        else:
            getattr(owner, field)[index] = new
        return ast.fix_missing_locations(tree)


def mutations(file: str, source: str) -> list[Mutation]:
    """All changes of a file. Docstrings, annotations, decorators, imports and ``raise`` stay."""
    return list(_below(ast.parse(source), file, (), (1, sys.maxsize), False))


def sample(every: Sequence[Mutation], count: int, seed: int) -> list[Mutation]:
    """``count`` lines drawn from all, and one change of each."""
    lines: dict[tuple[str, int], list[Mutation]] = {}
    for one in every:
        lines.setdefault((one.file, one.line), []).append(one)
    draw = random.Random(seed)
    chosen = draw.sample(sorted(lines), min(count, len(lines)))
    return sorted(
        (draw.choice(lines[line]) for line in chosen), key=lambda one: (one.file, one.line)
    )


def _changes(node: Any) -> list[ast.AST]:
    """What may stand in place of a node."""
    found: list[ast.AST] = []
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPPED:
        found.append(with_fields(node, op=SWAPPED[type(node.op)]()))
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = [*node.ops[:i], SWAPPED[type(op)](), *node.ops[i + 1 :]]
            found.append(with_fields(node, ops=ops))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        found.append(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        found.append(ast.Constant(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        found.append(ast.Constant(node.value + 1))
    if isinstance(node, ast.IfExp | ast.If | ast.While):
        found.append(with_fields(node, test=ast.UnaryOp(ast.Not(), node.test)))
    if isinstance(node, ast.Call):
        first = [ast.unparse(one) for one in (node.func, *node.args[:2])]
        if len(first) > 2 and first[0] not in UNORDERED and first[1] != first[2]:
            found.append(with_fields(node, args=[node.args[1], node.args[0], *node.args[2:]]))
        for i, keyword in enumerate(node.keywords):
            if keyword.arg not in KEPT:
                others = node.keywords[:i] + node.keywords[i + 1 :]
                found.append(with_fields(node, keywords=others))
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Break | ast.Continue) or (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    ):
        found.append(ast.Pass())
    return found


def _below(
    node: ast.AST, file: str, way: tuple[Any, ...], reach: tuple[int, int], inside: bool
) -> Iterator[Mutation]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list") or (
            field == "keywords" and isinstance(node, ast.ClassDef)
        ):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _skipped(child):
                continue
            here = (*way, (field, index if isinstance(value, list) else None))
            within = inside or (isinstance(node, FUNCTIONS) and field == "body")
            own = isinstance(child, ast.stmt) or (isinstance(node, ast.Lambda) and field == "body")
            lines = _lines(child) if within and own else reach
            if not within and isinstance(child, ast.FunctionDef):
                lines = child.lineno, child.end_lineno or child.lineno
            for number, new in enumerate(_changes(child)):
                yield Mutation(
                    file, child.lineno, child.col_offset, _text(child), _text(new),
                    lines, here, number,
                )  # fmt: skip
            yield from _below(child, file, here, lines, within)


def _skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.Expr):
        value = node.value
        return (isinstance(value, ast.Constant) and isinstance(node, ast.Expr)) or (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id in TYPES
        )
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.keyword) and node.arg in KEPT:
        return True
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.arg)


def _lines(node: Any) -> tuple[int, int]:
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno
    return node.lineno, max(end, node.lineno)


def _text(node: ast.AST) -> str:
    first, _, more = ast.unparse(node).partition("\n")
    return first + (" ..." if more else "")
