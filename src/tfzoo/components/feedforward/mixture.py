"""A sparse mixture of experts."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32, without_autocast
from tfzoo.base.functional import dropout as drop
from tfzoo.base.kernels import custom_functions_apply
from tfzoo.base.linear import CastLinear, Experts
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.feedforward._layers import Gated
from tfzoo.contracts import FeedForward
from tfzoo.errors import BadOption

MOST_EXPERTS = 100_000
"""Each expert is a step of a loop, and a view of the weights."""


@register(
    "feedforward", "mixture", paper="arXiv:2401.04088, section 2.1", traits={"auxiliary_loss"}
)
class Mixture(FeedForward):
    """The best ``top_k`` of ``experts`` SwiGLU layers, weighted: ``sum_e w_e (silu(x W_e) * x V_e)
    U_e``, ``w`` the ``top_k`` largest of ``softmax(x R)`` divided by their sum.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layers ``(b n f)``. ``valid`` is ``(b
    n)``: padding is given to no expert, gets zeros and has no influence on the loss.

    Jiang et al. 2024 (Mixtral), section 2.1. An expert takes any number of tokens, so that what a
    token gets does not depend on other tokens. ``softmax(x R)`` is in fp32 or better. The balance
    loss is that of Fedus et al. 2021 (arXiv:2101.03961, eq. 4 to 6), of this layer: ``balance *
    experts * sum_e f_e p_e``, ``f_e`` the number of times that ``e`` was chosen and ``p_e`` the sum
    of ``softmax(x R)_e``, both divided by the number of tokens that are no padding. It is
    ``balance * top_k`` where all experts take as much, and more where few take most. A task adds
    the losses of all layers; ``transformers`` computes one from the counts of all layers. Matrices
    start uniform by Glorot's rule.

    The host waits for the device once in each call, for the numbers of tokens. Where shapes must
    not depend on data (``torch.compile``, ``torch.export``, ``torch.func``), every expert computes
    every token.

    Options:
        experts: number of experts.
        top_k: number of experts for each token.
        hidden: width ``f`` of each expert's hidden layer; None is two thirds of ``4 d``, rounded.
        bias: whether router and experts have biases.
        activation: of an expert, ``silu(g) v`` of its two maps, or ``clamped``: ``g sigmoid(1.702
            g) (v + 1)``, of ``g`` up to 7 and ``v`` from -7 to 7 (gpt-oss).
        balance: weight of the balance loss; 0: none.

    Raises:
        BadOption: an option under 1 (``balance``: under 0), over 100,000 experts, or ``top_k`` over
            ``experts``.

    >>> import tfzoo, torch
    >>> layer = tfzoo.create("feedforward", {"name": "mixture", "experts": 4}, dim=8)
    >>> layer(torch.randn(2, 3, 8)).shape, layer.auxiliary_loss.shape, layer.expert_share.shape
    (torch.Size([2, 3, 8]), torch.Size([]), torch.Size([4]))
    """

    usual_width = staticmethod(Gated.usual_width)

    def __init__(
        self,
        dim: int,
        *,
        experts: int = 8,
        top_k: int = 2,
        hidden: int | None = None,
        bias: bool = False,
        activation: Literal["silu", "clamped"] = "silu",
        balance: float = 0.01,
    ) -> None:
        super().__init__()
        check_range("feedforward 'mixture': experts", experts, ge=1, le=MOST_EXPERTS, whole=True)
        check_range("feedforward 'mixture': top_k", top_k, ge=1, whole=True)
        check_range("feedforward 'mixture': hidden", hidden, ge=1, whole=True, optional=True)
        check_range("feedforward 'mixture': balance", balance, ge=0)
        if top_k > experts:
            raise BadOption(f"feedforward 'mixture': top_k={top_k} of experts={experts}")
        self.top_k, self.balance = top_k, balance
        width = hidden or self.usual_width(dim)
        self.activation = activation
        self.router = CastLinear(dim, experts, bias=bias)
        # Gate and value in one product.
        self.inner = Experts(experts, dim, 2 * width, blocks=2, bias=bias)
        self.outer = Experts(experts, width, dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.router.weight)
        if self.router.bias is not None:
            nn.init.zeros_(self.router.bias)

    def value_matrices(self) -> list[Tensor]:
        """Those of the experts; the router chooses."""
        return [self.inner.weight, self.outer.weight]

    def forward(self, x: Tensor, dropout: float = 0.0, valid: Tensor | None = None) -> Tensor:
        tokens = x.flatten(0, -2)
        padding = None if valid is None else ~valid.flatten()[:, None]
        if padding is not None:
            tokens = tokens.masked_fill(padding, 0.0)  # it may hold NaN
        with without_autocast(tokens):
            probs: Tensor = self.router(at_least_fp32(tokens)).softmax(-1)  # (t e)
        weights, chosen = probs.topk(self.top_k)  # (t k)
        if self.training:
            self.measure(probs, chosen, padding)
        weights = weights / weights.sum(-1, keepdim=True)
        if custom_functions_apply():
            return self.routed(tokens, weights, chosen, padding, dropout).view_as(x)
        every = torch.stack(self.apply_experts([tokens] * probs.shape[-1], dropout), 1)  # (t e d)
        weights = torch.zeros_like(probs).scatter(1, chosen, weights)
        return (weights[:, None].to(every.dtype) @ every).view_as(x)

    def measure(self, probs: Tensor, chosen: Tensor, padding: Tensor | None) -> None:
        """Set the balance loss and the share of each expert: ``(t e), (t k), (t 1)``."""
        counts = torch.zeros_like(probs).scatter(1, chosen, 1.0)
        n: int | Tensor = max(len(probs), 1)
        if padding is not None:
            counts, probs = (one.masked_fill(padding, 0.0) for one in (counts, probs))
            n = (~padding).sum().clamp(min=1)
        share, prob = counts.sum(0) / n, probs.sum(0) / n
        self.expert_share = share / self.top_k
        if self.balance:
            self.auxiliary_loss = self.balance * len(share) * (share * prob).sum()

    def routed(
        self,
        tokens: Tensor,
        weights: Tensor,
        chosen: Tensor,
        padding: Tensor | None,
        dropout: float,
    ) -> Tensor:
        """Each expert computes its own tokens: ``(t d), (t k), (t k), (t 1) -> (t d)``."""
        experts = self.router.out_features
        if padding is not None:
            chosen = chosen.masked_fill(padding, experts)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=experts + 1).tolist()
        *parts, rest = torch.split(tokens.index_select(0, order // self.top_k), counts)
        out = self.apply_experts(parts, dropout)
        out.append(rest.to(out[0].dtype))  # padding, all zeros
        by_expert = torch.cat(out)
        each = torch.empty_like(by_expert).index_copy(0, order, by_expert)
        mixed: Tensor = weights[:, None].to(each.dtype) @ each.view(*chosen.shape, tokens.shape[1])
        return mixed[:, 0]

    def apply_experts(self, parts: list[Tensor], dropout: float) -> list[Tensor]:
        """What each expert makes of its part: ``(n_e d) -> (n_e d)``."""
        hidden = (x.chunk(2, -1) for x in self.inner(parts))
        return self.outer(drop(self.gated(gate, value), dropout) for gate, value in hidden)  # type: ignore[no-any-return]

    def gated(self, gate: Tensor, value: Tensor) -> Tensor:
        """``(n f), (n f) -> (n f)``"""
        if self.activation == "clamped":
            gate, value = gate.clamp(max=7.0), value.clamp(-7.0, 7.0)
            return gate * torch.sigmoid(1.702 * gate) * (value + 1)
        return F.silu(gate) * value

    def __getstate__(self) -> dict[str, Any]:
        # What the last call measured belongs to a graph, or to a transform of torch.func that has
        # ended, and can be neither copied nor stored.
        return {**self.__dict__, "auxiliary_loss": None, "expert_share": None}
