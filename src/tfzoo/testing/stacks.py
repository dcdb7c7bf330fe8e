"""Contracts of every stack and translator, whatever its components; and these, each of which may
stand in an encoder, a decoder and a translator.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.encoder_decoder import Decoder, Encoder
from tfzoo.models.transformer import Transformer
from tfzoo.testing.contract import (
    CLEAR,
    EXACT,
    NOTHING,
    Result,
    Violation,
    assert_finite,
    assert_gradients_finite,
    assert_same,
    difference,
    first_line,
    gradients_of,
    reproducible,
    run_contract,
)
from tfzoo.testing.samples import COMPONENT_KINDS, SIZES, randomize
from tfzoo.testing.subject import FULL, SOURCE, TEXT, VOCABULARY, Padding, Subject, hooks, left

StackContract = Callable[[Subject], None]
OF_ANGLES = 1e-4
"""Rotary angles are fp32, and products sum over the channels of a head."""
REAL = TEXT != 0
CHANGED = torch.cat([FULL[:1], torch.where(torch.eye(6).bool(), 11, FULL[:1])])
"""A text, and the same with another token at each place in turn."""


def real(out: Tensor, ids: Tensor) -> Tensor:
    """The hidden states of real tokens, ``(t d)``; all logits of a classifier."""
    return out[ids != 0] if out.dim() == 3 else out


def padding_has_no_influence(subject: Subject) -> None:
    """Other padding, more padding and padding on the left change no output of a real token, and no
    logit of a classifier.
    """
    before = real(subject(TEXT), TEXT)
    sides: tuple[tuple[Tensor, Tensor, Padding, str], ...] = (
        (TEXT, SOURCE, "right", "other padding on the right"),
        (pad(TEXT, (0, 3)), pad(SOURCE, (0, 2)), "right", "more padding on the right"),
        (left(TEXT), left(SOURCE), "left", "padding on the left"),
        (pad(left(TEXT), (2, 0)), pad(left(SOURCE), (1, 0)), "left", "more padding on the left"),
    )
    with subject.other_padding():
        for ids, source, side, what in sides:
            assert_same(real(subject(ids, side, source, side), ids), before, what)


def padding_has_no_influence_while_training(subject: Subject) -> None:
    """The same in training mode, also for running statistics. NaN at padding, which a stack keeps
    from its layers, changes no gradient either.
    """
    parameters = list(subject.module.parameters())

    def trained(ids: Tensor, source: Tensor, side: Padding) -> list[Tensor]:
        with subject.training(), torch.enable_grad():
            out = real(subject(ids, side, source, side), ids)
            loss = out.square().sum() + 0.0 * sum(one.sum() for one in parameters)
            gradients = torch.autograd.grad(loss, parameters) if parameters else ()
            return [*gradients, out, *(buffer.clone() for buffer in subject.module.buffers())]

    before = trained(left(TEXT), left(SOURCE), "left")
    with subject.padding_of(torch.full((SIZES["dim"],), float("nan"))):
        nan = trained(left(TEXT), left(SOURCE), "left")
    with subject.other_padding():
        more = trained(pad(TEXT, (0, 2)), pad(SOURCE, (0, 2)), "right")
    for one, other in zip(nan, before, strict=True):
        assert_same(one, other, "NaN in padding while training")
    for one, other in list(zip(more, before, strict=True))[len(parameters) :]:
        assert_same(one, other, "other and more padding while training")


def a_text_does_not_see_the_others_of_its_batch(subject: Subject) -> None:
    """Another order of the batch, also in training, and a text alone give the same outputs."""

    def turned() -> Tensor:
        return subject(TEXT.flip(0), source=SOURCE.flip(0)).flip(0)

    before = subject(TEXT)
    assert_same(real(turned(), TEXT), real(before, TEXT), "another order of the batch")
    alone, here = subject(TEXT[1:2, :4], "none", SOURCE[1:2, :3], "none"), TEXT[1:2, :4]
    whole = before[1:2, :4] if before.dim() == 3 else before[1:2]
    assert_same(real(alone, here), real(whole, here), "alone and without padding")
    with subject.training():
        trained = real(subject(TEXT), TEXT)
    with subject.training():
        assert_same(real(turned(), TEXT), trained, "another order of the batch while training")


def a_token_has_influence_on_itself_and_whatever_may_look_at_it(subject: Subject) -> None:
    """A token has influence on itself and, in an encoder, on all others; in a decoder, on itself
    and later ones alone. With a ``sparse`` weighting it may have none, and with a mixer of limited
    ``reach`` it has some on its neighbours.
    """
    out = subject(CHANGED, "none", SOURCE[:1].expand(7, -1), "none")
    off = (out[1:] - out[:1]).abs().amax(-1)  # (changed token, token that notices)
    size = out.abs().amax((0, 2)).clamp(min=1.0)
    reach = 1 if "reach" in subject.traits("mixer") else len(CHANGED)
    reach = reach if subject.parts("mixer") else 0  # without a mixer, tokens are by themselves
    ahead = torch.arange(6)[:, None] - torch.arange(6)  # how far the changed token stands ahead
    hidden = (ahead > 0) & subject.causal
    for token, other in (hidden & ~(off <= EXACT * size)).nonzero().tolist():
        raise Violation(f"token {other} sees token {token}, which comes later")
    near = ~hidden & (ahead.abs() <= reach) & ("sparse" not in subject.traits("weighting"))
    for token, other in (near & ~(off > 10 * EXACT * size)).nonzero().tolist():
        raise Violation(f"token {other} does not see token {token}: {off[token, other].item():.2g}")


def later_tokens_have_no_influence_while_training(subject: Subject) -> None:
    """In a decoder, no output depends on a later token in training mode."""
    if subject.causal:
        changed = TEXT.clone()
        changed[0, 4:] = 11
        with subject.training():
            before = subject(TEXT)
            after = subject(changed)
        assert_same(
            after[:, :4][REAL[:, :4]], before[:, :4][REAL[:, :4]], "another end while training"
        )


def one_token_at_a_time_equals_all_at_once(subject: Subject) -> None:
    """Decoding with a cache, in steps of one or more tokens, equals one pass over the text."""
    if not subject.causal:
        return
    full = subject(FULL, "none")
    for pieces in ((1, 1, 1, 1, 1, 1), (2, 1, 3)):
        cache = subject.init_cache()
        steps = [subject.decode_step(piece, cache) for piece in torch.split(FULL, list(pieces), 1)]
        assert_same(
            torch.cat(steps, 1), full, f"steps of {', '.join(map(str, sorted(set(pieces))))}"
        )
    cache = subject.init_cache(left(SOURCE), "left")
    assert_same(
        subject.decode_step(FULL[:, :1], cache),
        full[:, :1],
        "first step, source padded on the left",
    )


def a_cache_can_be_reordered(subject: Subject) -> None:
    """After reordering beams and keeping some sentences, each row goes on as if it were alone."""
    if not subject.causal:
        return
    cache, text, sentence = subject.init_cache(), FULL[:, :2], torch.arange(3)
    subject.decode_step(text, cache)
    moves = [(None, [0, 0, 1, 1, 2, 2]), (None, [1, 0, 2, 2, 5, 4]), ([2, 0], [4, 5, 1, 0])]
    for keep, rows in moves:
        if keep is not None:
            cache.keep_batch(torch.tensor(keep))
        cache.reorder(torch.tensor(rows))
        text, sentence = text[rows], sentence[rows]
        new = torch.arange(len(rows))[:, None] + 4
        text = torch.cat([text, new], 1)
        out = subject.decode_step(new, cache)
        assert_same(
            out,
            subject(text, "none", SOURCE[sentence])[:, -1:],
            f"after select({rows})" + f" and keep({keep})" * (keep is not None),
        )


def order_matters_if_and_only_if_there_are_positions(subject: Subject) -> None:
    """Outputs depend on the order of tokens exactly where the position acts or the mixer is
    ``ordered``. With a ``sparse`` weighting they may depend on no other token.
    """
    text, source, order = FULL[:1], SOURCE[:1], [3, 0, 4, 2, 1, 5]
    acting, weightings = hooks(subject.position.name), subject.traits("weighting")
    acts = bool(acting) or "ordered" in subject.traits("mixer")
    with subject.shallow():
        out, moved = (subject(ids, "none", source) for ids in (text, text[:, order]))
        pairs = [(moved, out[:, order], "tokens in another order")]
        if subject.causal:  # the last token sees a bag of those before it
            pairs = [(moved[:, -1], out[:, -1], "earlier tokens in another order")]
        if subject.causal and "embed" in acting:  # the mean of what precedes may be the same
            with subject.shifted(1):
                pairs = [(subject(text, "none", source)[:, -1], out[:, -1], "positions 1 later")]
        if len(subject.stacks) > 1 and not (acts and "ignores_scores" in weightings):
            changed = subject(text, "none", source[:, order[:5]])
            pairs.append((changed, out, "the source in another order"))
    for after, before, what in pairs:
        if not acts:
            assert_same(after, before, f"{what}, without positions")
        elif "sparse" not in weightings and not difference(after, before) > CLEAR:
            raise Violation(f"{what}: nothing changed, although order matters here")


def rotated_scores_depend_on_distance_alone(subject: Subject) -> None:
    """With rotary angles alone, moving all positions by one distance changes nothing."""
    if hooks(subject.position.name) == {"angles"}:
        before = subject(TEXT)
        with subject.shifted(11):
            after = real(subject(TEXT), TEXT)
            assert_same(after, real(before, TEXT), "all positions 11 later", OF_ANGLES)


def texts_of_nothing_but_padding_are_harmless(subject: Subject) -> None:
    """A text without a real token gives finite outputs and gradients."""
    ids, source = TEXT.clone(), SOURCE.clone()
    ids[2], source[2], source[1] = 0, 0, 0
    parameters = list(subject.module.parameters())
    assert_finite(subject(ids, "right", source), "output")
    with subject.training(), torch.enable_grad():
        out = subject(left(ids), "left", source)
        assert_finite(out, "output while training")
        assert_gradients_finite([out], parameters, "a text of nothing but padding")


STEP = 1e-5
"""A change of a parameter, so small that no key is chosen instead of another."""


def gradients_reach_every_parameter(subject: Subject) -> None:
    """In training, every parameter has a gradient, but for those of scores that a weighting
    ignores. It may be zero where a small change of the parameter changes nothing, as for a bias of
    keys, or where a weighting is ``sparse``.
    """
    weightings = subject.traits("weighting")
    with subject.training(), torch.enable_grad():
        out = subject(TEXT)
        found = gradients_of(out[TEXT != 0] if out.dim() == 3 else out, subject.module)
        sizes = {
            name: 0.0 if gradient is None else gradient.abs().max().item()
            for name, gradient in found.items()
        }
        for name, parameter in subject.module.named_parameters():
            if (gradient := found[name]) is not None:
                assert_finite(gradient, f"gradient of {name}")
            nearby = max(size for near, size in sizes.items() if sublayer(near) == sublayer(name))
            if sizes[name] > NOTHING * nearby:
                continue
            unused = gradient is None and "ignores_scores" not in weightings
            if unused or ("sparse" not in weightings and has_influence(subject, parameter)):
                raise Violation(f"no gradient reaches {name} ({sizes[name]:.2g})")


@torch.no_grad()
def has_influence(subject: Subject, parameter: Tensor) -> bool:
    """Whether a small change of a parameter changes the outputs by more than rounding."""
    before, kept = subject(TEXT), parameter.clone()
    parameter.add_(STEP * torch.randn_like(parameter))
    change = subject(TEXT) - before
    parameter.copy_(kept)
    return bool(change.abs().max() > EXACT * max(1.0, before.abs().max().item()))


def sublayer(name: str) -> str:
    """The sublayer that a parameter belongs to. Gradients are compared within one, as without norms
    they differ in size from depth to depth.
    """
    return name.rpartition(".inner.")[0] or name


STACK_CONTRACTS: tuple[StackContract, ...] = (
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    a_text_does_not_see_the_others_of_its_batch,
    a_token_has_influence_on_itself_and_whatever_may_look_at_it,
    later_tokens_have_no_influence_while_training,
    one_token_at_a_time_equals_all_at_once,
    a_cache_can_be_reordered,
    order_matters_if_and_only_if_there_are_positions,
    rotated_scores_depend_on_distance_alone,
    texts_of_nothing_but_padding_are_harmless,
    gradients_reach_every_parameter,
)


Side = Literal["encoder", "decoder", "translator"]
SIDES: tuple[Side, ...] = get_args(Side)
PLAIN: Mapping[str, str] = {
    kind: parameter.default
    for kind, parameter in inspect.signature(Transformer).parameters.items()
    if kind in COMPONENT_KINDS
}
"""A model's defaults, which stand beside a component that is checked."""


