"""The attention maps of one text as a picture: a small heat map for each layer and head."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tfzoo.plots.pages.attention import AttentionMap, AttentionMaps, Side, TooLarge
from tfzoo.plots.style import GRID, INK, SOFT, heat_map, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_HEIGHT = 60.0
"""Inches. A larger picture is too large to look at."""
MAX_WIDTH = 24.0
"""Inches. Heads that find no room beside the others stand below them."""
MAX_LABEL = 14
"""Characters of a token; longer ones are shortened."""
MARGIN, GAP, TITLE, HEADING, LINE = 0.3, 0.2, 0.22, 0.32, 0.22
SIDES: dict[Side, str] = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}


@dataclass(frozen=True)
class Block:
    """The heads of one layer. Sizes are in inches; ``pitch`` is that of a token."""

    map: AttentionMap
    columns: int
    pitch: float
    width: float
    height: float
    left: float
    below: float

    @property
    def rows(self) -> int:
        return -(-len(self.map.weights) // self.columns)

    @property
    def whole_width(self) -> float:
        return self.left + self.columns * (self.width + GAP)

    @property
    def whole_height(self) -> float:
        return HEADING + self.rows * (TITLE + self.height + self.below)


def attention_figure(*runs: AttentionMaps) -> Figure:
    """A heat map for each layer and head, rows of several models side by side. Each is shaded from
    0 to its own largest weight, which its title names.

    Raises:
        TooLarge: the picture would be higher than 60 inches.
    """
    groups = [blocks(maps, MAX_WIDTH / len(runs)) for maps in runs]
    wanted = {(one.side, one.layer) for maps in runs for one in maps}
    bands = [(side, layer) for side in SIDES for layer in sorted(n for s, n in wanted if s == side)]
    heights = [max(group[band].whole_height for group in groups if band in group) for band in bands]
    widths = [max(5.0, *(block.whole_width for block in group.values())) for group in groups]
    heads = [heading(maps, width) for maps, width in zip(runs, widths, strict=True)]
    top = MARGIN + LINE * (2 + max(map(len, heads)))
    height, width = top + sum(heights) + MARGIN, sum(widths) + 2 * MARGIN
    if height > MAX_HEIGHT:
        size = f"the picture would be {height:.0f} inches high, more than {MAX_HEIGHT:.0f}"
        raise TooLarge(size, runs, (MAX_HEIGHT - top) / height)
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    fonts = font_families("".join(words(runs)))
    write = Writer(figure, width, height, fonts)
    left = MARGIN
    with styled():
        for maps, group, group_width, lines in zip(runs, groups, widths, heads, strict=True):
            title = short(maps.text, int(group_width / 0.1))
            write.text(left, MARGIN, title, size=12, weight="bold")
            for at, line in enumerate(lines):
                write.text(left, MARGIN + LINE * (at + 1.4), line, color=SOFT)
            y = top
            for band, room in zip(bands, heights, strict=True):
                if band in group:
                    write.block(left, y, group[band])
                y += room
            left += group_width
    return figure


def blocks(maps: AttentionMaps, room: float) -> dict[tuple[Side, int], Block]:
    """The block of each map, at most about ``room`` inches wide."""
    found = {}
    left = max(label_width(one.queries, pitch_of(one)) for one in maps)
    for one in maps:
        heads, queries, keys = one.weights.shape
        pitch, below = pitch_of(one), label_width(one.keys, pitch_of(one))
        width, height = max(1.2, pitch * keys), max(1.2, pitch * queries)
        columns = max(1, min(heads, int((room - left) / (width + GAP))))
        found[one.side, one.layer] = Block(one, columns, pitch, width, height, left, below)
    return found


def pitch_of(one: AttentionMap) -> float:
    """The height of a token: smaller in large maps."""
    return 0.15 if max(one.weights.shape[1:]) <= 20 else 0.115


def label_width(tokens: Sequence[str], pitch: float) -> float:
    """About the length of the longest label."""
    return 0.15 + 0.4 * pitch * max(len(short(token)) for token in tokens)


def heading(maps: AttentionMaps, width: float) -> list[str]:
    """The lines below the text: the run, and what the model makes of the text."""
    facts = [f"{name}: {fact}" for name, fact in maps.facts.items()]
    lines = [*([maps.run] if maps.run else []), *facts, *maps.notes]
    return [part for line in lines for part in textwrap.wrap(line, int(width / 0.075))]


def words(runs: Sequence[AttentionMaps]) -> Iterator[str]:
    """All text of the picture that is not its own."""
    for maps in runs:
        yield from (maps.text, maps.run, *maps.facts.values(), *maps.notes)
        for one in maps:
            yield from (*one.queries, *one.keys)


def short(token: str, most: int = MAX_LABEL) -> str:
    """A token as the page writes it."""
    text = token.replace(" ", "\N{LOWER ONE EIGHTH BLOCK}") if most == MAX_LABEL else token
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True)
class Writer:
    """Puts text and panels on a figure, at inches from its top left corner."""

    figure: Figure
    width: float
    height: float
    fonts: list[str]

    def text(self, x: float, y: float, words: str, size: float = 8.5, **style: Any) -> None:
        """A line of text whose top is at ``y``."""
        style |= {"family": self.fonts, "parse_math": False, "va": "top", "size": size}
        self.figure.text(x / self.width, 1 - y / self.height, words, **style)

    def block(self, x: float, y: float, block: Block) -> None:
        """The panels of a layer."""
        one = block.map
        title = f"{SIDES[one.side]}, layer {one.layer}"
        self.text(x, y + 0.1, title, size=10, weight="bold")
        for head in range(len(one.weights)):
            row, column = divmod(head, block.columns)
            left = x + block.left + column * (block.width + GAP)
            above = y + HEADING + TITLE + row * (TITLE + block.height + block.below)
            self.panel(left, above, block, head, labelled=column == 0)

    def panel(self, x: float, y: float, block: Block, head: int, labelled: bool) -> None:
        """The heat map of a head, with its top left corner at ``(x, y)``; ``labelled``: with the
        queries beside it.
        """
        one, weights = block.map, block.map.weights[head].numpy()
        axes = self.figure.add_axes(
            (
                x / self.width,
                1 - (y + block.height) / self.height,
                block.width / self.width,
                block.height / self.height,
            )
        )
        largest = float(abs(weights).max())
        heat_map(axes, weights)
        style: dict[str, Any] = {"family": self.fonts, "parse_math": False, "color": INK}
        style["size"] = 46 * block.pitch
        keys, queries = ([short(token) for token in tokens] for tokens in (one.keys, one.queries))
        axes.set_xticks(range(len(keys)), keys, rotation=90, **style)
        axes.set_yticks(range(len(queries)), queries if labelled else [], **style)
        axes.tick_params(length=0, pad=2)
        axes.spines[:].set(visible=True, color=GRID)
        sign = "±" if weights.min() < 0 else "0 to "
        title = f"head {head}, {sign}{largest:.2f}"
        axes.set_title(title, loc="center", size=7.5, color=SOFT, pad=3)


def font_families(text: str) -> list[str]:
    """Matplotlib's own font, then installed fonts with the characters that it lacks."""
    from matplotlib import font_manager

    own = font_manager.FontProperties(family="DejaVu Sans")
    found = ["DejaVu Sans"]
    missing = {ord(one) for one in text} - characters(font_manager.findfont(own))
    for font in font_manager.fontManager.ttflist:
        if missing and font.name not in found and (more := missing & characters(font.fname)):
            found.append(font.name)
            missing -= more
    return found


@cache
def characters(path: str) -> frozenset[int]:
    """The characters of a font; none if it cannot be scaled or read."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(font.get_charmap()) if font.scalable else frozenset()
