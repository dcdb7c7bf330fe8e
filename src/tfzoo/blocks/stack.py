"""The base class of encoder and decoder."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from tfzoo.blocks.context import Context
from tfzoo.blocks.linear import Linear
from tfzoo.blocks.options import StackOptions
from tfzoo.blocks.positioned import Positioned, check_no_embedding, create_position, layer_context
from tfzoo.blocks.traits import acts_on_scores, mixes_tokens, names_that_fit
from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.contracts import Norm
from tfzoo.dropout import dropout
from tfzoo.errors import BadOption, TfzooError
from tfzoo.masks import Mask
from tfzoo.registry import Spec, create, registry


class Stack(Positioned):
    """Positional encoding, ``embedding_norm`` and ``embedding_projection`` if they are set,
    ``layers`` times :class:`TransformerLayer`, and a final norm if ``residual`` of the last layer
    has the trait ``final_norm``.

    Args:
        dim: width of the model.
        options: depth, components and dropout.
        causal: self-attention is causal.
        cross: each layer has cross-attention to ``memory``, the output of an encoder.
        allow: names of clash rules to ignore.

    Raises:
        Clash: components that cannot work together.
        BadOption, UnknownName: an option that does not exist or has a wrong value.
    """

    def __init__(
        self,
        dim: int,
        options: StackOptions,
        *,
        causal: bool,
        cross: bool,
        allow: Collection[str],
    ) -> None:
        super().__init__()
        self.add_position(dim, options, causal=causal, allow=allow)
        self.dropout = options.dropout
        self.embedding_norm = embedding_norm(options.embedding_norm, dim)
        self.embedding_projection = Linear(dim, dim) if options.embedding_projection else None
        each = options.each_layer()
        self.layers = nn.ModuleList(
            TransformerLayer(dim, one, causal=causal, cross=cross, layer=layer, layers=len(each))
            for layer, one in enumerate(each)
        )
        self.add_pattern(dim, options, each, allow)
        last = (each or [options])[-1]
        residual = registry("residual").options(last.residual)[0]
        self.final_norm: Norm | None = (
            create("norm", last.norm, dim=dim) if "final_norm" in residual.traits else None
        )

    def add_pattern(
        self, dim: int, options: StackOptions, each: list[StackOptions], allow: Collection[str]
    ) -> None:
        """Check layers that differ from the stack's ``options``, and create their positional
        encodings; layers with the same one share it.

        Raises:
            BadOption: a positional encoding that adds to the embeddings.
            Clash: components that cannot work together.
        """
        self.layer_positions = nn.ModuleDict()
        self.views: list[tuple[str, int | None]] = []
        """For each layer, its window and the name of its positional encoding in
        ``layer_positions``; ``""`` is that of the stack.
        """
        names = {position_key(options): ""}
        for layer, one in enumerate(each):
            if one != options and one not in each[:layer]:
                self.check_entry(layer, one, allow)
            key = position_key(one)
            if key not in names:
                if one.position != options.position:
                    check_no_embedding(one.position, "pattern: ")
                names[key] = str(layer)
                self.layer_positions[names[key]] = create_position(dim, one, self.causal)
            self.views.append((names[key], one.window))

    def check_entry(self, index: int, options: StackOptions, allow: Collection[str]) -> None:
        """:meth:`check_layer` for an entry of the pattern, which the message names."""
        try:
            self.check_layer(options, self.causal, allow)
        except TfzooError as error:
            error.args = (f"pattern[{index}]: {error}",)
            raise

    def contexts(self, context: Context) -> list[Context]:
        """The context of each layer; each distinct one is computed once."""
        computed: dict[tuple[str, int | None], Context] = {}
        for layer, (name, window) in enumerate(self.views):
            if (name, window) not in computed:
                position = self.layer_positions[name] if name else self.position
                computed[name, window] = layer_context(context, position, window, layer)  # type: ignore[arg-type]  # a ModuleDict of positions
        return [computed[one] for one in self.views]

    def run(self, x: Tensor, mask: Mask | None, context: Context) -> Tensor:
        """Positional encoding, layers and final norm: ``(b n d) -> (b n d)``. ``mask`` is that of
        the forward pass; ``context`` is from :meth:`context`.
        """
        length = None
        if self.needs_length:
            length = (
                torch.full((1, 1), x.shape[1], device=x.device)
                if mask is None or mask.keys is None
                else mask.keys.sum(1, keepdim=True)
            )
        x = self.position.embed(x, context.pos, length)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)
        x = dropout(x, self.dropout if self.training else 0.0)
        contexts = self.contexts(context)
        for index, layer in enumerate(self.layers):
            x = layer(x, contexts[index], index)
        return x if self.final_norm is None else self.final_norm(x, context.valid)


def embedding_norm(spec: Spec | None, dim: int) -> Norm | None:
    """The norm of the embeddings.

    Raises:
        BadOption: it mixes tokens, so that a decoder would see later ones.
    """
    if spec is None:
        return None
    if mixes_tokens(registry("norm").options(spec)[0]):
        others = names_that_fit("norm", lambda one: not mixes_tokens(one))
        raise BadOption(f"embedding_norm must mix no tokens: {others}")
    return create("norm", spec, dim=dim)  # type: ignore[no-any-return]


def position_key(options: StackOptions) -> tuple[object, ...]:
    """Equal for two layers that can share one positional encoding. The sizes of an encoding that
    only adds to the embeddings do not matter, since layers do not use it.
    """
    if not acts_on_scores(registry("position").options(options.position)[0]):
        return (repr(options.position),)
    return repr(options.position), options.heads, options.head_dim, options.max_length
