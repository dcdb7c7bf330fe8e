"""A stack of layers, which is an encoder or a decoder."""

from collections.abc import Callable, Collection
from dataclasses import replace

import torch
from torch import Tensor, nn

from tfzoo.base.adapters import has_hooks
from tfzoo.base.functional import dropout
from tfzoo.base.linear import Linear
from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import Norm
from tfzoo.errors import BadOption, under
from tfzoo.masks import Mask
from tfzoo.models.context import Context, DecoderCache
from tfzoo.models.options import StackOptions
from tfzoo.models.positioned import Positioned, check_no_embedding, create_position, layer_context
from tfzoo.models.rules import acts_on_scores, mixes_tokens, names_that_fit
from tfzoo.models.transformer_layer import TransformerLayer


class Stack(Positioned):
    """Positional encoding, ``embedding_norm`` and ``embedding_projection`` if they are set,
    ``layers`` times :class:`TransformerLayer`, and a final norm if ``residual`` of the last layer
    has the trait ``final_norm``. :class:`tfzoo.Encoder` and :class:`tfzoo.Decoder` are stacks
    whose options are keyword arguments; models make theirs from a ``StackOptions``.

    Args:
        dim: width of the model.
        options: depth, components and dropout.
        causal: self-attention is causal.
        cross: each layer has cross-attention to ``memory``, the output of an encoder.
        allow: names of clash rules to ignore.
        decoder_layers: the number of layers of the decoder that reads this encoder; 0: none does.
    """

    __call__: Callable[..., Tensor]  # what torch leaves open

    def __init__(
        self,
        dim: int,
        options: StackOptions,
        *,
        causal: bool,
        cross: bool,
        allow: Collection[str],
        decoder_layers: int = 0,
    ) -> None:
        super().__init__()
        self.add_position(dim, options, causal=causal, cross=cross, allow=allow)
        self.dropout = options.dropout
        self.embedding_norm = embedding_norm(options.embedding_norm, dim)
        self.embedding_projection = Linear(dim, dim) if options.embedding_projection else None
        each = options.each_layer()
        self.layers = nn.ModuleList(
            TransformerLayer(
                dim,
                one,
                causal=causal,
                cross=cross,
                layer=layer,
                layers=len(each),
                decoder_layers=decoder_layers,
            )
            for layer, one in enumerate(each)
        )
        self.add_layer_positions(dim, options, each, allow)
        last = (each or [options])[-1]
        residual = registry("residual").options(last.residual)[0]
        self.final_norm: Norm | None = (
            create("norm", last.norm, dim=dim) if "final_norm" in residual.traits else None
        )

    def add_layer_positions(
        self, dim: int, options: StackOptions, each: list[StackOptions], allow: Collection[str]
    ) -> None:
        """Check layers that differ from the stack's ``options``, and create their positional
        encodings; layers with the same one share it.
        """
        self.layer_positions = nn.ModuleDict()
        self.positions_and_windows: list[tuple[str, int | None]] = []
        """For each layer, its window and the name of its positional encoding in
        ``layer_positions``; ``""`` is that of the stack.
        """
        names: dict[tuple[object, ...], str] = {}
        for layer, one in enumerate([options, *each], -1):
            with under(f"pattern.{layer}"):
                parts = one.parts(self.causal)
                if one != options and one not in each[:layer]:
                    self.check_layer(parts, allow)
                if one.position != options.position:
                    check_no_embedding(parts.position)
            # The sizes of an encoding that only adds to the embeddings do not matter in layers.
            acts = acts_on_scores(parts.position)
            key = repr(one.position), *((one.heads, one.head_dim, one.max_length) if acts else ())
            if layer < 0:
                names[key] = ""
                continue
            if key not in names:
                names[key] = str(layer)
                self.layer_positions[names[key]] = create_position(dim, one, self.causal)
            self.positions_and_windows.append((names[key], one.window))

    def contexts(self, context: Context) -> list[Context]:
        """The context of each layer; each distinct one is computed once."""
        computed: dict[tuple[str, int | None], Context] = {}
        for layer, (name, window) in enumerate(self.positions_and_windows):
            if (name, window) not in computed:
                position = self.layer_positions[name] if name else self.position
                computed[name, window] = layer_context(context, position, window, layer)  # type: ignore[arg-type]  # a ModuleDict of positions
        return [computed[one] for one in self.positions_and_windows]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        positions: Tensor | None = None,
        cache: DecoderCache | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """``(b n d), (b k d) -> (b n d)``. Outputs at padding are without meaning, and what
        stands there, also NaN, has no influence on others and their gradients.

        Args:
            memory: the output of an encoder.
            mask: ``Mask(keys=non_padding)``, boolean ``(b n)``, False at padding, or
                :meth:`tfzoo.Mask.right`, which is faster; None: no padding.
                ``Mask(causal=True, allowed=...)`` ``(b|1 1|h n k)``, False where a token may not
                attend to one of the ``k`` cached and new tokens that precede it. Without ``causal``
                it contradicts a decoder that is causal, and is refused.
            memory_mask: the same for the memory, ``(b k)``.
            positions: ``(b n)`` or ``(1 n)``, integers, for packed or shifted sequences. Default:
                0, 1, ... in each row, or the next after those in the cache; padding is not counted.
            cache: from :meth:`init_cache`, and changed by the call; ``x`` and its mask are then
                those of the new tokens only. They may be padded on either side.
            read: the tokens whose output is needed, by their index among all ``b n``: ``(b m)``,
                some of each text, or ``(1 m)``, any. The output is then ``(b|1 m d)``; where no
                other output has an influence on these, the last layer does not compute it.

        Raises:
            BadOption: a shape does not fit, a memory is missing, a token has no position in a
                bounded positional encoding, a mask contradicts ``causal``, or a mixer cannot read
                it.
            Clash: ``mask.allowed`` hides tokens that the norm reads, as instance norm does.
        """
        context = self.context(x, memory, mask, memory_mask, positions, cache)
        y = self.run(self.zero_padding(x, mask), mask, context, read)
        if cache is not None:
            cache.length += x.shape[1]
        return y

    def reads_early(self, context: Context) -> bool:
        """Whether what follows the last attention computes each token by itself, and nothing sees
        the last layer from outside.
        """
        last = self.layers[-1] if len(self.layers) else None
        return (
            isinstance(last, TransformerLayer)
            and last.feedforward is not None
            and context.cache is None
            and not (self.reads_valid or torch.compiler.is_compiling())
            and not any(has_hooks(one) for one in last.modules())
        )

    def run(
        self, x: Tensor, mask: Mask | None, context: Context, read: Tensor | None = None
    ) -> Tensor:
        """Positional encoding, layers and final norm: ``(b n d) -> (b n d)``, or with ``read`` ``->
        (b|1 m d)``. ``mask`` and ``read`` are those of the forward pass; ``context`` is from
        :meth:`context`.
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
        contexts, context = self.contexts(context), replace(context, read=read)
        early = read is not None and self.reads_early(context)
        if early:
            contexts[-1] = replace(contexts[-1], read=read)
        for index, layer in enumerate(self.layers):
            x = layer(x, contexts[index], index)
        x = x if self.final_norm is None else self.final_norm(x, context.valid)
        return x if early else context.select(x)


def embedding_norm(spec: Spec | None, dim: int) -> Norm | None:
    """The norm of the embeddings."""
    if spec is None:
        return None
    if mixes_tokens(registry("norm").options(spec)[0]):
        others = names_that_fit("norm", lambda one: not mixes_tokens(one))
        raise BadOption(f"embedding_norm must mix no tokens: {others}")
    return create("norm", spec, dim=dim)  # type: ignore[no-any-return]
