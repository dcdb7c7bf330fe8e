"""On a GPU, models keep the exact promises and are compiled whole."""

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import tfzoo
from tfzoo.base.registry import registry
from tfzoo.base.special_ids import OWN
from tfzoo.errors import Clash
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.learning.settings import Compute
from tfzoo.models import transformer_layer
from tfzoo.models.initialise import initialise

VOCABULARY, DIM = 50, 16
KINDS = ("attention", "norm", "position", "feedforward")
SWAPS = [(kind, name) for kind in KINDS for name in registry(kind).names()]
POOLINGS = registry("pooling").names()
EXACT = 1e-9


def model(kind, name, **options):
    """A small model with one component swapped, in the encoder alone where a decoder refuses it."""
    sizes = {"vocab_size": VOCABULARY, "dim": DIM, "heads": 2, "layers": 2}
    sizes |= {"dropout": 0.0, **options}
    try:
        made = tfzoo.Transformer(**sizes, **{kind: name})
    except Clash:
        made = tfzoo.Transformer(**sizes, encoder={kind: name})
    initialise(made, 1)
    return made


def ids(rows, length, device="cpu", seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, (rows, length), generator=draw).to(device)


@pytest.mark.parametrize(("kind", "name"), SWAPS)
def test_padding_causality_and_cache_are_exact(kind, name, device):
    made = model(kind, name).double().to(device).eval()
    source, target = ids(3, 7, device), ids(3, 6, device, seed=1)
    with torch.no_grad():
        whole = made(source, target)
        if name != "unit_interval":  # positions of the encoder depend on the length of the text
            cut = made(source[:, :5], target)
            longer = torch.nn.functional.pad(source[:, :5], (0, 4))
            mask = tfzoo.Mask.right(torch.full((3,), 5, device=device), 9)
            padded = made(longer, target, source_mask=mask)
            torch.testing.assert_close(padded, cut, rtol=0, atol=EXACT)
        shorter = made(source, target[:, :4])
        torch.testing.assert_close(whole[:, :4], shorter, rtol=0, atol=EXACT)
        cache = made.init_cache(source)
        steps = [made.decode_step(target[:, place], cache) for place in range(target.size(1))]
        torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=0, atol=EXACT)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_has_no_influence_on_a_classifier(pooling, device):
    made = tfzoo.TransformerClassifier(VOCABULARY, 3, DIM, 2, 1, pooling=pooling)
    initialise(made, 1)
    made = made.double().to(device).eval()
    text = ids(3, 6, device)
    with torch.no_grad():
        mask = tfzoo.Mask.right(torch.full((3,), 6, device=device), 11)
        padded = made(nn.functional.pad(text, (0, 5)), mask=mask)
        torch.testing.assert_close(padded, made(text), rtol=0, atol=EXACT)


def loss_of(made, source, target, real):
    """As TranslationTask computes it."""
    hidden = made.hidden(source, target[:, :-1]).flatten(0, 1)
    wanted = target[:, 1:].flatten()
    return cross_entropy(hidden[real], made.output_weight, wanted[real], 0.1, OWN.pad)[0]


LENGTHS = [(5, 6), (9, 7), (17, 11), (31, 33)]


IN_LAYERS = ("attention", "weighting", "norm", "residual", "feedforward", "mixer", "position")
PARTS = [(kind, name) for kind in (*IN_LAYERS, "pooling") for name in registry(kind).names()]


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_layers_are_compiled_whole_and_once_for_all_lengths(kind, name, device, monkeypatch):
    torch.compiler.reset()
    counters.clear()
    inner = "inductor" if device.type == "cuda" else "eager"
    transformer_layer.compiled(device.type == "cpu")  # which says what runs outside of a graph
    left_out = {"breaks_graph", "auxiliary_loss"} & registry(kind).options(name)[0].traits
    layers = transformer_layer.TransformerLayer.sublayers
    whole = torch.compile(layers, dynamic=True, fullgraph=not left_out, backend=inner)
    monkeypatch.setattr(transformer_layer, "compiled", lambda on_cpu: whole)
    if kind == "pooling":
        made = tfzoo.TransformerClassifier(VOCABULARY, 3, DIM, 2, 2, dropout=0.0, pooling=name)
    else:
        made = model(kind, name, layers=3)
    exact = device.type == "cpu"
    made.to(device, torch.float64 if exact else None).train()
    counts = []
    for rows, (k, n) in [*enumerate(LENGTHS, 1)] * 2:
        source, target = ids(rows, k, device), ids(rows, n, device)
        losses = []
        for choice in (False, True):
            Compute(compile=choice).apply(made)
            if kind == "pooling":
                mask = tfzoo.Mask.right(torch.full((rows,), k, device=device), k)
                losses.append(made(source, mask=mask).square().sum())
            else:
                real = torch.arange(rows * (n - 1), device=device)
                losses.append(loss_of(made, source, target, real))
        losses[1].backward()
        tolerance = 1e-9 if exact else 1e-3
        torch.testing.assert_close(losses[1], losses[0], rtol=tolerance, atol=tolerance)
        counts.append(counters["frames"]["ok"])
    torch.compiler.reset()
    # Of an encoder's layer and of a decoder's, or of a last layer that computes what is read: one
    # for a batch of one text, and one for all others. What stands before and after a part that is
    # left out has one each.
    assert counts[1] <= 4 * (1 + bool(left_out)), counts
    assert counts[-1] == counts[1], f"compiled again for other lengths: {counts}"
