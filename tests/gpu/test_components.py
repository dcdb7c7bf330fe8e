"""Every component computes on a GPU what it computes on a CPU in float64, up to rounding.

The bound of an error is measured, not tuned: four times the error that the same component makes on
a CPU in the same precision. PyTorch's attention for GPUs makes more than twice that of a CPU: it
puts a product in fp32 together from three in TF32.
"""

from copy import deepcopy

import pytest
import torch

from tfzoo.base.registry import Entry, registry
from tfzoo.masks import Mask
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import COMPONENT_KINDS, PROBES, build_randomized, inputs

ENTRIES = [
    registry(kind).entry(name) for kind in COMPONENT_KINDS for name in registry(kind).names()
]
LONG = 200
"""Keys, for which an attention may choose another way to multiply than for short text."""


def name_of(value):
    return f"{value.kind}-{value.name}" if isinstance(value, Entry) else str(value)


def results(entry, module, device, dtype):
    """Outputs and gradients in float64 on the CPU, computed on a device in a precision."""
    module = deepcopy(module).to(device, dtype)
    given = {
        name: one.to(device, dtype).requires_grad_() if one.is_floating_point() else one.to(device)
        for name, one in inputs().items()
    }
    outs = [*PROBES[entry.kind](module, given)]
    if entry.kind == "attention":
        outs += long_text(module, device, dtype)
    draw = torch.Generator().manual_seed(3)
    weights = [torch.randn(one.shape, generator=draw).to(one) for one in outs]
    loss = torch.stack([(one * weight).sum() for one, weight in zip(outs, weights, strict=True)])
    found = [one.detach() for one in outs]
    if loss.requires_grad:
        through = [one for one in (*given.values(), *module.parameters()) if one.requires_grad]
        gradients = torch.autograd.grad(loss.sum(), through, allow_unused=True)
        found += [one for one in gradients if one is not None]
    return [one.double().cpu() for one in found]


def long_text(module, device, dtype):
    draw = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(1, 2, LONG, 8, generator=draw).to(device, dtype) for _ in range(3))
    return [module.forward(q, k, v, mask=Mask(causal=True)), module.forward(q, k, v, mask=Mask())]


def error(found, exact):
    """The largest relative error of any output or gradient (of the largest, where one is 0)."""
    sizes = [float(other.norm()) for other in exact]
    largest = max(sizes)
    return max(
        float((one - other).norm()) / (size if size > 1e-9 * largest else largest)
        for one, other, size in zip(found, exact, sizes, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_errors_are_of_the_size_of_those_of_the_cpu(entry, dtype, device):
    """Without cuDNN, whose GRU and convolution round products to TF32 and approximate tanh."""
    with reproducible(), torch.backends.cudnn.flags(enabled=False):
        module = build_randomized(entry).to(dtype).double()  # numbers that the precision can hold
        exact = results(entry, module, "cpu", torch.float64)
        own = error(results(entry, module, "cpu", dtype), exact)
        found = error(results(entry, module, device, dtype), exact)
    assert own < 100 * torch.finfo(dtype).eps, "the CPU's own error is no bound"
    assert found <= max(4 * own, torch.finfo(dtype).eps)


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_in_float64_both_devices_agree(entry, device):
    with reproducible():
        module = build_randomized(entry)
        exact = results(entry, module, "cpu", torch.float64)
        assert error(results(entry, module, device, torch.float64), exact) < 1e-9


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_a_component_can_be_made_on_the_device(entry, device):
    """As FSDP2 and ``torch.device`` as a context do; nothing that it holds stays on the CPU."""
    with reproducible():
        given = {name: one.to(device) for name, one in inputs().items()}
        with device:
            module = build_randomized(entry)
    assert all(one.device.type == device.type for one in PROBES[entry.kind](module, given))
