"""Structure of the source in figures: how far one value travels, what imports what, its size.

python -m benchmarks.structure                     # this checkout
python -m benchmarks.structure --source OTHER/src  # another one, such as an older commit's

It prints
- statements of source (``ast.stmt``, docstrings left out) and files;
- imports between packages, lowest first, and whether any two packages import each other;
- the functions and files that the value of ``--model.norm.eps`` passes between the command line and
  the first training step: all functions of tfzoo that are called with it, as an argument or within
  a list, tuple, dict or plain object that is one;
- the way of the command line from ``fit`` to the first training step: the files whose functions are
  on the stack in that step's call chain or were called to prepare it, and how often a function of a
  lower floor calls one of a higher floor.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
VALUE = 0.00123456
OPTIONS = (
    *("fit", "translation/numbers", "--model.norm", "rms", f"--model.norm.eps={VALUE}"),
    *("--model.dim", "16", "--model.heads", "2", "--model.layers", "1", "--trainer.max_steps", "1"),
    *("--trainer.accelerator", "cpu", "--trainer.devices", "1", "--data.workers", "0"),
    *("--data.dataset.train", "200", "--data.dataset.val", "8", "--data.dataset.test", "8"),
)


def statements(source: Path) -> tuple[int, int]:
    """Statements but docstrings, and files."""
    files = sorted(source.rglob("*.py"))
    count = 0
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            count += isinstance(node, ast.stmt) and not is_text
    return count, len(files)


def packages(source: Path) -> dict[str, set[str]]:
    """The packages (or modules) of tfzoo that each imports, without imports for types alone."""
    graph: dict[str, set[str]] = defaultdict(set)
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        own = inside.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        graph[own] |= {name for name in imported(path) if name != own}
    return dict(graph)


def imported(path: Path) -> set[str]:
    """First names below ``tfzoo`` that a file imports when it runs."""
    tree = ast.parse(path.read_text("utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "tfzoo":
            found |= {f"tfzoo.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name.split(".")[1] for name in found if name.startswith("tfzoo.")}


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """How many packages lie below each on the longest way down; those that import each other lie on
    one floor.
    """
    reach = {name: below(graph, name) for name in graph}
    level = dict.fromkeys(graph, 0)
    for _ in graph:
        for name, used in graph.items():
            for other in used & graph.keys():
                if name not in reach[other]:
                    level[name] = max(level[name], level[other] + 1)
    return level


def below(graph: dict[str, set[str]], name: str) -> set[str]:
    """All that a package imports, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for other in graph.get(waiting.pop(), set()) - found:
            found.add(other)
            waiting.append(other)
    return found


def cycles(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Pairs of packages of which each imports the other, directly or through others."""
    reach = {name: below(graph, name) for name in graph}
    return [
        (one, other)
        for one in sorted(graph)
        for other in sorted(reach[one] & graph.keys())
        if one < other and one in reach[other]
    ]


class Followed:
    """Watches the calls of one command until its first training step."""

    def __init__(self, source: Path) -> None:
        self.source = str(source.resolve()) + os.sep
        self.passed: dict[str, set[str]] = defaultdict(set)
        self.walked: list[str] = []
        self.up = 0
        self.level = floors(packages(source))

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self.source):
            return
        code, file = frame.f_code, self.file(frame)
        if code.co_name == "training_step":
            raise Reached
        if code.co_name.startswith("<") or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # a module, a comprehension, the body of a class
        if file not in self.walked:
            self.walked.append(file)
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(self.source):
            above = self.floor(file) - self.floor(self.file(caller))
            self.up += above > 0
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 4) + bool(code.co_flags & 8)
        names = code.co_varnames[:count]
        if any(holds(frame.f_locals.get(name)) for name in names):
            self.passed[file].add(code.co_qualname)

    def file(self, frame: Any) -> str:
        return str(frame.f_code.co_filename).removeprefix(self.source)

    def floor(self, file: str) -> int:
        return self.level.get(file.split(os.sep)[0].removesuffix(".py"), 0)


class Reached(BaseException):
    """The first training step."""


def holds(value: Any, depth: int = 0) -> bool:
    """Whether the value is :data:`VALUE`, as a number or text, or holds it."""
    if isinstance(value, float):
        return value == VALUE
    if isinstance(value, str):
        return len(value) < 200 and str(VALUE) in value
    if depth > 8:
        return False
    if isinstance(value, dict):
        return any(holds(one, depth + 1) for one in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) < 1000 and any(holds(one, depth + 1) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return any(holds(getattr(value, one.name, None), depth + 1) for one in fields(value))
    if type(value).__name__ == "Namespace" or plain_object(value):
        return any(holds(one, depth + 1) for one in vars(value).values())
    return False


def plain_object(value: Any) -> bool:
    """An object of tfzoo, but no module, callback, data module or logger, which hold the settings
    that they were built with.
    """
    bases = {base.__module__.partition(".")[0] for base in type(value).__mro__} - {"builtins"}
    return bases == {"tfzoo"} and hasattr(value, "__dict__") and not isinstance(value, type)


def follow(source: Path) -> Followed:
    """Run ``fit`` to its first step, watched."""
    from tfzoo.commands.main import main

    seen = Followed(source)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TFZOO_CACHE": f"{folder}/cache", "WANDB_MODE": "offline"}
        os.chdir(folder)
        sys.setprofile(seen)
        try:
            main([*OPTIONS])
        except Reached:
            pass
        finally:
            sys.setprofile(None)
            os.chdir("/")
    return seen


def show(source: Path) -> None:
    """Print everything."""
    count, files = statements(source)
    print(f"{count:,} statements in {files} files\n")
    graph = packages(source)
    level = floors(graph)
    for name in sorted(graph, key=lambda name: (level[name], name)):
        used = sorted(graph[name] & graph.keys(), key=lambda other: (-level[other], other))
        print(f"  {level[name]:>2}  {name:<12} {', '.join(used)}")
    found = cycles(graph)
    print(f"pairs that import each other: {', '.join(map('-'.join, found)) or 'none'}\n")
    seen = follow(source)
    functions = sum(map(len, seen.passed.values()))
    print(f"--model.norm.eps passes {functions} functions in {len(seen.passed)} files")
    for file, names in seen.passed.items():
        print(f"  {file:<32} {', '.join(sorted(names))}")
    print(
        f"from fit to the first step: {len(seen.walked)} files; {seen.up} calls of a higher floor"
    )
    print("  " + "\n  ".join(seen.walked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, default=HERE / "src", help="the folder of tfzoo")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        show(given.source / "tfzoo")
        return
    environment = {**os.environ, "PYTHONPATH": str(given.source.resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--inside", "--source", str(given.source.resolve())]
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
