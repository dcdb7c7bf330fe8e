"""The rows of one file of ``transformers``: the first small model of it that is built and called
counts for each class of attention. A process of its own has a limit of time and memory.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.swap_transformers.comparison import Row, compare, told
from benchmarks.swap_transformers.configurations import Size, small_config
from benchmarks.swap_transformers.inputs import batches
from tfzoo.swapping import huggingface

MODELS = Path(transformers.__file__).parent / "models"
SECONDS = 120
"""For all models of one file; most take under 10."""
MOST_MEMORY = 6 * 2**30
MOST_PARAMETERS = 160_000_000
FACTORS = ((32, 4), (16, 4), (8, 2), (8, 4), (16, 1), (4, 1), (1, 1))
"""What widths and numbers of heads are divided by."""
CROSS = {"is_decoder": True, "add_cross_attention": True}


def files(names: list[str]) -> Iterator[str]:
    """The modules of ``transformers`` that call the interface."""
    for path in sorted(MODELS.glob("*/modeling_*.py")):
        chosen = not names or path.parent.name in names
        if chosen and "ALL_ATTENTION_FUNCTIONS" in path.read_text(encoding="utf-8"):
            yield f"transformers.models.{path.parent.name}.{path.stem}"


def classes_of(module: Any) -> list[type[nn.Module]]:
    """The modules of torch that a file defines."""
    return [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, nn.Module) and one.__module__ == module.__name__
    ]


def attention_classes(module: Any) -> list[str]:
    """The names of the classes whose forward calls the interface."""
    return [one.__name__ for one in classes_of(module) if huggingface.class_calls_interface(one)]


def model_classes(module: Any) -> list[Any]:
    """Models, those without a head first, and of these the ones named like an attention."""
    attentions = attention_classes(module)
    models = [
        one
        for one in classes_of(module)
        if issubclass(one, transformers.PreTrainedModel)
        and one.config_class is not None
        and one.forward is not transformers.PreTrainedModel.forward
    ]

    def order(model: type[nn.Module]) -> tuple[bool, int, int]:
        name = model.__name__
        alike = max((shared_start(name, one) for one in attentions), default=0)
        return "For" in name, -alike, len(name)

    return sorted(models, key=order)


def shared_start(name: str, other: str) -> int:
    """How many letters two names have in common, from the first one."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
    return len(list(pairs))


class TooLarge(Exception):
    """The rules did not make a model small."""


def built(model_class: Any, options: dict[str, Any], size: Size) -> Any:
    """The model of a class in eval mode, small and random."""
    kind = model_class.config_class

    def config() -> Any:
        made = small_config(kind(**options), size, options)
        made._experts_implementation = "eager"
        made.use_cache = kind.model_type != "blt" and getattr(made, "use_cache", True)
        return made

    with torch.device("meta"):
        empty = model_class._from_config(config(), attn_implementation="eager")
    parameters = sum(one.numel() for one in empty.parameters())
    if parameters > MOST_PARAMETERS:
        raise TooLarge(f"{parameters:,} parameters")
    model = model_class._from_config(config(), attn_implementation="eager").double().eval()
    random_weights(model)
    return model


def random_weights(model: nn.Module) -> None:
    """Matrices of a size that makes scores differ; vectors are near what they started with."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() < 2:
                parameter.copy_(torch.nan_to_num(parameter) + 0.1 * noise)
            else:
                parameter.copy_(noise * min(0.3, 1.5 * parameter[0].numel() ** -0.5))


class Search:
    """The classes of attention that are still wanted, and why they were not found so far."""

    def __init__(self, attentions: list[str]) -> None:
        self.wanted = dict.fromkeys(attentions)
        self.not_built: dict[str, str] = {}
        self.not_called: dict[str, tuple[str, str]] = {}
        self.refused: dict[str, Row] = {}

    def rows(self, model_class: Any) -> Iterator[Row]:
        """Rows of the first small models of a class that are built and called."""
        for options, layers in itertools.product(({}, CROSS), (2, None)):
            if not self.wanted:
                return
            if not options or any("Cross" in name for name in self.wanted):
                yield from self.rows_by_factor(model_class, options, layers)

    def rows_by_factor(
        self, model_class: Any, options: dict[str, Any], layers: int | None
    ) -> Iterator[Row]:
        """The same, with as many layers; until a failure has nothing to do with widths."""
        tried: list[list[str]] = []
        for factor in FACTORS:
            try:
                model = built(model_class, options, Size(*factor, layers))
            except (TooLarge, ImportError, TypeError, AttributeError) as error:
                self.not_built.setdefault(model_class.__name__, told(error))
                return
            except Exception as error:  # of any kind: it is somebody else's
                self.not_built.setdefault(model_class.__name__, told(error))
                continue
            here = {type(one).__name__ for one in model.modules()} & self.wanted.keys()
            if not here:
                return
            rows, errors = called(model, set(self.wanted))
            for row in rows:
                if row.outcome == "refused":  # another model may take it
                    self.refused.setdefault(row.attention, row)
                    continue
                del self.wanted[row.attention]
                here.discard(row.attention)
                yield row
            for name in here:
                reason = errors[-1] if errors else "no call reaches it"
                self.not_called[name] = model_class.__name__, reason
            tried.append(errors)
            if not here or tried[-3:] == [errors] * 3:
                return

    def missing(self) -> Iterator[Row]:
        """Rows of those that are still wanted."""
        first = next(iter(self.not_built.items()), ("", "no model has it"))
        yield from (self.refused[name] for name in self.wanted if name in self.refused)
        for name in self.wanted.keys() - self.refused.keys():
            model, reason = self.not_called.get(name, first)
            yield Row(name, model, "not built", reason)


def called(model: Any, wanted: set[str]) -> tuple[list[Row], list[str]]:
    """Rows from the first inputs that the model takes, and the errors before."""
    errors: list[str] = []
    for batch in batches(model):
        try:
            rows = compare(model, batch, wanted)
        except Exception as error:  # of any kind: it is somebody else's
            errors.append(told(error))
            continue
        if rows:
            return rows, errors
    return [], errors


def rows_of(name: str) -> Iterator[Row]:
    """The rows of one file."""
    torch.set_default_dtype(torch.float64)
    module = importlib.import_module(name)
    search = Search(attention_classes(module))
    for model_class in model_classes(module):
        yield from search.rows(model_class)
    yield from search.missing()


def child(name: str, pipe: Connection) -> None:
    """Send the rows of one file, within a limit of memory besides what this process has."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    limit = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        for row in rows_of(name):
            pipe.send(asdict(row))
    finally:
        pipe.close()


def family(name: str) -> list[Row]:
    """The rows of one file, by a process of its own, which has a limit of time."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(name, sender))
    process.start()
    sender.close()
    rows, ends = [], time.monotonic() + SECONDS
    try:
        while receiver.poll(max(0.0, ends - time.monotonic())):
            rows.append(Row(**receiver.recv()))
        reason = f"not done in {SECONDS} s"
    except EOFError:
        reason = "the process ended"
    process.kill()
    process.join()
    done = {row.attention for row in rows}
    classes = attention_classes(importlib.import_module(name))
    rows += [Row(one, "", "not built", reason) for one in classes if one not in done]
    return rows
