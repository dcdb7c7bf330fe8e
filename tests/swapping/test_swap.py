"""A swap leaves what it does not change as it was, and says what it did."""

import copy
import pickle
import sys
from itertools import cycle, islice
from types import ModuleType

import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption, Clash, UnknownName

DIM, HEADS = 16, 4
PADDING = torch.arange(6) >= torch.tensor([[6], [4], [1]])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def randomize(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def encoder(**options):
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 32, 0.0, batch_first=True, **options)
    final = nn.LayerNorm(DIM)
    nested = not options
    return randomize(
        nn.TransformerEncoder(layer, 2, norm=final, enable_nested_tensor=nested).double()
    )


def tokens():
    return torch.randn(3, 6, DIM, dtype=torch.float64)


@torch.no_grad()
def output(model, x):
    return model(x, src_key_padding_mask=PADDING)[~PADDING]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_pytorchs_own_parts_give_pytorchs_output(norm_first, training):
    """In eval mode PyTorch computes a post-norm layer in one kernel, without calling its parts."""
    model, x = encoder(**{"norm_first": True} if norm_first else {}).train(training), tokens()
    before, names = output(model, x), dict(model.named_parameters())
    report = tfzoo.swap(model, norm="layer", attention="scaled_dot_product")
    assert len(report.replaced) == 7
    assert not report.kept
    assert not report.refused
    close(output(model, x), before)
    assert {name: one.tolist() for name, one in model.named_parameters()} == {
        name: one.tolist() for name, one in names.items()
    }


def every_part():
    """Each norm and each attention, in few pairs; all pairs are tested in stacks."""
    norms, attentions = registry("norm").names(), registry("attention").names()
    pairs = zip(cycle(norms), cycle(attentions), strict=False)
    return list(islice(pairs, max(len(norms), len(attentions))))


@pytest.mark.parametrize(("norm", "attention"), every_part())
def test_every_part_trains_and_padding_does_not_leak(norm, attention):
    model = encoder()
    tfzoo.swap(model, norm, attention, valid="~src_key_padding_mask")
    x = tokens()
    model(x, src_key_padding_mask=PADDING)[~PADDING].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    model.eval()
    other = x.masked_fill(PADDING[..., None], 99.0)
    close(output(model, other), output(model, x))


def test_what_carries_over_is_kept_and_the_rest_is_told():
    model = nn.Sequential(nn.LayerNorm(4, eps=1e-3), nn.RMSNorm(4), nn.Linear(4, 4))
    randomize(model)[0].bias.requires_grad_(False)
    bias = model[0].bias.tolist()
    report = tfzoo.swap(model, norm="rms")
    assert [one.reason for one in report.modules] == ["bias dropped", ""]
    assert model[0].eps == 1e-3
    assert model[1].eps == torch.finfo(torch.float32).eps
    assert tfzoo.swap(model, norm={"name": "layer", "eps": 0.5}).replaced == ["0", "1"]
    assert [model[0].eps, model[0].bias.tolist()] == [0.5, [0.0] * 4] != [0.5, bias]


def test_a_centred_norm_takes_and_gives_the_factor_not_the_number():
    model, x = nn.Sequential(tfzoo.create("norm", "rms", dim=4)), torch.randn(1, 3, 4)
    nn.init.normal_(model[0].weight)
    wanted = model(x)
    for spec in ({"name": "rms", "centred": True}, "rms"):
        tfzoo.swap(model, norm=spec)
        torch.testing.assert_close(model(x), wanted)


def test_frozen_weights_stay_frozen():
    model = encoder().requires_grad_(False)
    tfzoo.swap(model, norm="layer", attention="additive")
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    assert trained == {
        f"layers.{i}.self_attn.attention.{name}"
        for i in (0, 1)
        for name in ("query", "key", "score")
    }


def test_names_choose_and_the_report_is_a_table():
    model = encoder()
    model.norm = None
    report = tfzoo.swap(model, norm="rms", only="layers.*", skip=["*.norm2", "nothing"])
    assert report.replaced == ["layers.0.norm1", "layers.1.norm1"]
    assert report.kept == ["layers.0.norm2", "layers.1.norm2"]
    assert str(report).splitlines() == [
        "          modules              was        now",
        "replaced  layers.*.norm1  x 2  LayerNorm  rms        bias dropped",
        "kept      layers.*.norm2  x 2  LayerNorm  LayerNorm  in skip",
    ]


class OddLayerNorm(nn.Module):
    """Is called a norm and is none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(4)), 1e-5

    def forward(self, x):
        return x * self.weight


class ShiftedRMSNorm(nn.Module):
    """As Gemma's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.randn(4)), 1e-3

    def forward(self, x):
        variance = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(variance + self.variance_epsilon) * (1 + self.weight)


