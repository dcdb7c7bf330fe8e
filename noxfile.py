"""What is checked, each in an environment of its own: ``nox`` runs all, ``nox -s tests`` one."""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.sessions = ["tests", "lint", "package"]
nox.options.error_on_missing_interpreters = False

PINNED = ("-c", "constraints.txt")


@nox.session
def tests(session: nox.Session) -> None:
    """All but the slow tests, two at a time, one thread each: two that share threads would wait for
    each other.
    """
    session.install(*PINNED, "-e", ".[test]")
    session.run(
        "pytest",
        "-q",
        "-n",
        "2",
        "-m",
        "not nightly",
        "--durations=10",
        *session.posargs,
        env={"OMP_NUM_THREADS": "1"},
    )


@nox.session
def nightly(session: nox.Session) -> None:
    """The tests that take minutes."""
    session.install(*PINNED, "-e", ".[test,ray]")
    session.run("pytest", "-q", "-m", "nightly", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and rules."""
    session.install(*PINNED, "ruff")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def package(session: nox.Session) -> None:
    """Wheel and sdist; the wheel works where nothing of its source is, and each of its lines is
    typed strictly.
    """
    dist = Path(session.create_tmp(), "dist")
    session.install(*PINNED, "build")
    session.run("python", "-m", "build", "--outdir", str(dist), ".")
    session.install(*PINNED, *map(str, dist.glob("*.whl")))
    session.run("python", "tests/wheel.py", str(dist))
    session.install(*PINNED, "mypy", "types-PyYAML")
    session.run("mypy")
