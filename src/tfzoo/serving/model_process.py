"""The process that holds the model and computes answers. The server can end it at any time, and
start it again.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from multiprocessing import parent_process
from typing import Any

from pydantic import TypeAdapter
from torch import nn

from tfzoo.base.registry import registry
from tfzoo.errors import TfzooError
from tfzoo.learning.task import Task
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.serving import frames
from tfzoo.serving.answers import answer_page
from tfzoo.serving.log import place_of

for name in registry("task").own_names():  # imported before processes are forked from this one
    registry("task").entry(name)


class Stopped(Exception):
    """Nobody waits for the result any more."""


def run(load: Callable[[], Any], folder: str, channel: socket.socket, stop: Any) -> None:
    """Load a task and answer what the server asks, until its end of the channel is closed.

    Args:
        load: loads the task.
        folder: the working folder.
        channel: to the server.
        stop: shared memory; the number of the last question that nobody waits for any more. Work on
            it ends before the next layer of the model, by a forward pre-hook.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the server gets them too, and decides
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.chdir(folder)
    current = 0

    def check(module: nn.Module, args: object) -> None:
        if stop.value >= current:
            raise Stopped

    with channel, channel.makefile("rwb") as stream:
        try:
            task = load().eval()
            for module in task.model.modules():
                if isinstance(module, TransformerLayer):
                    module.register_forward_pre_hook(check)
            schema = TypeAdapter(task.Answer).json_schema()
            said = {"command": task.command, "name": task.entry.name, "answer": schema}
            said["texts"], said["hint"] = task.text_names, task.input_hint
            said["streams"] = type(task).stream is not Task.stream
        except TfzooError as error:
            said = {"error": str(error), "code": error.code}
        streamed: dict[str, Any] = {}
        while True:
            stream.write(frames.packed(said))
            stream.flush()
            if "error" in said or (asked := frames.read(stream)) is None:
                return
            current = asked["number"]
            for said in answer(task, asked["texts"], asked["page"], asked["stream"], streamed):
                if "piece" in said:
                    stream.write(frames.packed(said))
                    stream.flush()


def answer(
    task: Any, texts: Sequence[str], page: str | None, stream: bool, streamed: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Each ``piece`` of the answer of one text if ``stream``; and last what is ``found``, or the
    ``status`` of an error, and ``why``. ``page`` is the run that the page of one text names, None:
    no page. ``streamed`` keeps the last answer that came in pieces, by its text, for its page.
    """
    try:
        if page is not None:
            yield {"found": answer_page(task, texts[0], page, streamed.get(texts[0]))}
        elif stream:
            for part in task.stream(texts[0]):
                if isinstance(part, str):
                    yield {"piece": part}
                    continue
                streamed.clear()
                if type(task).stream is not Task.stream:
                    streamed[texts[0]] = part
                yield {"found": [asdict(part)]}
        else:
            yield {"found": [asdict(found) for found in task.answers(texts)]}
    except Stopped:
        yield {"status": 504, "why": "it was stopped"}
    except TfzooError as error:
        yield {"status": 500 if error.code == 1 else 422, "why": str(error)}
    except Exception as error:  # of any kind: the next request may fare better
        why = f"the model failed: {type(error).__name__}"
        yield {"status": 500, "why": why, "note": place_of(error)}


def end_with_parent() -> None:
    """Wait until the server has ended, and end this process, whatever it does."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