@dataclass(frozen=True)
class Combination:
    """One choice of components for one side of a model."""

    side: Side
    attention: str = PLAIN["attention"]
    norm: str = PLAIN["norm"]
    position: str = PLAIN["position"]
    residual: str = PLAIN["residual"]
    feedforward: str = PLAIN["feedforward"]
    weighting: str = PLAIN["weighting"]
    mixer: str = PLAIN["mixer"]

    def module(
        self, allow: Collection[str] = (), layers: int = 2
    ) -> Encoder | Decoder | Transformer | TransformerClassifier:
        """A small model of it without dropout; raises Clash where it is refused."""
        options: dict[str, Any] = {kind: getattr(self, kind) for kind in PLAIN}
        options |= {"max_length": SIZES["max_length"], "dropout": 0.0, "allow": list(allow)}
        # Without residual connections, two layers average so much that nothing depends on anything.
        layers = min(layers, 1) if self.residual == "none" else layers
        if self.side == "encoder":
            return Encoder(SIZES["dim"], SIZES["heads"], layers, **options)
        if self.side == "decoder":
            return Decoder(SIZES["dim"], SIZES["heads"], layers, cross_attention=False, **options)
        return Transformer(VOCABULARY, SIZES["dim"], SIZES["heads"], layers, **options)

    def build(self, allow: Collection[str] = (), scale: float = 0.7) -> Subject:
        """:meth:`module` with every parameter drawn at random, in evaluation mode. They are small:
        a softmax of large random scores is a hard maximum, behind which every mistake hides.
        """
        return Subject(randomize(self.module(allow), scale).eval())  # type: ignore[arg-type]  # it is


def results(combination: Combination) -> Iterator[Result]:
    """The contracts of one model, a result each; one result where it is refused."""
    where = f"in {'an' if combination.side == 'encoder' else 'a'} {combination.side}"
    try:
        with reproducible():
            subject = combination.build()
    except Clash as clash:
        yield Result(f"{where}, refused by {clash.rule}", True)
        return
    except Exception as error:  # whatever an unfinished component raises
        yield Result(f"{where}, it can be built", False, first_line(error))
        return
    for contract in STACK_CONTRACTS:
        with torch.no_grad():
            result = run_contract(contract, subject)
        yield replace(result, name=f"{where}, {result.name}")
