"""Instance norm over the tokens of a sequence."""

from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.components.norm.layer import Layer


@register(
    "norm",
    "instance",
    paper="arXiv:1607.08022, eq. 4",
    traits={"mixes_tokens:always", "centres_texts"},
)
class Instance(Layer):
    """Normalise each channel over the real tokens of its sequence: ``(x - mean) / sqrt(var + eps) *
    weight + bias``.

    Shapes: ``(b n d), (b n) -> (b n d)``; ``weight`` and ``bias`` are ``(d)`` and start at one and
    zero (Ulyanov et al. 2016). Statistics in fp32 or better over real tokens only, with the biased
    variance; the output is 0 at padding. A sequence of one token gives ``bias``.

    Options:
        eps: added to the variance.

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> tfzoo.create("norm", "instance", dim=1)(x, valid).detach().round().flatten()
    tensor([-1.,  1.,  0.])
    """

    bias: nn.Parameter

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        wide = at_least_fp32(x)
        if valid is None:
            centred = wide - wide.mean(1, keepdim=True)
            variance = centred.square().mean(1, keepdim=True)
        else:
            padded = ~valid[..., None]
            count = valid.sum(1)[:, None, None].clamp(min=1)
            wide = wide.masked_fill(padded, 0.0)
            mean = wide.sum(1, keepdim=True) / count
            centred = (wide - mean).masked_fill(padded, 0.0)
            variance = centred.square().sum(1, keepdim=True) / count
        out = centred * (variance + self.eps).rsqrt() * self.weight + self.bias
        return (out if valid is None else out.masked_fill(padded, 0.0)).to(x.dtype)
