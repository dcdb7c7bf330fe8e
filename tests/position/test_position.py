"""Positions are held to T5, Llama, Marian, MPT and PyTorch, and to their formulas."""

import math
from importlib import import_module

import pytest
import torch
import transformers
from torch.testing import assert_close

from tests.exact import close
from tests.golden import load
from tfzoo.base.registry import create, registry
from tfzoo.errors import BadOption

LIMIT = {"atol": 2e-5, "rtol": 1e-5}


@pytest.mark.parametrize(
    ("case_id", "options"),
    [("joeynmt", {}), ("fairseq_table", {"order": "concatenated", "endpoint": True})],
)
def test_sinusoids_equal_recorded_peers(case_id, options):
    table = load(f"pos/sinusoidal_{case_id}")[1]["out.table"]
    table = table.view(-1, table.shape[-1])
    position = create("position", {"name": "sinusoidal", **options}, dim=table.shape[-1])
    pos = torch.arange(len(table))[None]
    assert_close(position.embed(torch.zeros(1, *table.shape), pos)[0], table, **LIMIT)


def test_sinusoids_equal_marian():
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    table = MarianSinusoidalPositionalEmbedding(40, 16).create_weight()
    position = create("position", {"name": "sinusoidal", "order": "concatenated"}, dim=16)
    assert_close(position.embed(torch.zeros(1, 40, 16), torch.arange(40)[None])[0], table, **LIMIT)


def test_unit_interval_is_the_same_for_a_text_with_more_padding():
    position = create("position", "unit_interval", dim=8)
    pos, length = torch.arange(6)[None], torch.tensor([[6], [3]])
    out = position.embed(torch.zeros(2, 6, 8), pos, length)
    assert_close(out[1, :3], out[0, ::2])
    with pytest.raises(BadOption, match="length"):
        position.embed(torch.zeros(2, 6, 8), pos)


@pytest.mark.parametrize("causal", [False, True])
def test_relative_bias_equals_t5(causal):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=16,
        num_heads=4,
        d_kv=4,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=40,
        is_decoder=causal,
    )
    peer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    position = create(
        "position",
        {"name": "relative_bias", "buckets": 16, "max_distance": 40},
        dim=16,
        heads=4,
        causal=causal,
    )
    position.load_state_dict({"table": peer.relative_attention_bias.weight})
    pos = torch.arange(100)[None]
    assert_close(position.bias(pos, pos), peer.compute_bias(100, 100))


@pytest.mark.parametrize(("model", "fraction"), [("llama", 1.0), ("gpt_neox", 0.25)])
def test_rotary_equals_llama_and_over_a_fraction_neox(model, fraction):
    module = import_module(f"transformers.models.{model}.modeling_{model}")
    name = {"llama": "Llama", "gpt_neox": "GPTNeoX"}[model]
    config = getattr(transformers, f"{name}Config")(hidden_size=128, num_attention_heads=4)
    config.rope_parameters["partial_rotary_factor"] = fraction
    peer = getattr(module, f"{name}RotaryEmbedding")(config)
    q, k, pos = torch.randn(2, 4, 9, 32), torch.randn(2, 4, 9, 32), torch.arange(3, 12)[None]
    wanted = module.apply_rotary_pos_emb(q, k, *peer(q, pos))
    spec = {"name": "rotary", "layout": "half", "fraction": fraction}
    rotate = create("position", spec, head_dim=32).angles(pos)
    for got, right in zip((rotate(q), rotate(k)), wanted, strict=True):
        assert_close(got, right, **LIMIT)


