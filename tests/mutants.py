"""How many changed lines does no test notice? ``python -m tests.mutants FILE... --count 300``.

Draws lines of files under src/tfzoo, and makes one change of each: an operator, a constant, a
comparison, a condition, swapped arguments, a keyword or a statement left out. The tests that run
the line are run on the change, the cheapest first, until one fails or ``--seconds`` are used up.

The first start runs the tests once, to learn which lines each of them runs and how long it
takes; both this and the results are kept in the folder ``--output``, and a later start goes on from
there. Tests that are red without a change, or take over a quarter of ``--seconds``, are left out
and named.

One process loads the libraries. A fork of it collects the tests, and is forked for each change: one
inside of a function is made in place, for one of a default or a constant tfzoo is imported again.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.testing import patching
from tests.testing.mutations import Mutation, mutations, sample

ROOT, SOURCE = patching.ROOT, patching.SOURCE
TESTS = (
    "tests/test_search.py", "tests/test_masks.py", "tests/test_precision.py",
    "tests/docs/test_docstrings.py", "tests/attention",
    "tests/models", "tests/pooling", "tests/tasks", "tests/testing/test_classifiers.py",
    "tests/testing/test_options.py", "tests/testing/test_stacks.py",
    "tests/testing/test_refusals.py", "tests/commands/test_layer_options.py",
    "tests/sweep/test_plan.py",
)  # fmt: skip
"""The tests that own the promises of the files that are changed by default; ``--tests`` names
those of other files.
"""
FAST = "not nightly and not gpu"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", FAST, "-k", "not export and not compile")

Known = dict[str, dict[str, Any]]


def warm() -> None:
    """Load what tfzoo and its tests import, but nothing of tfzoo."""
    import lightning.pytorch  # noqa: F401
    import sacrebleu  # noqa: F401
    import tokenizers  # noqa: F401
    import torch
    import torch._dynamo
    import torchmetrics.classification  # noqa: F401
    import transformers  # noqa: F401

    torch.set_num_threads(1)


def fork(work: Callable[[], tuple[int, str]], cpu_seconds: float) -> tuple[int, str]:
    """Exit code (negative: a signal) and text of ``work``, which runs in a fork; ``SIGPROF`` if it
    needs more than ``cpu_seconds``, or ten times as long by the clock.
    """
    with tempfile.NamedTemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            code, text = 1, ""
            try:
                os.setpgrp()
                signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                code, text = work()
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            finally:
                said.write(text)
                said.flush()
                os._exit(code)
        end = time.monotonic() + 10 * cpu_seconds
        try:
            while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
                if time.monotonic() > end:
                    os.kill(child, signal.SIGPROF)
                time.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # also what the tests have started
        said.seek(0)
        return os.waitstatus_to_exitcode(status[1]), said.read()


class Learn:
    """A pytest plugin that notes the result, the time and the lines of each test."""

    def __init__(self, files: Sequence[str], seconds: float) -> None:
        self.names = {str(SOURCE / file): file for file in files}
        self.seconds = seconds
        self.known: Known = {}
        self.red: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        lines: dict[str, set[int]] = {}

        def enter(frame: FrameType, event: str, arg: object) -> Any:
            file = self.names.get(frame.f_code.co_filename)
            if file is None:
                return None
            seen = lines.setdefault(file, set())

            def line(frame: FrameType, event: str, arg: object) -> Any:
                seen.add(frame.f_lineno)
                return line

            return line(frame, event, arg)

        def stop(*_: object) -> None:
            raise TimeoutError(f"{self.seconds} seconds")

        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        start = time.process_time()
        sys.settrace(enter)
        threading.settrace(enter)  # a sweep trains in threads
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.known[item.nodeid] = {
                "seconds": round(time.process_time() - start, 3),
                "lines": {file: sorted(seen) for file, seen in lines.items()},
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.red.add(report.nodeid)


def learn(folder: Path, files: Sequence[str], owners: Sequence[str], seconds: float) -> Known:
    """Which lines each test runs, and its CPU seconds. Kept by file of tests, as long as neither it
    nor the source changes.
    """
    sources = [(SOURCE / file).read_bytes() for file in files]
    known: Known = {}
    tests = [
        path for name in owners for path in sorted([ROOT / name, *(ROOT / name).rglob("*.py")])
    ]
    for path in tests:
        if path.is_dir() or not path.name.startswith("test_"):
            continue
        key = hashlib.sha256(b"\0".join([path.read_bytes(), *sources])).hexdigest()[:16]
        kept = folder / f"{path.stem}-{key}.json"
        if not kept.exists():

            def run(path: Path = path) -> tuple[int, str]:
                plugin = Learn(files, seconds / 4)
                code = int(pytest.main([*OPTIONS, str(path)], plugins=[plugin]))
                green = {k: v for k, v in plugin.known.items() if k not in plugin.red}
                said = {"red": sorted(plugin.red), "green": green}
                return code if code in (2, 3, 4) else 0, json.dumps(said)

            code, said = fork(run, 1200.0)
            if code:
                raise SystemExit(f"{path}: pytest ended with {code}")
            kept.write_text(said, "utf-8")
        both = json.loads(kept.read_text("utf-8"))
        for name in both["red"]:
            print(f"left out, red or slow: {name}", flush=True)
        known |= {name: one for name, one in both["green"].items() if one["lines"]}
    return known


def tests_of(one: Mutation, known: Known, seconds: float) -> tuple[list[str], float]:
    """The tests that run what is changed, and their CPU seconds: the cheapest, up to ``seconds``
    together.
    """
    first, last = one.reach
    found = []
    for name, test in known.items():
        lines = test["lines"].get(one.file, ())
        if any(first <= line <= last for line in lines):
            found.append((test["seconds"], name))
    chosen, used = [], 0.0
    for cost, name in sorted(found):
        if not chosen or used + cost <= seconds:
            used += cost
            # Tests of one file that take about as long stay together, and share their fixtures.
            chosen.append((round(cost, 1), name.partition("::")[0], cost, name))
    return [name for *_, name in sorted(chosen)], used


class Results:
    """The results of changes, a line of JSON each, written as they come."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.jsonl"
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        self.rows: dict[str, dict[str, Any]] = {}
        for line in lines:
            row = json.loads(line)
            self.rows[row["change"]] = row

    def forget_survivors(self) -> None:
        rows = [row for row in self.rows.values() if row["result"] != "survived"]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def add(self, one: Mutation, code: int, by: str, seconds: float) -> None:
        result = {0: "survived", -signal.SIGPROF: "timeout"}.get(code, "killed")
        row = {"file": one.file, "change": str(one), "result": result, "by": by}
        self.rows[str(one)] = {**row, "seconds": round(seconds, 1)}
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(self.rows[str(one)]) + "\n")


