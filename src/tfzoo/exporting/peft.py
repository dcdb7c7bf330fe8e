"""An adapter alone, as PEFT saves it: ``PeftModel.from_pretrained(model, FOLDER)`` adds it to the
model of ``transformers`` that training began with.

Where several linear maps of tfzoo are one of theirs, as in GPT-2, the products are put side by
side: one of the sum of their ranks.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.files import new_folder
from tfzoo.base.loading import require
from tfzoo.errors import BadOption
from tfzoo.exporting.model import own_model
from tfzoo.exporting.transformers import config_of, tensors_of
from tfzoo.learning.adapter import WITHIN, is_adapted
from tfzoo.learning.task import Task
from tfzoo.models.architectures.weights import line, table_of

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
        said, _ = line(table, f"{own}.weight", name)
        is_transposed = isinstance(said, dict) and said.get("rearrange", "").startswith("...")
        for theirs, rows in tensors_of(name, model, {f"{own}.weight": up}).items():
            part = down, rows.mT if is_transposed else rows, scale
            groups[theirs.removesuffix(".weight")].append(part)
    state = trained_beside(model, name)
    modules = sorted({key.rpartition(".")[0] for key in state})
    ranks = {key: sum(len(down) for down, _, _ in parts) for key, parts in groups.items()}
    for theirs, parts in groups.items():
        state[f"{theirs}.lora_A.weight"] = torch.cat([down for down, _, _ in parts])
        state[f"{theirs}.lora_B.weight"] = torch.cat([up for _, up, _ in parts], 1)
    config = LoraConfig(
        base_model_name_or_path=source or None,
        inference_mode=True,
        target_modules=[*groups],
        rank_pattern=ranks,
        alpha_pattern={key: parts[0][2] * ranks[key] for key, parts in groups.items()},
        modules_to_save=modules or None,
    )
    with new_folder(folder) as place:
        kept = {f"{PREFIX}{key}": one.detach().cpu().contiguous() for key, one in state.items()}
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


def trained_beside(model: nn.Module, name: str) -> dict[str, Tensor]:
    """The parameters of the modules that are trained beside the adapter, by their names.

    Raises:
        BadOption: one is no parameter of theirs alone.
    """
    table = table_of(name, model)
    found: dict[str, Tensor] = {}
    own = {key: one for key, one in model.named_parameters() if ".lora_" not in key}
    trained = {key.rpartition(".")[0] for key, one in own.items() if one.requires_grad}
    for key, parameter in own.items():
        if key.rpartition(".")[0] in trained:
            if WITHIN in key or not isinstance(line(table, key, name)[0], str):
                raise BadOption(f"peft: {key} was trained, and is no parameter of theirs alone")
            found |= tensors_of(name, model, {key: parameter})
    return found
