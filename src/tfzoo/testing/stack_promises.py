"""What every stack promises, whatever it is made of."""

# ruff: noqa: D103  # a promise is named after what it promises

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from tfzoo.testing.gradients import gradients_reach_every_parameter
from tfzoo.testing.promise import Violation, differ, finite, same
from tfzoo.testing.samples import randomize
from tfzoo.testing.subject import FULL, SOURCE, TEXT, Subject, hooks, left

StackPromise = Callable[[Subject], None]
REAL = TEXT != 0


def padding_has_no_influence(subject: Subject) -> None:
    before = subject(TEXT)[REAL]
    with subject.other_padding():
        same(subject(TEXT)[REAL], before, "other padding on the right")
        same(
            subject(pad(TEXT, (0, 3)), source=pad(SOURCE, (0, 2)))[:, :6][REAL],
            before,
            "more padding on the right",
        )
        out = subject(left(TEXT), "left", left(SOURCE), "left")
        same(out[left(TEXT) != 0], before, "padding on the left")
        more = subject(pad(left(TEXT), (2, 0)), "left", pad(left(SOURCE), (1, 0)), "left")
        same(more[:, 2:][left(TEXT) != 0], before, "more padding on the left")


def padding_has_no_influence_while_training(subject: Subject) -> None:
    def trained(ids: Tensor, source: Tensor) -> tuple[Tensor, list[Tensor]]:
        with subject.training():
            out = subject(ids, source=source)
            return out[:, :6][REAL], [buffer.clone() for buffer in subject.module.buffers()]

    before, statistics = trained(TEXT, SOURCE)
    with subject.other_padding():
        out, others = trained(pad(TEXT, (0, 2)), pad(SOURCE, (0, 2)))
    same(out, before, "other and more padding while training")
    for one, other in zip(others, statistics, strict=True):
        same(one, other, "running statistics with other and more padding")


def a_text_does_not_see_the_others_of_its_batch(subject: Subject) -> None:
    before = subject(TEXT)
    same(
        subject(TEXT.flip(0), source=SOURCE.flip(0)).flip(0)[REAL],
        before[REAL],
        "another order of the batch",
    )
    same(
        subject(TEXT[1:2, :4], "none", SOURCE[1:2, :3], "none"),
        before[1:2, :4],
        "alone and without padding",
    )


def a_token_has_influence_on_itself_and_whatever_may_look_at_it(subject: Subject) -> None:
    """And on nothing else: token by token, in one batch of texts that differ in one token each."""
    text = FULL[:1].repeat(7, 1)
    for t in range(6):
        text[t + 1, t] = 11
    out = subject(text, "none", SOURCE[:1].expand(7, -1), "none")
    off = (out[1:] - out[:1]).abs().amax(-1)  # (changed token, token that notices)
    bound = 1e-4 * max(1.0, out.abs().max().item())
    for t in range(6):
        for i in range(6):
            hidden = subject.causal and i < t
            if hidden and not off[t, i] <= bound:
                raise Violation(f"token {i} sees token {t}, which comes later")
            if not hidden and not off[t, i] > bound / 100:
                raise Violation(f"token {i} does not see token {t}: {off[t, i].item():.2g}")


def later_tokens_have_no_influence_while_training(subject: Subject) -> None:
    if subject.causal:
        changed = TEXT.clone()
        changed[0, 4:] = 11
        with subject.training():
            before = subject(TEXT)
            after = subject(changed)
        same(after[:, :4][REAL[:, :4]], before[:, :4][REAL[:, :4]], "another end while training")


def one_token_at_a_time_equals_all_at_once(subject: Subject) -> None:
    if not subject.causal:
        return
    full = subject(FULL, "none")
    for pieces in ((1, 1, 1, 1, 1, 1), (2, 1, 3)):
        cache = subject.init_cache()
        steps = [subject.decode_step(piece, cache) for piece in torch.split(FULL, list(pieces), 1)]
        same(torch.cat(steps, 1), full, f"steps of {', '.join(map(str, sorted(set(pieces))))}")
    cache = subject.init_cache(left(SOURCE), "left")
    same(
        subject.decode_step(FULL[:, :1], cache),
        full[:, :1],
        "first step, source padded on the left",
    )


