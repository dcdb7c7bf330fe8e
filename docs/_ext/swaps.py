"""The page of the attention classes of ``transformers`` that swapping was compared with."""

from __future__ import annotations

from collections import Counter

from benchmarks.swap_transformers.page import CHECKED, read
from docs._ext.tables import code, table

HEAD = """# Swap in the models of transformers

`tfzoo.swap` gives a model's own output when it swaps in the model's own attention and norms. That
is tried with every class of `transformers` whose forward goes through its `AttentionInterface`:

```sh
python -m benchmarks.swap_transformers --write
```

builds the smallest random model that has it, in float64, runs the model's own eager path, swaps in
`scaled_dot_product` and, for each norm, the one that it is, and compares the outputs of each
attention and of the whole model. *Equal* is within 1e-9 of the largest value; where the peer's code
rounds to float32, float64 is read instead, so that nothing rounds. Then `euclidean` is swapped in,
which must change the output of the class, else the row is *not reached*. *Refused* is an error of
one line. *Not built* says what kept the rules from a small model of it.
"""


def page() -> str:
    """The page."""
    rows = read()
    counts = Counter(row["outcome"] for row in rows)
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    cells = [
        [
            *(row["attention"], row["model"], row["outcome"]),
            code(row["reason"]) if row["outcome"] == "not built" else row["reason"],
        ]
        for row in rows
    ]
    listed = table(["attention", "in the model", "outcome", ""], cells)
    return f"{HEAD}\nOf {len(rows)} classes, {told} ({CHECKED}).\n\n{listed}\n"
