"""How many changed lines does no test notice? ``python -m tests.mutants FILE... --count 300``.

Samples single changes (an operator, a constant, a comparison, two arguments swapped, a statement
left out) of files under src/tfzoo. A process that has loaded the tests of a file is forked once for
each change, and runs them until the first fails. Each result is appended to ``--output`` as a line
of JSON; changes that are in there already are not run again.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.testing import patching

ROOT, SOURCE = patching.ROOT, patching.SOURCE
TESTS: dict[str, tuple[str, ...]] = {
    "search.py": ("tests/test_search.py", "tests/models/test_transformer.py"),
    "masks.py": ("tests/test_masks.py", "tests/attention", "tests/models"),
    "blocks": (
        "tests/blocks",
        "tests/models",
        "tests/testing/test_options.py",
        "tests/testing/test_stacks.py",
        "tests/testing/test_classifiers.py",
    ),
    "tasks": ("tests/tasks", "tests/commands/test_swap.py"),
}
"""The tests that belong to a file, or to all files of a folder."""
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[ast.AST | None]:
    """Other nodes in place of one; None leaves the statement out."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPPED:
        other = copy.deepcopy(node)
        other.op = SWAPPED[type(node.op)]()
        yield other
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        other = copy.deepcopy(node)
        other.ops[0] = SWAPPED[type(node.ops[0])]()
        yield other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.IfExp | ast.If):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield other
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        other = copy.deepcopy(node)
        other.args[:2] = other.args[1::-1]
        yield other
    elif isinstance(node, ast.Expr | ast.AugAssign) and not isinstance(node, ast.Constant):
        yield None


def skipped(node: ast.AST) -> bool:
    """Messages, docstrings, annotations and imports are not changed."""
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.arg) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def places(node: ast.AST, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Where something can be changed: the way to the node, and the number of the change."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not skipped(child):
                way = (*path, (field, index if isinstance(value, list) else None))
                for number, _ in enumerate(changes(child)):
                    yield way, number
                yield from places(child, way)


def mutate(tree: ast.Module, way: tuple[Any, ...], number: int) -> tuple[int, str, str]:
    """Make one change in a tree; returns the line, what stood there, and what stands there now."""
    node: Any = tree
    for field, index in way[:-1]:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    field, index = way[-1]
    old = getattr(node, field) if index is None else getattr(node, field)[index]
    new = list(changes(old))[number] or ast.Pass()
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new
    ast.fix_missing_locations(tree)
    first = [ast.unparse(one).partition("\n")[0] for one in (old, new)]
    return old.lineno, first[0], first[1]


def sample(files: Sequence[str], count: int, seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """``count`` changes by file, the same for one seed."""
    every = []
    for file in files:
        tree = ast.parse((SOURCE / file).read_text("utf-8"))
        every += [(file, way, number) for way, number in places(tree)]
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    return {
        file: sorted([one[1:] for one in chosen if one[0] == file], key=str)
        for file in sorted({one[0] for one in chosen})
    }


class Fork:
    """A pytest plugin that, instead of running the tests once, forks for every change."""

    def __init__(
        self, file: str, chosen: list[tuple[Any, ...]], output: Path, limit: float
    ) -> None:
        self.file, self.chosen, self.output, self.limit = file, chosen, output, limit

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise SystemExit(f"{self.file}: its tests cannot be collected")
        done = {line["change"] for line in read(self.output) if line["file"] == self.file}
        start = time.monotonic()
        if self.run(session, None) != "survived":
            raise SystemExit(f"{self.file}: its tests are red without any change")
        limit = max(self.limit, 3 * (time.monotonic() - start))
        for way, number in self.chosen:
            tree = ast.parse((SOURCE / self.file).read_text("utf-8"))
            line, old, new = mutate(tree, way, number)
            change = f"{line}: {old} -> {new}"
            if change in done:
                continue
            result = self.run(session, ast.unparse(tree), limit)
            row = {"file": self.file, "change": change, "result": result}
            with self.output.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        return True

    def run(self, session: pytest.Session, source: str | None, limit: float = 3600.0) -> str:
        """What happens to one change: ``killed``, ``survived`` or ``timeout``."""
        child = os.fork()
        if child == 0:
            os.setpgrp()
            code = 1
            try:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                if source is not None:
                    patching.apply(self.file, source)
                code = self.items(session)
            finally:
                os._exit(code)
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if (status := os.waitpid(child, os.WNOHANG)) != (0, 0):
                return "survived" if os.waitstatus_to_exitcode(status[1]) == 0 else "killed"
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout"

    @staticmethod
    def items(session: pytest.Session) -> int:
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return 1
        return 0


def read(output: Path) -> list[dict[str, str]]:
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    return [json.loads(line) for line in lines]


def tests_of(file: str) -> list[str]:
    return [
        one
        for one in TESTS.get(file, TESTS.get(file.partition("/")[0], ()))
        if (ROOT / one).exists()
    ]


def files_of(name: str) -> list[str]:
    path = SOURCE / name
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [one.relative_to(SOURCE).as_posix() for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=["search.py", "masks.py", "blocks", "tasks"])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a change may take")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = sample(
        [one for name in given.files for one in files_of(name)], given.count, given.seed
    )
    if given.one:
        plugin = Fork(given.one, chosen[given.one], given.output.absolute(), given.limit)
        os.chdir(ROOT)
        options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not nightly")
        raise SystemExit(pytest.main([*options, *tests_of(given.one)], plugins=[plugin]))
    waiting, running = list(chosen), []
    while waiting or running:
        running = [one for one in running if one.poll() is None]
        if waiting and len(running) < given.jobs:
            again = [sys.executable, "-m", "tests.mutants", *sys.argv[1:], "--one", waiting.pop(0)]
            running.append(subprocess.Popen(again, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        time.sleep(0.1)
    report(read(given.output))


def report(rows: list[dict[str, str]]) -> None:
    survivors = [row for row in rows if row["result"] == "survived"]
    for row in survivors:
        print(f"{row['file']}:{row['change']}")
    if rows:
        print(f"{len(survivors)} of {len(rows)} survive, {len(survivors) / len(rows):.1%}")


if __name__ == "__main__":
    main()
