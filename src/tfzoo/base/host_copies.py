"""What a tensor on the device holds, known to the host without waiting for a GPU."""

import torch
from torch import Tensor


class HostCopy:
    """A copy on the host, asynchronous from a GPU; of a tensor on the CPU, the tensor itself."""

    def __init__(self, x: Tensor) -> None:
        self.copy = x.to("cpu", non_blocking=x.is_cuda)
        self.copied = torch.cuda.Event() if x.is_cuda else None
        if self.copied is not None:
            self.copied.record()

    def read(self) -> Tensor:
        """The copy, once it is there."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.copy


class HostCopies:
    """Copies of one tensor a step. Those from a GPU are ``late``: known a step later, when the host
    has asked for the next step's work, so that the GPU need not wait for the host.
    """

    def __init__(self, device: torch.device) -> None:
        self.late = device.type == "cuda"
        self.copy: HostCopy | None = None

    def next(self, x: Tensor) -> Tensor | None:
        """Copy ``x``. Returns ``x`` on the host, or what is known of the step before, if any."""
        earlier, self.copy = self.copy, HostCopy(x)
        known = earlier if self.late else self.copy
        return None if known is None else known.read()
