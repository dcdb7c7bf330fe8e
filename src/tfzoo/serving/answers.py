"""The page that shows what a task makes of one text."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfzoo.data.pairs import title
from tfzoo.errors import BadOption
from tfzoo.plots.pages.attention import TooLarge, attention_page
from tfzoo.plots.pages.render import render

ANSWER = Path(__file__).parent / "answer.html"


def answers(task: Any, texts: Sequence[str]) -> list[Any]:
    """The answer to each text, which says itself whether the text is truncated."""
    return task.predict(texts, on_truncated=lambda *_: None)  # type: ignore[no-any-return]


def message_page(title: str, facts: Mapping[str, str], *notes: str) -> str:
    """A page without maps."""
    return render(ANSWER, title=title, facts=facts, notes=notes)


def answer_page(task: Any, text: str, run: str) -> str:
    """The page of one text: what the task makes of it, and the attention if there is any, and it is
    not too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the page say the same
            maps = task.attention(text)
        maps.run = run
        return attention_page(maps)
    except TooLarge:
        return message_page(title(text), maps.facts, "the page of its attention would be too large")
    except BadOption as error:
        (answer,) = answers(task, [text])
        cut = ["the text is longer than the model reads: its end is ignored"]
        return message_page(title(text), task.facts(answer), str(error), *cut[: answer.truncated])
