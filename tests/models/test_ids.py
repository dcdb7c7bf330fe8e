"""What models say of token ids that are no rows."""

import pytest
import torch

import tfzoo
from tfzoo.errors import BadOption

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