SCALED = [
    ("linear", {"factor": 4.0}),
    ("ntk", {"factor": 4.0}),
    ("yarn", {"factor": 40.0, "original_max_length": 64}),
    ("yarn", {"factor": 32.0, "original_max_length": 256, "beta_fast": 16.0, "beta_slow": 2.0}),
    ("yarn", {"factor": 32.0, "original_max_length": 256, "truncate": False}),
    ("yarn", {"factor": 4.0, "original_max_length": 4096, "attention_factor": 0.75}),
    ("yarn", {"original_max_length": 10**10, "beta_fast": 1e6}),  # a ramp beyond the last channel
    ("llama3", {}),
    ("llama3", {"factor": 32.0, "original_max_length": 512, "low_freq_factor": 2.0}),
    ("llama3", {"original_max_length": 1024, "high_freq_factor": 8.0}),
]


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize(("scaling", "options"), SCALED)
def test_scaled_rotary_equals_transformers(scaling, options, fraction):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    spec = {"name": "rotary", "layout": "half", "scaling": scaling, "fraction": fraction, **options}
    position, factor = create("position", spec, head_dim=64), options.get("factor", 8.0)
    given = {key.replace("max_length", "max_position_embeddings"): options[key] for key in options}
    parameters = {
        "rope_type": "dynamic" if scaling == "ntk" else scaling,
        "rope_theta": 10000.0,
        "partial_rotary_factor": fraction,
        **({"low_freq_factor": 1.0, "high_freq_factor": 4.0} if scaling == "llama3" else {}),
        **{"factor": factor, "original_max_position_embeddings": 8192, **given},
    }
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=1000,
        rope_parameters=parameters,
    )
    # The dynamic one computes a factor from the length of the text: here it is ours.
    length = 1000 * (2 * factor - 1) / factor if scaling == "ntk" else None
    rope = ROPE_INIT_FUNCTIONS[parameters["rope_type"]]
    frequencies, amplitude = rope(config, torch.device("cpu"), seq_len=length)
    pos = torch.tensor([[0, 1, 2, 30]])
    rotation, angles = position.double().angles(pos), pos[:, None, :, None] * frequencies.double()
    assert_close(rotation.cos, amplitude * angles.cos(), atol=1e-5, rtol=0.0)  # theirs: in fp32
    assert_close(rotation.sin, amplitude * angles.sin(), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 2.0}, "factor has no effect with scaling 'none'.*linear, llama3, ntk, yarn"),
        ({"scaling": "ntk", "beta_fast": 2.0}, "beta_fast has no effect.*yarn"),
        ({"truncate": False}, "truncate has no effect"),
        ({"scaling": "linear", "factor": 0.5}, "factor=0.5 must be .* at least 1"),
        ({"scaling": "yarn", "beta_slow": 64.0}, "beta_slow=64.0 must be under beta_fast=32.0"),
        ({"scaling": "llama3", "low_freq_factor": 4.0}, "must be under high_freq_factor=4.0"),
        ({"scaling": "yarn", "base": 1.0}, "base=1.0 must be .* over 1"),
        ({"fraction": 0.4}, "fraction=0.4, must be even, not 3"),
        ({"fraction": 0.01}, "must be even, not 0"),
    ],
)
def test_rotary_refuses_what_has_no_effect_or_no_sense(options, message):
    with pytest.raises(BadOption, match=message):
        create("position", {"name": "rotary", **options}, head_dim=8)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("view", ["heads behind tokens", "odd strides"])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_rotary_rotates_any_view_and_rotates_gradients_back(layout, view, fraction):
    stored = (
        torch.randn(2, 5, 3, 8)
        if view == "heads behind tokens"
        else torch.randn(2, 5, 3, 9)[..., :8]
    )
    x = stored.transpose(1, 2).requires_grad_()
    spec = {"name": "rotary", "layout": layout, "fraction": fraction}
    rotate = create("position", spec, head_dim=8).angles(torch.arange(5)[None])
    assert_close(rotate(x), rotate(x.contiguous()))
    assert_close(rotate(x).norm(dim=-1), x.norm(dim=-1))
    rotated = int(fraction * 8)
    assert torch.equal(rotate(x)[..., rotated:], x[..., rotated:])
    slope = torch.randn(x.shape)
    (grad,) = torch.autograd.grad(rotate(x), x, slope)
    assert_close(rotate(grad), slope)
    compiled = torch.compile(lambda x: rotate(x), fullgraph=True, backend="aot_eager")
    assert_close(compiled(x), rotate(x))
    assert_close(torch.autograd.grad(compiled(x), x, slope)[0], grad)


