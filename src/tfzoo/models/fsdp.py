"""Parameters sharded over processes (FSDP2, arXiv:2304.11277): each process keeps a shard, and the
parameters of a layer are gathered only while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.errors import BadOption

TRAINED_THROUGH = ("hidden",)
"""Methods that training calls in place of ``forward``; they gather parameters as it does."""


def shard(model: nn.Module, mesh: DeviceMesh) -> None:
    """Shard the parameters over the processes of a mesh: each layer is a group of its own, and all
    parameters outside of layers are one. A model that is sharded already is left as it is.

    Raises:
        BadOption: the mesh asks for tensor parallelism.
    """
    if isinstance(model, FSDPModule):
        return
    if "tensor_parallel" in (mesh.mesh_dim_names or ()):
        if mesh["tensor_parallel"].size() > 1:
            raise BadOption(
                "layers are not split over devices (tensor parallelism), only sharded: "
                "use trainer.strategy fsdp2"
            )
        mesh = mesh["data_parallel"]
    for layer in [module for module in model.modules() if isinstance(module, TransformerLayer)]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for name in TRAINED_THROUGH:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def unshard(model: nn.Module) -> None:
    """Gather every parameter on every process until :func:`reshard`, so that a forward pass needs
    no communication.

    All processes call it together. Decoding and scoring need it, because processes then have
    unequal numbers of forward passes.
    """
    for module in sharded(model):
        module.unshard()
        module.set_reshard_after_forward(False, recurse=False)


def reshard(model: nn.Module) -> None:
    """Free all but this process's shard again, after :func:`unshard`."""
    for module in sharded(model):
        module.reshard()
        module.set_reshard_after_forward(isinstance(module, TransformerLayer), recurse=False)


def sharded(model: nn.Module) -> Iterator[FSDPModule]:
    """The sharded modules of a model."""
    return (module for module in model.modules() if isinstance(module, FSDPModule))


def full_tensor(x: Tensor) -> Tensor:
    """The whole of a sharded tensor, on every process; any other tensor as it is."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def load_full_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """``load_state_dict`` for a state of whole tensors; a sharded model keeps its shards."""
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, DTensor)}
    placed = {
        name: distribute_tensor(
            value, own[name].device_mesh, own[name].placements, src_data_rank=None
        )
        if name in own
        else value
        for name, value in state.items()
    }
    model.load_state_dict(placed)
