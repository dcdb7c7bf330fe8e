"""Private names of other packages: each is there and does what its adapter says.

A test that fails here after an upgrade names the function of ``tfzoo/base/adapters.py`` to mend.
"""

import pytest

from tfzoo.base import adapters


def test_the_attention_function_of_a_transformers_model():
    transformers = pytest.importorskip("transformers", minversion="5")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=4, patch_size=4))
    model.set_attn_implementation("eager")
    assert adapters.attention_implementation(model.layers[0].attention.config) == "eager"
    assert adapters.supports_sdpa(model)
    longformer = transformers.LongformerModel  # which has attention of its own kind
    assert not adapters.supports_sdpa(longformer)
