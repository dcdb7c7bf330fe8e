"""The blocks compute what PyTorch's own modules compute with the same weights, in float64."""

import pytest
import torch
from torch import nn

from tests.exact import close
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.encoder_decoder import Encoder
from tfzoo.models.options import StackOptions
from tfzoo.models.transformer_layer import TransformerLayer

POS = torch.arange(1)[None]  # read by positional encodings alone

DIM, HEADS = 16, 4


pytestmark = pytest.mark.usefixtures("in_float64")


def randomize(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


@torch.no_grad()
def copy_attention(ours, theirs):
    for part, weight, bias in zip(
        (ours.query, ours.key, ours.value),
        theirs.in_proj_weight.chunk(3),
        theirs.in_proj_bias.chunk(3),
        strict=True,
    ):
        part.weight.copy_(weight)
        part.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@torch.no_grad()
def copy_layer(ours, theirs):
    copy_attention(ours.self_attention.inner, theirs.self_attn)
    norms = [ours.self_attention.norm]
    if ours.cross_attention is not None:
        copy_attention(ours.cross_attention.inner, theirs.multihead_attn)
        norms.append(ours.cross_attention.norm)
    norms.append(ours.feedforward.norm)
    for index, norm in enumerate(norms, 1):
        norm.load_state_dict(getattr(theirs, f"norm{index}").state_dict())
    ours.feedforward.inner.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.inner.outer.load_state_dict(theirs.linear2.state_dict())


def padded():
    x = torch.randn(3, 6, DIM)
    valid = torch.arange(6) < torch.tensor([[6], [4], [1]])
    return x, valid


@pytest.mark.parametrize("residual", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_pytorchs(residual, activation):
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, 32, 0.0, activation, batch_first=True, norm_first=residual == "pre"
    )
    randomize(theirs).train()  # in eval mode its fast path answers with zeros at padding
    options = StackOptions(
        heads=HEADS, feedforward={"name": activation, "hidden": 32}, residual=residual
    )
    ours = TransformerLayer(DIM, options, causal=False, cross=False).eval()
    copy_layer(ours, theirs)
    x, valid = padded()
    got, wanted = (
        ours(x, Context(Mask(keys=valid), POS, POS), 0),
        theirs(x, src_key_padding_mask=~valid),
    )
    close(got[valid], wanted[valid])


@pytest.mark.parametrize("residual", ["pre", "post"])
def test_a_decoder_layer_is_pytorchs(residual):
    theirs = randomize(
        nn.TransformerDecoderLayer(DIM, HEADS, 32, batch_first=True, norm_first=residual == "pre")
    )
    options = StackOptions(
        heads=HEADS, feedforward={"name": "relu", "hidden": 32}, residual=residual
    )
    ours = TransformerLayer(DIM, options, causal=True, cross=True).eval()
    copy_layer(ours, theirs)
    memory, valid = padded()
    x = torch.randn(3, 5, DIM)
    hidden = nn.Transformer.generate_square_subsequent_mask(5)
    wanted = theirs(x, memory, tgt_mask=hidden, memory_key_padding_mask=~valid, tgt_is_causal=True)
    close(
        ours(x, Context(Mask(True), POS, POS, memory=memory, memory_mask=Mask(keys=valid)), 0),
        wanted,
    )


def test_a_pre_norm_stack_ends_with_a_norm_as_pytorchs():
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 32, batch_first=True, norm_first=True)
    theirs = randomize(
        nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(DIM), enable_nested_tensor=False)
    )
    ours = Encoder(
        DIM, HEADS, layers=3, feedforward={"name": "relu", "hidden": 32}, position="none"
    ).eval()
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(our_layer, their_layer)
    ours.final_norm.load_state_dict(theirs.norm.state_dict())
    x, valid = padded()
    close(ours(x, mask=Mask(keys=valid))[valid], theirs(x, src_key_padding_mask=~valid)[valid])
