"""The classifier's own options, what it pools, and what it refuses."""

import pytest
import torch

import tfzoo
from tests.exact import close
from tfzoo.errors import BadOption, Clash
from tfzoo.masks import Mask
from tfzoo.models.initialise import initialise
from tfzoo.testing.samples import randomize

TEXT = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
REAL = Mask.right(torch.tensor([4, 3]), 4)


def small(**options):
    options = {"classes": 3, "dim": 8, "heads": 2, "layers": 1, "dropout": 0.0, **options}
    model = tfzoo.TransformerClassifier(20, **options)
    initialise(model, 1)
    return model.eval()


class Watched(torch.nn.Module):
    """A feed-forward layer that notes the shape of what it is given."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.shapes = inner, list[tuple[int, ...]]()

    def forward(self, x, *args):
        self.shapes.append(tuple(x.shape))
        found = self.inner(x, *args)
        return found


@pytest.mark.parametrize("residual", ["post", "pre", "sandwich"])
@pytest.mark.parametrize("pooling", tfzoo.list_components()["pooling"])
def test_the_last_layer_computes_the_tokens_that_are_pooled(pooling, residual):
    """With logits and gradients as if it computed all of them."""
    model = small(layers=2, pooling=pooling, residual=residual).double().train()
    randomize(model)
    last = model.encoder.layers[-1].feedforward
    last.inner = Watched(last.inner)
    one = pooling not in ("convolution", "max", "mean", "sum")
    expected = model.head(model.pooling(model.encode(TEXT, mask=REAL), REAL.keys))
    expected = expected, *torch.autograd.grad(expected.square().sum(), [*model.parameters()])
    found = model(TEXT, mask=REAL)
    assert last.inner.shapes == [(2, 4, 8), (2, 1, 8) if one else (2, 4, 8)]
    found = found, *torch.autograd.grad(found.square().sum(), [*model.parameters()])
    close(found, expected)


def test_dropout_on_the_pooled_vector_acts_in_training_alone():
    model = small(pooled_dropout=0.5)
    torch.testing.assert_close(model(TEXT), small()(TEXT))
    torch.manual_seed(0)
    assert not torch.equal(model.train()(TEXT), model(TEXT))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"classes": 0}, "classes=0 must be a whole number at least 1"),
        ({"pooled_dropout": 1.0}, "pooled_dropout=1.0 must be a finite .* at least 0 and under 1"),
        ({"pooling": {"name": "mean", "eps": 1.0}}, "pooling 'mean' has no option 'eps'"),
    ],
)
def test_options_that_fit_no_classifier_are_refused(options, says):
    with pytest.raises(BadOption, match=says):
        small(**options)


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_a_pooling_of_the_mean_after_a_norm_that_fixes_the_mean_is_refused_for_good(pooling):
    with pytest.raises(Clash, match=r"texts of one length would.*first, last, max.*cannot be al"):
        small(norm="instance", pooling=pooling, allow=["constant-pooling"])
    small(norm="instance", pooling="max")
    small(norm="instance", pooling=pooling, residual="none")
    small(norm="instance", pooling=pooling, residual="post", layers=0)  # no norm at all
