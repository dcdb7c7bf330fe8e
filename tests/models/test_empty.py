"""Batches of no text and texts of no token in what the contracts of parts do not build."""

import pytest
import torch
from torch import nn

import tfzoo
from tfzoo.base.special_ids import OWN
from tfzoo.errors import BadOption
from tfzoo.search import Search, search

D, V = 8, 12


def text(b, n):
    return torch.randint(4, V, (b, n))


@pytest.mark.parametrize(("b", "q", "k"), [(0, 5, 3), (2, 0, 3), (2, 5, 0), (0, 0, 0)])
def test_multihead_attention_takes_what_pytorch_takes(b, q, k):
    theirs = nn.MultiheadAttention(D, 2, batch_first=True)
    ours = tfzoo.MultiheadAttention(D, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x, y = torch.randn(b, q, D), torch.randn(b, k, D)
    for expected, found in zip(theirs(x, y, y), ours(x, y, y), strict=True):
        torch.testing.assert_close(found, expected)


def test_generate_and_search_take_no_text_and_refuse_a_prompt_of_no_token():
    model = tfzoo.LanguageModel(V, D, 2, 1).eval()
    assert tfzoo.generate(model, text(0, 3), max_new_tokens=2).shape == (0, 0)
    for b in (0, 2):
        with pytest.raises(BadOption, match="a prompt without tokens"):
            tfzoo.generate(model, text(b, 0), max_new_tokens=2)
    translator = tfzoo.Transformer(V, D, 2, 1).eval()
    for beam in (1, 2):
        assert search(translator, text(0, 3), Search(beam=beam), special=OWN) == []
        assert len(search(translator, text(2, 0), Search(beam=beam), special=OWN)) == 2


MODELS = {
    "text": [
        lambda ids: tfzoo.TransformerClassifier(12, 3, 8, 2, 1)(ids),
        lambda ids: tfzoo.MaskedLanguageModel(12, 8, 2, 1)(ids),
        lambda ids: tfzoo.LanguageModel(12, 8, 2, 1)(ids),
    ],
    "source": [
        lambda ids: tfzoo.Transformer(12, 8, 2, 1)(ids, torch.tensor([[5, 6]])),
        lambda ids: tfzoo.Transformer(12, 8, 2, 1).init_cache(ids),
    ],
    "target": [lambda ids: tfzoo.Transformer(12, 8, 2, 1)(torch.tensor([[5, 6]]), ids)],
    "prompt": [
        lambda ids: tfzoo.generate(tfzoo.LanguageModel(12, 8, 2, 1).eval(), ids, 2),
        lambda ids: tfzoo.generate(tfzoo.LanguageModel(12, 8, 2, 1).eval(), ids, 2, beam=2),
    ],
}


@pytest.mark.parametrize("ids", [torch.tensor([5, 6]), torch.tensor([[[5, 6]]]), [[5, 6]]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_ids_that_are_no_rows_are_refused_in_one_line(name, ids):
    for run in MODELS[name]:
        with pytest.raises(BadOption, match=rf"^{name} must be .*\(b n\), not [^\n]*$"):
            run(ids)
