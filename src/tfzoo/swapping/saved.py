"""Models in folders that ``save_pretrained`` of ``transformers`` wrote, those with swaps included:
a swap stands in the ``config.json``, and is made again.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.errors import BadRun
from tfzoo.models.architectures.config import SWAPS
from tfzoo.models.architectures.published import config_of, located, pretrained_model, tensors_of
from tfzoo.runs import pretrained
from tfzoo.swapping.swap import swap


def from_pretrained(folder: str | Path) -> Any:
    """The model in a folder that ``save_pretrained`` of ``transformers`` wrote, or in a repository
    of the Hub, ``hf://owner/name[@revision]``, in evaluation mode and with the parameters' own
    dtype::

        model = tfzoo.from_pretrained("bert-base-cased")
        model.config["norm"], model.encoder.layers[0]

    It is a :class:`~tfzoo.LanguageModel`, :class:`~tfzoo.MaskedLanguageModel`,
    :class:`~tfzoo.Transformer` or :class:`~tfzoo.TransformerClassifier` that computes what the
    other one does, as far as ``tfzoo architectures`` reach. A model that :func:`tfzoo.swap` changed
    before it was saved is that model of ``transformers`` with the same parts swapped.

    Raises:
        BadRun: a file is missing or damaged, holds a pickle, or a model that no sum of tfzoo's
            parts is; the message names what.
    """
    folder = pretrained.place_of(folder)
    if not folder.is_dir():
        raise BadRun(f"no folder {folder}; at the Hub it is hf://owner/name")
    if (folder / "config.yaml").is_file() and not (folder / pretrained.CONFIG).is_file():
        raise BadRun(f"{folder} is a run of tfzoo: tfzoo.load({str(folder)!r}).model is its model")
    config = config_of(folder)
    if not config.get(SWAPS):
        return pretrained_model(folder)
    with located(folder):
        return swapped_model(config, *tensors_of(folder))


def swapped_model(
    config: Mapping[str, Any], names: list[str], read: Callable[[str], Tensor]
) -> nn.Module:
    """The model of ``transformers`` that a configuration with swaps describes, with these tensors,
    in evaluation mode.
    """
    transformers = import_module("transformers")
    name = next(iter(config.get("architectures") or ()), "")
    kind = getattr(transformers, str(name), None)
    if not isinstance(kind, type) or not issubclass(kind, transformers.PreTrainedModel):
        raise BadRun(f"transformers has no model {name!r}")
    if "_implementation" in str(config):  # transformers writes none
        raise BadRun("it names an implementation, which may be code at the Hub: remove that key")
    options = {key: value for key, value in config.items() if key != SWAPS}
    model: Any = kind(transformers.AutoConfig.for_model(**options))
    for arguments in config[SWAPS]:
        swap(model, **arguments)
    state = {one: read(one) for one in names}
    own = (one.dtype for key, one in state.items() if key != SWAPS and one.is_floating_point())
    model.to(next(own, torch.float32))
    missing, unknown = model.load_state_dict(state, strict=False)
    tied = getattr(model, "all_tied_weights_keys", None) or ()
    if wrong := sorted({*missing, *unknown}.difference(tied)):
        raise BadRun(f"its weights are not those of {name} with these swaps: {wrong[0]}")
    model.tie_weights()
    return model.eval()  # type: ignore[no-any-return]  # of transformers
