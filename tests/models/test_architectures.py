"""Published architectures are what other people's code computes."""

from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.testing import assert_close

import tfzoo
from benchmarks.architectures import PEERS, SIZES, build, compare
from tests.exact import close
from tests.golden import load, parameters
from tfzoo.errors import BadOption, Clash, UnknownName
from tfzoo.models import architectures
from tfzoo.models.architectures.config import own_classes
from tfzoo.models.architectures.weights import convert_weights
from tfzoo.testing.subject import pass_padding

IDS = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
SMALL: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 1}
MODELS: dict[str, Any] = {
    "Transformer": lambda **options: tfzoo.Transformer(20, **options)(IDS, IDS),
    "TransformerClassifier": lambda **options: tfzoo.TransformerClassifier(20, 3, **options)(IDS),
    "LanguageModel": lambda **options: tfzoo.LanguageModel(20, **options)(IDS),
    "MaskedLanguageModel": lambda **options: tfzoo.MaskedLanguageModel(20, **options)(IDS),
}
REFUSED = {
    "Transformer": {"gptj": "parallel", "gpt_neox": "parallel", "fnet": "fourier"},
    "LanguageModel": {"fnet": "fourier"},
}


def test_every_architecture_is_compared_with_a_peer():
    assert {*PEERS, "vaswani2017"} == {*architectures.names()}


@pytest.mark.parametrize("name", sorted(PEERS))
def test_an_architecture_is_hugging_faces(name):
    """Outputs and gradients, padded and not, one token at a time, and of an export."""
    found, bound = compare(name), PEERS[name].bound
    assert found.outputs <= bound
    assert found.gradients <= bound
    assert found.cached is None or found.cached <= bound
    assert found.exported <= bound


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_vaswani_2017_is_the_golden_arrays(side):
    golden = {one: load(f"layer/{one}_post_relu")[1] for one in ("encoder", "decoder")}
    theirs = {
        f"{one}.layers.0.{key}": value.double().requires_grad_()
        for one, arrays in golden.items()
        for key, value in parameters(arrays).items()
    }
    feedforward = {"name": "relu", "hidden": 32}
    model = tfzoo.Transformer(
        9, like="vaswani2017", dim=16, heads=4, layers=1, feedforward=feedforward
    )
    state = {**theirs, "embedding.weight": torch.zeros(9, 16)}
    weights = convert_weights("vaswani2017", model, state)
    own = {key.removeprefix(f"{side}."): value for key, value in weights.items()}
    arrays, stack = golden[side], getattr(model.double().eval(), side)
    pass_padding(stack)  # the arrays hold outputs at padding, too
    x = arrays["in.x"].double()
    places = torch.arange(x.shape[1])[None]  # the peer's padding has positions too
    sinusoids = stack.position.embed(torch.zeros_like(x[:1]), places)
    inputs = [x - sinusoids]
    masks = {"mask": tfzoo.Mask(keys=arrays["mask.key_valid"])}
    if side == "decoder":
        masks["memory_mask"] = tfzoo.Mask(keys=arrays["mask.memory_valid"])
        inputs.append(arrays["in.memory"].double())
    own = {key: own[key] for key, _ in stack.named_parameters()}
    y = functional_call(stack, own, tuple(inputs), {**masks, "positions": places})
    close(y, arrays["out64.y"])
    used = {key: value for key, value in theirs.items() if key.startswith(side)}
    grads = torch.autograd.grad((y * arrays["cot.y"]).sum(), list(used.values()))
    for key, grad in zip(used, grads, strict=True):  # the peer's are in fp32
        expected = arrays[f"gradp.{key.removeprefix(f'{side}.layers.0.')}"]
        assert_close(grad.float(), expected, rtol=1e-4, atol=2e-5)


