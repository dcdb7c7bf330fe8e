"""Arguments named after kinds run over the registry, ``model`` over stacks of all pairs."""

import pytest
import torch

from tests.testing.classifiers import named
from tests.testing.rules import classifiers, stacks
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.testing.samples import COMPONENT_KINDS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in COMPONENT_KINDS:
        if kind in metafunc.fixturenames:
            metafunc.parametrize(
                kind,
                [registry(kind).entry(name) for name in registry(kind).names()],
                ids=registry(kind).names(),
            )
    if "component" in metafunc.fixturenames:
        components = [
            registry(kind).entry(name) for kind in KINDS for name in registry(kind).names()
        ]
        metafunc.parametrize(
            "component", components, ids=[f"{entry.kind}-{entry.name}" for entry in components]
        )
    if "model" in metafunc.fixturenames:
        metafunc.parametrize("model", [*stacks(2), *classifiers(2)], ids=named)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
