"""Models of transformers keep their output, and train with every part."""

import copy
import json
import logging
import pickle

import pytest
import torch
from torch import nn

import tfzoo
from tests.swapping.test_swap import every_part
from tfzoo.base import adapters
from tfzoo.errors import BadOption, BadRun, Clash

transformers = pytest.importorskip("transformers", minversion="5")

SIZE = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
IDS = torch.arange(14).view(2, 7) * 3 % 45 + 5
RIGHT = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
SCALED = "scaled_dot_product"


def model_of(name):
    """A tiny model in float64 with random weights, and a batch."""
    torch.manual_seed(0)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    batch = {"input_ids": IDS, "attention_mask": RIGHT}
    if name == "bert":
        model = transformers.BertModel(transformers.BertConfig(**SIZE, **still))
    elif name == "vit":
        config = transformers.ViTConfig(**SIZE, **still, image_size=8, patch_size=4)
        model, batch = transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 8, 8)}
        batch["pixel_values"] = batch["pixel_values"].double()
    elif name == "t5":
        sizes = {"d_model": 16, "d_kv": 4, "num_layers": 1, "num_heads": 4, "d_ff": 32}
        config = transformers.T5Config(vocab_size=50, dropout_rate=0.0, **sizes)
        model = transformers.T5Model(config)
        batch = {**batch, "decoder_input_ids": IDS[:, :5]}
    else:
        made = {"llama": "Llama", "gemma": "Gemma", "gemma2": "Gemma2", "gpt_oss": "GptOss"}[name]
        few = {"num_key_value_heads": 2, "head_dim": 4}
        few |= {"sliding_window": 3} if name in ("gemma2", "gpt_oss") else {}
        few |= {"num_local_experts": 2, "num_experts_per_tok": 1} if name == "gpt_oss" else {}
        config = getattr(transformers, f"{made}Config")(**SIZE, **few)
        config._experts_implementation = "eager"  # others refuse float64
        model = transformers.AutoModelForCausalLM.from_config(config)
        batch["attention_mask"] = RIGHT.flip(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.double().eval(), batch


def output(model, batch):
    found = model(**batch)[0]
    if found.shape[:2] == RIGHT.shape:
        found = found[batch["attention_mask"].bool()]
    return found


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("name", "norm", "attention", "tolerance"),
    [
        ("bert", "layer", SCALED, 1e-9),
        ("vit", "layer", SCALED, 1e-9),
        ("llama", "rms", SCALED, 1e-5),  # these round to fp32 where they normalise
        ("gemma2", "rms", SCALED, 1e-5),  # windows, and scores with a cap
        ("gpt_oss", "rms", SCALED, 1e-5),  # windows and sinks
        ("gemma", "rms", SCALED, 1e-5),
        ("t5", "rms", SCALED, 1e-5),
    ],
)
def test_a_models_own_parts_give_its_own_output(name, norm, attention, tolerance, training):
    model, batch = model_of(name)
    model.train(training)
    with torch.no_grad():
        before = output(model, batch)
        names = dict(model.named_parameters())
        report = tfzoo.swap(model, norm=norm, attention=attention)
        after = output(model, batch)
    assert report.replaced
    assert not report.refused
    torch.testing.assert_close(after, before, rtol=tolerance, atol=tolerance)
    assert dict(model.named_parameters()).keys() == names.keys()


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_every_part_trains(name):
    model, batch = model_of(name)
    model.train()
    valid = True if name == "vit" else "attention_mask"
    for norm, attention in every_part():
        tfzoo.swap(model, norm, attention, valid=valid)
        model.zero_grad()
        output(model, batch).square().mean().backward()
        for part, parameter in model.named_parameters():
            if "pooler" not in part:
                assert parameter.grad is not None, (attention, norm, part)
                assert parameter.grad.isfinite().all(), (attention, norm, part)


@pytest.mark.parametrize("name", ["bert", "llama", "vit", "t5"])
def test_a_swap_survives_saving_and_is_no_secret(name, tmp_path, caplog):
    """Several swaps, also where a tensor has another name or is saved once for several."""
    model, batch = model_of(name)
    tfzoo.swap(model, {"name": "rms", "eps": 0.1}, skip="*layer*0*")
    tfzoo.swap(model, attention="additive", allow=["unrotatable-attention"])
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    pickle.loads(pickle.dumps(copy.deepcopy(model.double()))).save_pretrained(tmp_path)
    found = tfzoo.from_pretrained(tmp_path)
    assert type(found) is type(model)
    torch.testing.assert_close(output(found, batch), output(model, batch), rtol=0.0, atol=0.0)
    with caplog.at_level("WARNING"):
        logger = logging.getLogger("transformers")
        logger.addHandler(caplog.handler)
        type(model).from_pretrained(tmp_path)
        logger.removeHandler(caplog.handler)
    assert "tfzoo_swaps" in caplog.text


