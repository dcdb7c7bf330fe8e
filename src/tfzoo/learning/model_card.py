"""The model card of a trained run, which is README.md of its repository on the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfzoo.runs import pretrained
from tfzoo.runs.folder import as_yaml
from tfzoo.runs.machine import versions

CARD = """\
---
{metadata}---

# {title}

A {task} model of {parameters:,} parameters, made with tfzoo.

{usage}
## Training

{training}

## Scores

{scores}

## Recipe

```yaml
{recipe}```

{versions}.

## Licence

None is given: whoever publishes these weights has to choose one. The licence of the training text
may restrict the choice.
"""
USAGE = """\
```sh
pip install 'tfzoo[export]'
echo "a line of text" | tfzoo predict {address}
```

```python
from {module} import {cls}

task = {cls}.load("{address}")
print(task.answers(["a line of text"]))
```
"""
PEERS = """\
```python
from transformers import AutoTokenizer, {cls}

model = {cls}.from_pretrained("{address}")
tokenizer = AutoTokenizer.from_pretrained("{address}")
```
"""
"""How a model is used that was exported for ``transformers``."""
SHOWN = ("task", "seed", "model", "data", "optim", "search")
"""The sections of the recipe that the card shows."""


def model_card(
    task: Any, kept: Mapping[str, Any], parameters: int, repository: str = "", peer: str = ""
) -> str:
    """The text of a model card: the Hub's metadata, how to load the model, what was trained, its
    scores, its recipe, and the versions of the libraries.

    Args:
        task: the class of the task.
        kept: the task's entry in a checkpoint, and ``results``.
        parameters: how many the model has.
        repository: its address on the Hub, ``name/repository``.
        peer: the class of ``transformers`` that loads it; "" if tfzoo does.
    """
    name = repository or "NAME/REPOSITORY"
    where = {"address": f"hf://{name}", "module": task.__module__, "cls": task.__name__}
    usage = USAGE.format(**where)
    recipe = {key: kept["recipe"][key] for key in SHOWN if key in kept["recipe"]}
    return CARD.format(
        metadata=as_yaml(metadata(task, kept["tokenizer"], "transformers" if peer else "tfzoo")),
        title=repository.rpartition("/")[2] or f"{kept['task'].capitalize()} by tfzoo",
        task=kept["task"],
        parameters=parameters,
        usage=PEERS.format(cls=peer, address=name) if peer else usage,
        training=training(
            pretrained.without_folders(kept["recipe"]), int(kept["batches"]), kept.get("began", {})
        ),
        scores=table(kept["results"]),
        recipe=as_yaml(without_none(pretrained.without_folders(recipe))),
        versions=", ".join(f"{name} {one}" for name, one in versions().items()),
    )


def training(recipe: Mapping[str, Any], batches: int, began: Mapping[str, str]) -> str:
    """What the model began with, which of it was kept, and what was trained, one line each."""
    lines = [f"- {batches:,} batches." if batches else "- Not trained by tfzoo."]
    if source := recipe.get("from"):
        lines.append(f"- It began with the weights of {source}.")
        lines += [f"- {kind.capitalize()}: {said}." for kind, said in began.items()]
    adapter = recipe.get("adapter") or {}
    if adapter.get("name"):
        rank = f" of rank {adapter['rank']}" if adapter.get("rank") else ""
        beside = ", ".join(adapter.get("targets") or ())
        lines.append(f"- Trained was an adapter, {adapter['name']}{rank}, beside {beside}; merged.")
    if frozen := (recipe.get("optim") or {}).get("freeze"):
        steps = recipe["optim"].get("freeze_steps")
        until = f" for {steps:,} steps" if steps else ""
        lines.append(f"- Not trained{until}: {', '.join(frozen)}.")
    return "\n".join(lines)


def metadata(task: Any, tokenizer: Mapping[str, Any], library: str) -> dict[str, Any]:
    """The card's metadata, which the Hub reads to list the model."""
    found: dict[str, Any] = {"library_name": library, "pipeline_tag": task.pipeline_tag}
    languages = tokenizer.get("languages")
    if languages:
        found["language"] = list(dict.fromkeys(str(one).partition("-")[0] for one in languages))
    return found


def table(results: Mapping[str, float]) -> str:
    """The scores as a table, or a line that says that there are none."""
    rows = [f"| {name} | {results[name]:.4g} |" for name in sorted(results)]
    return "\n".join(["| score | value |", "|---|---|", *rows]) if rows else "None are known."


def without_none(recipe: Any) -> Any:
    """A recipe without the keys whose value is None."""
    if isinstance(recipe, Mapping):
        return {key: without_none(value) for key, value in recipe.items() if value is not None}
    return [without_none(one) for one in recipe] if isinstance(recipe, list | tuple) else recipe
