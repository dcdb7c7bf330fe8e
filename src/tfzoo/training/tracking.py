"""Weights & Biases: errors of its server or client neither stop nor delay training. What cannot be
sent is kept on disk.
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
from queue import Empty, Queue
from threading import Event, Thread, current_thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from jsonargparse import Namespace
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import WandbLogger

from tfzoo.base import adapters
from tfzoo.base.ranks import rank
from tfzoo.base.terminal import notify, relative_path

PATIENCE = 5.0
"""Seconds to wait for the server's answer before training."""
START = 15.0
"""Seconds to wait for the server to open a run; after that the run is kept offline."""
END = 20.0
"""Seconds to wait at the end until all data is sent; after that it is left on disk."""
END_WITH_MODEL = 600.0
"""The same, where the best checkpoint is sent too (``log_model``)."""


def configure(logger: Namespace, folder: Path) -> None:
    """Set the logger's project and name if the recipe does not, and its mode to offline if the
    server cannot be used.
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


def server_url() -> str:
    """Return the URL of the server of Weights & Biases."""
    return os.environ.get("WANDB_BASE_URL", "").rstrip("/") or "https://api.wandb.ai"


def unreachable() -> str:
    """Return why the server cannot be used (no account, no answer, access denied); ``""`` if it
    can.
    """
    key = os.environ.get("WANDB_API_KEY") or stored_key(urlsplit(server_url()).hostname or "")
    if not key:
        return f"no account for {server_url()} (wandb login, or WANDB_API_KEY)"
    answer = run_with_timeout(PATIENCE, lambda: check_account(key))
    if answer is None:
        return f"{server_url()} did not answer in {PATIENCE:g} seconds"
    return "" if answer is True else f"{server_url()} {answer}"


def stored_key(name: str) -> str:
    """Return the API key that ``wandb login`` stored for a host; ``""`` if there is none."""
    try:
        return (netrc().authenticators(name) or ("", "", ""))[2] or ""
    except (OSError, NetrcParseError):
        return ""


def check_account(key: str) -> bool | str:
    """Return True if the server accepts the API key, otherwise its error message."""
    request = Request(
        f"{server_url()}/graphql",
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


def run_with_timeout(seconds: float, work: Callable[[], Any]) -> Any:
    """Return or raise what ``work`` does. Returns None if it takes longer."""
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


class Tracking:
    """The loggers of a training that send to Weights & Biases, each with the queue of its calls."""

    def __init__(self, loggers: Sequence[Any]) -> None:
        self.loggers = [logger for logger in loggers if isinstance(logger, WandbLogger)]
        self.queues: dict[WandbLogger, LogQueue] = {}

    def start(self) -> None:
        """Open their runs, offline if the server fails."""
        for logger in self.loggers if not rank() else ():
            adapters.wandb_arguments(logger)["settings"] = settings(end_patience(logger) / 2)
            try:
                logger.experiment  # noqa: B018  # opens it
            except Exception as error:  # of the client, its service process or the server
                why = " ".join(str(error).split())[:160]
                notify(f"Weights & Biases: {why}; its data is kept offline")
                adapters.wandb_arguments(logger)["mode"] = "offline"
                logger.experiment  # noqa: B018
            self.queues[logger] = LogQueue(logger)

    def send_best(self, best: ModelCheckpoint) -> None:
        """Let loggers with ``log_model`` send the best checkpoint, also if it is one of an earlier
        attempt of this run, of which they know nothing.
        """
        for logger in self.loggers if not rank() and best.best_model_path else ():
            logger.after_save_checkpoint(best)
            logger.finalize("success")

    def finish(self) -> None:
        """Send the remaining data within :func:`end_patience`, and print how to send what is
        left.
        """
        for logger in self.loggers:
            run = adapters.wandb_run(logger)
            if not hasattr(run, "finish"):
                continue
            started, folder, sent = monotonic(), Path(run.dir).parent, False
            offline = run.settings.mode in ("offline", "dryrun")
            # Offline, no call waits for a server: it is a slow machine, and all is worth waiting
            # for.
            patience = END_WITH_MODEL if offline else end_patience(logger)
            with suppress(Exception):
                queue = self.queues[logger]
                drained = queue.drained(patience / 2)
                if lost := queue.stop():
                    notify(
                        f"Weights & Biases: {', '.join(lost)} took longer than {patience / 2:g} "
                        "seconds at the end and is not there; metrics.csv has all scores"
                    )
                left = patience - (monotonic() - started) + 1
                sent = run_with_timeout(left, partial(finish_run, run)) is True and drained
            if not sent or offline:
                notify(
                    f"Weights & Biases: kept in {relative_path(folder)}; "
                    f"to send it: wandb sync {relative_path(folder)}"
                )


def end_patience(logger: WandbLogger) -> float:
    """Seconds to wait at the end until all data is sent."""
    return END_WITH_MODEL if adapters.wandb_sends_model(logger) else END


def finish_run(run: Any) -> bool:
    """Finish a run of Weights & Biases. Returns True; raises if its data cannot be sent."""
    run.finish()
    return True


QUEUED = ("log_hyperparams", "log_metrics", "log_table", "after_save_checkpoint", "finalize")
"""The calls that wait for the server or copy files."""


class LogQueue:
    """A queue of a logger's calls, made in order in a separate thread.

    A call that fails therefore does not end training, and a slow call does not delay it: logging a
    table waits for the server, and ``finalize`` copies the best checkpoint (``log_model``).
    """

    def __init__(self, logger: WandbLogger) -> None:
        self.calls: Queue[tuple[str, Callable[[], object]]] = Queue()
        self.name, self.failed = "", ""
        for name in QUEUED:
            setattr(logger, name, self._later(name, getattr(logger, name)))
        self.thread = Thread(target=self._send, daemon=True, name="tracking")
        self.thread.start()

    def drained(self, seconds: float) -> bool:
        """Wait until all calls are made. Returns False if one failed or it takes longer."""
        done = Event()
        self.calls.put(("", done.set))
        return done.wait(seconds) and not self.failed

    def stop(self) -> list[str]:
        """Make no further call. Returns the names of those that were not made, or are not over."""
        names = [self.name]
        with suppress(Empty):
            while True:
                names.append(self.calls.get_nowait()[0])
        return sorted({*names} - {""})

    def _later(self, name: str, call: Callable[..., object]) -> Callable[..., None]:
        def put(*args: Any, **kwargs: Any) -> None:
            if current_thread() is self.thread:  # log_table calls log_metrics: a part of it
                call(*args, **kwargs)
            else:
                self.calls.put((name, lambda: call(*args, **kwargs)))

        return put

    def _send(self) -> None:
        while True:
            self.name, call = self.calls.get()
            try:
                call()
            except Exception as error:  # of the client, its service process or the server
                if not self.failed:
                    self.failed = " ".join(str(error).split())[:160] or type(error).__name__
                    notify(f"Weights & Biases: {self.failed}; training goes on")
            self.name = ""


def settings(patience: float) -> Any:
    """How long its client waits; older versions do not have all of these settings."""
    import wandb

    wanted: dict[str, Any] = {
        "init_timeout": START,
        "finish_timeout": patience,
        "finish_timeout_raises": True,
    }
    known = wandb.Settings.model_fields
    return wandb.Settings(**{key: value for key, value in wanted.items() if key in known})