@pytest.mark.parametrize("heads", [6, 8])
def test_alibi_slopes_equal_mpt(heads):
    _, arrays = load(f"pos/alibi_{heads}")
    position = create("position", "alibi", heads=heads)
    assert_close(
        position.slopes(torch.device("cpu")), arrays["out.slopes"].flatten(), atol=1e-7, rtol=1e-6
    )
    length = arrays["out.mpt_bias"].shape[-1]
    bias = position.bias(torch.tensor([[length - 1]]), torch.arange(length)[None])
    assert_close(bias.flatten(), arrays["out.mpt_bias"].flatten(), atol=1e-6, rtol=1e-6)


def test_kerple_is_its_formula():
    """As in the authors' code, whose parameters are ``r1`` and ``r2`` themselves."""
    torch.manual_seed(0)
    position = create("position", "kerple", heads=64).double()
    r1, r2 = position.raw_r1.exp(), position.raw_r2.exp()[:, None, None]
    pos = torch.arange(7)[None]
    distance = (pos - pos.T).abs()
    bias = position.bias(pos, pos)
    wanted = -r1[:, None, None] * torch.log(1 + r2 * distance)
    close(bias[0], wanted)
    trained, slope = [position.raw_r1, position.raw_r2], torch.randn(bias.shape[1:])
    close(*(torch.autograd.grad(one, trained, slope) for one in (bias[0], wanted)))
    for start, limit in ((r1, 2.0), (r2, 1.0)):
        assert start.min() > 0
        assert 0.8 * limit < start.max() < limit


@pytest.mark.parametrize("causal", [False, True])
def test_continuous_bias_equals_the_network_of_swin_v2(causal):
    """Along one axis of the picture."""
    from transformers import Swinv2Config
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    config = Swinv2Config()
    network = Swinv2SelfAttention(config, 32, 4, 7).continuous_position_bias_mlp.double()
    spec = {"name": "continuous_bias", "hidden": 512, "max_distance": 20}
    position = create("position", spec, heads=4, causal=causal).double()
    position.load_state_dict(
        {
            "inner.weight": network[0].weight[:, 1:],
            "inner.bias": network[0].bias,
            "outer.weight": network[2].weight,
        }
    )
    q, k = torch.arange(30, 33)[None], torch.arange(33 if causal else 60)[None]
    distance = (k[0] - q[0, :, None]).clamp(-20, 0 if causal else 20).double()
    f = distance.sign() * torch.log2(1 + distance.abs()) / math.log2(21)
    wanted = network(torch.stack((torch.zeros_like(f), f), -1)).permute(2, 0, 1)
    close(position.bias(q, k)[0], wanted)


@pytest.mark.parametrize("name", registry("position").names())
def test_numbers_are_as_exact_where_half_precision_is_the_default(name):
    """As Lightning sets it for ``bf16-true``, and under the autocast of ``bf16-mixed``."""
    torch.manual_seed(0)
    position = create("position", name, dim=8, heads=2, head_dim=4, max_length=300, causal=False)
    pos, x, length = torch.arange(251, 261)[None], torch.randn(1, 10, 8), torch.tensor([[261]])
    q = torch.randn(1, 2, 10, 4)

    def computed():
        rotate = position.angles(pos)
        return [
            position.embed(x, pos, length),
            position.bias(pos, pos),
            None if rotate is None else rotate(q),
        ]

    wanted = computed()
    torch.set_default_dtype(torch.bfloat16)
    try:
        got = computed()
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got += computed()
    for one, other in zip(got, wanted * 2, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other)


def test_a_position_beyond_the_table_is_one_error():
    learned = create("position", "learned", dim=4, max_length=3)
    with pytest.raises(BadOption, match=r"positions from 0 to 3, but .* has 0 to 2: raise"):
        learned.embed(torch.zeros(1, 4, 4), torch.arange(4)[None])
