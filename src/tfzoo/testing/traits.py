"""Contracts of traits: a component declares one exactly where it has it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.base.rotation import Rotation
from tfzoo.contracts import Norm, Position
from tfzoo.errors import TfzooError
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.testing.attention import MIDDLE, C, draw, gradient, scores, sides
from tfzoo.testing.contract import EXACT, Violation, difference, trait
from tfzoo.testing.samples import (
    LEFT,
    RIGHT,
    SIZES,
    B,
    D,
    N,
    apply_norm,
    build,
    build_randomized,
    randomize,
)

LONG = 100
"""Tokens of a text in which a mixer that reaches only near tokens misses some."""
LARGE = 1e4
MOST = SIZES["max_length"]
LENGTH = torch.tensor([[40], [31], [7]])
EVERYTHING = torch.ones(B, N, dtype=torch.bool)


# attention


@trait("attention", "rotatable")
def turns_alike(entry: Entry) -> bool:
    """Rotating queries and keys by one angle changes no output."""
    attention, call = build_randomized(entry), draw()
    angles = torch.rand(1, 1, 1, C // 2) * 6.28
    turns = [Rotation(angles.cos(), angles.sin(), halves) for halves in (False, True)]
    turned = [replace(call, q=turn(call.q), k=turn(call.k))(attention) for turn in turns]
    return all(difference(one, call(attention)) <= EXACT for one in turned)


@trait("attention", "nonpositive")
def no_score_exceeds_0(entry: Entry) -> bool:
    """No score exceeds 0."""
    call = draw(q=MIDDLE, k=MIDDLE)
    return bool((build_randomized(entry).scores(call.q, call.k) <= 0).all())


@trait("attention", "mixes_heads")
def reads_other_heads(entry: Entry) -> bool:
    """An output depends on the values of other heads."""
    attention, call = build_randomized(entry), draw()
    v = torch.cat([torch.randn_like(call.v[:, :1]), call.v[:, 1:]], 1)
    return difference(replace(call, v=v)(attention)[:, 1:], call(attention)[:, 1:]) > EXACT


# weighting


@trait("weighting", "softmax")
def is_the_softmax(entry: Entry) -> bool:
    """Weights are those of a softmax."""
    given, mask = scores(), Mask(causal=True)
    return difference(build_randomized(entry)(given, mask), mask.softmax(given)) <= EXACT


@trait("weighting", "sparse")
def some_weight_is_0(entry: Entry) -> bool:
    """A visible key has a weight of exactly 0."""
    return bool((build_randomized(entry)(scores(), Mask()) == 0).any())


@trait("weighting", "ignores_scores")
def scores_change_nothing(entry: Entry) -> bool:
    """Other scores give the same weights, and get no gradient."""
    weighting, given = build_randomized(entry), scores()
    slope = gradient(weighting, given, Mask(), torch.randn_like(given))
    same = difference(weighting(scores(), Mask()), weighting(given, Mask())) <= EXACT
    return same and not bool(slope.any())


@trait("weighting", "needs_positive_scores")
def weights_of_negative_scores_are_0(entry: Entry) -> bool:
    """All weights are 0 where no score exceeds 0."""
    return not bool(build_randomized(entry)(-scores().abs(), Mask()).any())


@trait("weighting", "surrogate_gradient")
def gradient_is_not_the_slope(entry: Entry) -> bool:
    """The gradient differs from the slope of the weights."""
    weighting, given = build_randomized(entry), scores()
    upstream, direction, step = torch.randn_like(given), torch.randn_like(given), 1e-6
    ahead, behind = (weighting(given + by * direction, Mask()) for by in (step, -step))
    slope = ((ahead - behind) / (2 * step) * upstream).sum((1, 2, 3))
    claimed = (gradient(weighting, given, Mask(), upstream) * direction).sum((1, 2, 3))
    return difference(claimed, slope) > 1e-6


# mixer


@trait("mixer", "bidirectional")
def reads_later_tokens(entry: Entry) -> bool:
    """Built for a decoder, a later token has influence on an earlier one."""
    mixer, x, pos = build_randomized(entry, causal=True), torch.randn(B, N, D), torch.arange(N)
    context = Context(Mask(causal=True, start=0), pos[None], pos[None])
    changed = torch.cat([x[:, :-1], torch.randn(B, 1, D)], 1)
    one, other = (mixer(given, context, 0)[:, :-1] for given in (x, changed))
    return not torch.equal(one, other)


@trait("mixer", "ordered")
def mixer_depends_on_the_order(entry: Entry) -> bool:
    """Outputs depend on the order of tokens."""
    order, found = torch.tensor([3, 0, 4, 2, 1, 5]), []
    for module in sides(entry):
        x = torch.randn(B, N, D)
        seen = (
            slice(-1, None) if module.causal else slice(None)
        )  # the last sees a bag of the others
        found.append(difference(module(x[:, order])[:, seen], module(x)[:, order][:, seen]) > EXACT)
    return any(found)


@trait("mixer", "reach")
def sees_near_tokens_alone(entry: Entry) -> bool:
    """Tokens 99 places apart have no influence on each other."""
    x = torch.randn(1, LONG, D, requires_grad=True)
    (gradient,) = torch.autograd.grad(sides(entry)[0](x)[:, -1].sum(), x)
    return not bool(gradient[:, 0].any())  # a difference of outputs would round to 0


@trait("mixer", "identity")
def mixer_gives_its_input(entry: Entry) -> bool:
    """The output is the input."""
    x, pos = torch.randn(B, N, D), torch.arange(N)[None]  # a stack leaves an identity out
    return torch.equal(build_randomized(entry)(x, Context(Mask(), pos, pos), 0), x)


@trait("mixer", "attends")
def reads_bias_and_mask(entry: Entry) -> bool:
    """A bias on scores has influence, and what a mask hides has none."""
    mixer, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    bias = torch.randn(1, SIZES["heads"], N, N)
    biased = mixer(x, Context(Mask(), pos, pos, bias=bias), 0)
    context = Context(Mask(allowed=torch.eye(N, dtype=torch.bool)[None, None]), pos, pos)
    changed = torch.cat([torch.randn(B, 1, D), x[:, 1:]], 1)
    one, other = (mixer(given, context, 0)[:, 1:] for given in (x, changed))
    reads_bias = difference(biased, mixer(x, Context(Mask(), pos, pos), 0)) > EXACT
    if reads_bias and difference(other, one) > EXACT:
        raise Violation("reads a bias, and sees a token that the mask hides")
    return reads_bias


# residual


@trait("residual", "final_norm")
def grows_with_its_input(entry: Entry) -> bool:
    """The output grows with the input, past every norm: a stack of such layers needs a norm at its
    end.
    """
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    return bool(wrapped(LARGE * x).std() > LARGE**0.5 * wrapped(x).std())


@trait("residual", "ends_with_norm")
def gives_what_a_norm_gives(entry: Entry) -> bool:
    """The output is that of a norm."""
    wrapped, x = randomize(build(entry)), 3 * torch.randn(B, N, D) + 1
    for part in wrapped.modules():
        if isinstance(part, Norm):
            part.reset_parameters()  # type: ignore[operator]  # norm: layer
    out = wrapped(x)
    moments = torch.stack([out.mean(-1), out.var(-1, unbiased=False) - 1])
    return bool(moments.abs().max() <= 1e-3)  # the norm adds an eps to variances


@trait("residual", "replaces")
def keeps_nothing_of_its_input(entry: Entry) -> bool:
    """Beside a sublayer that gives zeros, nothing of the input is left."""
    inner = nn.Linear(D, D)
    wrapped, x = randomize(build(entry, inner=inner)), torch.randn(B, N, D)
    nn.init.zeros_(inner.weight)
    nn.init.zeros_(inner.bias)
    return difference(wrapped(x), wrapped(2 * x.flip(0))) <= EXACT


@trait("residual", "parallel")
def adds_the_sublayer_of_the_norm(entry: Entry) -> bool:
    """The output is ``x + f(norm(x))``."""
    wrapped, x = build_randomized(entry), torch.randn(B, N, D)
    outs = [x + wrapped.inner(norm(x)) for norm in wrapped.modules() if isinstance(norm, Norm)]
    return len(outs) == 1 and difference(wrapped(x), outs[0]) <= EXACT


# norm


def reads_other_tokens(norm: Norm, training: bool) -> bool:
    """Whether another token changes the output of a token."""
    x = torch.randn(B, N, D)
    changed = torch.cat([x[:, :1], 5 * torch.randn(B, 1, D), x[:, 2:]], 1)
    outs = [
        [apply_norm(norm.train(training), one, valid)[0][:, :1] for one in (x, changed)]
        for valid in (None, RIGHT)
    ]
    return any(difference(after, before) > EXACT for before, after in outs)


@trait("norm", "mixes_tokens:always")
def mixes_tokens(entry: Entry) -> bool:
    """Another token changes the output of a token."""
    return reads_other_tokens(build_randomized(entry), training=False)


@trait("norm", "mixes_tokens:training")
def mixes_tokens_in_training(entry: Entry) -> bool:
    """Another token changes the output of a token in training, and not outside it."""
    norm = build_randomized(entry)
    return reads_other_tokens(norm, True) and not reads_other_tokens(norm, False)


@trait("norm", "centres_texts")
def all_texts_have_one_mean(entry: Entry) -> bool:
    """The mean over the tokens is the same for every text."""
    norm, x = build_randomized(entry), torch.randn(B, N, D)

    def means(training: bool, valid: Tensor) -> Tensor:
        out = apply_norm(norm.train(training), x, valid)[0].masked_fill(~valid[..., None], 0.0)
        return out.sum(1) / valid.sum(1, keepdim=True)

    found = [means(training, valid) for training in (True, False) for valid in (RIGHT, LEFT)]
    return all(difference(one, one[:1].expand_as(one)) <= EXACT for one in found)


# position


def both(entry: Entry) -> Iterator[Position]:
    """One for an encoder, and one for a decoder where it can stand there."""
    yield build_randomized(entry, causal=False)
    if "needs_length" not in entry.traits:
        yield build_randomized(entry, causal=True)


def stands(position: Position, place: int) -> bool:
    """Whether a token can be at this place."""
    pos = torch.tensor([[place]])
    try:
        position.embed(torch.randn(1, 1, D), pos, LENGTH[:1])
        position.angles(pos)
        position.bias(pos, pos)
    except (IndexError, TfzooError):
        return False
    return True


@trait("position", "needs_length")
def reads_the_length(entry: Entry) -> bool:
    """``embed`` reads the length of the text, and refuses a call without one."""
    position, x, pos = build_randomized(entry), torch.randn(B, N, D), torch.arange(N)[None]
    longer = position.embed(x, pos, LENGTH + 9)
    if torch.equal(position.embed(x, pos, LENGTH), longer):
        return False
    try:
        position.embed(x, pos)
    except TfzooError:
        return True
    raise Violation("it reads the length of a text, but takes none without a word")


@trait("position", "bounded")
def refuses_what_is_beyond(entry: Entry) -> bool:
    """A position at or over ``max_length`` is refused; one under it never is."""
    near = {stands(one, MOST - 1) for one in both(entry)}
    far = {stands(one, place) for one in both(entry) for place in (MOST, 100 * MOST)}
    if near != {True} or len(far) != 1:
        raise Violation("a place under max_length is refused, or some beyond it and others not")
    return far == {False}


@trait("position", "bias_of_distance")
def bias_is_of_the_distance_alone(entry: Entry) -> bool:
    """The bias depends on nothing but the distance of two positions."""
    pos = torch.arange(N)[None]
    pairs = [(one.bias(pos, pos), one.bias(pos + 7, pos + 7)) for one in both(entry)]
    return all(
        near is not None and far is not None and difference(near, far) <= EXACT
        for near, far in pairs
    )


# feedforward


@trait("feedforward", "identity")
def gives_its_input(entry: Entry) -> bool:
    """The output is the input."""
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    return all(torch.equal(layer(x, dropout), x) for dropout in (0.0, 0.5))


@trait("feedforward", "auxiliary_loss")
def sets_a_loss(entry: Entry) -> bool:
    """Training sets a loss that has gradients; evaluation sets none."""
    layer, x = build_randomized(entry), torch.randn(B, N, D)
    layer.eval()(x)
    evaluated = layer.auxiliary_loss
    layer.train()(x)
    loss = layer.auxiliary_loss
    if evaluated is not None:
        raise Violation("a loss is set in evaluation mode")
    return loss is not None and loss.shape == () and loss.requires_grad


# pooling


def ignores(entry: Entry, change: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether a change of tokens ``(b n d)``, by which are real ``(b n)``, has no effect."""
    pooling, x = build_randomized(entry), torch.randn(B, N, D)
    pairs = [
        (pooling(change(x, valid), valid), pooling(x, valid)) for valid in (EVERYTHING, RIGHT, LEFT)
    ]
    return all(difference(changed, before) <= EXACT for changed, before in pairs)


@trait("pooling", "averages")
def depends_on_the_mean(entry: Entry) -> bool:
    """Tokens with the same mean and number give the same vector."""

    def with_noise(x: Tensor, valid: Tensor) -> Tensor:
        real = valid[..., None].to(x.dtype)
        noise = torch.randn(B, N, D) * real
        return x + (noise - noise.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real

    return ignores(entry, with_noise)


@trait("pooling", "reads_first")
def depends_on_the_first_token(entry: Entry) -> bool:
    """Tokens after the first have no influence."""
    later = torch.randn(B, N, D)
    return ignores(
        entry, lambda x, valid: torch.where((valid & (valid.cumsum(1) > 1))[..., None], later, x)
    )
