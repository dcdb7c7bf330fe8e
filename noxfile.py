"""What is checked, each in an environment of its own: ``nox`` runs all, ``nox -s tests`` one."""

from __future__ import annotations

import nox

nox.options.sessions = ["tests", "lint", "types", "build"]
nox.options.error_on_missing_interpreters = False

PINNED = ("-c", "constraints.txt")


@nox.session
def tests(session: nox.Session) -> None:
    """All but the slow tests, two at a time, one thread each: two that share threads would wait for each other."""
    session.install(*PINNED, "-e", ".[test]")
    session.run("pytest", "-q", "-n", "2", "-m", "not nightly", "--durations=10", *session.posargs, env={"OMP_NUM_THREADS": "1"})


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
def types(session: nox.Session) -> None:
    """Every line of the package, typed strictly."""
    session.install(*PINNED, "-e", ".", "mypy", "types-PyYAML")
    session.run("mypy")


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and sdist; the wheel is installed into an empty environment and tried there."""
    session.install(*PINNED, "build")
    out = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", f"{out}/dist", ".")
    session.run("python", "tests/wheel.py", f"{out}/dist")
