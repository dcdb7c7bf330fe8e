"""What explains a training: how attention looks, how much embeddings vary, and which components the
gradient reaches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo.blocks.multihead import MultiHead, SelfAttention
from tfzoo.blocks.stack import Stack
from tfzoo.contracts import Attention, FeedForward, Norm, Pooling, Position
from tfzoo.masks import Mask
from tfzoo.models.fsdp import full_tensor, reshard, unshard

ROWS = 8
"""Texts of a batch that are looked at."""

KINDS = {
    "attention": MultiHead,
    "norm": Norm,
    "feedforward": FeedForward,
    "position": Position,
    "pooling": Pooling,
    "embedding": nn.Embedding,
}
"""What a parameter counts to: the first of these that it lies in; ``output`` where it lies in none.
"""

Found = dict[str, list[Tensor]]


class Explain(L.Callback):
    """Logs, at the Trainer's logging steps alone, what explains the scores of a run.

    The first texts of the batch pass through the model once more, in evaluation mode: without
    dropout, and with a batch norm's running statistics. Attention is seen by the reference path
    that every attention has, so that the numbers are the same whatever kernel trains.
    Nothing that training uses is changed, and nothing random is drawn: the weights afterwards are
    those of a run without it, bit for bit.

    - ``explain/SIDE/entropy``: of a query's weights, in nats; ``SIDE`` is ``encoder`` or
      ``decoder`` (self-attention) or ``cross``
    - ``explain/SIDE/largest_weight``: of each query
    - ``explain/SIDE/own_token``: how often that is on the query's own token; not for ``cross``
    - ``explain/SIDE/score_variance``: over the keys that a query may look at, of scores divided by
      the temperature, before any bias
    - ``explain/SIDE/embedding_variance``: of what enters the stack, before positions; not for
      ``cross``
    - ``explain/gradient/KIND``: norm of the gradient, before clipping, of all parameters of
      attention blocks, norms, feed-forward layers, positions, embeddings, poolings, and ``output``,
      all others

    Means over layers, heads and real tokens; of several processes, the first one's texts. What it
    costs: ``benchmarks/explain.py``.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        every = getattr(trainer, "log_every_n_steps", 0)
        if not self.seen and every and (trainer.global_step + 1) % every == 0:
            self.seen = look(trainer, pl_module, batch)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        task: Any = pl_module
        if self.seen:
            self.gradients = gradient_norms(task.model)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        task: Any = pl_module
        if not self.gradients:
            return
        norms = torch.stack([*self.gradients.values()])
        norms = norms * (
            task.normalizer.norm / norms.norm().clamp(min=torch.finfo(norms.dtype).tiny)
        )  # of the mean loss, not of the sum
        values = (
            torch.stack([*(value.float() for value in self.seen.values())]).tolist()
            + norms.tolist()
        )
        names = [*self.seen, *(f"gradient/{kind}" for kind in self.gradients)]
        pl_module.log_dict(
            {f"explain/{name}": value for name, value in zip(names, values, strict=True)}
        )
        self.seen, self.gradients = {}, {}


