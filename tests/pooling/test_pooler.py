"""The pooler is BERT's."""

import torch
from torch.testing import assert_close
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertPooler

from tfzoo.base.registry import create


def test_the_pooler_is_berts():
    theirs = BertPooler(BertConfig(hidden_size=8, num_attention_heads=2)).double()
    ours = create("pooling", "pooler", dim=8).double()
    ours.linear.load_state_dict(theirs.dense.state_dict())
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    assert_close(ours(x), theirs(x), rtol=1e-9, atol=1e-9)
