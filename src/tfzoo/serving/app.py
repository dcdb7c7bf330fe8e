"""The application: routes, the shapes of requests and answers, and one form for all errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, model_validator
from starlette.exceptions import HTTPException

import tfzoo
from tfzoo.data.pairs import joined
from tfzoo.plots.pages.render import render
from tfzoo.serving.guard import Guard
from tfzoo.serving.limits import ClientGone, Limits, Refused
from tfzoo.serving.message import message_page
from tfzoo.serving.worker import Worker

T = TypeVar("T")

PAGE = Path(__file__).parent / "serve.html"
EXPECTED = 'send {"text": "..."} or {"texts": ["...", "..."]}'
SHOW = "/show"
"""Where the page sends its form; all that is answered there is a page."""


class Texts(BaseModel):
    """One text, or several; a pair of texts is a list of two."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str | list[str] | None = None
    texts: list[str | list[str]] | None = None
    stream: bool = False

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """Either is given."""
        if (self.text is None) == (self.texts is None):
            raise ValueError(EXPECTED)
        return self

    def all(self, limits: Limits, names: Sequence[str]) -> list[str]:
        """The texts; the model reads pairs where there are two ``names``.

        Raises:
            Refused: a text is too long, there are too many, several are to be streamed, or a pair
                where there are none.
        """
        if self.stream and self.text is None:
            raise Refused(422, 'stream is for one text: send {"text": "...", "stream": true}')
        texts = [self.text] if self.text is not None else self.texts or []
        if len(texts) > limits.texts:
            raise Refused(422, f"{len(texts):,} texts; at most {limits.texts:,} in a request")
        found = []
        for index, text in enumerate(texts):
            which = "the text" if self.texts is None else f"texts[{index}]"
            if (len(text) if isinstance(text, list) else 1) != len(names):
                wanted = f"a pair, [{', '.join(names)}]" if len(names) == 2 else "a string"
                raise Refused(422, f"{which} is not {wanted}")
            found.append(joined(text) if isinstance(text, list) else text)
            check_length(found[-1], limits, which)
        return found


class Health(BaseModel):
    """The run, and the number of requests that run or wait."""

    status: str
    run: str
    task: str
    requests: int


class Error(BaseModel):
    """Why there is no answer, in one sentence."""

    error: str


REFUSALS = (400, 403, 408, 413, 415, 422, 500, 503, 504)


def answered(schema: Any) -> dict[str, Any]:
    """The description of what is answered: one answer, or a list of them for a list of texts."""
    several = {"type": "object", "properties": {"answers": {"type": "array", "items": schema}}}
    content: dict[str, Any] = {"application/json": {"schema": {"anyOf": [schema, several]}}}
    content["text/event-stream"] = {"schema": {"type": "string"}}
    about = "One answer for each text, in the same order; with stream, events as they come"
    return {"description": about, "content": content}


