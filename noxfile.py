"""What is checked, each in an environment of its own: ``nox`` runs tests, lint and package;
``nox -s NAME`` one session, ``nox -l`` lists all of them.
"""

from __future__ import annotations

from pathlib import Path

import nox
from nox.command import CommandFailed

nox.options.sessions = ["tests", "lint", "package"]
nox.options.error_on_missing_interpreters = False

TESTED = ("-c", "constraints.txt")
"""The versions that the figures of the docs were measured with."""
SUITE = ("pytest", "-q", "-m", "not nightly and not gpu")
AT_ONCE = ("-n", "3", "--max-worker-restart", "0")
"""Tests at a time, with one thread each: one more than cores, since some wait for processes that
they have started. Tests that share threads wait for each other. A worker that crashes ends all.
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
"""Also where the environment forbids it, what is imported is compiled once for all processes."""
CAPABILITIES = ("default", "avx2", "avx512")
CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability().lower())"


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the slow ones and those for a GPU."""
    session.install("--no-compile", *TESTED, "-e", ".[test]")  # what is imported is compiled then
    session.run(*SUITE, *AT_ONCE, "--durations=10", *session.posargs, env=ONE_THREAD)


@nox.session
def nightly(session: nox.Session) -> None:
    """The tests that take minutes, then the suite on each processor capability below the best that
    this machine has, and on the best one with two threads; then the documentation's site. All of
    them run, whichever fails.
    """
    session.notify("docs", posargs=())
    session.install(*TESTED, "-e", ".[test,ray]")
    slow = ("-m", "nightly", "-n", "2", "--max-worker-restart", "0", "--timeout", "3600")
    parts = {"slow tests": (("pytest", "-q", *slow, "--durations=10"), ONE_THREAD)}
    best = (session.run("python", "-c", CAPABILITY, silent=True) or "").strip()
    for capability in CAPABILITIES[: CAPABILITIES.index(best) if best in CAPABILITIES else 1]:
        env = {**ONE_THREAD, "ATEN_CPU_CAPABILITY": capability}
        parts[capability] = ((*SUITE, *AT_ONCE), env)
    parts["two threads"] = (SUITE, {"OMP_NUM_THREADS": "2"})
    failed = []
    for name, (command, env) in parts.items():
        try:
            session.run(*command, *session.posargs, env=env)
        except CommandFailed:
            failed.append(name)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests marked ``gpu``, on as many GPUs as there are; skipped where there is none."""
    session.install(*TESTED, "-e", ".[test]")
    # Exact resuming needs deterministic kernels, and cuBLAS reads this when it starts.
    env = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    session.run(
        "pytest", "-q", "-rs", "-m", "gpu", "tests/gpu", "--durations=10", *session.posargs, env=env
    )


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def python(session: nox.Session) -> None:
    """The suite under each version of Python that is installed here."""
    session.install(*TESTED, "-e", ".[test]")
    session.run(*SUITE, *AT_ONCE, *session.posargs, env=ONE_THREAD)


@nox.session
def lowest(session: nox.Session) -> None:
    """The suite with the lowest versions of its dependencies that pyproject.toml allows."""
    versions = str(Path(session.create_tmp(), "lowest.txt"))
    session.install(*TESTED, "uv")
    session.run(
        *("uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct"),
        *("--extra", "test", "pyproject.toml", "--output-file", versions),
    )
    session.install("-r", versions, "-e", ".")
    session.run(*SUITE, *AT_ONCE, *session.posargs, env=ONE_THREAD)


@nox.session
def highest(session: nox.Session) -> None:
    """The suite with the highest versions that pyproject.toml allows."""
    session.install("--upgrade", "-e", ".[test]")
    session.run(*SUITE, *AT_ONCE, *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and rules."""
    session.install(*TESTED, "ruff")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation's site, in docs/_build/html; a warning is an error."""
    session.install(*TESTED, "-e", ".[docs]")
    session.run(
        *("sphinx-build", "-q", "-W", "--keep-going", "-d", "docs/_build/doctrees"),
        *("-c", "docs", *session.posargs, ".", "docs/_build/html"),
    )


@nox.session
def package(session: nox.Session) -> None:
    """Wheel and sdist: the wheel works where its source is not, and is typed strictly."""
    dist = Path(session.create_tmp(), "dist")
    session.install(*TESTED, "build")
    session.run("python", "-m", "build", "--outdir", str(dist), ".")
    session.install(*TESTED, *map(str, dist.glob("*.whl")))
    session.run("python", "-m", "tests.wheel", str(dist))
    wheels = [f"{wheel}[adapter,export,sentencepiece,serve]" for wheel in dist.glob("*.whl")]
    session.install(*TESTED, *wheels, "mypy", "types-PyYAML")
    session.run("mypy")
