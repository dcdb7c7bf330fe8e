"""How many changed lines does no test notice? ``python -m tests.mutants FILE... --count 300``.

Draws lines of files under src/tfzoo, and makes one change of each: an operator, a constant, a
comparison, a condition, swapped arguments, a keyword or a statement left out. The tests that run
the line are run on the change, in a fork of this process, until one fails.

The tests are run once without a change, to learn which lines each of them runs; a later start with
the same ``--output`` reads that.
"""

import argparse
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

import coverage
import pytest

from tests.testing.mutations import Mutation, mutations, sample
from tests.testing.patching import ROOT, SOURCE, apply

TESTS = (
    *("tests/test_search.py", "tests/test_masks.py", "tests/models", "tests/tasks"),
    *("tests/mixer", "tests/runs/test_published.py", "tests/exporting/test_transformers.py"),
    *("tests/swapping", "tests/testing/test_refusals.py"),
)
OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "not nightly and not gpu", "-k", "not compile")
LOADED = ("lightning.pytorch", "sacrebleu", "tokenizers", "torch._dynamo", "transformers")
"""Loaded once, before this process is forked."""
ENDS = {0: "survived", 1: "killed", 5: "run by no test", None: "timeout"}


def run(names: Sequence[str], change: Mutation | None = None) -> None:
    """In a fork: end with the exit code of the tests."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if change is not None:
        apply(change.file, change.tree((SOURCE / change.file).read_text("utf-8")))
    os._exit(pytest.main([*OPTIONS, "-x", *names]))


class Contexts:
    """Lines that run are noted with the test that runs them."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.measured.switch_context(item.nodeid)


def learn(data: Path, tests: Sequence[str]) -> None:
    """In a fork: which test runs which line."""
    measured = coverage.Coverage(str(data), source=[str(SOURCE)])
    with measured.collect():
        pytest.main([*OPTIONS, *tests], plugins=[Contexts(measured)])
    measured.save()
    os._exit(0)


def forked(seconds: float, work: Callable[..., None], *given: object) -> int | None:
    """The exit code of what runs in a fork; None where its time is over."""
    child = multiprocessing.get_context("fork").Process(target=work, args=given)
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    return None if child.exitcode == -9 else child.exitcode


def tests_of(one: Mutation, lines: dict[int, list[str]]) -> list[str]:
    """The tests that run what is changed."""
    first, last = one.reach
    found = {name for line, names in lines.items() if first <= line <= last for name in names}
    return sorted(found - {""})


def files_of(names: Iterable[str]) -> list[str]:
    """Files below the named folders, and the named files."""
    paths = (SOURCE / name for name in names)
    found = [one for path in paths for one in ([path] if path.is_file() else path.rglob("*.py"))]
    return sorted(one.relative_to(SOURCE).as_posix() for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=["search.py", "masks.py", "models", "tasks"])
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests of these files")
    parser.add_argument("--count", type=int, default=300, help="lines to change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="for one change")
    parser.add_argument("--output", type=Path, default=Path("mutants.coverage"))
    given = parser.parse_args()
    os.chdir(ROOT)
    for name in LOADED:
        import_module(name)
    data = given.output.absolute()
    if not data.exists() and forked(36_000, learn, data, given.tests) != 0:
        raise SystemExit("the tests could not be run")
    known = coverage.CoverageData(str(data))
    known.read()
    files = files_of(given.files)
    every = [one for file in files for one in mutations(file, (SOURCE / file).read_text("utf-8"))]
    ends: Counter[str] = Counter()
    for one in sample(every, given.count, given.seed):
        lines = known.contexts_by_lineno(str(SOURCE / one.file))
        names = tests_of(one, lines)
        code = forked(given.seconds, run, names, one) if names else 5
        end = ENDS.get(code, f"ended with {code}")
        ends[end] += 1
        if code != 1:
            print(f"{one}   ({end}, {len(names)} tests)", flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))


if __name__ == "__main__":
    main()
