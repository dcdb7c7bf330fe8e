"""What a task answers to texts: as JSON, and as a page with their attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfzoo.errors import BadOption
from tfzoo.pages.attention import attention_page
from tfzoo.pages.attention_maps import AttentionMaps, TooLarge
from tfzoo.pages.render import render

Answer = dict[str, Any]

SHOWN = 5
"""The most labels of which a page shows the probability."""
ANSWER = Path(__file__).parent / "answer.html"


def translations(task: Any, texts: Sequence[str]) -> list[Answer]:
    """The best translation of each text and its score, the log probability divided by the length
    penalty.
    """
    found = task.translations(texts)
    return [{"translation": best.text, "score": best.score} for (best, *_) in found]


def classifications(task: Any, texts: Sequence[str]) -> list[Answer]:
    """The most probable label of each text, and the probabilities of all, the largest first."""
    return [
        {
            "label": ranked[0].label,
            "probability": ranked[0].probability,
            "probabilities": {one.label: one.probability for one in ranked},
        }
        for ranked in task.classifications(texts)
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
            warnings.simplefilter("ignore", UserWarning)  # of layers without a map: in the notes
            maps: AttentionMaps = task.attention(text)
    except BadOption as error:
        return message_page(text, facts(task, text), [str(error)])
    maps.run = run
    if "label" in maps.facts:
        maps.facts |= facts(task, text)  # the probabilities of other labels, too
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


def facts(task: Any, text: str) -> dict[str, str]:
    """An answer as the lines of a page."""
    (answer,) = ANSWERS[task.command](task, [text])
    if "label" not in answer:
        return {"translation": answer["translation"]}
    ranked = list(answer["probabilities"].items())
    written = " · ".join(f"{label} {probability:.3f}" for label, probability in ranked[:SHOWN])
    more = f" and {len(ranked) - SHOWN} more" if len(ranked) > SHOWN else ""
    return {"label": answer["label"], "probabilities": written + more}


def message_page(title: str, said: dict[str, str], notes: Sequence[str]) -> str:
    """A page without maps."""
    return render(ANSWER, title=title, facts=said, notes=notes)