def test_the_transformers_embeddings_are_scaled_sinusoidal_and_tied():
    model = tfzoo.Transformer(30, like="vaswani2017", dim=16, heads=4, layers=1)
    assert model.target_embedding.factor == 4.0
    assert model.output_weight is model.source_embedding.weight
    assert model.config["position"] == "sinusoidal"


def test_weights_of_a_peer_load_and_those_of_another_do_not():
    peer, model = build("gpt2")
    model.load_state_dict(convert_weights("gpt2", model, peer.state_dict()))
    assert_close(model(IDS[:1]), peer(IDS[:1]).logits, rtol=1e-8, atol=1e-8)
    llama = tfzoo.LanguageModel(30, like="llama", **SIZES)
    with pytest.raises(BadOption, match=r"no parameter 'model\.layers\.0"):
        convert_weights("llama", llama, peer.state_dict())
    for layers, says in ((SIZES["layers"] + 1, "or of fewer layers"), (1, "more layers")):
        other = tfzoo.LanguageModel(30, like="gpt2", **{**SIZES, "layers": layers}, max_length=32)
        with pytest.raises(BadOption, match=says):
            convert_weights("gpt2", other, peer.state_dict())
    other = tfzoo.LanguageModel(30, like="gpt2", **SIZES, max_length=32, head_bias=True)
    with pytest.raises(BadOption, match="'gpt2' has no weights for output_bias"):
        convert_weights("gpt2", other, peer.state_dict())


@pytest.mark.parametrize("name", architectures.names())
def test_every_model_can_be_like_every_architecture(name):
    """But some sublayers do not go with cross-attention or decoders."""
    for model, build_and_call in MODELS.items():
        says = REFUSED.get(model, {}).get(name)
        if says is None:
            y = build_and_call(like=name, **SMALL)
            assert bool(y.isfinite().all())
        else:
            with pytest.raises((BadOption, Clash), match=says):
                build_and_call(like=name, **SMALL)


@pytest.mark.parametrize("name", architectures.names())
def test_a_classifier_like_a_language_model_is_causal_and_reads_the_last_token(name):
    config = tfzoo.TransformerClassifier(20, 3, like=name, **SMALL).config
    language_model = architectures.architecture(name).model == "LanguageModel"
    assert (config["causal"], config["pooling"] == "last") == (language_model, language_model)


def test_every_key_can_be_changed_on_top_and_the_configuration_says_all():
    model = tfzoo.LanguageModel(20, like="llama", norm="layer", tie=True, **SMALL)
    assert model.config["norm"] == "layer"
    assert model.config["feedforward"] == "swiglu"
    assert model.output_weight is model.embedding.weight
    model.config["position"]["layout"] = "interleaved"
    assert architectures.architecture("llama").stack["position"]["layout"] == "half"
    again = tfzoo.LanguageModel(**model.config)
    assert again.config == model.config
    assert again.state_dict().keys() == model.state_dict().keys()


def test_a_model_of_another_class_gets_the_layers():
    """And a class derived from the architecture's own gets all."""

    class Mine(tfzoo.LanguageModel):
        pass

    assert Mine(20, like="llama", **SMALL).projection is not None
    model = tfzoo.Transformer(20, like="llama", **SMALL)
    assert model.config["feedforward"] == "swiglu"
    assert model.config["tie"] == "all"


def test_classes_that_add_a_head_are_read_as_the_architectures_own():
    assert "BertForPreTraining" in own_classes("bert")


@pytest.mark.parametrize(
    ("like", "error", "says"),
    [
        ("lama", UnknownName, "no architecture named 'lama'. Did you mean 'llama'?"),
        ("../models/llama.yaml", UnknownName, "no architecture named '../models/llama.yaml'"),
        (["llama", "t5"], BadOption, "like is the name of one architecture"),
    ],
)
def test_what_no_model_can_be_like_is_one_line(like, error, says):
    with pytest.raises(error) as raised:
        tfzoo.LanguageModel(20, like=like, **SMALL)
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)
