"""The page that shows what a task makes of one text."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.data.pairs import title
from tfzoo.errors import BadOption
from tfzoo.plots.pages.attention import TooLarge, attention_page
from tfzoo.plots.pages.render import render

ANSWER = Path(__file__).parent / "answer.html"


def message_page(title: str, facts: Mapping[str, str], *notes: str) -> str:
    """A page without maps."""
    return render(ANSWER, title=title, facts=facts, notes=notes)


def answer_page(task: Any, text: str, run: str, answer: Any = None) -> str:
    """The page of one text: what the task makes of it, which is the ``answer`` where that is known,
    and the attention if there is any, and it is not too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the notes of the page say the same
            maps = task.attention(text, answer)
        maps.run = run
        return attention_page(maps)
    except TooLarge:
        return message_page(title(text), maps.facts, "the page of its attention would be too large")
    except BadOption as error:
        answer = answer or task.answers([text])[0]
        cut = ["the text is longer than the model reads: its end is ignored"]
        return message_page(title(text), task.facts(answer), str(error), *cut[: answer.truncated])