def test_a_swapped_model_keeps_its_dtype(tmp_path):
    """Also where the key of the swaps comes first among the tensors, before ``transformer``."""
    config = transformers.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=1, n_head=4)
    model = transformers.GPT2LMHeadModel(config).bfloat16()
    tfzoo.swap(model, norm="rms")
    model.save_pretrained(tmp_path)
    found = tfzoo.from_pretrained(tmp_path)
    assert {one.dtype for one in found.parameters()} == {torch.bfloat16}


def test_models_of_one_config_are_swapped_each_for_itself(tmp_path):
    config = transformers.BertConfig(**SIZE)
    first, second, plain = (transformers.BertForSequenceClassification(config) for _ in range(3))
    tfzoo.swap(first, attention="cosine")
    tfzoo.swap(second, norm="rms")
    second.save_pretrained(tmp_path)
    assert type(tfzoo.from_pretrained(tmp_path)) is type(second)
    assert plain.config is config
    assert not hasattr(config, "tfzoo_swaps")
    assert adapters.attention_implementation(config) == "sdpa"
    for model in (first, second):
        attention = model.bert.encoder.layer[0].attention.self
        assert model.config is model.bert.config is attention.config


def test_a_padding_mask_that_was_a_function_is_told_when_the_model_is_loaded(tmp_path):
    model, _ = model_of("bert")
    tfzoo.swap(model, norm="batch", valid=lambda *args, **named: named["attention_mask"])
    model.save_pretrained(tmp_path)
    with pytest.raises(BadRun, match=r"valid was a function.*pass valid='attention_mask'"):
        tfzoo.from_pretrained(tmp_path)


def test_a_strangers_swaps_run_no_code(tmp_path):
    model, _ = model_of("bert")
    tfzoo.swap(model, norm="rms")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, message in (
        ({"architectures": ["os.system"]}, "no model"),
        ({"architectures": ["AutoModel"]}, "no model"),
        ({"tfzoo_swaps": [{"norm": "os.system"}]}, "no norm named"),
        ({"attn_implementation": "kernels-community/flash-attn"}, "code at the Hub"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(BadRun, match=message):
            tfzoo.from_pretrained(tmp_path)


@pytest.mark.parametrize("attention", ["additive", SCALED])
def test_cached_generation_equals_uncached(attention):
    model, batch = model_of("llama")
    tfzoo.swap(model, attention=attention, allow=["unrotatable-attention"])
    cached, uncached = (
        model.generate(**batch, max_new_tokens=4, do_sample=False, use_cache=use)
        for use in (True, False)
    )
    assert cached.tolist() == uncached.tolist()


def test_a_decoder_with_rotary_positions_is_checked_for_clashes():
    model, _ = model_of("llama")
    with pytest.raises(Clash, match="unrotatable-attention"):
        tfzoo.swap(model, attention="additive")
    with pytest.raises(Clash, match="leaky-norm"):
        tfzoo.swap(model, norm="batch", valid="attention_mask")
    config = transformers.BloomConfig(vocab_size=9, hidden_size=8, n_layer=1, n_head=2)
    with pytest.raises(Clash, match="leaky-norm"):  # whose attention has no is_causal
        tfzoo.swap(transformers.BloomModel(config), norm="batch", valid=True)


def test_a_padding_mask_that_no_call_has_is_refused():
    model, batch = model_of("bert")
    tfzoo.swap(model, norm="batch", valid="attn_mask")
    with pytest.raises(BadOption, match="declares no argument 'attn_mask' and was called without"):
        model(**batch)


def test_an_attention_outside_of_its_model_is_refused():
    model, _ = model_of("bert")
    layer = model.encoder.layer[0]
    with pytest.raises(BadOption, match="needs its transformers model"):
        tfzoo.swap(layer, attention="additive")
    assert tfzoo.swap(layer, norm="rms").replaced


def test_a_model_that_reads_the_dtype_of_a_norms_weight_takes_one_without():
    config = transformers.MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=50)
    model = transformers.MambaModel(config).eval()
    for norm in ("none", "scale"):
        tfzoo.swap(model, norm=norm)
        assert model(torch.tensor([[1, 2, 3]])).last_hidden_state.shape == (1, 3, 32)


def test_the_attention_function_of_a_transformers_model():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=4, patch_size=4))
    model.set_attn_implementation("eager")
    assert adapters.attention_implementation(model.layers[0].attention.config) == "eager"
    assert adapters.supports_sdpa(model)
    longformer = transformers.LongformerModel  # which has attention of its own kind
    assert not adapters.supports_sdpa(longformer)


def test_a_run_of_tfzoo_is_loaded_otherwise(own_folder):
    (own_folder / "run").mkdir()
    (own_folder / "run/config.yaml").write_text("task: translation\n", "utf-8")
    with pytest.raises(BadRun, match=r"run is a run of tfzoo: tfzoo.load\('run'\)"):
        tfzoo.from_pretrained("run")
