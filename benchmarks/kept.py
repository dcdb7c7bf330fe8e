"""What the backward of a training step keeps, by the line that made autograd keep it.

    python benchmarks/kept.py                        # MarianMT's layers, dim 512, 6+6
    python benchmarks/kept.py --everything           # without what is computed again
    python benchmarks/kept.py --side MarianMT

Views of one tensor count once, and parameters not at all. A width is one number for each channel of
each token of the source.
"""

from __future__ import annotations

import argparse
import traceback
from collections import defaultdict
from pathlib import Path

import torch
from marian import batches, our_loss, pair, their_loss
from torch import Tensor

from tfzoo.base.recomputed import OnlyLooks
from tfzoo.models import stack

VOCABULARY, TOKENS, MEAN = 8000, 512, 14.0


def line() -> str:
    """The innermost line of tfzoo or transformers that is running, without this machinery."""
    frames = [
        frame
        for frame in traceback.extract_stack()
        if any(name in frame.filename for name in ("/tfzoo/", "/transformers/", "marian.py"))
        and "computed_again.py" not in frame.filename
    ]
    path = Path(frames[-1].filename)
    return f"{path.parent.name}/{path.name}:{frames[-1].name}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", choices=("tfzoo", "MarianMT"), default="tfzoo")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--everything", action="store_true")
    options = parser.parse_args()
    if options.everything:
        stack.formulas_are_kept = lambda x: False
    ours, theirs = pair(VOCABULARY, options.dim, options.dim // 64, options.layers, dropout=0.1)
    model, loss = (ours, our_loss) if options.side == "tfzoo" else (theirs, their_loss)
    source, target = batches(1, VOCABULARY, TOKENS, MEAN)[0]
    known = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, tuple[str, Tensor]] = {}

    def look(one: Tensor) -> None:
        if (where := one.untyped_storage().data_ptr()) not in known | kept.keys():
            kept[where] = line(), one

    with torch.autograd.graph.saved_tensors_hooks(OnlyLooks(look), lambda one: one):
        loss(model.train(), source, target)
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for where, one in kept.values():
        rows[where, str(one.dtype).removeprefix("torch.")].append(one.untyped_storage().nbytes())
    width = 4 * options.dim * source.numel()
    print("| line | dtype | tensors | MiB | widths |", "|---" * 5 + "|", sep="\n")
    for (where, dtype), sizes in sorted(rows.items(), key=lambda row: -sum(row[1])):
        total = sum(sizes)
        print(f"| {where} | {dtype} | {len(sizes)} | {total / 2**20:.1f} | {total / width:.1f} |")
    total = sum(sum(sizes) for sizes in rows.values())
    print(f"| all | | {len(kept)} | {total / 2**20:.1f} | {total / width:.1f} |")


if __name__ == "__main__":
    main()
