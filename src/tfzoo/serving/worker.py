"""One thread that runs the model, and the requests that wait for it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TypeVar

from torch import nn

from tfzoo.blocks.transformer_layer import TransformerLayer
from tfzoo.errors import TfzooError
from tfzoo.serving.limits import Refused
from tfzoo.terminal import notify

T = TypeVar("T")


class Stopped(Exception):
    """Nobody waits for the result any more."""


class Worker:
    """Runs one piece of work at a time, in the order of arrival, in a thread of its own.

    Work that nobody waits for any more, because its time is over or its client is gone, leaves the
    line; if it runs, it ends before the next layer of the model, by a forward pre-hook.

    Args:
        model: what the work calls.
        waiting: pieces of work that may wait while one runs.
        seconds: for one piece of work, its wait included.
    """

    def __init__(self, model: nn.Module, waiting: int, seconds: float) -> None:
        self.most = waiting + 1
        self.seconds = seconds
        self.accepted = 0
        self.turn = asyncio.Lock()
        self.thread = ThreadPoolExecutor(1, "model")
        self.stop = Event()  # of the work that runs
        for module in model.modules():
            if isinstance(module, TransformerLayer):
                module.register_forward_pre_hook(self._check)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work()``.

        Raises:
            Refused: 503, too many are waiting; 504, out of time; 422 or 500, the work failed.
        """
        if self.accepted >= self.most:
            raise Refused(503, f"{self.accepted} requests are waiting already; try again later")
        self.accepted += 1
        try:
            async with asyncio.timeout(self.seconds), self.turn:
                return await self._in_thread(work)
        except TimeoutError:
            raise Refused(
                504, f"no answer within {self.seconds:g} seconds; send fewer or shorter texts"
            ) from None
        finally:
            self.accepted -= 1

    def close(self) -> None:
        """End the thread, after the work that runs."""
        self.thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        stop = Event()
        running = asyncio.get_running_loop().run_in_executor(self.thread, self._call, work, stop)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([running])  # the turn is over when the thread is free
            running.exception()  # seen, whatever it is: nobody waits for it
            raise

    def _call(self, work: Callable[[], T], stop: Event) -> T:
        self.stop = stop
        try:
            return work()
        except Stopped:
            raise
        except TfzooError as error:
            raise Refused(500 if error.code == 1 else 422, str(error)) from None
        except Exception as error:  # of any kind: the next request may fare better
            raise Refused(500, f"the model failed: {failure(error)}") from None

    def _check(self, module: nn.Module, args: object) -> None:
        if self.stop.is_set():
            raise Stopped


def failure(error: Exception) -> str:
    """The type of an error, which is also printed with its place. Its message is in neither: it
    may hold the text.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    name = type(error).__name__
    notify(f"tfzoo: {name} in {Path(frame.filename).name}, line {frame.lineno}")
    return name
