"""The model card of a trained run, which is README.md of its repository on the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tfzoo.runs import pretrained
from tfzoo.runs.folder import versions

CARD = """\
---
{metadata}---

# {title}

A {task} model of {parameters:,} parameters, made with tfzoo.

```sh
pip install 'tfzoo[export]'
echo "a line of text" | tfzoo {command} {address}
```

```python
import tfzoo

task = tfzoo.{cls}.load("{address}")
print(task.{command}(["a line of text"]))
```

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
SHOWN = ("task", "seed", "model", "data", "optim", "search")
"""The sections of the recipe that the card shows."""


def model_card(task: Any, kept: Mapping[str, Any], parameters: int, repository: str = "") -> str:
    """The text of a model card: the Hub's metadata, how to load the model, its scores, its recipe,
    and the versions of the libraries.

    Args:
        task: the class of the task.
        kept: the task's entry in a checkpoint, and ``results``.
        parameters: how many the model has.
        repository: its address on the Hub, ``name/repository``.
    """
    recipe = {key: kept["recipe"][key] for key in SHOWN if key in kept["recipe"]}
    return CARD.format(
        metadata=as_yaml(metadata(task, kept["tokenizer"])),
        title=repository.rpartition("/")[2] or f"{kept['task'].capitalize()} by tfzoo",
        task=kept["task"],
        parameters=parameters,
        command=task.command,
        address=f"hf://{repository or 'NAME/REPOSITORY'}",
        cls=task.__name__,
        scores=table(kept["results"]),
        recipe=as_yaml(without_none(pretrained.without_folders(recipe))),
        versions=", ".join(f"{name} {one}" for name, one in versions().items()),
    )


def metadata(task: Any, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """The card's metadata, which the Hub reads to list the model."""
    found: dict[str, Any] = {"library_name": "tfzoo", "pipeline_tag": task.pipeline_tag}
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


def as_yaml(values: Mapping[str, Any]) -> str:
    """A text in YAML, in the order of the keys."""
    return str(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))
