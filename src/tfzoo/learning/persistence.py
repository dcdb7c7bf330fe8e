"""A task that is built from what a checkpoint holds, and a folder that holds a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tfzoo.base import memory
from tfzoo.base.values import LAYERS, check_number, leaves
from tfzoo.errors import BadRun, TfzooError
from tfzoo.learning.adapter import Adapter, holds_adapter, merge, merged
from tfzoo.learning.model_card import model_card
from tfzoo.models.initialise import can_fill, fill
from tfzoo.runs import checkpoints, pretrained


def restored(
    cls: Any, checkpoint: Mapping[str, Any], model: nn.Module | None, keep_adapter: bool
) -> Any:
    """A task of the class from the contents of a checkpoint file, in evaluation mode; see
    :meth:`tfzoo.learning.task.Task.from_checkpoint`.

    Raises:
        BadRun: the contents do not match, or the model is not tfzoo's and none is given.
    """
    kept, state = checkpoint["tfzoo"], checkpoint["state_dict"]
    if kept.get("headless"):
        raise BadRun(kept["headless"])
    if model is None and kept.get("foreign"):
        raise BadRun(
            f"the model of this checkpoint, {kept['foreign']}, is not tfzoo's: load it with "
            f"{cls.__name__}.load(RUN, model=...) in Python"
        )
    try:
        layers = min(LAYERS, len(state))
        for keys, value in leaves(kept["recipe"]):
            check_number(keys, value, "the checkpoint's recipe", layers)
        tokenizer = cls.restore_tokenizer(kept["tokenizer"])
        adapter = Adapter(**(kept["recipe"].get("adapter") or {}))
        if not holds_adapter(state):
            adapter = Adapter()
        elif not keep_adapter:  # it is added to weights that are the checkpoint's own
            state = {name: weight.clone() for name, weight in state.items()}
        given = model
        if given is None:
            arguments = {**cls.model_arguments(tokenizer), **kept["recipe"].get("model", {})}
            # no memory is allocated before the sizes are checked
            empty = memory.check_model(cls.Model, arguments, BadRun)
            adapter.apply(empty, 0)
            checkpoints.check_fit(empty, state)
            if can_fill(empty):
                fill(nn.ModuleDict({"model": empty}), state)
                model = empty
        task = cls.build(kept["recipe"], tokenizer, model)
        if task.model is given or model is None:
            adapter.apply(task.model, task.seed)
        own = dict(task.named_buffers(recurse=False))  # a folder of transformers has none
        task.load_state_dict({**own, **state}, assign=given is None)
        if not keep_adapter:
            merge(task.model)
        task.beside = dict(checkpoint.get("beside", {}))
        task.batches = int(kept["batches"])
        task.began = {str(key): str(one) for key, one in kept.get("began", {}).items()}
        task.anew = [str(name) for name in kept.get("anew", [])]
        task.results = {str(key): float(one) for key, one in kept.get("results", {}).items()}
    except TfzooError:
        raise
    except Exception as error:  # of any kind: the file may come from anyone
        why = " ".join(str(error).split())[:200]
        raise BadRun(
            f"the checkpoint's contents do not match: {type(error).__name__}: {why}"
        ) from None
    return task.eval()


def write_pretrained(task: Any, folder: str | Path, repository: str) -> None:
    """Write the folder of :meth:`tfzoo.learning.task.Task.save_pretrained`."""
    kept = {**task.checkpoint_entry(), "results": task.results}
    whole = merged(task)
    size = sum(one.numel() for one in whole.parameters())
    card = model_card(type(task), kept, size, repository)
    pretrained.write(Path(folder), whole.state_dict(), kept, card, task.beside)
