"""The page that shows what a task makes of one text."""

from __future__ import annotations

import warnings

from tfzoo.data.pairs import title
from tfzoo.errors import BadOption
from tfzoo.learning.task import Task
from tfzoo.plots.pages.attention import AttentionMaps, TooLarge, attention_page
from tfzoo.serving.message import message_page


def answer_page(task: Task, text: str, run: str) -> str:
    """The page of one text: what the task makes of it, and the attention if there is any."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the page say the same
            maps: AttentionMaps = task.attention(text)
    except BadOption as error:
        (answer,) = task.answers([text])
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
