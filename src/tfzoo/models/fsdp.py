"""Fully sharded data parallel (FSDP2; arXiv:2304.11277): each process stores a shard of the
parameters, and the parameters of a layer are gathered only while it is computed.
"""

from collections.abc import Iterator, Mapping

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from tfzoo.errors import BadOption
from tfzoo.models.transformer_layer import TransformerLayer


def shard(model: nn.Module, mesh: DeviceMesh) -> None:
    """Shard the parameters over the processes of a mesh: one parameter group for each layer, and
    one for all parameters outside of layers. Does nothing if the model is already sharded.
    """
    if isinstance(model, FSDPModule):
        return
    if "tensor_parallel" in (mesh.mesh_dim_names or ()):
        if mesh["tensor_parallel"].size() > 1:
            raise BadOption(
                "tensor parallelism is not supported; use trainer.strategy fsdp2, which shards "
                "parameters"
            )
        mesh = mesh["data_parallel"]
    for layer in [module for module in model.modules() if isinstance(module, TransformerLayer)]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if hasattr(model, "hidden"):  # which training calls instead of forward
        register_fsdp_forward_method(model, "hidden")


def unshard(model: nn.Module) -> None:
    """Gather all parameters on every process, until :func:`reshard`. Forward passes in between need
    no communication, so that processes may have different numbers of them, as in decoding.

    All processes must call it.
    """
    for module in sharded(model):
        module.unshard()
        module.set_reshard_after_forward(False, recurse=False)


def reshard(model: nn.Module) -> None:
    """Free the parameters that :func:`unshard` gathered, except this process's shard."""
    for module in sharded(model):
        module.reshard()
        module.set_reshard_after_forward(isinstance(module, TransformerLayer), recurse=False)


def sharded(model: nn.Module) -> Iterator[FSDPModule]:
    """The sharded modules of a model."""
    return (module for module in model.modules() if isinstance(module, FSDPModule))


def full_tensor(x: Tensor) -> Tensor:
    """Gather a sharded tensor on every process; return any other tensor as it is."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def load_full_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """``load_state_dict`` from unsharded tensors, for a model that may be sharded."""
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
