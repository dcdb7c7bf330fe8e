"""Weightings, feed-forward layers and positions of models of others."""

import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.errors import BadOption

transformers = pytest.importorskip("transformers", minversion="5")

SIZE = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
IDS = torch.arange(14).view(2, 7) * 3 % 45 + 3
RIGHT = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])


def model_of(name):
    """A tiny model of transformers in float64 with random weights."""
    torch.manual_seed(0)
    configs = {
        "bert": lambda: transformers.BertConfig(**SIZE, intermediate_size=32),
        "gpt2": lambda: transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4),
        "llama": lambda: transformers.LlamaConfig(**SIZE, intermediate_size=32),
        "opt": lambda: transformers.OPTConfig(**SIZE, ffn_dim=32, word_embed_proj_dim=16),
        "t5": lambda: transformers.T5Config(
            vocab_size=50, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4
        ),
        "t5 gated": lambda: transformers.T5Config(
            **{"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2},
            num_heads=4,
            feed_forward_proj="gated-gelu",
        ),
    }
    model = transformers.AutoModel.from_config(configs[name]())
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.double().eval()


def output(model):
    """At tokens: a query that sees only padding may be anything."""
    batch = {"input_ids": IDS, "attention_mask": RIGHT}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = IDS[:, :4]
        return model(**batch)[0]
    return model(**batch)[0][RIGHT.bool()]


FEEDFORWARDS = {
    "gpt2": {"name": "gelu", "approximate": "tanh"},
    "llama": "swiglu",
    "t5": "relu",
    "t5 gated": {"name": "geglu", "approximate": "tanh"},
}


@torch.no_grad()
@pytest.mark.parametrize("name", FEEDFORWARDS)
def test_the_same_feedforward_leaves_the_output(name):
    model = model_of(name)
    expected = output(model)
    report = tfzoo.swap(model, feedforward=FEEDFORWARDS[name])
    assert len(report.replaced) == (4 if name.startswith("t5") else 2)
    close(output(model), expected)
    other = "reglu" if name in ("llama", "t5 gated") else "silu"
    assert "new weights" not in str(tfzoo.swap(model, feedforward=other))
    assert (output(model) - expected).abs().max() > 1e-3
    tfzoo.swap(model, feedforward=FEEDFORWARDS[name])
    close(output(model), expected)
    structure = "relu" if name in ("llama", "t5 gated") else "swiglu"
    assert "new weights" in str(tfzoo.swap(model, feedforward=structure))
    assert output(model).isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "opt", "t5"])
def test_the_same_weighting_leaves_the_output_and_another_does_not(name):
    model = model_of(name)
    expected = output(model)
    tfzoo.swap(model, weighting="softmax")
    close(output(model), expected)
    tfzoo.swap(model, weighting="sparsemax")
    sparse = output(model)
    assert (sparse - expected).abs().max() > 1e-3
    tfzoo.swap(model, attention="scaled_dot_product")
    close(output(model), sparse)
    tfzoo.swap(model, weighting="softmax")
    close(output(model), expected)


@torch.no_grad()
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_same_positions_leave_the_output_and_others_do_not(name):
    model = model_of(name)
    expected = output(model)
    tfzoo.swap(model, position="learned")
    close(output(model), expected)
    assert "table dropped" in str(tfzoo.swap(model, position="sinusoidal"))
    sinusoidal = output(model)
    assert (sinusoidal - expected).abs().max() > 1e-3
    tfzoo.swap(model, position="none")
    assert (output(model) - sinusoidal).abs().max() > 1e-3


REFUSED = {
    ("bert", "feedforward", "relu"): "no feedforward that is known.*two or three linear maps alone",
    ("opt", "feedforward", "relu"): "fc1 and fc2 stand in no module of their own",
    ("llama", "feedforward", "mixture"): "'mixture' has a loss of its own",
    ("llama", "position", "learned"): "no position that is known.*rotary and relative",
    ("opt", "position", "learned"): "OPTLearnedPositionalEmbedding is called with something else",
    ("t5", "position", "learned"): "no position that is known.*rotary and relative",
    ("gpt2", "position", "rotary"): "'rotary' acts in the attentions",
    ("gpt2", "position", "unit_interval"): "'unit_interval' needs lengths",
}


@pytest.mark.parametrize(("name", "kind", "part"), REFUSED)
def test_what_is_not_well_defined_is_refused_by_name(name, kind, part):
    model = model_of(name)
    before = [type(module) for module in model.modules()]
    with pytest.raises(BadOption, match=REFUSED[name, kind, part]):
        tfzoo.swap(model, **{kind: part})
    assert [type(module) for module in model.modules()] == before


def test_a_layer_that_computes_something_else_is_refused():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.down(self.up(x).sin())

    with pytest.raises(BadOption, match="it computes none of tfzoo's feed-forward layers"):
        tfzoo.swap(nn.Sequential(Twice()), feedforward="relu")
