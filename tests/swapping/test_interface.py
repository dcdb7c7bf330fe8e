"""What a call of the attention interface of transformers hands over is what is computed."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tfzoo
from tests.exact import close
from tfzoo.errors import BadOption

transformers = pytest.importorskip("transformers", minversion="5")
from transformers.masking_utils import create_bidirectional_mask  # noqa: E402  # it may be missing
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402  # likewise

B, H, Q, C = 2, 4, 5, 3


def eager(
    module,
    query,
    key,
    value,
    mask,
    scaling=None,
    softcap=None,
    position_bias=None,
    s_aux=None,
    **kwargs,
):
    """Attention from its formula, in float64; masks of numbers and boolean ones."""
    key, value = (one.repeat_interleave(H // one.shape[1], 1) for one in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    if position_bias is not None:
        scores = scores + position_bias
    if mask is not None:
        boolean = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if boolean else scores + mask
    if s_aux is not None:
        sinks = s_aux.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat((scores, sinks), -1)
    weights = scores.softmax(-1)[..., : value.shape[-2]]
    return (weights @ value).transpose(1, 2), None


@dataclass
class Call:
    """Shapes, a factor of the query, what is handed to the interface and what its module has.
    ``hidden`` is the mask that the call means where it hands over none.
    """

    keys: int = Q
    queries: int = Q
    kv_heads: int = H
    value_dim: int = C
    factor: float = 1.0
    mask: Tensor | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    is_causal: bool | None = False
    hidden: Tensor | None = None


TRIANGLE = torch.ones(Q, Q, dtype=torch.bool).tril()[None, None]
PADDING = torch.arange(Q) < torch.tensor([[Q], [3]])
NUMBERS = torch.randn(B, 1, Q, Q, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
OF_HEADS = torch.randn(1, H, Q, Q, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
SINKS = torch.randn(H, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

CALLS = {
    "as usual": Call(arguments={"scaling": C**-0.5}),
    "without a scale": Call(),
    "query scaled before": Call(
        factor=C**-0.5, arguments={"scaling": 1.0}, attributes={"scaling": C**-0.5}
    ),
    "a scale of its own": Call(arguments={"scaling": 0.3}, attributes={"scaling": 7.0}),
    "soft cap": Call(arguments={"softcap": 0.5}, mask=TRIANGLE),
    "soft cap as an attribute alone": Call(attributes={"attn_logit_softcapping": 0.5}),
    "sinks": Call(arguments={"s_aux": SINKS}, attributes={"sinks": SINKS}, mask=TRIANGLE),
    "sinks and no mask": Call(arguments={"s_aux": SINKS}),
    "position bias": Call(arguments={"position_bias": OF_HEADS}),
    "position bias and padding": Call(
        arguments={"position_bias": OF_HEADS, "scaling": 1.0}, mask=PADDING[:, None, None]
    ),
    "causal by attribute": Call(is_causal=True, hidden=TRIANGLE),
    "causal by default": Call(is_causal=None, hidden=TRIANGLE),
    "not causal by argument": Call(arguments={"is_causal": False}, is_causal=True),
    "causal by argument": Call(arguments={"is_causal": True}, hidden=TRIANGLE),
    "causal with a position bias": Call(
        arguments={"is_causal": True, "position_bias": OF_HEADS}, hidden=TRIANGLE
    ),
    "a mask and causal": Call(arguments={"is_causal": True}, mask=PADDING[:, None, None]),
    "grouped keys": Call(kv_heads=2, mask=TRIANGLE),
    "mask of numbers": Call(mask=NUMBERS),
    "mask of numbers for each head": Call(mask=OF_HEADS),
    "mask of each head": Call(mask=(OF_HEADS > 0) | torch.eye(Q, dtype=torch.bool)),
    "padding": Call(mask=PADDING[:, None, None]),
    "padding, expanded": Call(mask=PADDING[:, None, None].expand(B, 1, Q, Q)),
    "padding of each head": Call(mask=PADDING[:, None, None].expand(B, H, 1, Q)),
    "mask of (q k)": Call(mask=TRIANGLE[0, 0]),
    "cross-attention": Call(keys=7, arguments={"is_causal": False}),
    "wide values": Call(value_dim=6, mask=TRIANGLE),
    "one query of a cache": Call(keys=7, queries=1, is_causal=True),
    "an empty static cache": Call(
        keys=7, arguments={"is_causal": True}, hidden=torch.ones(Q, 7, dtype=torch.bool).tril()
    ),
    "what no attention reads": Call(arguments={"sliding_window": 2, "position_ids": PADDING}),
}


class Caller(transformers.PreTrainedModel):
    """Hands one call to the attention interface."""

    config_class = transformers.BertConfig
    _supports_sdpa = _supports_attention_backend = True

    def __init__(self, call: Call) -> None:
        super().__init__(transformers.BertConfig(num_attention_heads=H, hidden_size=H * C))
        self.attention = CallingAttention(self.config, call)

    def forward(self, *qkv):
        return self.attention(*qkv)


class CallingAttention(nn.Module):
    """Has the attributes of an attention module of transformers, which are not to be believed."""

    def __init__(self, config: Any, call: Call) -> None:
        super().__init__()
        self.config, self.call, self.head_dim = config, call, C
        self.weight = nn.Parameter(torch.zeros(1))
        for name, value in call.attributes.items():
            setattr(self, name, value)
        if call.is_causal is not None:
            self.is_causal = call.is_causal

    def forward(self, query, key, value):
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        eagerly = attend is eager and self.call.mask is None
        mask = self.call.hidden if eagerly else self.call.mask
        y, _ = attend(
            self, query * self.call.factor, key, value, mask, dropout=0.0, **self.call.arguments
        )
        return y


@pytest.mark.parametrize("name", CALLS)
def test_the_same_attention_gives_what_the_call_says(name):
    call = CALLS[name]
    torch.manual_seed(0)
    model = Caller(call)
    sizes = (H, call.queries, C), (call.kv_heads, call.keys, C), (call.kv_heads, call.keys)
    q, k = (torch.randn(B, *size, dtype=torch.float64) for size in sizes[:2])
    v = torch.randn(B, *sizes[2], call.value_dim, dtype=torch.float64)
    model.set_attn_implementation("eager")
    expected = model(q, k, v)
    tfzoo.swap(model, attention="scaled_dot_product")
    close(model(q, k, v), expected)
    del model.attention.tfzoo  # as in a module that `only` leaves out
    close(model(q, k, v), expected)


def test_a_scale_before_the_call_and_one_in_it_are_the_same_to_every_part():
    """A component sees queries that nobody has scaled."""
    x = torch.randn(3, B, H, Q, C, dtype=torch.float64)
    for attention in ("cosine", "euclidean", "additive"):
        outputs = []
        for name in ("as usual", "query scaled before"):
            torch.manual_seed(0)
            model = Caller(CALLS[name])
            tfzoo.swap(model, attention=attention)
            outputs.append(model.double()(*x))
        close(*outputs)


class AddsToItsMask(Caller):
    """Makes its mask by ``transformers`` and adds a bias to it, so it has no ``sdpa``."""

    _supports_sdpa = False

    def forward(self, *qkv):
        mask = create_bidirectional_mask(self.config, qkv[0][:, 0], PADDING.long())
        self.attention.call = Call(mask=mask + NUMBERS)
        return super().forward(*qkv)


class SaysThatItIsCausal(Caller):
    """Looks both ways, though its attention has ``is_causal``; there is no mask."""

    def forward(self, *qkv):
        mask = create_bidirectional_mask(self.config, qkv[0][:, 0], torch.ones(B, Q).long())
        self.attention.call = Call(mask=mask, is_causal=True)
        return super().forward(*qkv)


@pytest.mark.parametrize("kind", [AddsToItsMask, SaysThatItIsCausal])
def test_masks_are_those_that_the_models_own_path_gets(kind):
    model, qkv = kind(Call(is_causal=True)), torch.randn(3, B, H, Q, C, dtype=torch.float64)
    model.set_attn_implementation("eager")
    expected = model(*qkv)
    tfzoo.swap(model, attention="scaled_dot_product")
    close(model(*qkv), expected)


def test_heads_of_several_stages_are_refused():
    model = Caller(Call(attributes={"num_heads": (2, 4)}))
    with pytest.raises(BadOption, match="the number or the width of its heads is not known"):
        tfzoo.swap(model, attention="scaled_dot_product")
