"""What a task answers to texts: as JSON, and as a page with their attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tfzoo.errors import BadOption
from tfzoo.pages.attention import AttentionMaps, TooLarge, attention_page
from tfzoo.serving.message import message_page

Answer = dict[str, Any]

SHOWN = 5
"""The most labels of which a page shows the probability."""


def translations(task: Any, texts: Sequence[str]) -> list[Answer]:
    """The best translation of each text; its score, the log probability divided by the length
    penalty; and whether the text was truncated.
    """
    truncated: set[int] = set()
    found = task.translations(texts, on_truncated=lambda rows, _: truncated.update(rows))
    return [
        {"translation": best.text, "score": best.score, "truncated": index in truncated}
        for index, (best, *_) in enumerate(found)
    ]


def classifications(task: Any, texts: Sequence[str]) -> list[Answer]:
    """The most probable label of each text; the probabilities of all, the largest first; and
    whether the text was truncated.
    """
    truncated: set[int] = set()
    found = task.classifications(texts, on_truncated=lambda rows, _: truncated.update(rows))
    return [
        {
            "label": ranked[0].label,
            "probability": ranked[0].probability,
            "probabilities": {one.label: one.probability for one in ranked},
            "truncated": index in truncated,
        }
        for index, ranked in enumerate(found)
    ]


ANSWERS: dict[str, Callable[[Any, Sequence[str]], list[Answer]]] = {
    "translate": translations,
    "classify": classifications,
}
"""By the command that does the same."""


def answer_page(task: Any, text: str, run: str) -> str:
    """The page of one text: what the task makes of it, and the attention if there is any."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the page say the same
            maps: AttentionMaps = task.attention(text)
    except BadOption as error:
        (answer,) = ANSWERS[task.command](task, [text])
        cut = ["the text is longer than the model reads: its end is ignored"]
        return message_page(text, facts(answer), [str(error), *cut[: answer["truncated"]]])
    maps.run = run
    if "label" in maps.facts:  # the probabilities of other labels, too
        maps.facts |= facts(*ANSWERS[task.command](task, [text]))
    layers = known = sorted({one.layer for one in maps})
    while layers:
        shown = maps.of_layers(layers)
        if len(layers) < len(known):
            shown.notes.append("the last layers alone, as the page of all would be too large")
        try:
            return attention_page(shown)
        except TooLarge:
            layers = layers[(len(layers) + 1) // 2 :]
    return message_page(text, maps.facts, ["the page of its attention would be too large"])


def facts(answer: Answer) -> dict[str, str]:
    """An answer as the lines of a page."""
    if "label" not in answer:
        return {"translation": answer["translation"]}
    ranked = list(answer["probabilities"].items())
    written = " · ".join(f"{label} {probability:.3f}" for label, probability in ranked[:SHOWN])
    more = f" and {len(ranked) - SHOWN} more" if len(ranked) > SHOWN else ""
    return {"label": answer["label"], "probabilities": written + more}
