"""The Transformer's own mixer, multi-head self-attention."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.options import StackOptions


@register("mixer", "multihead", paper="arXiv:1706.03762, section 3.2.2", traits={"attends"})
class SelfAttention(SelfOrCrossAttention, Mixer):
    """Multi-head self-attention: ``concat(head_1, ..., head_h) W_o`` with ``head_i = attention(x
    W_q_i, x W_k_i, x W_v_i)``.

    Shapes: ``(b n d) -> (b n d)``. Options: none; those of the stack (``heads``, ``attention``,
    ``weighting``, ``head_dim`` and so on) say what a head is.

    >>> import tfzoo, torch
    >>> mixer = tfzoo.create("mixer", "multihead", dim=8, heads=2, weighting="sparsemax")
    >>> mixer(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self, dim: int, options: StackOptions, layer: int = 0, layers: int = 1, causal: bool = False
    ) -> None:
        super().__init__(dim, options, layer, layers)
        self.causal = causal

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        if self.has_one_query(x, context):
            some = context.select(x)
            y = self.attend(some, self.queries(some), *self.keys_values(x), context.mask)
            return y.expand_as(x)  # that of other tokens is not read
        q, k, v = self.queries_keys_values(x)
        if context.rotation is not None:
            q, k = context.rotation(q), context.rotation(k)
        k = self.prepare_keys(k)
        if context.cache is not None:
            k, v = context.cache.target[layer].append(k=k, v=v, keep=context.kept)
        return self.attend(x, q, k, v, context.mask, context.bias)

    def has_one_query(self, x: Tensor, context: Context) -> bool:
        """Whether a single token of each text is read, and its place matters to the mask alone."""
        read, mask = context.read, context.mask
        return (
            read is not None
            and read.shape == (len(x), 1)
            and not mask.causal
            and mask.allowed is None
            and context.bias is None
            and context.rotation is None
        )
