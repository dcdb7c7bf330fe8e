"""The page of documentation."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from benchmarks.swap_transformers.comparison import Row

PATH = Path(__file__).parents[2] / "docs/swap-transformers.md"
OUTCOMES = ("equal", "refused", "different", "not reached", "not built")
HEAD = """# Swap in the models of transformers

`tfzoo.swap` gives a model's own output when it swaps in the model's own attention and norms. That
is tried with every class of `transformers` {transformers} whose forward goes through its
`AttentionInterface`:

```sh
python -m benchmarks.swap_transformers --write
```

builds the smallest random model that has it, in float64, runs the model's own eager path, swaps in
`scaled_dot_product` and, for each norm, the one that it is, and compares the outputs of each
attention and of the whole model. *Equal* is within 1e-9 of the largest value; where the peer's code
rounds to float32, float64 is read instead, so that nothing rounds. Then `euclidean` is swapped in,
which must change the output of the class, else the row is *not reached*. *Refused* is an error of
one line. *Not built* says what kept the rules from a small model of it.

Of {classes} classes, {counts} (PyTorch {torch}).

| attention | in the model | outcome | |
|---|---|---|---|
"""


def counts(rows: list[Row]) -> dict[str, int]:
    """How many rows have each outcome."""
    return {kind: sum(row.outcome == kind for row in rows) for kind in OUTCOMES}


def page(rows: list[Row]) -> str:
    """The page of documentation."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.attention.lower(), row.model)):
        reason = row.reason.replace("|", "\\|").replace("<", "&lt;")
        reason = f"`{reason}`" if row.outcome == "not built" else reason
        lines.append(f"| {row.attention} | {row.model} | {row.outcome} | {reason} |\n")
    numbers = [f"{count} {kind}" for kind, count in counts(rows).items()]
    head = HEAD.format(
        classes=len(rows),
        counts=f"{', '.join(numbers[:-1])} and {numbers[-1]}",
        torch=torch.__version__.split("+")[0],
        transformers=transformers.__version__,
    )
    return head + "".join(lines)
