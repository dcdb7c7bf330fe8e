"""tfzoo attention RUN TEXT: a page that shows the attention of a trained run in one text."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.text_lines import open_output, task_of
from tfzoo.data.lines import decoded
from tfzoo.errors import BadData, TfzooError
from tfzoo.kinds import KINDS
from tfzoo.runs import checkpoints
from tfzoo.terminal import notify, print_result
from tfzoo.training.device import DEVICES

FILE = "attention.html"
MOST_BYTES = 1_000_000
EPILOG = """\
The page shows each layer and head, of the encoder, of the decoder and between them, as lines and as
a heat map; hover over a token to see its weights. It is one file, which needs no network. A
translator's decoder is shown in its own translation of the text. Layers are counted from 0.
"""


def run(args: list[str]) -> int:
    """Write the page of one text."""
    parser = CommandParser("attention", "Show the attention of a trained run in one text.", EPILOG)
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
    )
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="one text; standard input when left out"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=FILE,
        help="the page to write, - for standard output (default: %(default)s)",
    )
    parser.add_argument("--layers", metavar="N,N", help="these layers alone, such as 0,5")
    parser.add_argument(
        "--device", metavar="D", help=f"{DEVICES}; default: the first GPU, else the CPU"
    )
    given = parser.parse(args)
    if given is None:
        return 0
    layers = parse_layers(given.layers)
    path = checkpoints.resolve(given.run)
    text = given.text if given.text is not None else read_text()
    if not text.strip():
        raise BadData('the text is empty: tfzoo attention RUN "a sentence"')
    task = task_of(path, given.device)
    page = page_of(task, text.strip(), given.run, layers)
    with open_output(None if given.output == "-" else given.output) as out:
        out.write(page)
    if given.output != "-":
        print_result(given.output)
    return 0


def parse_layers(written: str | None) -> set[int] | None:
    """The layers of ``--layers``; None if it is not given."""
    if written is None:
        return None
    try:
        return {int(one) for one in written.split(",")}
    except ValueError:
        raise TfzooError(
            f"--layers {written}: write the numbers of layers, from 0, such as --layers 0,5"
        ) from None


def read_text() -> str:
    """The one line of standard input that is not empty; "" if there is none."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BadData('TEXT is missing: tfzoo attention RUN "a sentence"')
    lines = [line for line in decoded(sys.stdin.buffer, "standard input") if line.strip()]
    if len(lines) > 1:
        raise BadData(f"attention shows one text, but standard input has {len(lines):,} lines")
    return "".join(lines)


def page_of(task: Any, text: str, run: str, layers: set[int] | None) -> str:
    """The page of a text.

    Raises:
        TfzooError: a layer that does not exist; or the page is too large.
    """
    from tfzoo.pages.attention import attention_page
    from tfzoo.tasks.attention import layers_without_map

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of layers without a map: said below
        maps = task.attention(text)
    known = {one.layer for one in maps}
    if unknown := sorted((layers or set()) - known):
        raise TfzooError(
            f"--layers: no attention map of layer {unknown[0]}; layers with one: "
            + ", ".join(map(str, sorted(known)))
        )
    if layers:
        maps = [one for one in maps if one.layer in layers]
    without = layers_without_map(task.model)
    notes = [f"no attention map of {without}"] if without else []
    for note in notes:
        notify(note)
    page = attention_page(text, maps, run=run, facts=facts(task, text), notes=notes)
    if (size := len(page.encode())) > MOST_BYTES:
        few = sorted(layers or known)[: len(layers or known) * MOST_BYTES // size]
        fewer = f"choose layers, such as --layers {','.join(map(str, few))}, or " if few else ""
        raise TfzooError(
            f"the page would have {size / 1e6:.1f} MB, more than 1 MB: {fewer}give a shorter text"
        )
    return page


def facts(task: Any, text: str) -> dict[str, str]:
    """What the model makes of the text, and the parts that it is built from."""
    if task.name == "translation":
        found = {"translation": task.translate([text])[0]}
    else:
        ((label, probability),) = task.classify([text])
        found = {"label": f"{label} (probability {probability:.3f})"}
    config = task.model.config
    parts = [
        f"{kind} {spec if isinstance(spec, str) else spec['name']}"
        for kind in KINDS
        if (spec := config.get(kind))
    ]
    return {**found, "model": ", ".join(parts)} if parts else found
