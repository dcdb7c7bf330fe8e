"""Multi-head attention with the interface of ``torch.nn.MultiheadAttention``."""

from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from tfzoo.base.adapters import NoTorchFastPath
from tfzoo.base.functional import dropout as drop
from tfzoo.base.registry import AttentionSpec, WeightingSpec, create
from tfzoo.contracts import Attention, Weighting
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.multihead import repeat_kv
from tfzoo.models.options import StackOptions


class MultiheadAttention(NoTorchFastPath, nn.Module):
    """``torch.nn.MultiheadAttention`` around any attention component.

    ``concat(head_1, ..., head_h) W_o`` with ``head_i = attention(query W_q_i, key W_k_i, value
    W_v_i)`` (Vaswani et al. 2017, section 3.2.2). Arguments, masks, results, initial values and the
    names and shapes of parameters are PyTorch's, so that state dicts load in both directions; what
    the attention itself trains is added under ``attention.``. Differences:

    - A query that may look at no key gives zeros (before the output projection) and finite
      gradients where PyTorch gives NaN.
    - ``is_causal=True`` without ``attn_mask`` is the causal mask; PyTorch refuses it.
    - ``add_bias_kv`` and ``add_zero_attn`` are refused.

    PyTorch's Transformer layers can hold this module. They then do not use their fast path, which
    would compute scaled dot-product attention instead of this one.

    Args:
        embed_dim: width of the queries and of the output.
        num_heads: number of heads of queries.
        dropout: dropout probability of the attention weights, in training mode.
        bias: projections have a bias.
        add_bias_kv, add_zero_attn: only False.
        kdim, vdim: widths of keys and values; ``embed_dim`` by default.
        batch_first: batches are ``(b n d)``, otherwise ``(n b d)``.
        device, dtype: of the parameters.
        attention: component, by name or as ``{name: ..., option: ...}``.
        head_dim: width of a query and a key of one head; ``embed_dim / num_heads`` by default.
        value_head_dim: width of a value of one head; ``head_dim`` by default.
        kv_heads: number of heads of keys and values, each shared by ``num_heads / kv_heads`` heads
            of queries (Ainslie et al. 2023); ``num_heads`` by default.
        temperature: divides the scores.
        cap: soft cap of the scores, ``cap * tanh(scores / temperature / cap)``; None: no cap.
        weighting: component from scores to weights, by name or as ``{name: ..., option: ...}``.

    An attention that depends on the layer's index is created as in the first layer of a model.

    Raises:
        BadOption: an option out of range or not supported; in a call, a tensor or a mask of a wrong
            shape or dtype.
        UnknownName: no attention or weighting has this name.

    >>> x = torch.randn(2, 5, 16)
    >>> self_attention = MultiheadAttention(16, 4, batch_first=True, attention="additive")
    >>> y, weights = self_attention(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([2, 5, 16]), torch.Size([2, 5, 5]))
    """

    in_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    q_proj_weight: Any  # these three are None where in_proj_weight is not
    k_proj_weight: Any
    v_proj_weight: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        attention: AttentionSpec = "scaled_dot_product",
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        kv_heads: int | None = None,
        temperature: float = 1.0,
        cap: float | None = None,
        weighting: WeightingSpec = "softmax",
    ) -> None:
        super().__init__()
        if add_bias_kv or add_zero_attn:
            raise BadOption(
                "tfzoo.MultiheadAttention has no add_bias_kv and no add_zero_attn: leave them "
                "False, or use torch.nn.MultiheadAttention"
            )
        options = StackOptions(
            heads=num_heads,
            head_dim=head_dim,
            value_head_dim=value_head_dim,
            kv_heads=kv_heads,
            temperature=temperature,
            cap=cap,
            attention_dropout=dropout,
        )
        self.embed_dim = embed_dim
        self.kdim = kdim or embed_dim
        self.vdim = vdim or embed_dim
        self.num_heads = num_heads
        self.kv_heads = kv_heads or num_heads
        self.head_dim = options.width_of_head(embed_dim)
        self.value_head_dim = value_head_dim or self.head_dim
        self.dropout = options.attention_dropout
        self.temperature = options.temperature
        self.cap = options.cap
        self.batch_first = batch_first
        self.widths = [
            num_heads * self.head_dim,
            self.kv_heads * self.head_dim,
            self.kv_heads * self.value_head_dim,
        ]
        self._add_parameters(bias, device, dtype)
        self.out_proj = nn.Linear(num_heads * self.value_head_dim, embed_dim, bias, device, dtype)
        component: Attention = create(
            "attention", attention, heads=num_heads, head_dim=self.head_dim, layer=0, layers=1
        )
        self.attention = component.to(device=device, dtype=dtype)
        weights: Weighting = create("weighting", weighting, heads=num_heads)
        is_softmax = "softmax" in weights.entry.traits
        self.weighting = None if is_softmax else weights.to(device=device, dtype=dtype)
        self.reset_parameters()

    def _add_parameters(
        self, bias: bool, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> None:
        """The input projections: one matrix where queries, keys and values have one width."""
        packed = self.kdim == self.vdim == self.embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (sum(self.widths), self.embed_dim) if packed else None,
            "q_proj_weight": None if packed else (self.widths[0], self.embed_dim),
            "k_proj_weight": None if packed else (self.widths[1], self.kdim),
            "v_proj_weight": None if packed else (self.widths[2], self.vdim),
            "in_proj_bias": (sum(self.widths),) if bias else None,
        }
        for name, shape in shapes.items():
            empty = None if shape is None else torch.empty(shape, device=device, dtype=dtype)
            self.register_parameter(name, None if empty is None else nn.Parameter(empty))

    def reset_parameters(self) -> None:
        """Initialise the projections as PyTorch does: Glorot and Bengio 2010, eq. 16, for the
        input, biases 0. The weight of ``out_proj`` keeps the initialisation of ``nn.Linear``.
        """
        for parameter in self.parameters(recurse=False):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
                nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the attention weights if ``need_weights``: without them it is faster.

        ``(q b d), (k b kdim), (k b vdim) -> (q b d), (b q k)``; batches come first if
        ``batch_first``; without a batch ``(q d), (k kdim), (k vdim) -> (q d), (q k)``.

        Args:
            query, key, value: the inputs of the projections.
            key_padding_mask: ``(b k)``, or ``(k)`` without a batch: True at keys that no query may
                look at, or numbers added to their scores.
            need_weights: return the weights, in training mode after dropout.
            attn_mask: ``(q k)`` or ``(b*h q k)``, or ``(h q k)`` without a batch: True where a
                query may not look at a key, or numbers added to the scores.
            average_attn_weights: weights are a mean over heads; otherwise they are ``(b h q k)``.
            is_causal: query ``i`` may look at keys 0 to ``i``. With an ``attn_mask``, this promises
                that ``attn_mask`` is the causal mask, which then need not be read.
        """
        if query.is_nested:
            raise BadOption(
                "MultiheadAttention takes no nested tensor: pass enable_nested_tensor=False to "
                "nn.TransformerEncoder, or use to_padded_tensor"
            )
        self._check_shapes(query, key, value)
        q, k, v = self._project(query, key, value)
        causal = is_causal and (
            attn_mask is None or (key_padding_mask is None and not need_weights)
        )
        mask, bias = mask_and_bias(
            q, k, key_padding_mask, None if causal else attn_mask, causal, query.dtype
        )
        y, weights = self._attend(q, k, v, mask, bias, need_weights)
        tokens, heads = self._axes(query)
        y = self.out_proj(rearrange(y, f"{heads} -> {tokens}"))
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights.squeeze(0) if query.dim() == 2 else weights
        return y, weights

    def _axes(self, query: Tensor) -> tuple[str, str]:
        """The axes of inputs and outputs, and those of heads, as einops patterns."""
        if query.dim() == 2:
            return "n (h c)", "1 h n c"
        return "b n (h c)" if self.batch_first else "n b (h c)", "b h n c"

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of each head: ``(b h q c), (b h k c), (b h k e)``."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:  # one product instead of three
            projected = torch.split(F.linear(query, weight, bias), self.widths, -1)
        else:
            weights = (
                (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
                if weight is None
                else torch.split(weight, self.widths)
            )
            biases = (None, None, None) if bias is None else torch.split(bias, self.widths)
            projected = tuple(map(F.linear, (query, key, value), weights, biases))
        tokens, heads_first = self._axes(query)
        q, k, v = (
            rearrange(x, f"{tokens} -> {heads_first}", h=heads)
            for x, heads in zip(
                projected, (self.num_heads, self.kv_heads, self.kv_heads), strict=True
            )
        )
        return q, repeat_kv(k, self.num_heads), repeat_kv(v, self.num_heads)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """``(b h q e)``, and the weights ``(b h q k)`` if they are needed."""
        p = self.dropout if self.training else 0.0
        options: dict[str, Any] = {
            "mask": mask,
            "bias": bias,
            "temperature": self.temperature,
            "cap": self.cap,
            "weighting": self.weighting,
        }
        if not need_weights:
            return self.attention(q, k, v, dropout=p, **options), None
        weights = drop(self.attention.weights(q, k, **options).to(v.dtype), p)
        return self.attention.combine(weights, v), weights

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        widths = (self.embed_dim, self.kdim, self.vdim)
        shapes = query.shape, key.shape, value.shape
        batch = 0 if self.batch_first else 1
        if (
            query.dim() not in (2, 3)
            or tuple(shape[-1] for shape in shapes) != widths
            or key.shape[:-1] != value.shape[:-1]
            or key.dim() != query.dim()
            or (query.dim() == 3 and key.shape[batch] != query.shape[batch])
        ):
            axes = "b n" if self.batch_first else "n b"
            raise BadOption(
                f"MultiheadAttention: query, key and value of widths {widths} must be "
                f"({axes} width) or (n width), keys and values of the same tokens; "
                f"not {', '.join(str(tuple(shape)) for shape in shapes)}"
            )


def mask_and_bias(
    q: Tensor,
    k: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    causal: bool,
    dtype: torch.dtype,
) -> tuple[Mask, Tensor | None]:
    """The mask of queries ``(b h q c)`` and keys ``(b h k c)``, and the bias to add to the scores,
    ``(b|1 h|1 q|1 k)`` of ``dtype``. ``key_padding_mask`` is ``(b k)``, or ``(k)`` for a batch of
    one, ``attn_mask`` ``(q k)`` or ``(b*h q k)``, each as in :meth:`MultiheadAttention.forward`.
    """
    (b, h, queries, _), keys = q.shape, k.shape[2]
    valid: Tensor | None = None
    allowed: Tensor | None = None
    bias: Tensor | None = None
    if key_padding_mask is not None:
        shape: tuple[int, ...] = (b, keys) if key_padding_mask.dim() == 2 or b > 1 else (keys,)
        check_mask("key_padding_mask", key_padding_mask, shape)
        key_padding_mask = key_padding_mask.view(b, keys)
        if key_padding_mask.dtype == torch.bool:
            valid = ~key_padding_mask
        else:
            bias = key_padding_mask[:, None, None]
    if attn_mask is not None:
        shape = (b * h, queries, keys) if attn_mask.dim() == 3 else (queries, keys)
        check_mask("attn_mask", attn_mask, shape)
        heads = (b, h) if attn_mask.dim() == 3 else (1, 1)
        attn_mask = attn_mask.reshape(*heads, queries, keys)
        if attn_mask.dtype == torch.bool:
            allowed = ~attn_mask
        else:
            bias = attn_mask if bias is None else bias + attn_mask
    mask = Mask(causal, valid, start=0, allowed=allowed)
    return mask, None if bias is None else bias.to(dtype)


def check_mask(name: str, mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise BadOption unless a mask is boolean or numbers, and of this shape."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise BadOption(
            f"MultiheadAttention: {name} must be boolean, True at what is hidden, or numbers that "
            f"are added to the scores, not {mask.dtype}"
        )
    if mask.shape != shape:
        raise BadOption(f"MultiheadAttention: {name} is {tuple(mask.shape)}, not {tuple(shape)}")
