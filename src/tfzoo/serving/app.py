"""The application: routes, the shapes of requests and answers, and one form for all errors."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware

import tfzoo
from tfzoo.data.table import joined, title
from tfzoo.errors import BadOption
from tfzoo.learning.task import Task
from tfzoo.plots.attention import TooLarge, attention_page
from tfzoo.plots.style import render
from tfzoo.serving import Limits
from tfzoo.serving.model import Model

PAGE = Path(__file__).parent / "serve.html"
ANSWER = Path(__file__).parent / "answer.html"
EXPECTED = 'send {"text": "..."} or {"texts": ["...", "..."]} as application/json'
API, SHOW = "/predict", "/show"
"""Where the page sends its form; all that is answered there is a page."""
HEADERS = {
    "content-security-policy": "frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer. ``no-store``: no browser keeps texts. ``same-origin``: a form's request says
where it comes from to this server alone.
"""


class Texts(BaseModel):
    """What is sent: one text, or several."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: Any = None
    texts: Any = None

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """Either is given."""
        if (self.text is None) == (self.texts is None):
            raise ValueError
        return self

    @property
    def all(self) -> list[str]:
        """The texts; a pair as one."""
        given = self.texts if self.text is None else [self.text]
        return [text if isinstance(text, str) else joined(text) for text in given]


def texts_of(names: list[str], limits: Limits) -> type[Texts]:
    """The :class:`Texts` of a model that reads one text, or a pair if there are two ``names``."""
    one: Any = Annotated[str, Field(max_length=limits.characters)]
    if len(names) > 1:
        one = Annotated[list[one], Field(min_length=len(names), max_length=len(names))]
    several = Annotated[list[one], Field(max_length=limits.texts)]
    return create_model(
        "Texts", __base__=Texts, text=(one | None, None), texts=(several | None, None)
    )


def make_app(task: Task, run: str, limits: Limits, hosts: list[str] | None = None) -> FastAPI:
    """The application that serves one task.

    Args:
        task: with its model.
        run: what pages call it.
        limits: of each request.
        hosts: the names by which a browser may call this server; None: any.
    """
    app = FastAPI(
        title="tfzoo",
        description=f"{run}, {task.entry.name}",
        version=tfzoo.__version__,
        docs_url=None,  # these pages load scripts from another server
        redoc_url=None,
        max_body_size=limits.bytes,
    )
    add_routes(app, Model(task, limits), run)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(ValidationError, on_invalid)
    app.add_exception_handler(HTTPException, refusal)
    app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    return app


async def guard(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Refuse what the page of another site sends through a user's browser; add :data:`HEADERS`."""
    origin = request.headers.get("origin")
    if origin is None or origin.partition("//")[2] == request.headers.get("host"):
        response = await answer(request)
    else:
        why = "requests from pages of other sites are refused"
        response = refusal(request, HTTPException(403, why))
    response.headers.update(HEADERS)
    return response


def add_routes(app: FastAPI, model: Model, run: str) -> None:
    """The page, what it shows, the JSON API, and whether the server is well."""
    task, limits = model.task, model.limits
    name, names = task.entry.name, task.text_names
    shape: Any = texts_of(names, limits)
    facts = {"run": run, "task": name, "names": names}
    first = render(PAGE, served=True, limits=limits, hint=task.input_hint, **facts)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return first

    @app.post(SHOW, response_class=HTMLResponse, include_in_schema=False)
    async def show(request: Request) -> str:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        given = [" ".join(one.split()) for one in form.get("text", [])]
        (text,) = shape(text=given if len(names) > 1 else "".join(given)).all
        if not text.strip():
            raise HTTPException(422, "the text is empty")
        return await model.run(lambda: answer_page(task, text, run))

    async def answer(asked: Texts) -> Any:
        found = await model.run(lambda: [asdict(one) for one in answers(task, asked.all)])
        return JSONResponse(found[0] if asked.texts is None else {"answers": found})

    answer.__annotations__["asked"] = shape
    about = f"{name.replace('_', ' ').capitalize()} of one text, or of several"
    one: Any = task.Answer
    several: Any = create_model("Answers", answers=(list[one], ...))
    app.post(API, operation_id="predict", summary=about, response_model=one | several)(answer)

    @app.get("/health", summary="Which run is served, and how many requests are being answered")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "run": run, "task": name, "requests": model.requests}


def refusal(request: Request, error: Any) -> Response:
    """A page where a page is expected, else ``{"error": "one sentence"}``."""
    said = error.detail
    if request.url.path == SHOW:
        return HTMLResponse(message_page("No answer", {}, said), error.status_code, error.headers)
    if error.status_code in (404, 405):
        said = f"{said}: texts go to POST {API}"
    return JSONResponse({"error": said}, error.status_code, error.headers)


def on_invalid(request: Request, error: Any) -> Response:
    """A body that is not what the schema says."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        why = f"the body is not JSON: {first['ctx']['error']}"
        return refusal(request, HTTPException(400, why))
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    why = f"{where}: {first['msg']}; {EXPECTED}" if where else EXPECTED
    return refusal(request, HTTPException(422, why))


# Pages -------------------------------------------------------------------------------------------


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