class First:
    """A pytest plugin that notes the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid


def attempt(one: Mutation | None, names: Sequence[str]) -> tuple[int, str]:
    """Run tests with a change, or without one, until the first one fails."""
    if one is not None:
        patching.apply(one.file, one.tree((SOURCE / one.file).read_text("utf-8")))
    first = First()
    code = int(pytest.main([*OPTIONS, "-x", *names], plugins=[first])) if names else 0
    return min(code, 1), first.name or (f"pytest ended with {code}" if code else "")


def files_of(name: str) -> list[str]:
    path = SOURCE / name
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [one.relative_to(SOURCE).as_posix() for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=["search.py", "masks.py", "models", "tasks"])
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests of these files")
    parser.add_argument("--count", type=int, default=300, help="lines to change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds for one change")
    parser.add_argument("--output", type=Path, default=Path("mutants"), help="a folder")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    given = parser.parse_args()
    folder = given.output.absolute()
    folder.mkdir(exist_ok=True)
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and each takes its time
    warm()
    files = [one for name in given.files for one in files_of(name)]
    known = learn(folder, files, given.tests, given.seconds)
    every = [one for file in files for one in mutations(file, (SOURCE / file).read_text("utf-8"))]
    chosen = sample(every, given.count, given.seed)
    if given.again:
        Results(folder).forget_survivors()
    try_all(chosen, known, folder, given.seconds)
    report([Results(folder).rows[str(one)] for one in chosen])


def try_all(chosen: Sequence[Mutation], known: Known, folder: Path, seconds: float) -> None:
    """All changes without a result yet, in forks of a process that has collected the tests."""
    results = Results(folder)
    left = [one for one in chosen if str(one) not in results.rows]
    reliable: dict[str, bool] = {}

    def passes(name: str) -> bool:
        """Whether a test that has noticed a change is green without it when it runs alone."""
        if name not in reliable:
            reliable[name] = fork(lambda: attempt(None, [name]), 60.0)[0] == 0
        return reliable[name]

    def work() -> tuple[int, str]:
        files = sorted({name.partition("::")[0] for name in known})
        pytest.main([*OPTIONS, "--collect-only", *files])
        for one in left:
            begin = time.monotonic()
            while True:
                names, cost = tests_of(one, known, seconds)
                code, by = fork(lambda: attempt(one, names), 3 * cost + 20)  # noqa: B023
                if code != 1 or by not in known or passes(by):
                    break
                del known[by]
            results.add(one, code, by, time.monotonic() - begin)
        return 0, ""

    if left:
        fork(work, 1e6)


def report(rows: Sequence[dict[str, Any]]) -> None:
    """The survivors, and a table by file."""
    for row in rows:
        if row["result"] == "survived":
            print(row["change"])
    counts = Counter((row["file"], row["result"] == "survived") for row in rows)
    for file in sorted({row["file"] for row in rows}):
        print(f"| {file} | {counts[file, False] + counts[file, True]} | {counts[file, True]} |")
    survive = sum(n for (_, survived), n in counts.items() if survived)
    print(f"{survive} of {len(rows)} survive, {survive / max(len(rows), 1):.1%}")


if __name__ == "__main__":
    main()
