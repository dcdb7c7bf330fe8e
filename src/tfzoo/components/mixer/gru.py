"""A gated recurrent network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.linear import Linear
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.mixer._packing import Packing
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer


@register("mixer", "gru", paper="arXiv:1406.1078, eq. 5 to 8", traits={"ordered", "breaks_graph"})
class GRU(Mixer):
    """Gated recurrent units: ``h_t = z * h_{t-1} + (1 - z) * tanh(x_t W + r * (h_{t-1} U + c) +
    a)`` with ``r, z = sigmoid(x_t W' + h_{t-1} U' + b)``, then a projection ``h V + e``.

    Shapes: ``(b n d) -> (b n d)``. In encoders a second network reads each row from its end, and
    ``h`` has the states of both (Bahdanau et al. 2014, arXiv:1409.0473, section A.2.1). The cache
    has the last state. PyTorch's kernels compute it, ``torch.nn.GRU``, which ``torch.compile``
    leaves out of its graphs and ``torch.export`` exports for one length.

    ``U`` starts orthogonal, other matrices uniform by Glorot's rule, and biases at zero.

    Options:
        hidden: width of the state of a network; None is ``d`` in decoders and ``d / 2`` in
            encoders, so that both directions together have ``d``.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.Encoder(8, 2, 1, mixer="gru")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, causal: bool, *, hidden: int | None = None) -> None:
        super().__init__()
        check_range("mixer 'gru': hidden", hidden, ge=1, whole=True, optional=True)
        self.causal = causal
        self.hidden = hidden or (dim if causal else -(-dim // 2))
        self.ahead = nn.GRU(dim, self.hidden, batch_first=True)
        self.back = None if causal else nn.GRU(dim, self.hidden, batch_first=True)
        self.output = Linear(self.hidden * (1 if causal else 2), dim)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The output projection initialises itself."""
        for gru in (self.ahead, self.back):
            for name, parameter in [] if gru is None else gru.named_parameters():
                if name.startswith("bias"):
                    parameter.zero_()
                    continue
                for gate in torch.split(parameter, self.hidden):
                    if name.startswith("weight_hh"):
                        nn.init.orthogonal_(gate)
                    else:
                        nn.init.xavier_uniform_(gate)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        packing = Packing(context.non_padding())
        x = packing.pack(x)
        state = x.new_zeros(x.shape[0], 1, self.hidden)
        if context.cache is None:
            y = states(self.ahead, x)
        else:
            kept = context.cache.target[layer].tensors
            state = kept.get("state", state)
            y = states(self.ahead, x, state.transpose(0, 1).contiguous())
            kept["state"] = packing.last(torch.cat([state, y], 1), 1)
        if self.back is not None:
            backward = states(self.back, packing.reverse(x))
            y = torch.cat([y, packing.reverse(backward)], -1)
        return packing.unpack(self.output(y))


def states(gru: nn.GRU, x: Tensor, first: Tensor | None = None) -> Tensor:
    """The states of a network: ``(b n d), (1 b c) -> (b n c)``. PyTorch's takes no texts of no
    token, so one of zeros stands in.
    """
    n = x.shape[1]
    y, _ = gru(x if n else F.pad(x, (0, 0, 0, 1)), first)
    return y[:, :n]  # type: ignore[no-any-return]
