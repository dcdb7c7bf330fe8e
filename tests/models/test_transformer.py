"""The Transformer's own options: what is tied, what differs between the sides, what is refused."""

import pytest
import torch

import tfzoo
from tfzoo.errors import BadOption, Clash
from tfzoo.models.initialise import initialise


def small(**options):
    sizes = {"vocab_size": 20, "dim": 8, "heads": 2, "layers": 1, "dropout": 0.0}
    model = tfzoo.Transformer(**{**sizes, **options})
    initialise(model, 1)
    return model.eval()


def test_two_vocabularies_cannot_be_tied_to_one():
    assert small(tie="target", source_vocab_size=30).source_embedding.num_embeddings == 30
    with pytest.raises(BadOption, match="tie: target"):
        small(source_vocab_size=30)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *((tfzoo.Transformer, {"tie": tie}) for tie in ("all", "none")),
        (tfzoo.LanguageModel, {"tie": False}),
        (tfzoo.TransformerClassifier, {"classes": 3}),
    ],
)
def test_init_std_is_what_matrices_start_with(model, options):
    sizes = {"vocab_size": 200, "dim": 64, "heads": 2, "layers": 1, "position": "learned"}
    for name, weight in model(**sizes, **options, init_std=0.02).named_parameters():
        if weight.dim() == 2 and "position" not in name:
            found = weight.square().mean().sqrt().item()
            torch.testing.assert_close(found, 0.02, rtol=0.05, atol=0.0, msg=name)


@pytest.mark.parametrize("init_std", [None, 0.02])
def test_embedding_std_is_what_embeddings_alone_start_with(init_std):
    model = small(vocab_size=500, dim=64, tie="none", init_std=init_std, embedding_std=0.5)
    own = small(vocab_size=500, dim=64, tie="none", init_std=init_std)
    for name, weight in own.named_parameters():
        found = model.get_parameter(name)
        if "embedding" in name:
            torch.testing.assert_close(found.std().item(), 0.5, rtol=0.05, atol=0.0)
        else:
            torch.testing.assert_close(found, weight)
    with pytest.raises(BadOption, match=r"embedding_std=0\.0 must be a finite number over 0"):
        small(embedding_std=0.0)
    for kind in (tfzoo.LanguageModel, tfzoo.MaskedLanguageModel, tfzoo.TransformerClassifier):
        sizes = {"classes": 2} if kind is tfzoo.TransformerClassifier else {}
        one = kind(500, dim=64, heads=2, layers=1, init_std=init_std, embedding_std=0.5, **sizes)
        inner = one.get_submodule("encoder" if hasattr(one, "encoder") else "decoder")
        matrix = next(one for one in inner.parameters() if one.ndim == 2)
        assert init_std is None or abs(matrix.square().mean().sqrt() - init_std) < 1e-3
        torch.testing.assert_close(one.embedding.weight.std().item(), 0.5, rtol=0.05, atol=0.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoder": {"nrom": "rms"}}, "encoder has no option 'nrom'. Did you mean 'norm'"),
        ({"decoder": {"layers": "two"}}, "decoder: layers must be int, not 'two'"),
        ({"init_std": 0.0}, "init_std=0.0 must be a finite number over 0"),
        ({"init_std": float("inf")}, "init_std=inf must be a finite number over 0"),
        ({"tie": "both"}, "tie must be 'all' or 'target' or 'embeddings' or 'none', not 'both'"),
        ({"tie": "none", "source_vocab_size": 0}, "source_vocab_size=0 must be"),
    ],
)
def test_options_that_fit_no_model_are_refused(options, says):
    with pytest.raises(BadOption, match=says):
        small(**options)


def test_a_clash_names_the_rule_and_the_way_out():
    with pytest.raises(
        Clash,
        match=r"additive.*Rotatable: cosine, .*scaled_dot_.*allow: \[unrotatable-attention\]",
    ) as caught:
        small(attention="additive", position="rotary")
    assert caught.value.rule == "unrotatable-attention"
    small(attention="additive", position="rotary", allow=["unrotatable-attention"])


def test_parameters_start_by_seed_and_name_alone():
    """Models that share a parameter start it alike, whatever else they hold."""
    one, other = small(), small(layers=2, norm="rms", position="rotary")
    shared = dict(other.named_parameters())
    for name, value in one.named_parameters():
        if "query" in name or "embedding" in name:
            assert torch.equal(value, shared[name]), name
    different = small()
    initialise(different, 2)
    assert not torch.equal(one.output_weight, different.output_weight)
