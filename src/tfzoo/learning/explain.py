"""Statistics of attention weights and embeddings during training."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo.contracts import Attention
from tfzoo.errors import BadOption
from tfzoo.learning.scoring import logs_now
from tfzoo.masks import Mask, Pairs
from tfzoo.models.fsdp import reshard, unshard
from tfzoo.models.mixer import Mixer
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.stack import Stack

ROWS = 8
"""How many items of a batch the statistics are computed from."""

Found = dict[str, list[Tensor]]
"""Values of each statistic, one per layer, by name: ``encoder/entropy``."""


class Explain(L.Callback):
    """Logs statistics of attention and embeddings at the Trainer's logging steps: of tasks, and of
    any LightningModule with an encoder or decoder of tfzoo and a method ``forward_batch(batch)``,
    which runs its model as ``training_step`` does.

    At a logging step, the step's first batch passes through the model once more, in evaluation
    mode. The attention weights of its first 8 items are computed by
    :meth:`tfzoo.contracts.Attention.weights`, whatever kernel the model uses. The trained weights
    are bit for bit those of a run without this callback.

    - ``explain/SIDE/entropy``: entropy of a query's attention weights, in nats; ``SIDE`` is
      ``encoder`` or ``decoder`` (self-attention), as the module is called, or ``cross``. Weights
      that do not sum to one are divided by the sum of their absolute values
    - ``explain/SIDE/largest_weight``: largest attention weight of a query
    - ``explain/SIDE/own_token``: share of queries whose largest weight is that of their own token;
      not for ``cross``
    - ``explain/SIDE/score_variance``: variance of a query's scores over its visible keys, after
      division by the temperature, before a soft cap and a bias
    - ``explain/SIDE/embedding_variance``: variance of the stack's input, before positional
      encoding; not for ``cross``

    The statistics of attention are means over layers, heads and non-padding queries. With several
    processes, the values of rank 0 are logged.

    Raises:
        BadOption: (when training starts) the module has no such method or no such part.
    """

    def __init__(self) -> None:
        self.step = -1  # the last one that was looked at

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        stacks = [one for one in pl_module.modules() if isinstance(one, Stack)]
        if not stacks or not hasattr(pl_module, "forward_batch"):
            raise BadOption(
                f"Explain: {type(pl_module).__name__} needs an encoder or decoder of tfzoo and a "
                "method forward_batch(batch), which runs its model as training_step does"
            )

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self.step and logs_now(trainer):
            self.step = trainer.global_step
            found = statistics(trainer, pl_module, batch)
            pl_module.log_dict({f"explain/{name}": value for name, value in found.items()})


@torch.no_grad()
def statistics(trainer: L.Trainer, module: Any, batch: Any) -> dict[str, Tensor]:
    """Statistics of attention and embeddings on the first items of a batch, by name."""
    found: Found = defaultdict(list)
    before = [one for one in module.modules() if one.training]
    unshard(module)
    module.eval()
    try:
        with recorded(module, found), trainer.precision_plugin.train_step_context():
            module.forward_batch(batch)
    finally:
        for one in before:
            one.training = True
        reshard(module)
    return {name: torch.stack(values).mean() for name, values in found.items()}


@contextmanager
def recorded(model: nn.Module, found: Found) -> Iterator[None]:
    """Forward hooks on stacks and attentions that record statistics of their inputs."""
    watched: dict[nn.Module, Callable[..., None]] = {}
    for name, stack in model.named_modules():
        if isinstance(stack, Stack):
            side, valid = name.rpartition(".")[2], list[Tensor | None]()
            watched[stack] = partial(record_stack, side, found, valid)
            for block in stack.modules():
                if isinstance(block, SelfOrCrossAttention):
                    of = side if isinstance(block, Mixer) else "cross"
                    watched[block.attention] = partial(record_attention, of, found, valid)
    with ExitStack() as hooks:
        for module, function in watched.items():
            hooks.enter_context(module.register_forward_pre_hook(function, with_kwargs=True))
        yield


def record_stack(
    side: str,
    found: Found,
    valid: list[Tensor | None],
    stack: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Pre-hook of a stack: records the variance of its input ``x`` ``(b n d)`` at non-padding
    tokens, and stores the padding mask ``valid`` ``(b n)`` for :func:`record_attention`.
    """
    x, mask = args[0][:ROWS], kwargs.get("mask")
    keys = None if mask is None or mask.keys is None else mask.keys[:ROWS]
    valid[:] = [keys]
    found[f"{side}/embedding_variance"].append((x if keys is None else x[keys]).float().var())


def record_attention(
    side: str,
    found: Found,
    valid: list[Tensor | None],
    attention: Attention,
    args: tuple[Tensor, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Pre-hook of the attention component of a :class:`SelfOrCrossAttention`: records statistics of
    its weights and scores for ``q`` and prepared keys ``k``, ``(b h q c), (b h k *)``.
    """
    q, k = (x[:ROWS] for x in args[:2])
    rows = torch.arange(len(q), device=q.device)
    bias, mask = kwargs.get("bias"), kwargs["mask"].select(rows)
    options = {name: value for name, value in kwargs.items() if name != "dropout"} | {"mask": mask}
    if bias is not None:
        options["bias"] = bias.select(rows) if isinstance(bias, Pairs) else bias[:ROWS]
    weights = attention.weights(q, k, **options)
    counted = weights.new_ones(weights.shape[:-1])
    if valid[0] is not None:
        counted = valid[0][:, None].expand(weights.shape[:-1]).float()

    def record(name: str, value: Tensor) -> None:
        found[f"{side}/{name}"].append((value * counted).sum() / counted.sum())

    largest, key = weights.max(-1)
    shares = weights.abs() / weights.abs().sum(-1, keepdim=True).clamp(min=1e-30)
    record("entropy", torch.special.entr(shares).sum(-1))
    record("largest_weight", largest)
    if side != "cross":
        queries = torch.arange(key.shape[-1], device=key.device)
        record("own_token", (key == mask.first_query(*weights.shape[-2:]) + queries).float())
    scores = attention.prepared_scores(q, k)
    record("score_variance", variance(scores.float() / kwargs["temperature"], mask))


def variance(scores: Tensor, mask: Mask) -> Tensor:
    """Variance of each query's scores over its visible keys: ``(b h q k) -> (b h q)``."""
    visible = mask.boolean(scores.shape[-2], scores.shape[-1], scores.device)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.nan)
    found = (scores - scores.nanmean(-1, keepdim=True)).square().nanmean(-1)
    return found if visible is None else found.where(visible.any(-1), 0.0)
