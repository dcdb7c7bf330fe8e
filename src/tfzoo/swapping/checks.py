"""Checks whether a component fits the model that it is swapped into."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from torch import nn

from tfzoo.base.registry import Spec, registry
from tfzoo.errors import BadOption, listing
from tfzoo.models import traits
from tfzoo.models.clashes import check_clashes
from tfzoo.models.options import StackOptions
from tfzoo.swapping import huggingface
from tfzoo.swapping.padding import ATTRIBUTE, Valid


def spec_mixes_tokens(norm: Spec) -> bool:
    """Whether the norm of a spec mixes tokens."""
    return traits.mixes_tokens(registry("norm").options(norm)[0])


def check_norm_fits(
    model: nn.Module,
    norm: Spec,
    names: Sequence[str],
    valid: Valid | None,
    allow: Collection[str],
) -> None:
    """Check a norm that takes the place of the norms of these names.

    Raises:
        BadOption: it mixes tokens, and ``valid`` does not say which tokens are padding, or a module
            has ``batch_first=False``.
        Clash: it mixes tokens in a decoder.
    """
    if not spec_mixes_tokens(norm):
        return
    name = registry("norm").options(norm)[0].name
    if valid is False or (valid is None and not hasattr(model, ATTRIBUTE)):
        arguments = listing(inspect.signature(model.forward).parameters)
        raise BadOption(
            f"norm {name!r} mixes tokens, so swap must know which are padding: valid='...' names "
            f"the argument of {type(model).__name__}.forward that is true at tokens, valid='~...' "
            f"one that is true at padding (it has: {arguments}); valid=True says that there is none"
        )
    for path, module in model.named_modules():
        if getattr(module, "batch_first", None) is False:
            raise BadOption(
                f"norm {name!r} mixes tokens and takes (b n d), but {path} has batch_first=False"
            )
    if any(huggingface.within(one, decoder) for decoder in decoders(model) for one in names):
        options = StackOptions(norm=norm if isinstance(norm, str) else dict(norm), position="none")
        check_clashes(options.parts(causal=True), allow)


def check_attention_fits(
    model: nn.Module, attention: Spec | None, weighting: Spec | None, allow: Collection[str]
) -> None:
    """Check an attention and a weighting, of which None is left as it is, against each other and
    the positions of the model.

    Raises:
        Clash: the attention does not have the trait ``rotatable``, and the model has rotary
            positions; or the weighting has no use for the scores of the attention.
    """
    rotary = any(re.search("(?i)rotary|rope", type(one).__name__) for one in model.modules())
    specs = {"attention": attention, "weighting": weighting}
    chosen: dict[str, Any] = {
        kind: spec if isinstance(spec, str) else dict(spec) for kind, spec in specs.items() if spec
    }
    options = StackOptions(**chosen, position="rotary" if rotary else "none")
    check_clashes(options.parts(causal=False), allow)


def decoders(model: nn.Module) -> Iterator[str]:
    """The names of the causal modules that can be recognised: PyTorch's decoders, and models of
    ``transformers`` whose attention has ``is_causal``.
    """
    pretrained = list(huggingface.pretrained_models(model))
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerDecoder | nn.TransformerDecoderLayer):
            yield name
        elif huggingface.calls_interface(module) and getattr(module, "is_causal", False):
            yield max(
                (one for one in pretrained if huggingface.within(name, one)), key=len, default=name
            )
