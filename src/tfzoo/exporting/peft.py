"""An adapter alone, as PEFT saves it: ``PeftModel.from_pretrained(model, FOLDER)`` adds it to the
model of ``transformers`` that training began with.

Where several linear maps of tfzoo are one of theirs, as in GPT-2, the products are put side by
side: one of the sum of their ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.loading import require
from tfzoo.errors import BadOption
from tfzoo.exporting.failures import own_model
from tfzoo.exporting.transformers import config_of, undone
from tfzoo.learning.adapter import WITHIN, is_adapted
from tfzoo.learning.task import Task
from tfzoo.models.architectures.weights import layer_of, line, table_of
from tfzoo.runs.files import new_folder

PREFIX = "base_model.model."
"""Begins the names of tensors in PEFT's file."""
ONLY = frozenset({"lora_A", "lora_B"})
"""What a layer may have that is written."""


def export(task: Task, folder: Path) -> None:
    """Write the folder.

    Raises:
        BadOption: the task has no adapter, one that is not plain ``lora`` or beside a map that
            began anew, or ``transformers`` has no model like the task's.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    require("peft", "adapter")
    source = str(task.recipe.get("from") or "")
    model = own_model(task, "peft", keep_adapter=True)
    for name, parameter in model.named_parameters():
        if f"model.{name.replace(WITHIN, '.')}" in task.anew:  # the other model does not have it
            if WITHIN in name:
                raise BadOption(
                    f"peft: {name.replace(WITHIN, '.')} began anew and has an adapter, which is "
                    "written without it: write the whole model (--to transformers)"
                )
            parameter.requires_grad_(True)
    labels, pad = list(getattr(task.tokenizer, "labels", ())), task.tokenizer.special.pad
    write(model, folder, labels, source, pad)


def write(
    model: nn.Module, folder: Path, labels: list[str], source: str = "", pad: int | None = 0
) -> None:
    """Write the adapter of a model. ``source`` is where its other weights come from, ``pad`` the
    tokenizer's id of padding.
    """
    from peft import LoraConfig
    from safetensors.torch import save_file

    if not is_adapted(model):
        raise BadOption("peft: this run has no adapter (adapter.name lora, and its checkpoint)")
    name, _ = config_of(model, labels, pad=pad)
    table = table_of(name, model)
    groups: dict[str, list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
    for own, (down, up, scale) in products(model):
        said, suffix = line(table, f"{own}.weight", name)
        for theirs, rows in rows_of(said, suffix, up, layer_of(own), model):
            groups[theirs.removesuffix(".weight")].append((down, rows, scale))
    state, ranks, alphas = {}, {}, {}
    for theirs, parts in groups.items():
        state[f"{PREFIX}{theirs}.lora_A.weight"] = torch.cat([down for down, _, _ in parts])
        state[f"{PREFIX}{theirs}.lora_B.weight"] = torch.cat([up for _, up, _ in parts], 1)
        ranks[theirs] = sum(len(down) for down, _, _ in parts)
        alphas[theirs] = parts[0][2] * ranks[theirs]
    whole = trained_beside(model, table, name)
    first = next(iter(groups))
    config = LoraConfig(
        base_model_name_or_path=source or None,
        inference_mode=True,
        r=ranks[first],
        lora_alpha=alphas[first],  # type: ignore[arg-type]  # any number
        target_modules=[*groups],
        rank_pattern={key: one for key, one in ranks.items() if one != ranks[first]},
        alpha_pattern={key: one for key, one in alphas.items() if one != alphas[first]},
        modules_to_save=sorted({key.rpartition(".")[0] for key in whole}) or None,
    )
    state |= {f"{PREFIX}{key}": value for key, value in whole.items()}
    with new_folder(folder) as place:
        kept = {key: one.detach().cpu().contiguous().clone() for key, one in state.items()}
        save_file(kept, place / "adapter_model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(str(place))


def products(model: nn.Module) -> Iterator[tuple[str, tuple[Tensor, Tensor, float]]]:
    """The linear maps with an adapter: the two matrices of its product, and their factor.

    Raises:
        BadOption: it is more than a product.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for own, module in model.named_modules():
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            inner = {key.partition(".")[0] for key, _ in layer.named_parameters()}
            if more := inner - ONLY - {"base_layer"}:
                raise BadOption(f"peft: only a plain lora is written, and {own} has {min(more)}")
            down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
            yield own, (down, up, layer.scaling["default"])


def rows_of(
    said: Any, suffix: str, up: Tensor, layer: str, model: nn.Module
) -> Iterator[tuple[str, Tensor]]:
    """Their maps that a map of tfzoo is, by the line of a table, and the rows ``(out r)`` of each,
    0 where another map of tfzoo is.
    """
    if isinstance(said, str):
        yield f"{said.replace('*', layer)}{suffix}", up
    elif isinstance(said, list):
        for one, part in zip(said, up.chunk(len(said)), strict=True):
            yield from rows_of(one, suffix, part, layer, model)
    else:
        if "take" in said:
            parts = [torch.zeros_like(up) for _ in range(said["p"])]
            parts[said["take"]] = up
            up = torch.stack(parts)
        up = undone(said, up, model)
        is_transposed = said.get("rearrange", "").startswith("...")
        yield from rows_of(said["of"], suffix, up.mT if is_transposed else up, layer, model)


def trained_beside(model: nn.Module, table: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """The parameters of the modules that are trained beside the adapter, by their names.

    Raises:
        BadOption: one is no parameter of theirs alone.
    """
    found, wanted = {}, set()
    for own, parameter in model.named_parameters():
        of_adapter = ".lora_" in own
        is_trained = parameter.requires_grad and not of_adapter
        said, suffix = ("", "") if of_adapter or WITHIN in own else line(table, own, name)
        if isinstance(said, str) and said:
            theirs = f"{said.replace('*', layer_of(own))}{suffix}"
            found[theirs] = parameter
            if is_trained:
                wanted.add(theirs.rpartition(".")[0])
        elif is_trained:
            raise BadOption(f"peft: {own} was trained, and is no parameter of theirs alone")
    return {key: one for key, one in found.items() if key.rpartition(".")[0] in wanted}