def a_cache_follows_its_rows(subject: Subject) -> None:
    """Beams move, sentences finish: what goes on is as if it had been alone from the start."""
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
        same(
            out,
            subject(text, "none", SOURCE[sentence])[:, -1:],
            f"after select({rows})" + f" and keep({keep})" * (keep is not None),
        )


def order_matters_if_and_only_if_there_are_positions(subject: Subject) -> None:
    order = torch.tensor([3, 0, 4, 2, 1])
    text, moved = FULL[:1], FULL[:1].clone()
    moved[:, :5] = moved[:, order]
    acts, pairs = bool(hooks(subject.position.name)), []
    with subject.shallow():
        out = subject(text, "none", SOURCE[:1])
        if subject.causal:  # the last token sees a bag of those before it
            pairs.append(
                (
                    subject(moved, "none", SOURCE[:1])[:, -1],
                    out[:, -1],
                    "earlier tokens in another order",
                )
            )
        else:
            pairs.append((subject(moved, "none")[:, :5], out[:, order], "tokens in another order"))
        if len(subject.stacks) > 1:
            pairs.append(
                (subject(text, "none", SOURCE[:1, order]), out, "the source in another order")
            )
    for after, before, what in pairs:
        if acts:
            differ(after, before, f"{what}, although position {subject.position.name!r} acts", 1e-5)
        else:
            same(after, before, f"{what}, without positions")


def turned_scores_depend_on_distance_alone(subject: Subject) -> None:
    if hooks(subject.position.name) == {"angles"}:
        before = subject(TEXT)
        with subject.shifted(11):
            same(subject(TEXT)[REAL], before[REAL], "all positions 11 later", 1e-3)


def the_source_is_read(subject: Subject) -> None:
    if len(subject.stacks) > 1:
        before = subject(FULL[:1], "none", SOURCE[:1])
        for place in range(5):
            source = SOURCE[:1].clone()
            source[:, place] = 11
            differ(
                subject(FULL[:1], "none", source)[0],
                before[0],
                f"source token {place} has no influence",
                1e-6,
            )


def texts_of_nothing_but_padding_are_harmless(subject: Subject) -> None:
    ids, source = TEXT.clone(), SOURCE.clone()
    ids[2], source[2], source[1] = 0, 0, 0
    parameters = list(subject.module.parameters())
    finite(subject(ids, "right", source), "output")
    with subject.training(), torch.enable_grad():
        out = subject(left(ids), "left", source)
        finite(out, "output while training")
        for gradient in torch.autograd.grad(out.square().mean(), parameters, allow_unused=True):
            if gradient is not None:
                finite(gradient, "gradient")


def half_precision_under_autocast_is_close(subject: Subject) -> None:
    before = subject(
        FULL, "none", FULL, "none"
    )  # long texts: a norm over two tokens makes differences of any size large
    with torch.autocast("cpu", torch.bfloat16):
        out = subject(FULL, "none", FULL, "none")
    off = (out - before).norm() / before.norm()
    if not off < 0.15:
        raise Violation(f"bfloat16 is off by {off.item():.0%}")


def the_state_dict_holds_all(subject: Subject) -> None:
    before = subject(TEXT)
    saved = {name: value.clone() for name, value in subject.module.state_dict().items()}
    subject.module.train()
    subject(FULL)  # moves running statistics
    randomize(subject.module.eval())
    differ(subject(TEXT)[:1], before[:1], "other parameters")
    subject.module.load_state_dict(saved)
    if not torch.equal(subject(TEXT), before):
        raise Violation("the state dict of before brings back another model")


STACK_PROMISES: tuple[StackPromise, ...] = (
    padding_has_no_influence,
    padding_has_no_influence_while_training,
    a_text_does_not_see_the_others_of_its_batch,
    a_token_has_influence_on_itself_and_whatever_may_look_at_it,
    later_tokens_have_no_influence_while_training,
    one_token_at_a_time_equals_all_at_once,
    a_cache_follows_its_rows,
    order_matters_if_and_only_if_there_are_positions,
    turned_scores_depend_on_distance_alone,
    the_source_is_read,
    texts_of_nothing_but_padding_are_harmless,
    gradients_reach_every_parameter,
    half_precision_under_autocast_is_close,
    the_state_dict_holds_all,
)
