"""Decodes a trained translator with CTranslate2 instead of PyTorch (``--engine``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfzoo.base import cache
from tfzoo.base.loading import require
from tfzoo.errors import BadOption, UnknownName
from tfzoo.exporting import export
from tfzoo.search import Hypothesis, Search

TORCH = "torch"
NUMBERS = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""The engines besides PyTorch, and the numbers that each computes with."""


def set_engine(task: Any, name: str) -> None:
    """Let a task, a translator, decode with an engine. What the engine reads is exported once, and
    kept in the cache of prepared data.

    Raises:
        UnknownName: there is no such engine.
        BadOption: the task translates nothing, its model lies on a device that CTranslate2 does not
            have, or CTranslate2 has nothing like a part of it.
        TfzooError: CTranslate2 is not installed.
    """
    if name not in (TORCH, *NUMBERS):
        raise UnknownName("engine", name, (TORCH, *NUMBERS))
    if name == TORCH:
        return
    if not hasattr(task, "engine"):
        raise BadOption(f"--engine {name} translates; this run is a {task.entry.name} model")
    if task.device.type not in ("cpu", "cuda"):
        raise BadOption(f"--engine {name}: CTranslate2 computes on cpu and cuda: --device cpu")
    require("ctranslate2", "export")
    task.engine = CTranslate2(task, exported(task), NUMBERS[name])


def exported(task: Any) -> Path:
    """The folder of the exported translator, written if it is not there yet."""
    weights = blake2b()
    for one in task.model.state_dict().values():
        weights.update(one.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    tokenizers = task.tokenizer.source.state(), task.tokenizer.target.state()
    made_by = version("tfzoo"), version("ctranslate2"), repr(task.model.config)
    place = cache.entry("ctranslate2", cache.key(*made_by, *tokenizers, weights.hexdigest()))
    if not cache.is_whole(place):
        with cache.filling(place) as folder:
            export(task, folder, to="ctranslate2")
    return place


class CTranslate2:
    """Decodes batches as :func:`tfzoo.search.search` does, with CTranslate2's beam search: of its
    hypotheses, the best by our scores. It translates a text of no token as nothing, with score 0.
    """

    def __init__(self, task: Any, folder: Path, numbers: str) -> None:
        import ctranslate2

        from tfzoo.exporting.ctranslate2 import tokens

        self.special = task.tokenizer.special
        self.source, self.target = (
            tokens(one) for one in (task.tokenizer.source, task.tokenizer.target)
        )
        self.ids: Mapping[str, int] = {name: id for id, name in enumerate(self.target)}
        self.max_positions = task.max_positions()[1]
        self.translator = ctranslate2.Translator(
            str(folder),
            device=task.device.type,
            device_index=task.device.index or 0,
            compute_type=numbers,
            intra_threads=torch.get_num_threads(),
        )

    def __call__(self, source: Tensor, options: Search) -> list[list[Hypothesis]]:
        """``n_best`` hypotheses for each text of ``(b k)``, best first."""
        limits = options.limits(source, self.special.fill, self.max_positions)
        kept = {*self.special.every} - {self.special.unk}
        texts = [[self.source[id] for id in row if id not in kept] for row in source.tolist()]
        found: list[list[Hypothesis]] = [[] for _ in texts]
        for limit in sorted({*limits}):  # a call has one limit for all of its texts
            rows = [row for row in range(len(texts)) if limits[row] == limit]
            results = self.translate([texts[row] for row in rows], limit, options)
            for row, hypotheses in zip(rows, results, strict=True):
                found[row] = hypotheses
        return found

    def translate(
        self, texts: Sequence[list[str]], limit: int, options: Search
    ) -> list[list[Hypothesis]]:
        """The hypotheses of texts that have the same limit."""
        results = self.translator.translate_batch(
            texts,
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=0,  # ours is another
            max_decoding_length=limit,
            max_input_length=0,
            disable_unk=False,
            end_token=[self.target[id] for id in self.special.ends],
            return_end_token=True,
            return_scores=True,
        )
        return [
            sorted(
                (
                    self.hypothesis(*one, options)
                    for one in zip(each.hypotheses, each.scores, strict=True)
                ),
                key=lambda one: (not one.finished, -one.score),
            )[: options.n_best]
            for each in results
        ]

    def hypothesis(self, names: Sequence[str], log_p: float, options: Search) -> Hypothesis:
        """One result, with the score that it has by the length penalty."""
        ids = [self.ids[name] for name in names]
        finished = bool(ids) and ids[-1] in self.special.ends
        score = log_p / options.penalty(len(ids))
        return Hypothesis(ids[:-1] if finished else ids, score, finished)
