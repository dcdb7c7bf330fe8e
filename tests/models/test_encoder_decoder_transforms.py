"""Encoders, decoders and layers that are used alone are copied, compiled, exported, rounded and
spread over processes as any other module is.
"""

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import tfzoo
from tests.compiled import counted
from tests.models.test_encoder_decoder import built, close, padded, vectors
from tfzoo.masks import Mask
from tfzoo.models.fsdp import shard

ALONE = [tfzoo.Encoder, tfzoo.EncoderLayer, tfzoo.Decoder, tfzoo.DecoderLayer]
every_class = pytest.mark.parametrize("cls", ALONE)


class Call(nn.Module):
    """A module and its masks, as a module of tensors."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        layers = {} if "Layer" in cls.__name__ else {"layers": 1}
        self.inner = built(cls, position="rotary", norm="rms", **layers)
        self.has_memory = cls in (tfzoo.Decoder, tfzoo.DecoderLayer)

    def forward(self, x, real, memory):
        if not self.has_memory:
            return self.inner(x, mask=Mask(keys=real))
        return self.inner(x, memory, mask=Mask(keys=real), memory_mask=Mask(keys=real[:, 1:]))


def given(n):
    real = padded("x" * n, "." * (n // 2) + "x" * (n - n // 2))
    return vectors(n=n), real, vectors(n=n - 1)


@every_class
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_computes_the_same(cls, copied):
    module = Call(cls)
    assert torch.equal(copied(module)(*given(5)), module(*given(5)))


@pytest.mark.nightly  # by day, models made of them are compiled in tests/models
@every_class
def test_one_graph_serves_all_lengths(cls):
    module = Call(cls)
    run, graphs = counted(module)
    for n in (5, 16, 33):
        close(run(*given(n)), module(*given(n)))
    assert len(graphs) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi"])
def test_few_graphs_serve_all_steps_of_a_cache(position):
    """One for the first step, one for the second, and one for all that follow."""
    decoder = built(tfzoo.Decoder, layers=1, position=position, cross_attention=False)
    run, graphs = counted(decoder)
    x, cache = vectors(n=12), decoder.init_cache()
    mask = Mask(keys=padded("xxxx", ".xxx"))
    with torch.no_grad():
        y = [run(x[:, :4], mask=mask, cache=cache)]
        y += [run(x[:, i : i + 1], cache=cache) for i in range(4, 12)]
        close(torch.cat(y, 1)[1, 1:], decoder(x[1:, 1:])[0])
    assert len(graphs) == 3


@pytest.mark.nightly  # by day, models made of them are exported in tests/models
@every_class
def test_one_export_serves_all_lengths(cls):
    module, n = Call(cls), torch.export.Dim("n", min=3, max=64)
    lengths = {"x": {1: n}, "real": {1: n}, "memory": {1: n - 1}}
    program = torch.export.export(module, given(9), dynamic_shapes=lengths).module()
    for length in (3, 17, 64):
        close(program(*given(length)), module(*given(length)))


@pytest.mark.parametrize("kind", ["Encoder", "Decoder"])
def test_a_layer_alone_rounds_as_in_a_stack(kind):
    """Under autocast: rotary angles and statistics of norms have fp32 in both."""
    stack, layer = getattr(tfzoo, kind), getattr(tfzoo, f"{kind}Layer")
    whole = built(stack, position="rotary", layers=1, residual="post").float()
    alone = built(layer, position="rotary", residual="post").float()
    alone.load_state_dict(whole.layers[0].state_dict())
    x, memory = vectors().float(), [vectors(n=3).float()] if kind == "Decoder" else []
    with torch.autocast("cpu", torch.bfloat16):
        y = alone(x, *memory)
        assert torch.equal(y, whole(x, *memory))
    assert not torch.equal(y, alone(x, *memory))


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@every_class
def test_distributed_wrappers_pass_masks_and_gradients(cls, one_process):
    plain, replicated, sharded = (Call(cls) for _ in range(3))
    shard(sharded, init_device_mesh("cpu", (1,), mesh_dim_names=("data_parallel",)))
    same_when_spread(plain, [DistributedDataParallel(replicated), sharded], given(5))


@pytest.mark.parametrize("attention", ["scaled_dot_product", "additive"])
def test_distributed_wrappers_train_attention_in_pytorchs_own_layers(attention, one_process):
    layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True, dtype=torch.float64)
    plain = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    tfzoo.swap(plain, attention=attention)
    replicated, sharded = copy.deepcopy(plain), copy.deepcopy(plain)
    fully_shard(sharded, mesh=init_device_mesh("cpu", (1,)))
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    same_when_spread(plain, [DistributedDataParallel(replicated), sharded], (x,))


def same_when_spread(plain, spread, inputs):
    """Compare output and gradients of wrapped modules with those of a plain one."""
    wanted = plain(*inputs)
    wanted.square().sum().backward()
    for wrapped in spread:
        y = wrapped(*inputs)
        assert torch.equal(y, wanted)
        y.square().sum().backward()
        for one, other in zip(wrapped.parameters(), plain.parameters(), strict=True):
            gradient = one.grad if not hasattr(one.grad, "full_tensor") else one.grad.full_tensor()
            assert torch.equal(gradient, other.grad)
