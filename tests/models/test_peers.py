"""Layers and models of other projects, assembled from components by name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import tfzoo
from tests.golden import load, parameters
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.decoder import Decoder
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.transformer_layer import TransformerLayer

POS = torch.arange(1)[None]  # read by positional encodings alone


@torch.no_grad()
def without_biases(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.Linear) and part.bias is not None:
            part.bias.zero_()


@torch.no_grad()
def fill(
    block: SelfOrCrossAttention,
    weights: dict[str, Tensor],
    prefix: str,
    names: tuple[str, str, str, str],
) -> None:
    for part, name in zip((block.query, block.key, block.value, block.output), names, strict=True):
        part.weight.copy_(weights[f"{prefix}.{name}.weight"])


def test_llamas_layer_is_rms_rotary_and_swiglu() -> None:
    case, arrays = load("layer/llama_rms_rope_swiglu")
    weights, config = parameters(arrays), case["config"]
    stack = Decoder(
        config["embed_dim"],
        config["num_heads"],
        layers=1,
        cross_attention=False,
        norm="rms",
        position={"name": "rotary", "layout": "half"},
        feedforward={"name": "swiglu", "hidden": config["ffn_dim"]},
    ).eval()
    without_biases(stack)
    layer: TransformerLayer = stack.layers[0]
    fill(layer.self_attention.inner, weights, "self_attn", ("q_proj", "k_proj", "v_proj", "o_proj"))
    with torch.no_grad():
        layer.self_attention.norm.weight.copy_(weights["input_layernorm.weight"])
        layer.feedforward.norm.weight.copy_(weights["post_attention_layernorm.weight"])
        layer.feedforward.inner.inner.weight.copy_(
            torch.cat([weights["mlp.gate_proj.weight"], weights["mlp.up_proj.weight"]])
        )
        layer.feedforward.inner.outer.weight.copy_(weights["mlp.down_proj.weight"])
    stack.double()
    x = arrays["in.x"].double()
    valid = arrays["mask.key_valid"]
    rotation = stack.position.angles(torch.arange(x.shape[1])[None])
    y = layer(x, Context(Mask(True, valid), POS, POS, rotation=rotation), 0)
    seen = arrays["mask.attend"].any(-1)  # queries that may look at nothing are theirs to define
    # In its "float64" Llama still computes statistics and angles in fp32.
    wanted, fp32 = arrays["out64.y"][seen], arrays["out.y"][seen]
    bound = 2 * (fp32 - wanted).abs().max().item()
    assert bound < 1e-5
    torch.testing.assert_close(y[seen], wanted, rtol=0.0, atol=bound)


def test_t5_is_unscaled_dot_product_rms_and_relative_bias() -> None:
    case, arrays = load("model/t5_tiny_relu")
    weights, config = parameters(arrays), case["config"]
    model = tfzoo.Transformer(
        config["vocab"],
        config["d_model"],
        config["heads"],
        config["layers"],
        head_dim=config["head_dim"],
        attention="dot_product",
        norm="rms",
        position="relative_bias",
        feedforward={"name": "relu", "hidden": config["ffn"]},
        scale_embeddings=False,
        dropout=0.0,
    ).eval()
    without_biases(model)
    with torch.no_grad():
        model.target_embedding.weight.copy_(weights["shared.weight"])
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            stack.position.table.copy_(weights[bias])
            stack.final_norm.weight.copy_(weights[f"{side}.final_layer_norm.weight"])
            for index, layer in enumerate(stack.layers):
                block = f"{side}.block.{index}.layer"
                fill(
                    layer.self_attention.inner,
                    weights,
                    f"{block}.0.SelfAttention",
                    ("q", "k", "v", "o"),
                )
                layer.self_attention.norm.weight.copy_(weights[f"{block}.0.layer_norm.weight"])
                last = 1
                if layer.cross_attention is not None:
                    fill(
                        layer.cross_attention.inner,
                        weights,
                        f"{block}.1.EncDecAttention",
                        ("q", "k", "v", "o"),
                    )
                    layer.cross_attention.norm.weight.copy_(weights[f"{block}.1.layer_norm.weight"])
                    last = 2
                layer.feedforward.inner.inner.weight.copy_(
                    weights[f"{block}.{last}.DenseReluDense.wi.weight"]
                )
                layer.feedforward.inner.outer.weight.copy_(
                    weights[f"{block}.{last}.DenseReluDense.wo.weight"]
                )
                layer.feedforward.norm.weight.copy_(weights[f"{block}.{last}.layer_norm.weight"])
    model.double()
    valid = arrays["mask.key_valid"]
    source = arrays["in.src"].masked_fill(~valid, model.pad)
    assert ((source != model.pad) == valid).all()
    # The peer computed in fp32; here it is float64, so that all of the difference is the peer's.
    bound = {"rtol": 1e-5, "atol": 1e-5, "check_dtype": False}
    torch.testing.assert_close(model.encode(source)[valid], arrays["out.encoder"][valid], **bound)
    hidden = (
        model.hidden(source, arrays["in.tgt"], target_padding="none") * config["d_model"] ** -0.5
    )
    torch.testing.assert_close(model.logits(hidden), arrays["out.logits"], **bound)