@torch.no_grad()
def look(trainer: L.Trainer, task: Any, batch: Any) -> dict[str, Tensor]:
    """What attention and embeddings do on the first texts of a batch, by name."""
    found: Found = defaultdict(list)
    unshard(task.model)
    try:
        with (
            evaluating(task.model),
            watched(task.model, found),
            trainer.precision_plugin.train_step_context(),
        ):
            task.forward_batch(batch.first(ROWS))
    finally:
        reshard(task.model)
    return {name: torch.stack(values).mean() for name, values in found.items()}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In evaluation mode; each module is afterwards in the mode that it was in."""
    before = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in before:
            module.training = True


@contextmanager
def watched(model: nn.Module, found: Found) -> Iterator[None]:
    """Stacks and attentions tell what passes through them."""
    with ExitStack() as hooks:

        def hook(module: nn.Module, told: Callable[..., None]) -> None:
            hooks.callback(module.register_forward_pre_hook(told, with_kwargs=True).remove)

        for name, stack in model.named_modules():
            if isinstance(stack, Stack):
                valid: list[Tensor | None] = []
                hook(stack, partial(entered, name, found, valid))
                for block in stack.modules():
                    if isinstance(block, MultiHead):
                        own = isinstance(block, SelfAttention)
                        hook(
                            block.attention,
                            partial(attended, name if own else "cross", own, found, valid),
                        )
        yield


def entered(
    side: str,
    found: Found,
    valid: list[Tensor | None],
    stack: nn.Module,
    given: tuple[Any, ...],
    named: Mapping[str, Any],
) -> None:
    """A stack's hook: ``x`` ``(b n d)`` enters it, of which ``valid`` ``(b n)`` is real."""
    x, real = given[0], given[1] if len(given) > 1 else named.get("valid")
    valid[:] = [real]
    found[f"{side}/embedding_variance"].append((x if real is None else x[real]).float().var())


def attended(
    side: str,
    own: bool,
    found: Found,
    valid: list[Tensor | None],
    attention: Attention,
    given: tuple[Tensor, ...],
    named: Mapping[str, Any],
) -> None:
    """An attention's hook: of ``q`` and ``k``, ``(b h q c), (b h k *)``, their weights by the
    reference path.
    """
    q, k = given[:2]
    mask: Mask = named["mask"]
    temperature: float = named.get("temperature", 1.0)
    prepared: bool = named.get("keys_prepared", False)
    weights = attention.weights(
        q,
        k,
        mask=mask,
        bias=named.get("bias"),
        temperature=temperature,
        keys_prepared=prepared,
    )
    real = (
        torch.ones_like(weights[..., 0])
        if valid[0] is None
        else valid[0][:, None].expand(weights.shape[:-1]).float()
    )

    def tell(name: str, value: Tensor) -> None:
        found[f"{side}/{name}"].append((value * real).sum() / real.sum())

    largest, place = weights.max(-1)
    tell("entropy", torch.special.entr(weights).sum(-1))
    tell("largest_weight", largest)
    if own:
        tell(
            "own_token",
            (
                place
                == mask.first_query(*weights.shape[-2:])
                + torch.arange(place.shape[-1], device=place.device)
            ).float(),
        )
    scores = attention.prepared_scores(q, k) if prepared else attention.scores(q, k)
    tell("score_variance", variance(scores.float() / temperature, mask))


def variance(scores: Tensor, mask: Mask) -> Tensor:
    """Of each query's scores over the keys that it may look at: ``(b h q k) -> (b h q)``."""
    visible = mask.boolean(scores.shape[-2], scores.shape[-1], scores.device)
    if visible is None:
        return scores.var(-1, unbiased=False)
    count = visible.sum(-1, keepdim=True).clamp(min=1)
    mean = scores.masked_fill(~visible, 0.0).sum(-1, keepdim=True) / count
    return ((scores - mean).square().masked_fill(~visible, 0.0).sum(-1, keepdim=True) / count)[
        ..., 0
    ]


def gradient_norms(model: nn.Module) -> dict[str, Tensor]:
    """The norm of the gradient by kind of component."""
    gradients: dict[str, list[Tensor]] = defaultdict(list)
    kinds: dict[nn.Parameter, str] = {}
    for module in model.modules():  # the outermost first
        kind = next((kind for kind, cls in KINDS.items() if isinstance(module, cls)), None)
        for parameter in module.parameters() if kind else ():
            kinds.setdefault(parameter, str(kind))
    for parameter in model.parameters():
        if parameter.grad is not None:
            gradients[kinds.get(parameter, "output")].append(parameter.grad)
    return {
        kind: full_tensor(nn.utils.get_total_norm(gradients[kind])).float()
        for kind in sorted(gradients)
    }
