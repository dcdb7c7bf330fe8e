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
    assert tfzoo.generate(model, text(0, 3), max_new_tokens=2).shape == (0, 2)
    for b in (0, 2):
        with pytest.raises(BadOption, match="a prompt without tokens"):
            tfzoo.generate(model, text(b, 0), max_new_tokens=2)
    translator = tfzoo.Transformer(V, D, 2, 1).eval()
    for beam in (1, 2):
        assert search(translator, text(0, 3), Search(beam=beam), special=OWN) == []
        assert len(search(translator, text(2, 0), Search(beam=beam), special=OWN)) == 2
