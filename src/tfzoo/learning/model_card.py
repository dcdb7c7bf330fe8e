"""The model card of a trained run, which is README.md of its repository on the Hub."""

from collections.abc import Mapping
from typing import Any

from tfzoo.runs import pretrained
from tfzoo.runs.machine import versions

CARD = """\
---
{{ card_data }}
---

# {{ task | capitalize }} by tfzoo

A {{ task }} model of {{ parameters }} parameters, made with tfzoo.

{% if peer -%}
```python
from transformers import AutoTokenizer, {{ peer }}

model = {{ peer }}.from_pretrained("NAME/REPOSITORY")
tokenizer = AutoTokenizer.from_pretrained("NAME/REPOSITORY")
```
{%- else -%}
```sh
pip install 'tfzoo[export]'
echo "a line of text" | tfzoo predict hf://NAME/REPOSITORY
```

```python
import tfzoo

task = tfzoo.load("hf://NAME/REPOSITORY")
print(task.predict(["a line of text"]))
```
{%- endif %}

## Training

- {{ batches or "Not trained by tfzoo." }}
{%- if recipe.from %}
- It began with the weights of {{ recipe.from }}.
{%- for kind, said in began.items() %}
- {{ kind | capitalize }}: {{ said }}.
{%- endfor %}
{%- endif %}
{%- if recipe.adapter and recipe.adapter.name %}
- Trained was an adapter, {{ recipe.adapter.name }}
{%- if recipe.adapter.rank %} of rank {{ recipe.adapter.rank }}{% endif -%}
, beside {{ recipe.adapter.targets | join(", ") }}; merged.
{%- endif %}
{%- if recipe.optim and recipe.optim.freeze %}
- Not trained: {{ recipe.optim.freeze | join(", ") }}.
{%- endif %}

## Scores
{% if results %}
| score | value |
|---|---|
{%- for name, value in results %}
| {{ name }} | {{ value }} |
{%- endfor %}
{%- else %}
None are known.
{%- endif %}

The recipe stands in `config.json`. {{ versions }}.

## Licence

None is given: whoever publishes these weights has to choose one. The licence of the training text
may restrict the choice.
"""


def model_card(kept: Mapping[str, Any], parameters: int, peer: str = "") -> str:
    """The text of a model card: the Hub's metadata, how to load the model, what was trained, its
    scores, and the versions of the libraries.

    Args:
        kept: the task's entry in a checkpoint, and ``results``.
        parameters: how many the model has.
        peer: the class of ``transformers`` that loads it; "" if tfzoo does.
    """
    from huggingface_hub import ModelCard, ModelCardData

    recipe = pretrained.without_folders(kept["recipe"])
    languages = [str(one).partition("-")[0] for one in kept["tokenizer"].get("languages", ())]
    card = ModelCard.from_template(
        ModelCardData(
            library_name="transformers" if peer else "tfzoo",
            language=list(dict.fromkeys(languages)) or None,
        ),
        template_str=CARD,
        task=kept["task"],
        parameters=f"{parameters:,}",
        peer=peer,
        batches=f"{kept['batches']:,} batches." if kept["batches"] else "",
        recipe=recipe,
        began=kept.get("began", {}),
        results=[(name, f"{value:.4g}") for name, value in sorted(kept["results"].items())],
        versions=", ".join(f"{name} {one}" for name, one in versions().items()),
    )
    return str(card)
