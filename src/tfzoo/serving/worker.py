"""The requests that wait for the model, and the process that computes them, one at a time."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from tfzoo.errors import TfzooError
from tfzoo.serving import frames
from tfzoo.serving.limits import Limits, Refused
from tfzoo.serving.log import note

GRACE = 2.0
"""Seconds in which work that nobody waits for ends before a layer, or its process is ended."""
MODULE = "tfzoo.serving.model_process"
OnPiece = Callable[[str], object]
METHOD = "spawn" if sys.platform == "win32" else "forkserver"


class ModelProcess:
    """A process that has loaded a task, and its channel.

    Args:
        load: loads the task; it is pickled.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        context: Any = get_context(METHOD)
        if METHOD == "forkserver":  # what is forked from has imported the model's modules
            context.set_forkserver_preload([MODULE])
        here, there = socket.socketpair()
        self.stopped = context.RawValue("Q", 0)
        self.number = 0
        args = (load, os.getcwd(), there, self.stopped)
        self.process = context.Process(target=run, args=args, name="model", daemon=True)
        self.process.start()
        there.close()
        self.socket = here
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def greeting(self) -> dict[str, Any]:
        """What the process says when it has loaded the task: its command, its name, the
        names of the texts of an example, and the schema of its answer.

        Raises:
            TfzooError: it could not be loaded.
        """
        with self.socket.makefile("rb") as stream:
            return checked(frames.read(stream))

    async def connect(self) -> None:
        """Wait for the greeting without blocking the server.

        Raises:
            TfzooError: as :meth:`greeting`.
        """
        self.streams = await asyncio.open_connection(sock=self.socket)
        checked(await self.receive())

    async def ask(
        self, texts: Sequence[str], page: str | None, on_piece: OnPiece | None
    ) -> dict[str, Any]:
        """The answer of the process.

        Raises:
            EOFError, OSError: the process has ended.
        """
        if self.streams is None:
            self.streams = await asyncio.open_connection(sock=self.socket)
        self.number += 1
        asked = {"number": self.number, "texts": texts, "page": page}
        asked["stream"] = on_piece is not None
        self.streams[1].write(frames.packed(asked))
        await self.streams[1].drain()
        found: dict[str, Any] = await self.receive()
        while "piece" in found:
            if on_piece is not None:
                on_piece(found["piece"])
            found = await self.receive()
        return found

    async def receive(self) -> Any:
        """The next value from the process."""
        if self.streams is None:
            raise EOFError
        reader = self.streams[0]
        (length,) = frames.LENGTH.unpack(await reader.readexactly(frames.LENGTH.size))
        return json.loads(await reader.readexactly(length))

    def stop(self) -> None:
        """Let the present work end before the next layer."""
        self.stopped.value = self.number

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join(5)
        if self.streams is not None:
            self.streams[1].close()
        self.socket.close()


def run(*args: Any) -> None:
    """What the process runs. It is imported there alone: this process needs no model."""
    from tfzoo.serving import model_process

    model_process.run(*args)


def checked(greeting: Any) -> dict[str, Any]:
    """The greeting of a process that has loaded its task.

    Raises:
        TfzooError: it has not.
    """
    if greeting is None:
        raise TfzooError("the process of the model has ended before it was loaded")
    if "error" in greeting:
        error = TfzooError(greeting["error"])
        error.code = greeting["code"]
        raise error
    found: dict[str, Any] = greeting
    return found


@dataclass
class Job:
    """A request that waits; ``result`` is done where nobody waits for it any more."""

    texts: Sequence[str]
    page: str | None
    on_piece: OnPiece | None
    result: asyncio.Future[Any]


class Worker:
    """Answers one request at a time, in the order of arrival.

    Work that nobody waits for any more, because its time is over or its client is gone, leaves the
    line; if it runs, it ends before the next layer of the model. If it does not within
    :data:`GRACE`, its process is ended, and started again for the next request.

    Args:
        load: loads the task, in another process.
        limits: the seconds of a request, its wait included, and how many may wait.

    Raises:
        TfzooError: the task could not be loaded.
    """

    def __init__(self, load: Callable[[], Any], limits: Limits) -> None:
        self.load, self.most, self.seconds = load, limits.waiting + 1, limits.seconds
        self.accepted = 0
        self.waiting: asyncio.Queue[Job] = asyncio.Queue()
        self.process: ModelProcess | None = ModelProcess(load)
        try:
            about = self.process.greeting()
        except BaseException:
            self.close()
            raise
        self.command, self.name = about["command"], about["name"]
        self.answer, self.texts, self.hint = about["answer"], about["texts"], about["hint"]
        self.streams: bool = about["streams"]

    async def run(
        self, texts: Sequence[str], page: str | None = None, on_piece: OnPiece | None = None
    ) -> Any:
        """The answers of texts, or the page of one, which names the run ``page``. ``on_piece`` is
        called with the pieces of the answer of one text as they come.

        Raises:
            Refused: 503, too many are waiting; 504, out of time; 422 or 500, the work failed.
        """
        if self.accepted >= self.most:
            raise Refused(503, f"{self.accepted} requests are waiting already; try again later")
        job = Job(texts, page, on_piece, asyncio.get_running_loop().create_future())
        self.accepted += 1
        self.waiting.put_nowait(job)
        try:
            async with asyncio.timeout(self.seconds):
                return await job.result
        except TimeoutError:
            raise Refused(
                504, f"no answer within {self.seconds:g} seconds; send fewer or shorter texts"
            ) from None
        finally:
            self.accepted -= 1
            job.result.cancel()

    async def work(self) -> None:
        """Answer what waits, for ever."""
        while True:
            job = await self.waiting.get()
            if job.result.done():
                continue
            try:
                found = await self._answer(job)
            except Refused as refused:
                if not job.result.done():
                    job.result.set_exception(refused)
                continue
            if not job.result.done():
                job.result.set_result(found)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
        self.process = None

    async def _answer(self, job: Job) -> Any:
        process = await self._running()
        asked = asyncio.ensure_future(process.ask(job.texts, job.page, job.on_piece))
        await asyncio.wait((asked, job.result), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            process.stop()
            await asyncio.wait([asked], timeout=GRACE)
        if not asked.done() or asked.exception() is not None:
            stuck = not asked.done()
            asked.cancel()
            self.close()
            why = "does not end and is ended" if stuck else "has ended"
            note(f"tfzoo: the process of the model {why}; the next request starts it again")
            with suppress(asyncio.CancelledError, EOFError, OSError):
                await asked
            raise Refused(500, "the process of the model has ended; it is started again")
        found = asked.result()
        if "note" in found:
            note(f"tfzoo: {found['note']}")
        if "why" in found:
            raise Refused(found["status"], found["why"])
        return found["found"]

    async def _running(self) -> ModelProcess:
        """The process, started again where it has been ended."""
        if self.process is None:
            self.process = ModelProcess(self.load)
            try:
                await self.process.connect()
            except (TfzooError, EOFError, OSError) as error:
                self.close()
                raise Refused(500, f"the model cannot be loaded again: {error}") from None
        return self.process
