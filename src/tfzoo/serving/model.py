"""The model of a server: one request at a time, in the order of arrival."""

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.exceptions import HTTPException

from tfzoo.base.terminal import notify
from tfzoo.errors import TfzooError
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.serving import Limits

T = TypeVar("T")


class Model:
    """A task, which works in a thread while the server goes on.

    Args:
        task: with its model.
        limits: the seconds of a request, its wait included, and how many may wait.
    """

    def __init__(self, task: Any, limits: Limits) -> None:
        self.task, self.limits = task.eval(), limits
        self.turns = CapacityLimiter(1)
        self.until = 0.0
        for module in task.model.modules():
            if isinstance(module, TransformerLayer):
                module.register_forward_pre_hook(self._check)

    @property
    def requests(self) -> int:
        """How many requests are computed or wait."""
        now = self.turns.statistics()
        return now.borrowed_tokens + now.tasks_waiting

    async def run(self, work: Callable[[], T]) -> T:
        """The result of work for which no other is computed at the same time. Work whose time is
        over ends before the next layer of the model.

        Raises:
            HTTPException: 503, too many are waiting; 504, out of time; 422 or 500, the work failed.
        """
        if self.requests > self.limits.waiting:
            why = f"{self.requests} requests are waiting already; try again later"
            raise HTTPException(503, why, {"Retry-After": "1"})
        until = time.monotonic() + self.limits.seconds

        def turn() -> T:
            self.until = until
            return work()

        try:
            with fail_after(until - time.monotonic()):
                return await to_thread.run_sync(turn, limiter=self.turns)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} seconds"
            why = f"no answer within {seconds}; send fewer or shorter texts"
            raise HTTPException(504, why) from None
        except TfzooError as error:
            raise HTTPException(500 if error.code == 1 else 422, str(error)) from None
        except Exception as error:  # of any kind: the next request may fare better
            place = traceback.extract_tb(error.__traceback__)[-1]  # its message may hold a text
            kind = type(error).__name__
            notify(f"tfzoo: {kind} in {Path(place.filename).name}, line {place.lineno}")
            raise HTTPException(500, f"the model failed: {kind}") from None

    def _check(self, *_: object) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError
