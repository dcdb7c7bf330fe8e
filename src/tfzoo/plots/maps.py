"""The attention maps of any model that contains attentions of tfzoo."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.adapters import uncompiled
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption, listing


@contextmanager
def attention_maps(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention map of every layer, for each forward pass inside the ``with`` block.

    Yields a dict: the name of each attention in ``model.named_modules()``, and a list of its maps,
    one for each call, ``(b h q k)`` in fp32 or better, detached. A map is ``weighting(cap(scores /
    temperature) + bias)``, by default a softmax, before dropout; a query that may look at no key
    has a row of zeros. In decoding with a cache, ``q`` counts the new tokens only. The maps of
    ``differential`` are those of its heads, before their difference.

    Outputs and gradients do not change: maps are computed by
    :meth:`tfzoo.contracts.Attention.weights`, in addition to the attention's own kernel. Modules
    compiled with ``torch.compile`` run uncompiled inside the block. Each call stores ``4 b h q k``
    bytes (fp32) for as long as the dict lives: 64 MiB per layer for 8 sequences of 512 tokens and 8
    heads.

    Raises:
        BadOption: the model has no attention of tfzoo.

    Warns:
        UserWarning: names each ``nn.MultiheadAttention``, whose map is not recorded.

    >>> from tfzoo.models.classifier import TransformerClassifier
    >>> model = TransformerClassifier(vocab_size=20, classes=2, dim=8, heads=2, layers=2)
    >>> with attention_maps(model) as maps:
    ...     logits = model(torch.tensor([[5, 6, 7], [8, 9, 0]]))
    >>> list(maps)
    ['encoder.layers.0.self_attention.inner.attention', \
'encoder.layers.1.self_attention.inner.attention']
    >>> maps["encoder.layers.0.self_attention.inner.attention"][0].shape
    torch.Size([2, 2, 3, 3])
    """
    found = {name: m for name, m in model.named_modules() if isinstance(m, Attention)}
    without = [n for n, m in model.named_modules() if isinstance(m, nn.MultiheadAttention)]
    advice = "tfzoo.MultiheadAttention in place of torch.nn.MultiheadAttention has one"
    if not found:
        raise BadOption(
            f"attention_maps: {type(model).__name__} has no attention of tfzoo, so no map is "
            f"known; {advice}"
        )
    if without:
        warnings.warn(f"no attention map of {listing(without)}: {advice}", stacklevel=3)
    maps: dict[str, list[Tensor]] = {name: [] for name in found}
    with uncompiled(), ExitStack() as recordings:
        for name, attention in found.items():
            recordings.enter_context(_recorded(attention, maps[name]))
        yield maps


@contextmanager
def _recorded(attention: Attention, maps: list[Tensor]) -> Iterator[None]:
    """Append the map of each call of ``attention``, and of each call of its ``weights``."""
    weights, own = attention.weights, attention.__dict__.get("weights")
    calls = 0  # of forward that are running: maps are then not recorded from weights as well

    def before(module: nn.Module, args: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        given = dict(zip(("q", "k", "v"), args, strict=False)) | named
        with torch.no_grad():
            maps.append(weights(**{n: x for n, x in given.items() if n not in ("v", "dropout")}))

    def after(*_: Any) -> None:
        nonlocal calls
        calls -= 1

    def recording(*args: Tensor, **named: Any) -> Tensor:
        found = weights(*args, **named)
        if not calls:
            maps.append(found.detach())
        return found

    hooks = (
        attention.register_forward_pre_hook(before, with_kwargs=True),
        attention.register_forward_hook(after, always_call=True),
    )
    attention.__dict__["weights"] = recording
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        if own is None:
            del attention.__dict__["weights"]
        else:  # the recorder of an enclosing attention_maps block
            attention.__dict__["weights"] = own
