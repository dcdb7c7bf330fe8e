"""The masked language model's own options; tests/models/test_architectures.py holds it to BERT."""

import pytest
import torch
from torch.testing import assert_close

import tfzoo
from tests.exact import close
from tfzoo.errors import BadOption
from tfzoo.testing.samples import randomize

TEXT = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
TYPES = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])


def small(**options):
    torch.manual_seed(1)
    model = tfzoo.MaskedLanguageModel(20, dim=8, heads=2, layers=1, **options)
    randomize(model)
    return model.double().eval()


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_states_of_some_tokens_are_those_of_all(norm):
    """With equal gradients; batch norm reads the tokens that are not asked for."""
    model, read = small(norm=norm, dropout=0.0).train(), torch.tensor([1, 4, 6])
    both = model.hidden(TEXT).flatten(0, 1)[read], model.hidden(TEXT, read=read)
    weights = [one for one in model.parameters() if one is not model.output_bias]
    expected, found = ((y, *torch.autograd.grad(y.square().sum(), weights)) for y in both)
    close(found, expected)


def test_a_type_adds_its_vector_and_none_is_type_0():
    model = small(token_types=2, scale_embeddings=False)
    expected = model.embedding.weight[TEXT] + model.embedding.types.weight[TYPES]
    assert_close(model.embedding(TEXT, TYPES), expected, rtol=0, atol=0)
    close(model(TEXT), model(TEXT, torch.zeros_like(TEXT)))
    assert not torch.equal(model(TEXT), model(TEXT, TYPES))


def test_types_that_a_model_does_not_have_are_refused():
    with pytest.raises(BadOption, match="set token_types"):
        small()(TEXT, TYPES)
    for wrong in (-1, 1.5):
        with pytest.raises(BadOption, match=f"token_types={wrong}"):
            small(token_types=wrong)
