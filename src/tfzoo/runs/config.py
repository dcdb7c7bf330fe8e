"""``config.yaml``: the configuration of a run, and which values may change when it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfzoo.errors import BadRun
from tfzoo.runs.files import replace_text

FILE = "config.yaml"
YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FREE = {
    *(f"trainer.{end}_{unit}" for end in ("max", "min") for unit in ("steps", "epochs", "time")),
    *(f"trainer.limit_{split}_batches" for split in ("val", "test", "predict")),
    *(
        "trainer.logger",
        "trainer.log_every_n_steps",
        "trainer.enable_progress_bar",
        "trainer.enable_model_summary",
        "trainer.profiler",
    ),
    *(
        "trainer.accelerator",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.strategy",
        "trainer.accumulate_grad_batches",
    ),
    *("data.workers", "timeout", "explain", "train_tokens", "samples"),
}
"""Values that may change when a run goes on: how long training lasts, what is logged, and on how
many processes it runs. A step must keep its number of batches, which is checked when all processes
have started. ``limit_train_batches`` may not change: it decides which batches an epoch has.
"""

SHOWN = 4


def write(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write the resolved recipe into the run's folder."""
    text = yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=True)
    replace_text(folder / FILE, text)


def read(folder: Path) -> dict[str, Any]:
    """The configuration that a run was started with; empty where it cannot be read."""
    try:
        found = yaml.load((folder / FILE).read_text("utf-8"), YAML_LOADER)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def check(
    folder: Path,
    recipe: Mapping[str, Any],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Check that a run can go on with this recipe.

    The run may lack keys that came after it: ``defaults`` has their values, by section.

    Raises:
        BadRun: naming what differs from the run's own.
    """
    before = read(folder)
    if not before:
        raise BadRun(
            f"{folder / FILE} cannot be read, so nobody knows how this run was configured. Name "
            "another folder with --run"
        )
    for section, values in (defaults or {}).items():
        kept = before.get(section)
        if isinstance(kept, dict):
            for key in values.keys() - kept.keys():
                kept[key] = plain(values[key])
    old, new = leaves(before), leaves(plain(dict(recipe)))
    names = [
        name
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not is_free(name)
    ]
    if names:
        changes = [
            f"{name} was {old.get(name, 'not set')}, is {new.get(name, 'not set')}"
            for name in names[:SHOWN]
        ]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise BadRun(
            f"{folder} has another configuration: {'; '.join(changes)}{more}. It goes on with its "
            "own alone; for a new run, name a new --run"
        )


def plain(value: Any) -> Any:
    """The value as it is read back from YAML."""
    return yaml.safe_load(yaml.safe_dump(value))


def is_free(name: str) -> bool:
    """Whether a dotted name, or a part that it belongs to, may differ."""
    parts = name.split(".")
    return any(".".join(parts[:end]) in FREE for end in range(1, len(parts) + 1))


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Values by dotted name. An empty dict is a value; None counts as not set."""
    if isinstance(value, dict) and value:
        return {
            path: leaf
            for key, inner in value.items()
            for path, leaf in leaves(inner, f"{name}.{key}" if name else str(key)).items()
        }
    return {} if value is None else {name: value}
