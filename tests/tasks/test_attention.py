"""The attention of one text is that of the task's own model, between the tokens that it read."""

import pytest
import torch

import tfzoo
from tests.pages.test_attention import data_of, unpacked
from tests.published_folders import LEARNT
from tfzoo.base.registry import create, registry
from tfzoo.base.special_ids import OWN
from tfzoo.data.tokenizer import TokenizerPair, Vocabulary
from tfzoo.errors import BadOption
from tfzoo.learning.lines import layers_without_map, token_strings
from tfzoo.masks import Mask
from tfzoo.plots.attention import attention_page
from tfzoo.testing.samples import COMPONENT_KINDS

TEXT = "one two"
READ = [*TEXT, "<eos>"]


def translator(beam=1, **model):
    tokenizer = create("tokenizer", "bytes")
    sizes = {"dim": 8, "heads": 2, "layers": 2}
    recipe = {"model": {**sizes, **model}, "search": {"max_length": 0.0, "beam": beam}}
    pair = TokenizerPair(tokenizer, tokenizer, "en", "de", "bytes")
    return tfzoo.TranslationTask.build(recipe, pair)


def classifier(**model):
    vocabulary = Vocabulary(create("tokenizer", "bytes"), ["0", "NUM"], "bytes")
    recipe = {"model": {"dim": 8, "heads": 2, "layers": 1, **model}}
    return tfzoo.ClassificationTask.build(recipe, vocabulary)


@pytest.mark.parametrize("beam", [1, 3])
def test_maps_are_those_of_the_models_own_translation(beam):
    task = translator(beam)
    found = task.attention(TEXT)
    (ids,) = task.tokenizer.source.encode([TEXT])
    source, how = torch.tensor([[*ids, 3]]), tfzoo.Search(beam, max_length=0.0)
    ((best,),) = tfzoo.search.search(task.model.eval(), source, how, special=OWN)
    read = [OWN.bos, *best.ids[: len(best.ids) - (not best.finished)]]
    with tfzoo.attention_maps(task.model) as maps:
        task.model(source, torch.tensor([read]))
    assert [(one.side, one.layer) for one in found] == [
        (side, layer) for side in ("encoder", "decoder", "cross") for layer in (0, 1)
    ]
    for one in found:
        stack = "encoder" if one.side == "encoder" else "decoder"
        kind = "cross" if one.side == "cross" else "self"
        (wanted,) = maps[f"{stack}.layers.{one.layer}.{kind}_attention.inner.attention"]
        torch.testing.assert_close(one.weights, wanted[0], rtol=0, atol=1e-6)
        assert one.weights.shape == (2, len(one.queries), len(one.keys))
        written = ["<bos>", *token_strings(task.tokenizer.target, read[1:])]
        assert one.keys == (written if one.side == "decoder" else READ)
        assert one.queries == (READ if one.side == "encoder" else written)


def rows_sum_to_one(weighting):
    torch.manual_seed(0)
    weights = create("weighting", weighting, heads=2)(torch.randn(1, 2, 5, 8), Mask())
    return torch.allclose(weights.sum(-1), torch.ones(1, 2, 5))


@pytest.mark.parametrize("kind", COMPONENT_KINDS)
def test_every_part_has_a_page_with_the_models_weights_or_says_that_it_has_no_map(kind):
    for name in registry(kind).names():
        given = {"position": "none", "pooling": "first", "max_length": 16}
        given[kind] = name
        task = classifier(**given)
        if kind == "mixer" and "attends" not in registry(kind).options(name)[0].traits:
            with pytest.raises(BadOption, match=rf"no layer has .* \(mixer {name}\)"):
                task.attention(TEXT)
            continue
        maps = task.attention(TEXT)
        (one,), ((packed,),) = maps, [run["maps"] for run in data_of(attention_page(maps))]
        assert one.weights.shape == (2, 8, 8), name
        assert one.weights.dtype == torch.float32
        shown = unpacked(packed, (2, 8, 8))
        step = one.weights.abs().amax(-1, keepdim=True) / (127 if packed["zero"] else 255)
        assert (abs(shown - one.weights.numpy()) <= 1.001 * step.numpy()).all(), name
        if rows_sum_to_one(given.get("weighting", "softmax")):
            torch.testing.assert_close(one.weights.sum(-1), torch.ones(2, 8), msg=name)


def test_maps_say_what_the_model_makes_of_the_text():
    task = translator()
    maps = task.attention(f" {TEXT} ")
    assert maps.text == TEXT
    assert maps.facts["translation"] == task.translate([f" {TEXT} "])[0]
    assert isinstance(maps, list)
    assert [one.layer for one in maps.of_layers({1})] == [1, 1, 1]
    assert maps.of_layers([1]).facts == maps.facts
    shown = "<AttentionMaps of 'one two': encoder 1, decoder 1, cross 1>"
    assert repr(maps.of_layers([1])) == shown
    task = classifier()
    (answer,) = task.predict([TEXT])
    facts = task.attention(TEXT).facts
    assert facts["label"] == answer.label
    assert facts["probabilities"].startswith(f"{answer.label} {answer.probability:.3f} ")


def test_a_layer_without_attention_is_named():
    task = translator()
    task.model.encoder.layers[1].self_attention = None
    assert layers_without_map(task.model) == "encoder layer 1 (mixer none)"
    with pytest.warns(UserWarning, match=r"map of encoder layer 1 \(mixer none\)") as warned:
        found = task.attention(TEXT)
    assert warned[0].filename == __file__
    assert [(one.side, one.layer) for one in found][:2] == [("encoder", 0), ("decoder", 0)]
    task = classifier()
    task.model.encoder.layers[0].self_attention = None
    with pytest.raises(BadOption, match="no layer has an attention map: encoder layer 0"):
        task.attention(TEXT)
    task.model.encoder.layers = torch.nn.ModuleList()
    with pytest.raises(BadOption, match="no layer has an attention map: there are none"):
        task.attention(TEXT)


@pytest.mark.parametrize("name", LEARNT)
def test_tokens_put_together_are_the_text(name):
    tokenizer = create("tokenizer", name)
    tokenizer.train(["a good film , they said", "no film is good"])
    text = "no good film , they said"
    (ids,) = tokenizer.encode([text])
    assert "".join(token_strings(tokenizer, ids)).strip() == text
    special = tokenizer.special
    named = {special.pad: "<pad>", special.bos: "<bos>", special.eos: "<eos>"}
    assert token_strings(tokenizer, [*named]) == [*named.values()]
    (ids,) = tokenizer.encode(["é"])
    assert token_strings(tokenizer, ids)[-1] in ("<unk>", "é", f"<{ids[-1]}>")
