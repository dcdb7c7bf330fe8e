"""Layers computed again in the backward train alike and count what they see once."""

import copy

import torch
from torch.testing import assert_close

import tfzoo
from tests.testing.covering import covering
from tfzoo.base.registry import registry
from tfzoo.errors import Clash
from tfzoo.learning.settings import Compute
from tfzoo.models.initialise import initialise

SOURCE = torch.tensor([[5, 6, 7, 3, 8], [8, 9, 3, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 0, 0]])
ALLOWED = ["leaky-norm", "unrotatable-attention"]


def trained(model):
    """Gradients and buffers after one step's backward."""
    torch.manual_seed(1)
    model.train()(SOURCE, TARGET).square().mean().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**gradients, **dict(model.named_buffers())}


def test_a_recomputed_layer_has_the_same_gradients_and_moves_statistics_once():
    """With every pair of attention, norm and position."""
    kinds = ("attention", "norm", "position")
    for parts in covering({kind: registry(kind).names() for kind in kinds}, 2):
        try:
            model = tfzoo.Transformer(20, 8, 2, 1, **parts, dropout=0.3, allow=ALLOWED)
        except Clash:  # of a position that needs the length, in a decoder
            continue
        initialise(model, 1)
        other = copy.deepcopy(model)
        Compute(activation_checkpointing=True).apply(other)
        assert_close(trained(other), trained(model), msg=lambda how, parts=parts: f"{parts}: {how}")


def test_less_is_kept_for_the_backward():
    kept = {}
    for recomputed in (False, True):
        model = tfzoo.Transformer(20, 8, 2, 4)
        Compute(activation_checkpointing=recomputed).apply(model)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, sizes=sizes: sizes.append(x.numel()) or x, lambda x: x
        ):
            model(SOURCE, TARGET)
        kept[recomputed] = sum(sizes)
    assert kept[True] < kept[False] / 4
