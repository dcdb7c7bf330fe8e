"""Each test of this folder runs on a GPU (``nox -s gpu``); those that take the fixture ``device``
also run on the CPU, so that they are known to run.
"""

from __future__ import annotations

import pytest
import torch

GPUS = torch.cuda.device_count()
NO_GPU = "needs a GPU: run `nox -s gpu` on a machine that has one"
gpu = [pytest.mark.gpu, pytest.mark.skipif(GPUS == 0, reason=NO_GPU)]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)
