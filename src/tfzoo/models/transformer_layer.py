"""One layer of an encoder or a decoder, and its sublayers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tfzoo.base import adapters
from tfzoo.base.functional import dropout as drop
from tfzoo.base.registry import NormSpec, create, registry
from tfzoo.contracts import Component, FeedForward, Norm, Residual, value_matrices
from tfzoo.errors import BadOption
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.multihead import CrossAttention
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import has_auxiliary_loss


def run_sublayer(sublayer: Residual, *args: Any) -> Tensor:
    """Call a sublayer."""
    return sublayer(*args)


class TransformerLayer(nn.Module):
    """Self-attention or another mixer, cross-attention if ``cross``, and a feed-forward sublayer.
    It is layer ``layer`` of ``layers``, counted from 0, in an encoder that a decoder of
    ``decoder_layers`` reads, if that is over 0.

    A mixer and a feed-forward component with the trait ``identity`` are left out. ``compiled`` and
    ``activation_checkpointing`` have an effect only in training mode with gradients enabled and
    without a cache.
    """

    compiled = False
    activation_checkpointing = False
    run_uncompiled: ClassVar[Callable[..., Tensor]] = staticmethod(run_sublayer)
    """Call a sublayer outside the compiled graph: one of recurrent networks, which break it, or a
    mixture of experts, where in a graph every expert would compute every token.
    """

    def __init__(
        self,
        dim: int,
        options: StackOptions,
        *,
        causal: bool,
        cross: bool,
        layer: int = 0,
        layers: int = 1,
        decoder_layers: int = 0,
    ) -> None:
        super().__init__()
        depth = {"layer": layer, "layers": layers}

        def sublayer(
            inner: nn.Module, norm: NormSpec = options.norm, dropout: float = options.dropout
        ) -> Residual | None:
            if isinstance(inner, Component) and "identity" in inner.entry.traits:
                return None
            supplied = {"inner": inner, "dropout": dropout, "dim": dim, "norm": norm, **depth}
            sides = {"cross": cross, "decoder_layers": decoder_layers}
            return create("residual", options.residual, **supplied, **sides)  # type: ignore[no-any-return]

        mixer: Mixer = create(
            "mixer", options.mixer, dim=dim, options=options, causal=causal, **depth
        )
        feedforward: FeedForward = create("feedforward", options.feedforward, dim=dim)
        self.feedforward_dropout = options.feedforward_dropout
        self.has_auxiliary_loss = has_auxiliary_loss(feedforward.entry)
        self.breaks_graph = "breaks_graph" in mixer.entry.traits
        if options.parallel is None:
            first = options.norm if layer or options.first_norm else "none"
            self.self_attention = sublayer(mixer, first)
        else:
            check_parallel(options, cross)
            norm = options.norm if options.parallel == "one_norm" else "none"
            self.self_attention = sublayer(Parallel(dim, options, mixer, feedforward), norm, 0.0)
        self.cross_attention = sublayer(CrossAttention(dim, options, **depth)) if cross else None
        self.feedforward = sublayer(feedforward) if options.parallel is None else None

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b n d) -> (b n d)``"""
        if context.cache is not None or not self.training or not torch.is_grad_enabled():
            return self.sublayers(x, context, layer)
        run = compiled(x.is_cpu) if self.compiled else TransformerLayer.sublayers
        if not self.activation_checkpointing:
            return run(self, x, context, 0)
        y: Tensor = checkpoint(
            run,
            self,
            x,
            context,
            0,
            use_reentrant=False,
            context_fn=lambda: (nullcontext(), state_restored(self)),
        )
        return y

    def sublayers(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """Apply the sublayers; ``layer`` is the index of this layer in the cache."""
        if self.self_attention is not None:
            run = self.run_uncompiled if self.compiled and self.breaks_graph else run_sublayer
            x = run(self.self_attention, x, context.valid, context, layer)
        if self.cross_attention is not None:
            x = self.cross_attention(x, context.valid, context, layer)
        if self.feedforward is not None:
            x = context.select(x)
            p = self.feedforward_dropout if self.training else 0.0
            args = (p, context.valid) if self.has_auxiliary_loss else (p,)
            run = self.run_uncompiled if self.compiled and len(args) > 1 else run_sublayer
            x = run(self.feedforward, x, context.valid, *args)
        return x


@cache
def compiled(on_cpu: bool) -> Callable[[TransformerLayer, Tensor, Context, int], Tensor]:
    """The compiled forward function, one for all layers and lengths, of all models."""
    # Here and not where it is written: importing the compiler takes a second.
    uncompiled: Any = torch.compiler.disable  # which is not typed
    TransformerLayer.run_uncompiled = staticmethod(uncompiled(run_sublayer))
    adapters.compile_every_graph()
    # Inductor's own random numbers take longer on a CPU than PyTorch's.
    return torch.compile(
        TransformerLayer.sublayers, dynamic=True, options={"fallback_random": on_cpu}
    )


@contextmanager
def state_restored(module: nn.Module) -> Iterator[None]:
    """On exit, restore the values that the module's buffers and its auxiliary losses had on entry:
    running statistics are updated once, and the losses are those of the first pass.
    """
    losses = [
        (part, part.auxiliary_loss) for part in module.modules() if isinstance(part, FeedForward)
    ]
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for part, loss in losses:
            part.auxiliary_loss = loss
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


class Parallel(nn.Module):
    """``mixer(x) + feedforward(x)`` (Wang and Komatsuzaki 2021, GPT-J), or with norms
    ``mixer(norm_1(x)) + feedforward(norm_2(x))`` (Black et al. 2022, arXiv:2204.06745, section
    2.1.2). Each of the two has its own dropout.
    """

    def __init__(
        self, dim: int, options: StackOptions, mixer: Mixer, feedforward: FeedForward
    ) -> None:
        super().__init__()
        for part in (mixer, feedforward):
            if "identity" in part.entry.traits:
                raise BadOption(f"parallel needs a {part.entry.kind} other than {part.entry.name}")
        self.mixer, self.feedforward = mixer, feedforward
        self.dropout, self.feedforward_dropout = options.dropout, options.feedforward_dropout
        self.passes_valid = has_auxiliary_loss(feedforward.entry)
        norm = options.norm if options.parallel == "two_norms" else "none"
        self.mixer_norm: Norm = create("norm", norm, dim=dim)
        self.feedforward_norm: Norm = create("norm", norm, dim=dim)

    def value_matrices(self) -> list[Tensor]:
        """Those of both."""
        return [*value_matrices(self.mixer), *value_matrices(self.feedforward)]

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """``(b n d) -> (b n d)``"""
        p, p_hidden = (self.dropout, self.feedforward_dropout) if self.training else (0.0, 0.0)
        args = (p_hidden, context.valid) if self.passes_valid else (p_hidden,)
        mixed: Tensor = self.mixer(self.mixer_norm(x, context.valid), context, layer)
        fed: Tensor = self.feedforward(self.feedforward_norm(x, context.valid), *args)
        return drop(mixed, p) + drop(fed, p)


def check_parallel(options: StackOptions, cross: bool) -> None:
    """Check whether a layer can be parallel."""
    if cross:
        raise BadOption(
            "parallel does not work with cross-attention, whose input is self-attention's output"
        )
    residual = registry("residual").options(options.residual)[0]
    if "parallel" not in residual.traits:
        raise BadOption(
            f"parallel is x + attention(norm(x)) + feedforward(norm(x)), which residual "
            f"{residual.name!r} is not: use residual: pre"
        )


# The losses that parts add to the training loss --------------------------------------------------


def parts_with_losses(model: nn.Module) -> dict[str, FeedForward]:
    """The feed-forward layers of a model that have an auxiliary loss, by name."""
    return {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, FeedForward) and "auxiliary_loss" in part.entry.traits
    }


