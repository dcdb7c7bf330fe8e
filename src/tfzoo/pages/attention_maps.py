"""The attention maps of one text, which a notebook shows as a page."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tfzoo.errors import TfzooError

Side = Literal["encoder", "decoder", "cross"]


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
        """The page of :func:`tfzoo.pages.attention.attention_page` in a frame of its own, so that
        neither its styles nor its script reach the notebook.
        """
        from tfzoo.pages.attention import attention_page

        try:
            page = attention_page(self)
        except TooLarge as error:
            return f"<p>{html.escape(str(error))}</p>"
        return (
            f'<iframe title="Attention" sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
            'style="width: 100%; height: 900px; border: 0; resize: vertical"></iframe>'
        )


class TooLarge(TfzooError):
    """A page or a picture that would be too large.

    Args:
        size: what would be too large, in words.
        runs: what it shows.
        share: the share of it that would not be too large.
    """

    def __init__(self, size: str, runs: Sequence[AttentionMaps], share: float) -> None:
        layers = sorted({one.layer for maps in runs for one in maps})
        fewer = ",".join(map(str, layers[: int(len(layers) * share)]))
        choose = f"choose layers (--layers {fewer} or maps.of_layers([{fewer}])) or "
        super().__init__(f"{size}: {choose if fewer else ''}give a shorter text")
