"""What all pictures share: colours, sizes, file formats, and how they reach loggers; and what all
pages share: their style, and a policy that lets no script but the page's own run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from tfzoo.base.files import output
from tfzoo.base.terminal import notify
from tfzoo.errors import TfzooError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg", "pdf")
PAGES = Path(__file__).parent / "pages"
"""The folder of what all pages begin with."""
INK, SOFT, GRID = "#1c2127", "#5f6b77", "#e3e7eb"
"""Text, text of less weight, lines behind the data."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2127")
"""Of lines, distinct for colour-blind readers as well (Okabe and Ito)."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
"""Lines beyond the number of colours repeat these and are dashed, then dotted."""
SHARES, SIGNED = "Blues", "RdBu_r"
"""Colour maps: from zero on, and on both sides of it."""
DARK = (
    "svg { color-scheme: light dark } "
    "@media (prefers-color-scheme: dark) { svg { filter: invert(0.92) hue-rotate(180deg) } }"
)
"""The rule by which a browser draws an SVG dark: dark for light, in nearly the same hues."""
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT,
    "axes.grid": True,
    "axes.labelcolor": SOFT,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.dpi": 150,
    "figure.titlesize": 11,
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "image.interpolation": "nearest",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.5,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 150,
    "svg.hashsalt": "tfzoo",  # the same picture gives the same file
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in tfzoo's style, whatever the user's own settings of matplotlib are."""
    import matplotlib.style

    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name may have any characters
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the line with this index."""
    dashes = DASHES[index // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": dashes}


def heat_map(axes: Axes, values: NDArray[np.floating[Any]], **given: Any) -> Any:
    """Draw values as an image in which white is 0: blue for values of one sign; where there are
    both, blue below 0 and red above, equally far. NaN is left out.

    Args:
        given: arguments of ``imshow``.
    """
    low, high = np.nanmin(values), np.nanmax(values)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if low < 0 < high:
        high = max(high, -low)
        low, colours = -high, SIGNED
    else:
        low, high, colours = (0, high or 1, SHARES) if low >= 0 else (low, 0, f"{SHARES}_r")
    given = {"aspect": "auto", "cmap": colours, "vmin": low, "vmax": high, **given}
    return axes.imshow(values, **given)


def escape_dollars(text: str) -> str:
    """Escape dollar signs, with which matplotlib marks formulas."""
    return text.replace("$", r"\$")


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """The pixels of a figure, RGBA: ``(height width 4)``."""
    canvas: Any = figure.canvas
    with styled():
        canvas.draw()
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's suffix names, as :func:`picture` draws it."""
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in SUFFIXES:
        raise TfzooError(f"{path}: the file's suffix chooses its format: .{', .'.join(SUFFIXES)}")
    content = picture(figure, suffix)
    with output(path) as place:
        place.write_bytes(content)


def picture(figure: Figure, form: str) -> bytes:
    """A figure in this format; the same one gives the same bytes. A browser shows an SVG dark where
    it shows pages dark.
    """
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    drawn = io.BytesIO()
    with styled():
        figure.savefig(drawn, format=form, metadata=dates.get(form))
    found = drawn.getvalue()
    if form == "svg":
        return found.replace(b"<defs>", f"<style>{DARK}</style><defs>".encode(), 1)
    return found


def log_figure(loggers: Iterable[Any], name: str, draw: Callable[[], Figure], step: int) -> None:
    """Draw a picture for the loggers that take pictures: Weights & Biases, TensorBoard. If it
    cannot be drawn or logged, a message says so.
    """
    taking = [
        one for one in loggers if hasattr(one, "log_image") or hasattr(board(one), "add_image")
    ]
    if not taking:
        return
    try:
        picture = pixels(draw())
        for logger in taking:
            if hasattr(logger, "log_image"):
                logger.log_image(name, images=[picture])
            else:
                board(logger).add_image(name, picture, step, dataformats="HWC")
                board(logger).flush()
    except Exception as error:  # a picture does not end a run
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        notify(f"tfzoo: no picture {name} in the logger: {why}")


def board(logger: Any) -> Any:
    """TensorBoard's writer, where the logger has one."""
    return getattr(logger, "experiment", None)


def render(template: Path, *, served: bool = False, **given: object) -> str:
    """The page of a Jinja template ``NAME.html`` with the files ``NAME.css`` and ``NAME.js`` beside
    it, if there are any. The template begins with ``head.html``, which has policy and style, and
    writes ``script`` where it belongs. All other text is escaped.

    Args:
        served: the page may ask its own server, and show the answer in a frame.
    """
    style = (PAGES / "base.css").read_text("utf-8") + beside(template, ".css")
    script = beside(template, ".js")
    own = "'self'" if served else "'none'"
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        f"frame-src {own}; img-src data:; connect-src {own}; base-uri 'none'; "
        f"form-action {own}"
    )
    environment = Environment(
        loader=FileSystemLoader(PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.from_string(template.read_text("utf-8"))
    return page.render(policy=policy, style=style, script=script, **given)


def beside(template: Path, suffix: str) -> str:
    """The text of the file beside a template; "" if there is none."""
    path = template.with_suffix(suffix)
    return path.read_text("utf-8") if path.exists() else ""


def digest(text: str) -> str:
    """The hash by which the page's security policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
