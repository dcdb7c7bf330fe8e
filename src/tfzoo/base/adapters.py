"""Names of other packages that begin with ``_``: used here alone, each behind one function.

A release of such a package may change them without notice; ``tests/swapping`` then fails
and says which function to mend. Nothing but PyTorch is imported here until a function needs it.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

# Lightning: the loops of a Trainer ----------------------------------------------------------------


def before_each_batch(trainer: Any, function: Callable[[], None]) -> None:
    """Call a function before Lightning takes the next batch of training: the one before it is over
    then, with the validation that was due and what it has logged.
    """
    loop = trainer.fit_loop.epoch_loop
    fetch = loop._on_before_fetch

    def both() -> None:
        function()
        fetch()

    loop._on_before_fetch = both


def set_logged_step(trainer: Any, step: int) -> None:
    """Set the step number that Lightning hands to loggers."""
    trainer.fit_loop.epoch_loop._batches_that_stepped = step


def log_steps_from_one(trainer: Any) -> None:
    """Let loggers get the number of steps that are over, from 1, for Lightning's index from 0."""
    connector = trainer._logger_connector
    log_metrics = connector.log_metrics

    def from_one(metrics: Any, step: int | None = None) -> None:
        if step is None and "step" not in metrics:
            metrics = {**metrics, "epoch": trainer.current_epoch}
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            step += trainer.state.fn == "fit"
        log_metrics(metrics, step)

    connector.log_metrics = from_one


def trainer_of(module: Any) -> Any:
    """The Trainer of a LightningModule, or None; ``module.trainer`` raises where there is none."""
    return module._trainer


def average_of(callback: Any) -> Any:
    """The copy of the module that a ``WeightAveraging`` averages; None where nothing is trained."""
    average = callback._average_model
    return None if average is None else average.module


def report_once(trainer: Any) -> None:
    """Print and return once what a module logs at an evaluation's end, not for each data loader,
    unless something is logged for one of them.
    """
    logged = trainer._evaluation_loop._logged_outputs
    if not any(logged):
        del logged[1:]


def keep_samplers(trainer: Any) -> None:
    """As ``use_distributed_sampler=False`` does: each process's loader has its own batches."""
    trainer._accelerator_connector.use_distributed_sampler = False


def set_timeout(strategy: Any, timeout: Any) -> None:
    """After how long a strategy's process group fails, whose processes are to be started."""
    strategy._timeout = timeout


def set_parallel_sizes(strategy: Any, data: int) -> None:
    """Put all processes along the first axis of a ``ModelParallelStrategy``'s device mesh."""
    strategy._data_parallel_size, strategy._tensor_parallel_size = data, 1


# PyTorch ------------------------------------------------------------------------------------------


def ignore_in_ddp(module: Any, names: Sequence[str]) -> None:
    """Let ``DistributedDataParallel`` not broadcast these parameters and buffers."""
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    ddp._set_params_and_buffers_to_ignore_for_model(module, list(names))


def allow_clipping_of_fused(optimizer: Any) -> None:
    """Let Lightning clip gradients beside a fused optimiser, which says that it unscales them."""
    optimizer._step_supports_amp_scaling = False


class NoTorchFastPath:
    """Base of an attention that PyTorch's Transformer layers must call also in evaluation mode, in
    which they otherwise hand its weights to a kernel, and make nested tensors of padding.
    """

    _qkv_same_embed_dim = False


def uncompiled() -> AbstractContextManager[Any]:
    """What ``torch.compile`` made runs as it was written inside this context. Where nothing has
    been compiled, the compiler is not imported, which takes seconds.
    """
    return (
        torch.compiler.set_stance("force_eager")
        if "torch._dynamo" in sys.modules
        else nullcontext()
    )


def compile_every_graph() -> None:
    """Let ``torch.compile`` compile all that a function needs: after eight graphs it would run the
    others as they are written, such as the fifth translation model of a sweep.
    """
    limits: Any = torch._dynamo.config
    limits.recompile_limit = limits.accumulated_recompile_limit


def has_hooks(module: Any) -> bool:
    """Whether a call of a module also calls hooks: its own, or those of all modules."""
    modules: Any = torch.nn.modules.module
    forward = module._forward_hooks or module._forward_pre_hooks
    backward = module._backward_hooks or module._backward_pre_hooks
    return bool(modules._has_any_global_hook() or forward or backward)


def transforms_active() -> bool:
    """Whether a transform of ``torch.func`` or forward-mode differentiation may be running."""
    forward_mode = torch.autograd.forward_ad._current_level >= 0
    return forward_mode or torch._C._are_functorch_transforms_active()


def onednn_linear_operation() -> Any:
    """PyTorch's operation of :func:`onednn_linear`; None in a PyTorch without oneDNN."""
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def onednn_linear(x: Any, weight: Any, bias: Any) -> Any:
    """``x W^T + b`` by oneDNN, without gradients; ``x`` and the weight of any strides."""
    return onednn_linear_operation()(x, weight, bias, "none", [], "")


def in_onednn_order(weight: Any) -> Any:
    """A copy of a weight in oneDNN's own order of products with 32 rows; others read it, too."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 32)


def run_exit_functions() -> None:
    """What a process does when it ends, which multiprocessing leaves out."""
    import atexit

    atexit._run_exitfuncs()


def scale_in_place(tensors: Sequence[Any], factor: Any) -> None:
    """Multiply tensors by a number, or by a tensor of one element, in one call."""
    torch._foreach_mul_(list(tensors), factor)


# transformers ------------------------------------------------------------------------------------


def attention_implementation(config: Any) -> str | None:
    """The name of the attention function that models of this configuration call."""
    name: str | None = config._attn_implementation
    return name


def supports_sdpa(model: Any) -> bool:
    """Whether a model's own code works with the boolean masks of ``sdpa``."""
    return bool(model._supports_sdpa)


# sacreBLEU ----------------------------------------------------------------------------------------


def line_statistics(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    """What a sacreBLEU metric counts in each line, against one reference each. Their sums are for
    :func:`score_of_statistics`.
    """
    lines = list(hypotheses), [list(references)]
    counts: list[list[float]] = metric._extract_corpus_statistics(*lines)
    return counts


def score_of_statistics(metric: Any, sums: Sequence[float]) -> float:
    """The corpus score of statistics that were summed over its lines."""
    return float(metric._compute_score_from_stats(list(sums)).score)


# Ray ----------------------------------------------------------------------------------------------


def silence_ray_workers(ray: Any) -> None:
    """Keep Ray from printing what its workers print, which has no public switch."""
    ray._private.worker.print_to_stdstream = lambda *words, **more: None


# torch: tensors without data ----------------------------------------------------------------------


def shapes_alone() -> AbstractContextManager[object]:
    """Inside it, new tensors have a shape, a dtype and a device, but no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def without_modes() -> AbstractContextManager[Any]:
    """Inside it, new tensors have data, also within :func:`shapes_alone`."""
    from torch.utils import _python_dispatch

    return _python_dispatch._disable_current_modes()
