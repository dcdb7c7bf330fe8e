"""What is exact in float64, whatever a processor rounds."""

from typing import Any

from torch.testing import assert_close


def close(found: Any, wanted: Any) -> None:
    """Tensors, or what holds them, are the same up to 1e-9."""
    assert_close(found, wanted, rtol=1e-9, atol=1e-9)
