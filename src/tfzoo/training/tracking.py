"""Weights & Biases, which may refuse, drop or answer errors: training starts, ends, and keeps its
data on disk.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from netrc import NetrcParseError, netrc
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from jsonargparse import Namespace
from lightning.pytorch.loggers import WandbLogger

from tfzoo import _adapters
from tfzoo.runs.folder import rank
from tfzoo.terminal import notify, relative_path

PATIENCE = 5.0
"""Seconds for the host's answer before training."""
START = 15.0
"""Seconds for it to open a run, after which the run is kept offline."""
END = 20.0
"""Seconds for the last data to arrive, after which it is left on disk."""


def place(logger: Namespace, folder: Path) -> None:
    """Fill in what the recipe leaves to us: project, name, and offline where the host does not know
    us or does not answer.
    """
    if (
        "WANDB_MODE" not in os.environ
        and not logger.init_args.get("offline")
        and (why := unreachable())
    ):
        notify(f"Weights & Biases: {why}; its data is kept offline")
        logger.init_args.mode = (
            "offline"  # its `offline` would set it for all later runs of this process too
        )
    if logger.init_args.get("project") in (None, "lightning_logs"):
        logger.init_args.project = "tfzoo"
    if logger.init_args.get("name") is None:
        logger.init_args.name = "/".join(folder.parts[-2:])


def host() -> str:
    """The address that the client of Weights & Biases talks to."""
    return os.environ.get("WANDB_BASE_URL", "").rstrip("/") or "https://api.wandb.ai"


def unreachable() -> str:
    """Why nothing can be sent to the host: no account, no answer, or not to us; ``""`` where it
    can.
    """
    key = os.environ.get("WANDB_API_KEY") or stored_key(urlsplit(host()).hostname or "")
    if not key:
        return f"no account for {host()} (wandb login, or WANDB_API_KEY)"
    answer = within(PATIENCE, lambda: viewer(key))
    if answer is None:
        return f"{host()} did not answer in {PATIENCE:g} seconds"
    return "" if answer is True else f"{host()} {answer}"


def stored_key(name: str) -> str:
    """The key for a host that ``wandb login`` left behind."""
    try:
        return (netrc().authenticators(name) or ("", "", ""))[2] or ""
    except (OSError, NetrcParseError):
        return ""


def viewer(key: str) -> bool | str:
    """Whether the host knows who we are, or what it said instead."""
    request = Request(
        f"{host()}/graphql",
        json.dumps({"query": "query Viewer { viewer { id } }"}).encode(),
        method="POST",
    )
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Basic {b64encode(f'api:{key}'.encode()).decode()}")
    try:
        with urlopen(request, timeout=PATIENCE) as answer:
            found = json.loads(answer.read(2**16))
    except (OSError, ValueError) as error:  # an answer like 500 is an OSError too
        return f"cannot be used ({getattr(error, 'reason', None) or error})"
    return True if ((found or {}).get("data") or {}).get("viewer") else "does not know this account"


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What ``work`` returns or raises, or None when it takes longer; it is then left to itself."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((work(), None))
        except Exception as error:
            found.append((None, error))

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        return None
    if found[0][1] is not None:
        raise found[0][1]
    return found[0][0]


def begin(loggers: Sequence[Any]) -> None:
    """Open the runs of Weights & Biases now, offline where the host fails at it."""
    for logger in loggers:
        if not isinstance(logger, WandbLogger) or rank():
            continue
        _adapters.wandb_arguments(logger)["settings"] = _settings(
            init_timeout=START, finish_timeout=END / 2
        )
        try:
            logger.experiment  # noqa: B018  # opens it
        except Exception as error:  # of the client, of its service, of what it talks with
            notify(
                f"Weights & Biases: {' '.join(str(error).split())[:160]}; its data is kept offline"
            )
            _adapters.wandb_arguments(logger)["mode"] = "offline"
            logger.experiment  # noqa: B018
        OUTBOXES[logger] = LogQueue(logger)


def end(loggers: Sequence[Any]) -> None:
    """Send what is left, and say how to send what could not be; all in :data:`END` seconds."""
    for logger in loggers:
        if not isinstance(logger, WandbLogger):
            continue
        run = _adapters.wandb_run(logger)
        if not hasattr(run, "finish"):
            continue
        start, folder, sent = monotonic(), Path(run.dir).parent, False
        with suppress(Exception):
            drained = OUTBOXES.pop(logger).drained(END / 2)
            sent = (
                within(END - (monotonic() - start) + 1, partial(finished, run)) is True and drained
            )
        if not sent or run.settings.mode in ("offline", "dryrun"):
            notify(
                f"Weights & Biases: kept in {relative_path(folder)}; to send it: wandb sync {relative_path(folder)}"
            )


def finished(run: Any) -> bool:
    """True once everything was sent. Raises where it cannot be."""
    run.finish()
    return True


class LogQueue:
    """Hands a logger's calls to it in their order, from a thread of its own.

    So none ends training where it fails, and none holds it up: a table asks the host first, and
    waits for the answer.
    """

    def __init__(self, logger: WandbLogger) -> None:
        self.calls: Queue[Callable[[], object]] = Queue()
        self.failed = ""
        for name in ("log_hyperparams", "log_metrics", "log_table"):
            setattr(logger, name, self._later(getattr(logger, name)))
        Thread(target=self._send, daemon=True, name="tracking").start()

    def drained(self, seconds: float) -> bool:
        """Wait until all calls were made, for so long at most; whether all were, and none failed."""
        done = Event()
        self.calls.put(done.set)
        return done.wait(seconds) and not self.failed

    def _later(self, call: Callable[..., object]) -> Callable[..., None]:
        return lambda *args, **kwargs: self.calls.put(lambda: call(*args, **kwargs))

    def _send(self) -> None:
        while True:
            try:
                self.calls.get()()
            except Exception as error:  # of the client, of its service, of what it talks with
                if not self.failed:
                    self.failed = " ".join(str(error).split())[:160] or type(error).__name__
                    notify(f"Weights & Biases: {self.failed}; training goes on")


OUTBOXES: dict[WandbLogger, LogQueue] = {}
"""Of the training under way."""


def _settings(**given: Any) -> Any:
    import wandb

    given["finish_timeout_raises"] = True
    return wandb.Settings(
        **{key: value for key, value in given.items() if key in wandb.Settings.model_fields}
    )
