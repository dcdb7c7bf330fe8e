"""Contracts that tfzoo's own parts hold beside those of :mod:`tfzoo.testing`: sizes, empty batches,
devices, matrices that a residual connection may scale, special ids.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import is_dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import Entry
from tfzoo.base.special_ids import SpecialIds
from tfzoo.contracts import value_matrices
from tfzoo.errors import TfzooError
from tfzoo.testing.contract import (
    CLEAR,
    Violation,
    assert_finite,
    assert_same,
    assert_shape,
    first_line,
)
from tfzoo.testing.gradients import assert_gradients_finite
from tfzoo.testing.probes import DIM, HEADS, PROBES, WIDTH, B, N, inputs
from tfzoo.testing.samples import COMPONENT_KINDS, SIZES, build, build_randomized, variants
from tfzoo.testing.subject import FULL, SOURCE, TEXT, Subject
from tfzoo.testing.task import (
    EXAMPLES,
    assert_same_scores,
    batches_of,
    compare_rows,
    example,
    scores_of,
)

EMPTY = ((0, N), (B, 0), (0, 0))
"""Texts and tokens."""
OTHER_WIDTH, OTHER_HEADS = 24, (4, 1)
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
        new = {B: texts, N: tokens, DIM: OTHER_WIDTH, HEADS: heads, WIDTH: width}
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


@contract("task")
def special_ids_are_those_of_the_tokenizer(entry: Entry):
    """With a tokenizer that gives other ids to all tokens, special ones included, and embeddings in
    its order, scores and predictions are the same.
    """
    task, data = example(entry)
    cls = type(task)
    renumbered = renumber(task.tokenizer)
    again = cls.Data(seed=0, **task.recipe["data"])
    setattr(again, cls.tokenizer_of_data, renumbered)
    with redirect_stderr(io.StringIO()):
        again.prepare_data()
    other = cls.build(task.recipe, renumbered).double().eval()
    state = {name: reordered(tensor, renumbered) for name, tensor in task.state_dict().items()}
    other.load_state_dict(state)
    ((batch,), (theirs,)) = (batches_of(one, [EXAMPLES]) for one in (data, again))
    assert_same_scores(scores_of(other, [theirs]), scores_of(task, [batch]))
    with torch.no_grad():
        pairs = zip(other.prediction_rows(theirs), task.prediction_rows(batch), strict=True)
    for found, wanted in pairs:
        compare_rows(found, wanted, "a prediction")


class Renumbered:
    """A tokenizer with other ids: the special ones are the last, in the opposite order."""

    def __init__(self, inner: Any):
        self.inner = inner
        special = sorted(inner.special.every, reverse=True)
        self.order = [one for one in range(len(inner)) if one not in special] + special
        self.new = {one: new for new, one in enumerate(self.order)}

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def state(self) -> str:
        return f"{self.special} {self.inner.state()}"

    @property
    def special(self) -> SpecialIds:
        kept = vars(self.inner.special).items()
        return SpecialIds(**{name: renamed(ids, self.new) for name, ids in kept})

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [renamed(ids, self.new) for ids in self.inner.encode(texts)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.inner.decode([[self.order[one] for one in row] for row in ids])
        return texts


def renamed(ids: Any, new: Mapping[int, int]) -> Any:
    """New ids in place of one, of several, or of None."""
    if isinstance(ids, list | tuple):
        return type(ids)(renamed(one, new) for one in ids)
    return None if ids is None else new[ids]


def renumber(tokenizer: Any) -> Any:
    """What holds the tokenizers of a task, with the ids of each :class:`Renumbered`."""
    if not is_dataclass(tokenizer):
        return Renumbered(tokenizer)
    held = {name: one for name, one in vars(tokenizer).items() if hasattr(one, "special")}
    made = {id(one): Renumbered(one) for one in held.values()}
    return replace(tokenizer, **{name: made[id(one)] for name, one in held.items()})  # type: ignore[type-var]  # it is one


def reordered(tensor: Tensor, tokenizer: Any) -> Tensor:
    """A parameter with a row for each id in the order of the renumbered tokenizers."""
    held = [tokenizer] if isinstance(tokenizer, Renumbered) else vars(tokenizer).values()
    orders = {len(one): torch.tensor(one.order) for one in held if isinstance(one, Renumbered)}
    for axis, size in enumerate(tensor.shape):
        tensor = tensor.index_select(axis, orders[size]) if size in orders else tensor
    return tensor


OF_STACKS = (
    empty_batches_and_texts_are_harmless_in_a_model,
    a_step_of_no_token_changes_nothing,
)
