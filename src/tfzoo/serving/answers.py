"""The page that shows what a task makes of one text."""

from __future__ import annotations

import warnings
from typing import Any

from tfzoo.data.pairs import title
from tfzoo.errors import BadOption
from tfzoo.plots.pages.attention import AttentionMaps, TooLarge, attention_page
from tfzoo.serving.message import message_page


def answer_page(task: Any, text: str, run: str, answer: Any = None) -> str:
    """The page of one text: what the task makes of it, which is the ``answer`` where that is known,
    and the attention if there is any.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the page say the same
            maps: AttentionMaps = task.attention(text, answer)
    except BadOption as error:
        answer = answer or task.answers([text])[0]
        cut = ["the text is longer than the model reads: its end is ignored"]
        facts = task.facts(answer)
        return message_page(title(text), facts, [str(error), *cut[: answer.truncated]])
    maps.run = run
    layers = known = sorted({one.layer for one in maps})
    while layers:
        shown = maps.of_layers(layers)
        if len(layers) < len(known):
            shown.notes.append("the last layers alone, as the page of all would be too large")
        try:
            return attention_page(shown)
        except TooLarge:
            layers = layers[(len(layers) + 1) // 2 :]
    return message_page(title(text), maps.facts, ["the page of its attention would be too large"])
