"""Tests on a GPU; those that take ``device`` run on the CPU too, by day a fifth of them."""

from collections import Counter

import pytest
import torch

GPUS = torch.cuda.device_count()
NO_GPU = "needs a GPU: run `nox -s gpu` on a machine that has one"
gpu = [pytest.mark.gpu, pytest.mark.skipif(GPUS == 0, reason=NO_GPU)]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu)])
def device(request):
    return torch.device(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases on the CPU, every fifth of a test runs by day."""
    seen = Counter[str]()
    for item in items:
        given = getattr(item, "callspec", None)
        if item.nodeid.startswith("tests/gpu/") and given and given.params.get("device") == "cpu":
            test = item.nodeid.partition("[")[0]
            if seen[test] % 5:
                item.add_marker(pytest.mark.nightly)
            seen[test] += 1
