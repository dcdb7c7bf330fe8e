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
            entries = [registry(kind).entry(name) for name in registry(kind).names()]
            metafunc.parametrize(kind, entries, ids=registry(kind).names())
    if "component" in metafunc.fixturenames:
        every = [registry(kind).entry(name) for kind in KINDS for name in registry(kind).names()]
        metafunc.parametrize("component", every, ids=[f"{one.kind}-{one.name}" for one in every])
    if "model" in metafunc.fixturenames:
        metafunc.parametrize("model", [*stacks(2), *classifiers(2)], ids=named)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
