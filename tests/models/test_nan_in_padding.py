"""NaN in padding reaches no token of layers alone, memories and prompts in a cache."""

import pytest
import torch
from torch import nn

import tfzoo
from tests.exact import close
from tfzoo.masks import Mask

B, N, K, D = 2, 4, 5, 8
VALID = torch.tensor([[True] * N, [True, True, False, False]])
READ = torch.tensor([[True] * K, [True, True, True, False, False]])


def vectors(n, valid, padding):
    torch.manual_seed(0)
    x = torch.randn(B, n, D, dtype=torch.float64).masked_fill(~valid[..., None], padding)
    return x.requires_grad_()


def decoded(module, x, memory):
    cache = module.init_cache(memory, memory_mask=Mask(keys=READ))
    prompt = module(x, mask=Mask(keys=VALID), cache=cache)
    return torch.cat([prompt, module(x[:, :1], cache=cache)], 1)[:, [0, 1, N]]


def translated(module, x, memory):
    return module(x, memory, mask=Mask(keys=VALID), memory_mask=Mask(keys=READ))[VALID]


def encoded(module, x, memory):
    return module(x, mask=Mask.right(VALID.sum(1), N))[VALID]


def continued(module, x, memory):
    return module.hidden(embeddings=x, mask=Mask(keys=VALID))[VALID]


@pytest.mark.parametrize(
    ("module", "run"),
    [
        (tfzoo.Encoder(D, 2, 1, dropout=0.0), encoded),
        (tfzoo.EncoderLayer(D, 2, dropout=0.0), encoded),
        (tfzoo.Decoder(D, 2, 1, dropout=0.0), translated),
        (tfzoo.DecoderLayer(D, 2, dropout=0.0), translated),
        (tfzoo.Decoder(D, 2, 1, dropout=0.0), decoded),
        (tfzoo.DecoderLayer(D, 2, dropout=0.0), decoded),
        (tfzoo.LanguageModel(9, D, 2, 1, dropout=0.0), continued),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, nn.Module) else one.__name__,
)
def test_outputs_and_gradients_of_tokens_are_those_without_it(module, run):
    module.double()
    found = []
    for padding in (0.5, float("nan")):
        x, memory = vectors(N, VALID, padding), vectors(K, READ, padding)
        out = run(module, x, memory)
        into = [x, memory, *module.parameters()]
        found.append([out, *torch.autograd.grad(out.square().sum(), into, allow_unused=True)])
    for one, other in zip(*found, strict=True):
        close(one, other)
