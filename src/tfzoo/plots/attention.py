"""The attention maps of any model that contains attentions of tfzoo; and those of one text, with
``attention.html``, which shows them as lines and as heat maps.
"""

from __future__ import annotations

import base64
import html
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base.adapters import uncompiled
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption, BadRun, TfzooError, listing

Side = Literal["encoder", "decoder", "cross"]
TEMPLATE = Path(__file__).parent / "pages/attention.html"
LEVELS = 255
MAX_BYTES = 1_000_000
"""Larger pages are slow in a browser."""


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


@dataclass(frozen=True)
class AttentionMap:
    """The attention map of one layer for one text.

    Args:
        side: ``encoder`` or ``decoder``: self-attention; ``cross``: the decoder's attention to the
            encoder's output.
        layer: the index of the layer in its stack, from 0.
        weights: ``(h q k)``, fp32, on the CPU; what the attention's weighting gives, so that rows
            sum to 1 for a softmax.
        queries, keys: the token of each row and of each column, a space before a word included. A
            token of the decoder is one that it has read; from there it predicts the next.
    """

    side: Side
    layer: int
    weights: Tensor
    queries: list[str]
    keys: list[str]


class AttentionMaps(list[AttentionMap]):
    """The attention maps of one text: a list, and the last line of a notebook's cell shows it.

    Args:
        maps: side by side and layer by layer.
        text: the text.
        run: the name of the model; ``""`` if it has none.
        facts: what the model makes of the text, and the parts that it is built from.
        notes: sentences, such as which layers have no map.
    """

    def __init__(
        self,
        maps: Iterable[AttentionMap],
        text: str,
        *,
        run: str = "",
        facts: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(maps)
        self.text = text
        self.run = run
        self.facts = dict(facts or {})
        self.notes = list(notes)

    def of_layers(self, layers: Collection[int]) -> AttentionMaps:
        """The maps of these layers alone, counted from 0."""
        maps = [one for one in self if one.layer in layers]
        return AttentionMaps(maps, self.text, run=self.run, facts=self.facts, notes=self.notes)

    def __repr__(self) -> str:
        """Which maps there are, without their weights."""
        which = ", ".join(f"{one.side} {one.layer}" for one in self)
        return f"<AttentionMaps of {self.text!r}: {which}>"

    def _repr_html_(self) -> str:
        """The page of :func:`attention_page` in a frame of its own, so that neither its styles nor
        its script reach the notebook.
        """
        try:
            page = attention_page(self)
        except TooLarge as error:
            return f"<p>{html.escape(str(error))}</p>"
        return (
            f'<iframe title="Attention" sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
            'style="width: 100%; height: 900px; border: 0; resize: vertical"></iframe>'
        )


class TooLarge(TfzooError):
    """A page that would be too large."""


def attention_page(*runs: AttentionMaps) -> str:
    """The page of one text, with the maps of several models side by side if several are given.
    Weights are stored in one byte each, and differ from the maps' by less than 1/255 of their
    row's largest; see :func:`packed`.

    Raises:
        BadRun: a weight is not finite.
        TooLarge: the page would have more than 1 MB.
    """
    from tfzoo.plots.style import render

    data = [
        {
            "sides": {one.side: {"queries": one.queries, "keys": one.keys} for one in maps},
            "maps": [packed(one) for one in maps],
        }
        for maps in runs
    ]
    sides = {one.side for maps in runs for one in maps}
    page = render(TEMPLATE, text=runs[0].text, runs=runs, sides=sides, data=data)
    if (size := len(page.encode())) > MAX_BYTES:
        raise TooLarge(
            f"the page would have {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:g} MB: give "
            "a shorter text, or fewer layers (--layers 0, or maps.of_layers([0]))"
        )
    return page


def packed(one: AttentionMap) -> dict[str, Any]:
    """A map as JSON: ``weight[h, q, k] = (byte[h, q, k] - zero) * step[h, q]``, both compressed and
    in base64.

    A weight of 0 stays 0. ``zero`` is 128 if any weight is negative.
    """
    weights = one.weights.double().numpy()
    if not np.isfinite(weights).all():
        raise BadRun(f"the attention of {one.side} layer {one.layer} is not finite")
    zero = 128 if (weights < 0).any() else 0
    step = np.abs(weights).max(-1, keepdims=True) / (LEVELS - zero)
    values = np.rint(weights / np.where(step > 0, step, 1)) + zero
    return {
        "side": one.side,
        "layer": one.layer,
        "heads": len(weights),
        "zero": zero,
        "steps": compressed(step.astype("<f4")),
        "weights": compressed(values.astype(np.uint8)),
    }


def compressed(values: NDArray[Any]) -> str:
    """The bytes of an array in zlib's format, which browsers read, as base64."""
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()
