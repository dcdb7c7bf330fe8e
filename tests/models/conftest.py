"""PyTorch's own layers are compared where rounding decides nothing."""

import pytest
import torch


@pytest.fixture
def in_float64():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
