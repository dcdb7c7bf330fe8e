"""Arguments named after kinds run over the registry, ``stack`` and ``classifier`` over every
combination.

The summary says how many were refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tfzoo.registry import KINDS, registry
from tfzoo.testing.classifiers import choices
from tfzoo.testing.component import MODULES
from tfzoo.testing.contract import promises
from tfzoo.testing.stacks import combinations


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in MODULES:
        if kind in metafunc.fixturenames:
            metafunc.parametrize(
                kind,
                [registry(kind).entry(name) for name in registry(kind).names()],
                ids=registry(kind).names(),
            )
    if "promised" in metafunc.fixturenames:  # (promise, component)
        pairs = [
            (promise, registry(kind).entry(name))
            for kind in KINDS
            for name in registry(kind).names()
            for promise in promises(kind)
        ]
        metafunc.parametrize(
            "promised",
            pairs,
            ids=[f"{entry.kind}-{entry.name}-{promise.__name__}" for promise, entry in pairs],
        )
    if "stack" in metafunc.fixturenames:
        metafunc.parametrize("stack", list(combinations()), ids=str)
    if "classifier" in metafunc.fixturenames:
        metafunc.parametrize("classifier", list(choices()), ids=str)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
    ]
    for model in ("stack", "classifier"):
        counts = Counter(
            value
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == model
        )
        if counts:
            refused = sum(n for name, n in counts.items() if name.startswith("refused"))
            terminalreporter.write_line(
                f"combinations in a {model}: {sum(counts.values()) - refused} ran, {refused} refused"
            )
            for name, n in sorted(counts.items()):
                terminalreporter.write_line(f"  {n:5d} {name}")