def take_auxiliary_loss(parts: Iterable[nn.Module]) -> Tensor | None:
    """The sum of the losses that these parts set in the last forward pass, each taken once; None if
    there are none.

    >>> import torch, tfzoo
    >>> model = tfzoo.Encoder(8, heads=2, layers=2, feedforward="mixture")
    >>> loss = model(torch.randn(2, 3, 8)).square().mean() + take_auxiliary_loss(model.modules())
    >>> take_auxiliary_loss(model.modules()) is None
    True
    """
    total: Tensor | None = None
    for part in parts:
        if isinstance(part, FeedForward) and part.auxiliary_loss is not None:
            loss, part.auxiliary_loss = part.auxiliary_loss, None
            total = loss if total is None else total + loss
    return total


def measured(parts: Mapping[str, FeedForward]) -> dict[str, Tensor]:
    """What to log of the last forward pass: ``auxiliary_loss``, the sum of the losses, and
    ``expert_share/encoder.layers.0/3``, the share of the tokens that expert 3 of that layer took.
    """
    losses = [part.auxiliary_loss for part in parts.values() if part.auxiliary_loss is not None]
    found = {"auxiliary_loss": sum(losses[1:], losses[0]).detach()} if losses else {}
    for name, part in parts.items():
        if part.expert_share is not None:
            where = name.removesuffix(".feedforward.inner")
            for expert, share in enumerate(part.expert_share.unbind()):
                found[f"expert_share/{where}/{expert}" if where else f"expert_share/{expert}"] = (
                    share
                )
    return found
