"""Compares a translator in CTranslate2 with the model that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tfzoo.base.special_ids import SpecialIds
from tfzoo.errors import BadOption

if TYPE_CHECKING:
    from tfzoo.models.transformer import Transformer

LENGTHS = (1, 2, 7, 16, 40)
"""The lengths of texts, without EOS, for which translations are compared."""
STEPS = 24
"""The most tokens of a translation."""
TOLERANCE = 2e-3
"""Of a log probability."""


def compare(
    model: Transformer,
    special: SpecialIds,
    limits: tuple[int | None, int | None],
    folder: Path,
    names: tuple[list[str], list[str]],
) -> None:
    """Translate texts of several lengths in one batch with the files in a folder, by greedy and by
    beam search, and check the log probability of each translation against the model's; and, of
    greedy translations, that each token is the model's most probable one. ``limits`` are the most
    tokens of source and target, and ``names`` those of their ids.

    Raises:
        BadOption: they differ.
    """
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    most, longest = limits
    ordinary = special.ordinary(len(names[0]) - len(special.every))
    texts = [
        [ordinary[(17 * place + n) % len(ordinary)] for place in range(n)]
        for n in LENGTHS
        if most is None or n <= most - special.frame
    ]
    ids = {name: id for id, name in enumerate(names[1])}
    for beam in (1, 3):
        found = translator.translate_batch(
            [[names[0][id] for id in one] for one in texts],
            beam_size=beam,
            max_decoding_length=min(STEPS, (longest or STEPS + 1) - 1),
            length_penalty=0,
            return_scores=True,
            disable_unk=False,
            return_end_token=True,
        )
        for given, result in zip(texts, found, strict=True):
            made = [ids[name] for name in result.hypotheses[0]]
            log_p = log_probabilities(model, special, given, made)
            best = log_p.amax(-1)
            reached = log_p.gather(1, torch.tensor(made)[:, None])[:, 0]
            apart = abs(float(reached.sum()) - result.scores[0]) / len(made)
            if beam == 1:
                apart = max(apart, float((best - reached).max()))
            if not apart <= TOLERANCE:
                raise BadOption(
                    f"ctranslate2: the log probability of a token differs from the model's by "
                    f"{apart:.1g} for a text of {len(given)} tokens, beam {beam}"
                )


@torch.no_grad()
def log_probabilities(
    model: Transformer, special: SpecialIds, source: Sequence[int], target: Sequence[int]
) -> Tensor:
    """The log probability of every token at each place of a translation: ``(t v)``."""
    begin = [] if special.cls is None else [special.cls]
    texts = [*begin, *source, special.eos], [special.start, *target[:-1]]
    logits: Tensor = model(*(torch.tensor([ids]) for ids in texts))[0]
    logits[:, [*special.never]] = float("-inf")
    return logits.log_softmax(-1)
