"""Contracts of tfzoo's own parts beside :mod:`tfzoo.testing`: sizes, empty batches, devices."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn

from tfzoo.base.functional import dropout as drop
from tfzoo.base.registry import Entry
from tfzoo.contracts import value_matrices
from tfzoo.errors import TfzooError
from tfzoo.masks import Mask
from tfzoo.testing.attention import MIDDLE, draw, gradient, scores
from tfzoo.testing.contract import (
    CLEAR,
    Violation,
    assert_finite,
    assert_gradients_finite,
    assert_same,
    assert_same_gradients,
    first_line,
)
from tfzoo.testing.samples import (
    COMPONENT_KINDS,
    HEADS,
    PROBES,
    SIZES,
    WIDTH,
    B,
    D,
    N,
    build,
    build_randomized,
    inputs,
    variants,
)
from tfzoo.testing.subject import FULL, SOURCE, TEXT, Subject

EMPTY = ((0, N), (B, 0), (0, 0))
"""Texts and tokens."""
OTHER_WIDTH, OTHER_HEADS = 32, (4, 1)
STEPS = (slice(0, 0), slice(0, 2), slice(2, 2), slice(2, 6))
OTHER_DEVICE = re.compile(r"expected device|same device")
CONTRACTS: dict[str, list[Callable[..., None]]] = {}


def contract(*kinds):
    def decorate(function):
        for kind in kinds:
            CONTRACTS.setdefault(kind, []).append(function)
        return function

    return decorate


@contract(*COMPONENT_KINDS)
def sizes_are_those_that_it_is_given(entry: Entry):
    """With another width, other numbers of heads and one text of one token, outputs are finite and
    have their shape; or an error of tfzoo refuses a size in one line.
    """
    full = [one.shape for one in PROBES[entry.kind](build_randomized(entry), inputs())]
    for heads, (texts, tokens) in product(OTHER_HEADS, ((B, N), (1, 1))):
        width = OTHER_WIDTH // heads
        sizes = {"dim": OTHER_WIDTH, "heads": heads, "head_dim": width}
        new = {B: texts, N: tokens, D: OTHER_WIDTH, HEADS: heads, WIDTH: width}
        what = f"{sizes}, {texts} texts of {tokens} tokens"
        given = cut(inputs(OTHER_WIDTH, heads), texts, tokens)
        with or_refused_in_one_line():
            options = replace(SIZES["options"], heads=heads)
            module = build_randomized(entry, **sizes, options=options)
            for out, shape in zip(PROBES[entry.kind](module, given), full, strict=True):
                assert_shape(out, tuple(new.get(size, size) for size in shape), what)
                assert_finite(out, what)


@contract(*COMPONENT_KINDS)
def empty_batches_and_texts_are_harmless(entry: Entry):
    """A batch of no text and texts of no token, with a mask and without one, give finite outputs of
    their shape and finite gradients, in training and outside it; or an error of tfzoo refuses them
    in one line.
    """
    for training in (True, False):
        module = build_randomized(entry).train(training)
        parameters = [one for one in module.parameters() if one.requires_grad]
        full = [one.shape for one in PROBES[entry.kind](module, inputs())]
        for texts, tokens in EMPTY:
            shapes = [tuple({B: texts, N: tokens}.get(n, n) for n in shape) for shape in full]
            some = cut(inputs(), texts, tokens)
            for given in (some, {name: one for name, one in some.items() if name != "valid"}):
                masked = "with" if "valid" in given else "without"
                what = f"{texts} texts of {tokens} tokens {masked} a mask"
                with or_refused_in_one_line():
                    outs = PROBES[entry.kind](module, given)
                    for out, shape in zip(outs, shapes, strict=True):
                        assert_shape(out, shape, what)
                        assert_finite(out, what)
                    assert_gradients_finite(outs, parameters, what)


@contract(*COMPONENT_KINDS)
def its_constructor_initialises_every_parameter(entry: Entry):
    """Memory that is not filled holds NaN here."""
    before = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        module = build(entry)
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warns)
    for name, value in module.state_dict().items():
        if bool(value.isnan().any()):
            raise Violation(f"its constructor does not initialise {name}")


def assert_shape(out, shape, what):
    if out.shape != shape:
        raise Violation(f"{what}: shape {tuple(out.shape)} instead of {shape}")


@contextmanager
def or_refused_in_one_line():
    """Leave the block where an error of tfzoo refuses something, in one line."""
    try:
        yield
    except TfzooError as error:
        if "\n" in str(error).strip():
            raise Violation(f"refused in several lines: {first_line(error)}") from error


def cut(given: Mapping[str, Tensor], texts: int, tokens: int):
    """So many texts and tokens of the inputs of probes."""
    found = {
        name: one[tuple(slice({B: texts, N: tokens}.get(size)) for size in one.shape)].clone()
        for name, one in given.items()
    }
    for one in found.values():
        one.requires_grad_(one.is_floating_point())
    return found


def empty_batches_and_texts_are_harmless_in_a_model(subject: Subject):
    """A batch of no text and texts of no token, on either side of a translator, with a mask and
    without one, give finite outputs and gradients, in training and outside it; or an error of tfzoo
    refuses them in one line.
    """
    parameters = list(subject.module.parameters())
    for ids, source in ((TEXT[:0], SOURCE[:0]), (TEXT[:, :0], SOURCE), (TEXT, SOURCE[:, :0])):
        what = f"texts {tuple(ids.shape)}, sources {tuple(source.shape)}"
        with or_refused_in_one_line():
            assert_finite(subject(ids, "right", source), what)
            assert_finite(subject(ids, "none", source, "none"), what)
        with or_refused_in_one_line(), subject.training(), torch.enable_grad():
            out = subject(ids, "right", source)
            assert_finite(out, f"{what}, while training")
            assert_gradients_finite([out], parameters, what)


def a_step_of_no_token_changes_nothing(subject: Subject):
    """Decoding with a cache goes on after a step of no token as if it had not been, also in a batch
    of no text; or an error of tfzoo refuses it in one line.
    """
    if not subject.causal:
        return
    for texts in (slice(None), slice(0)):
        with or_refused_in_one_line():
            cache, ids = subject.init_cache(SOURCE[texts]), FULL[texts]
            steps = [subject.decode_step(ids[:, place], cache) for place in STEPS]
            whole = subject(ids, "none", SOURCE[texts])
            assert_same(torch.cat(steps, 1), whole, "steps of no token between others")


@contract(*COMPONENT_KINDS)
def what_it_makes_is_where_its_inputs_are(entry: Entry):
    """On another device than the CPU, here one without numbers (``torch.device("meta")``), no
    tensor that it makes stays on the CPU. It may read numbers, which stops there.
    """
    with torch.device("meta"):
        module = build(entry)
    try:
        outs = PROBES[entry.kind](module, {name: one.to("meta") for name, one in inputs().items()})
    except (NotImplementedError, RuntimeError) as error:
        if OTHER_DEVICE.search(str(error)):
            raise Violation(f"it makes a tensor on the CPU: {first_line(error)}") from error
        return
    if not all(one.is_meta for one in outs):
        raise Violation("its output is on the CPU, whatever the device of its inputs")


@contract("mixer", "feedforward")
@torch.no_grad()
def value_matrices_say_the_truth(entry: Entry):
    """Values pass what ``value_matrices`` gives: with all of it at 0 the input has no influence,
    unless it has some without any matrix, and with a matrix at 0 that it leaves out, the input
    still has. In a feed-forward layer and a mixer that ``attends``, the input has none with any one
    of them at 0: none of them makes scores or choices.
    """
    for options in variants(entry):
        part = build_randomized(entry, options)
        for name, one in part.named_parameters():
            if is_bias(name):  # which an expert or a gate adds, whatever passes its matrices
                one.zero_()
        own = {name: one for name, one in part.named_parameters() if one.dim() > 1}
        given = value_matrices(part)
        names = [name for one in given for name, mine in own.items() if mine is one]
        if len(set(names)) < len(given):
            raise Violation("value_matrices gives something other than matrices of its own")
        if not influence(entry, part, list(own.values())) and influence(entry, part, given):
            raise Violation(f"values pass more than {names}, which value_matrices gives")
        for name, one in own.items():
            carries = not influence(entry, part, [one])
            if carries and name not in names:
                raise Violation(f"values pass {name}, which value_matrices leaves out")
            every = entry.kind == "feedforward" or "attends" in entry.traits
            if every and name in names and not (carries or is_bias(name)):
                raise Violation(f"no value passes {name}, which value_matrices gives")


def is_bias(name: str):
    """Whether this is the name of a bias."""
    return "bias" in name.rpartition(".")[2]


def influence(entry: Entry, part: nn.Module, zeroed: Sequence[Tensor]):
    """Whether the output depends on the input with these matrices at 0."""
    kept = [one.clone() for one in zeroed]
    for one in zeroed:
        one.zero_()
    given = inputs()
    run: Callable[..., list[Tensor]] = PROBES[entry.kind]
    out, other = (run(part, {**given, "x": x})[0] for x in (given["x"], given["x"].flip(2)))
    for one, value in zip(zeroed, kept, strict=True):
        one.copy_(value)
    return bool((out - other).abs().max() > CLEAR)


class Routed(nn.Module):
    """A sublayer that says which of its matrices values pass."""

    def __init__(self):
        super().__init__()
        self.value = nn.Linear(SIZES["dim"], SIZES["dim"])
        self.router = nn.Linear(SIZES["dim"], SIZES["dim"])

    def value_matrices(self) -> list[Tensor]:
        return [self.value.weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) * self.router(x).sigmoid()  # type: ignore[no-any-return]


@contract("residual")
def of_its_sublayer_it_scales_value_matrices_alone(entry: Entry):
    """The sublayer starts as it did alone, but for one factor of what ``value_matrices`` gives."""
    inner = Routed()
    before = {name: value.clone() for name, value in inner.state_dict().items()}
    build(entry, inner=inner)
    for name, value in inner.state_dict().items():
        ratio = value / before[name]
        same = ratio.max() - ratio.min() < CLEAR if name == "value.weight" else (ratio == 1).all()
        if not bool(same):
            raise Violation(f"it changes {name} of a sublayer")


@contract("attention")
def queries_and_keys_of_zeros_are_harmless(entry: Entry):
    """Their gradients are not thousands of times as large as those of others."""
    attention = build_randomized(entry)
    for name in ("q", "k"):
        call, sizes = draw(), []
        for zeros in (False, True):
            x = getattr(call, name).detach().clone()
            x[:, :, 1] *= not zeros
            out = replace(call, **{name: x.requires_grad_()})(attention)
            (found,) = torch.autograd.grad(out.square().sum(), x)
            sizes.append(found[:, :, 1].abs().max().item())
        if not sizes[1] <= 1e3 * (sizes[0] + CLEAR):
            raise Violation(f"{name} of zeros has a gradient of {sizes[1]:.2g}, not {sizes[0]:.2g}")


@contract("attention")
def dropout_drops_weights_and_scales_the_others(entry: Entry):
    """``dropout`` drops that share of the weights and scales the others by ``1 / (1 - dropout)``;
    gradients pass those that were kept. An attention that combines several heads draws it by
    :func:`tfzoo.base.functional.dropout`.
    """
    attention = build_randomized(entry)
    for k in (7, 2 * MIDDLE):
        call = draw(k=k, e=k)
        inputs = call.inputs(attention)
        weights = attention.weights(call.q, call.k, mask=call.mask)
        torch.manual_seed(4)
        if "mixes_heads" in entry.traits:
            dropped = drop(weights, 0.25)
        else:  # the output is the weights if the values are the identity
            as_values = replace(call, v=torch.eye(k).expand(B, HEADS, k, k))
            dropped = weights * (as_values(attention, 0.25).detach() != 0) / 0.75
        share = (dropped == 0).double().mean().item()
        if not abs(share - 0.25) < 0.12:
            raise Violation(f"dropout of 0.25 drops {share:.0%} of the weights")
        torch.manual_seed(4)
        out, expected = call(attention, 0.25), attention.combine(dropped, call.v)
        assert_same(out, expected, "the weights that dropout kept")
        assert_same_gradients(out, expected, inputs, "the weights that dropout kept")


@contract("weighting")
def the_slope_of_a_constant_sum_is_zero(entry: Entry):
    """Where weights sum to one whatever the scores are, the gradient of their sum is 0, also where
    scores are equal or a weight just reaches 0.
    """
    weighting, whole = build_randomized(entry), torch.randint(-3, 3, (B, 2, N, N)).double()
    for given in (whole, whole / 2, scores(N)):
        sums = weighting(given, Mask()).sum(-1)
        if bool((sums - 1.0).abs().max() > CLEAR):
            return
        slope = gradient(weighting, given, Mask(), torch.ones_like(given))
        assert_same(slope, torch.zeros_like(slope), "the gradient of a sum that is always 1")


OF_STACKS = (empty_batches_and_texts_are_harmless_in_a_model, a_step_of_no_token_changes_nothing)
