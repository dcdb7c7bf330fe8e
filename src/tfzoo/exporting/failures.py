"""Why a model cannot be exported: the part of it at fault, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import walk_tb

from torch import nn

from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.learning.task import Task


def own_model(task: Task, to: str, *, keep_adapter: bool = False) -> nn.Module:
    """A copy of a task's model, see :meth:`~tfzoo.learning.task.Task.model_to_export`.

    Raises:
        BadOption: the model is of a class that is not tfzoo's.
    """
    if task.foreign:
        raise BadOption(f"{to}: the layers of {task.foreign}, which is not tfzoo's, are not known")
    return task.model_to_export(keep_adapter=keep_adapter)


def cannot_export(to: str, error: BaseException) -> BadOption:
    """The refusal of a model that a library failed to convert. It names the part in whose code the
    library failed.
    """
    kind, name = part_at_fault(error) or ("", "")
    part = f"{kind} {name!r}" if name else "this combination of parts"
    lines = [line.strip() for one in chain(error) for line in str(one).splitlines() if line.strip()]
    why = f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}"
    return BadOption(f"{to}: {part} cannot be exported ({why[:200]})")


def part_at_fault(error: BaseException) -> tuple[str, str] | None:
    """Kind and name of the component in whose code an error arose; None where none is known.

    It is the innermost one among the frames of the error and of its causes.
    """
    for one in chain(error):
        found = None
        for frame, _ in walk_tb(one.__traceback__):
            module = frame.f_locals.get("self")
            if isinstance(module, Component):
                found = module.entry.kind, module.entry.name
        if found is not None:
            return found
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, the first cause first."""
    if error is not None:
        yield from chain(error.__cause__ or error.__context__)
        yield error