def test_a_norm_of_somebody_elses_is_known_by_what_it_computes():
    model = nn.Sequential(OddLayerNorm(), ShiftedRMSNorm(), nn.LayerNorm((3, 4)), nn.Linear(4, 4))
    x = torch.randn(2, 3, 4)
    before = model(x)
    report = tfzoo.swap(model, norm="rms")
    assert report.replaced == ["1"]
    assert [one.reason for one in report.modules if one.outcome == "refused"] == [
        "it computes neither layer norm nor RMS norm",
        "it normalises over more than one axis",
    ]
    torch.testing.assert_close(model(x), before)


class Classifier(nn.Module):
    """Padding is 0; the mask is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(9, 4), nn.LayerNorm(4)

    def forward(self, ids):
        return self.norm(self.embedding(ids)).sum((1, 2))


def test_padding_may_be_a_function_of_the_arguments():
    model = Classifier()
    tfzoo.swap(model, norm="batch", valid=lambda ids: ids != 0)
    ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
    model(ids)
    torch.testing.assert_close(
        model.norm.running_mean, 0.1 * model.embedding(torch.arange(1, 5)).mean(0)
    )
    with pytest.raises(BadOption, match=r"norm mixes tokens and runs outside of Classifier"):
        model.norm(torch.randn(1, 2, 4))
    tfzoo.swap(model, norm="instance", valid=lambda ids: ids[:, :2] != 0)
    with pytest.raises(BadOption, match=r"\(2, 3, 4\), but the padding mask is \(2, 2\)"):
        model(ids)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, BadOption, "say what to swap"),
        ({"nrom": "rms"}, BadOption, "no argument 'nrom'. Did you mean 'norm'.*allow, attention"),
        ({"norm": "rmz"}, UnknownName, "Did you mean 'rms'"),
        ({"norm": {"name": "rms", "epz": 1}}, BadOption, "has no option 'epz'"),
        ({"norm": "rms", "only": "block*"}, BadOption, r"It has:\n.*kept  layers.*not in only"),
        ({"norm": "batch"}, BadOption, r"valid='\.\.\.' names.*src_key_padding_mask"),
        ({"norm": "batch", "valid": PADDING}, BadOption, "it has: .*src_key_padding_mask"),
        ({"norm": "batch", "valid": "mask_"}, BadOption, "no argument 'mask_'.*'mask'"),
    ],
)
def test_a_swap_that_cannot_be_changes_nothing(options, error, message):
    model = encoder()
    before = str(model)
    with pytest.raises(error, match=f"(?s){message}"):
        tfzoo.swap(model, **options)
    assert str(model) == before


def test_nothing_to_swap_says_what_is_known():
    with pytest.raises(BadOption, match=r"Linear has no norm that is known.*nn\.RMSNorm"):
        tfzoo.swap(nn.Linear(2, 2), norm="rms")
    with pytest.raises(BadOption, match=r"has no attention that is known.*nn\.Multihead"):
        tfzoo.swap(nn.Sequential(nn.LayerNorm(2)), norm="rms", attention="additive")


def test_a_norm_that_mixes_tokens_is_refused_in_a_decoder_and_across_batches():
    model = nn.Transformer(DIM, HEADS, 1, 1, 32, batch_first=True)
    with pytest.raises(Clash, match="leaky-norm"):
        tfzoo.swap(model, norm="batch", valid=True)
    assert tfzoo.swap(model, norm="batch", valid=True, skip="decoder.*").replaced
    assert tfzoo.swap(model, norm="batch", valid=True, allow=["leaky-norm"]).replaced
    with pytest.raises(BadOption, match=r"self_attn has batch_first=False"):
        tfzoo.swap(nn.TransformerEncoderLayer(DIM, HEADS, 32), norm="batch", valid=True)


def test_a_swapped_model_is_copied_and_pickled():
    model, x = encoder(), tokens()
    tfzoo.swap(model, "instance", "additive", valid="~src_key_padding_mask")
    model.eval()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(output(other, x), output(model, x), rtol=0.0, atol=0.0)


def test_a_weighting_with_parameters_is_swapped_for_one_without():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2)
    tfzoo.swap(model, weighting="sink")
    tfzoo.swap(model, weighting="sparsemax")
    assert model(torch.randn(2, 5, 32)).shape == (2, 5, 32)


def test_a_norm_whose_weight_is_no_vector_is_refused():
    class ScaledRMSNorm(nn.Module):
        dim = 8

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return self.weight * nn.functional.normalize(x, dim=-1)

    with pytest.raises(BadOption, match="its weight is no vector"):
        tfzoo.swap(nn.Sequential(ScaledRMSNorm()), norm="rms")


def own_attention():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(DIM, 3 * DIM)

        def forward(self, x, mask=None):
            q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
            return y.transpose(1, 2).flatten(2)

    return Own


def test_an_own_attention_that_is_declared_computes_what_a_component_does():
    model, x = (
        nn.Sequential(nn.Sequential(declared(own_attention())())).double(),
        torch.randn(2, 5, DIM).double(),
    )
    visible = torch.rand(2, 1, 5, 5) > 0.3
    visible |= torch.eye(5, dtype=torch.bool)
    outputs = [model(x), model[0][0](x, visible), model[0][0](x, visible.double().log())]
    tfzoo.swap(model, attention="scaled_dot_product")
    for before, mask in zip(outputs, (None, visible, visible.double().log()), strict=True):
        torch.testing.assert_close(model[0][0](x, mask), before)
    tfzoo.swap(model, attention="additive", weighting="sparsemax")
    assert not torch.allclose(model(x), outputs[0])
    model(x).sum().backward()
    assert all(one.grad is not None for one in model.parameters())
    again = pickle.loads(pickle.dumps(model.state_dict()))
    assert any("tfzoo.attention" in key for key in again)


def declared(cls):
    return tfzoo.swappable(lambda module: (HEADS, DIM // HEADS))(cls)


def test_a_class_declared_twice_or_below_a_declared_one_is_computed_once():
    once, above = declared(own_attention()), declared(own_attention())
    twice, below = declared(declared(own_attention())), declared(type("Below", (above,), {}))
    models = [nn.Sequential(cls()) for cls in (once, twice, below)]
    x, outputs = torch.randn(2, 5, DIM), []
    for model in models:
        model.load_state_dict(models[0].state_dict(), strict=False)
        tfzoo.swap(model, attention="trained_scale")
        model[0].tfzoo.attention.scale.data.fill_(3.0)
        outputs.append(model(x))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_a_class_below_a_declared_one_that_is_not_declared_is_reported():
    above = declared(own_attention())
    model = nn.Sequential(above(), type("Below", (above,), {})())
    report = tfzoo.swap(model, attention="cosine")
    assert [one.outcome for one in report.modules] == ["replaced", "refused"]
    assert "its class is not declared" in report.modules[1].reason


def test_a_declared_attention_sees_what_it_saw_before():
    class Own(nn.Module):
        def forward(self, q, k, mask):
            return nn.functional.scaled_dot_product_attention(q, k, k, mask, is_causal=True)

    model = nn.Sequential(declared(Own)())
    q, k = torch.randn(2, 2, HEADS, 5, DIM // HEADS)
    visible = torch.rand(5, 5) > 0.5
    visible |= torch.eye(5, dtype=torch.bool)
    calls = [(q, k, visible), (q, k, visible.float().log()), (q[:, :, :1], k, None)]
    before = [model[0](*call) for call in calls]
    tfzoo.swap(model, attention="scaled_dot_product")
    for call, wanted in zip(calls, before, strict=True):
        torch.testing.assert_close(model[0](*call), wanted)
    tfzoo.swap(model, weighting="uniform")
    least = torch.zeros(5, 5).masked_fill(~visible, torch.finfo(torch.float32).min)
    torch.testing.assert_close(model[0](q, k, least), model[0](q, k, visible))


def test_a_declared_attention_can_be_compiled():
    model, x = nn.Sequential(declared(own_attention())()), torch.randn(2, 5, DIM)
    tfzoo.swap(model, attention="additive")
    torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))


def test_a_declared_attention_is_copied_beside_an_old_transformers(monkeypatch):
    model = nn.Sequential(declared(own_attention())())
    tfzoo.swap(model, attention="cosine")
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", None)
    assert "tfzoo.attention.scale" in dict(copy.deepcopy(model)[0].named_parameters())


def test_a_declaration_without_the_function_is_refused():
    with pytest.raises(BadOption, match="swappable takes the function that gives"):
        tfzoo.swappable(own_attention())


def test_a_declared_attention_that_calls_nothing_is_refused():
    class Own(nn.Module):
        def forward(self, x):
            return x

    model = nn.Sequential(tfzoo.swappable(lambda module: (1, DIM))(Own)(), nn.Linear(DIM, DIM))
    tfzoo.swap(model, attention="cosine")
    with pytest.raises(BadOption, match=r"Own\.forward does not call scaled_dot_product_attention"):
        model(torch.randn(2, 5, DIM))
    tfzoo.swappable(lambda module: (module.nheads, DIM))(Own)
    with pytest.raises(BadOption, match=r"swappable: heads of Own: .* no attribute 'nheads'"):
        tfzoo.swap(model, attention="cosine")


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_a_copy_of_a_layer_whose_feed_forward_was_swapped_computes_the_same(kind):
    layer, x = kind(DIM, HEADS, 32, dropout=0.0, batch_first=True).double(), torch.randn(2, 5, DIM)
    tfzoo.swap(layer, feedforward="swiglu")
    args = [x.double()] * (1 + (kind is nn.TransformerDecoderLayer))
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        close(again(*args), layer(*args))