def make_app(
    worker: Worker, run: str, limits: Limits, hosts: frozenset[str] | None = None
) -> FastAPI:
    """The application that serves one task.

    Args:
        worker: has the task, in another process.
        run: what pages call it.
        limits: of each request.
        hosts: the names by which a browser may call this server, against DNS rebinding; None: any.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        working = asyncio.ensure_future(worker.work())
        yield
        working.cancel()
        worker.close()

    app = FastAPI(
        title=f"tfzoo {worker.command}",
        description=f"{run}, {worker.name}",
        version=tfzoo.__version__,
        docs_url=None,  # these pages load scripts from another server
        redoc_url=None,
        lifespan=lifespan,
    )
    add_routes(app, run, limits, worker)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    paths = frozenset(getattr(route, "path", "") for route in app.routes)
    app.state.path = f"/{worker.command}"
    app.add_middleware(Guard, limits=limits, refusal=refusal, paths=paths, hosts=hosts)
    return app


def add_routes(app: FastAPI, run: str, limits: Limits, worker: Worker) -> None:
    """The page, what it shows, the JSON API, and whether the server is well."""
    command, name = worker.command, worker.name
    facts = {"run": run, "command": command, "task": name, "names": worker.texts}
    facts |= {"hint": worker.hint, "streams": worker.streams}
    first = render(PAGE, served=True, limits=limits, **facts)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return first

    @app.get("/favicon.ico", status_code=204, include_in_schema=False)
    async def icon() -> None:
        """There is none; browsers ask for it all the same."""

    @app.post(SHOW, response_class=HTMLResponse, include_in_schema=False)
    async def show(request: Request) -> str:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        given = [*form.get("text", []), "", ""][: len(worker.texts)]
        text = joined(" ".join(one.split()) for one in given)
        if not text.strip():
            raise Refused(422, "the text is empty")
        check_length(text, limits, "the text")
        page: str = await while_connected(request, worker.run([text], page=run))
        return page

    @app.post(
        f"/{command}",
        operation_id=command,
        summary=f"{name.replace('_', ' ').capitalize()} of one text, or of several",
        responses={
            200: answered(worker.answer),
            **{status: {"model": Error} for status in REFUSALS},
        },
    )
    async def answer(request: Request, asked: Texts) -> Any:
        texts = asked.all(limits, worker.texts)
        if asked.stream:
            return await streamed(request, worker, texts)
        found = await while_connected(request, worker.run(texts))
        return JSONResponse(found[0] if asked.texts is None else {"answers": found})

    @app.get("/health", summary="Which run is served, and how many requests are being answered")
    async def health() -> Health:
        return Health(status="ok", run=run, task=name, requests=worker.accepted)


class EventStream(StreamingResponse):
    """Server-sent events; ``work`` is stopped where the client goes away."""

    def __init__(self, events: AsyncIterator[str], work: asyncio.Future[Any]) -> None:
        unbuffered = {"X-Accel-Buffering": "no"}  # by nginx
        super().__init__(events, media_type="text/event-stream", headers=unbuffered)
        self.work = work

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.work.cancel()


async def streamed(request: Request, worker: Worker, texts: Sequence[str]) -> EventStream:
    """The answer of one text: an event for each piece as it comes, and one for the whole, or for
    the error that ended it.

    Raises:
        Refused, ClientGone: as :func:`while_connected`, before the first piece.
    """
    pieces: asyncio.Queue[str | None] = asyncio.Queue()  # at most those of one answer
    work = asyncio.ensure_future(worker.run(texts, on_piece=pieces.put_nowait))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        first = await while_connected(request, pieces.get())
        if first is None:
            work.result()
    except BaseException:
        work.cancel()
        raise

    async def events() -> AsyncIterator[str]:
        piece = first
        while piece is not None:
            yield event({"piece": piece})
            piece = await pieces.get()
        try:
            yield event((await work)[0])
        except Refused as refused:
            yield event({"error": str(refused)})

    return EventStream(events(), work)


def event(value: Any) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(value)}\n\n"


def check_length(text: str, limits: Limits, which: str) -> None:
    """Raise ``Refused`` if a text is too long."""
    if len(text) > limits.characters:
        raise Refused(
            422, f"{which} has {len(text):,} characters; at most {limits.characters:,} are read"
        )


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of the work.

    Raises:
        Refused: there is none.
        ClientGone: the client closed its connection; the work is stopped.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    result, closed = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((result, closed), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientGone
        return result.result()
    finally:
        result.cancel()
        closed.cancel()
        await asyncio.gather(result, closed, return_exceptions=True)


# Errors.


def refusal(request: Request, refused: Refused) -> Response:
    """A page where a page is expected, else ``{"error": "one sentence"}``."""
    headers = {"Retry-After": "1"} if refused.status == 503 else None
    if request.url.path == SHOW:
        page = message_page("No answer", {}, [str(refused)])
        return HTMLResponse(page, refused.status, headers)
    return JSONResponse({"error": str(refused)}, refused.status, headers)


async def on_invalid(request: Request, error: Any) -> Response:
    """A body that is not what the schema says."""
    first = error.errors()[0]
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json" and not content.endswith("+json"):
        why = "send JSON, with the header Content-Type: application/json"
        return refusal(request, Refused(415, why))
    if first["type"] == "json_invalid":
        return refusal(request, Refused(400, f"the body is not JSON: {first['ctx']['error']}"))
    name, *rest = first["loc"][1:] or ("",)
    if name not in Texts.model_fields:
        unknown = f"there is no key {name!r}: " if first["type"] == "extra_forbidden" else ""
        return refusal(request, Refused(422, unknown + EXPECTED))
    if name == "stream":
        return refusal(request, Refused(422, "stream is neither true nor false"))
    rows = [row for row in rest if isinstance(row, int)]
    where = f"{name}[{rows[0]}]" if rows else name
    kind = "a list of strings" if where == "texts" else "a string"
    return refusal(request, Refused(422, f"{where} is not {kind}"))


async def on_http_error(request: Request, error: Any) -> Response:
    """No such path, or another method; or what FastAPI says of JSON that is nested too deep."""
    status, path, methods = error.status_code, request.url.path, (error.headers or {}).get("Allow")
    why = str(error.detail)
    if status == 400:
        why = "the body cannot be read as JSON"
    elif status == 404:
        why = f"no such path; texts go to POST {request.app.state.path}"
    elif status == 405:
        why = f"{path} takes {methods}, not {request.method}"
        why += f": {EXPECTED}" if path == request.app.state.path else ""
    response = refusal(request, Refused(status, why))
    response.headers.update({"Allow": methods} if methods else {})
    return response
