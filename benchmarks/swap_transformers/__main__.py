"""``tfzoo.swap`` against every attention of ``transformers`` that goes through its
``AttentionInterface``: the smallest random model of each, in float64, by its own eager path and
with ``scaled_dot_product`` and the norms that it has swapped in:

    python -m benchmarks.swap_transformers --results rows.json --write

writes rows.csv beside this file, of which the site makes a page. Names of folders in
``transformers/models`` choose among them; their rows replace those of the file ``rows.json``, which
a later start goes on from.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transformers

from benchmarks.swap_transformers import page
from benchmarks.swap_transformers.comparison import Row
from benchmarks.swap_transformers.families import family, files


def show(rows: list[dict[str, Any]], seconds: float) -> None:
    """Print rows and how long they took."""
    for row in rows:
        shown = (row["outcome"], row["attention"], row["model"], row["reason"])
        print("{:11} {:38} {:36} {}".format(*shown), f"{row['difference']:.1e}", flush=True)
    print(f"{seconds:11.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="folders of transformers/models; all of them")
    parser.add_argument("--write", action="store_true", help=f"into {page.PATH.name}")
    parser.add_argument("--results", type=Path, help="a file with the rows so far, to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    kept = arguments.results
    results = json.loads(kept.read_text("utf-8")) if kept and kept.exists() else {}
    for name in files(arguments.names):
        if name in results and not arguments.names:
            continue
        start = time.monotonic()
        results[name] = [asdict(row) for row in family(name)]
        show(results[name], time.monotonic() - start)
        if kept:
            kept.write_text(json.dumps(results), "utf-8")
    rows = [Row(**row) for found in results.values() for row in found]
    print(Counter(row.outcome for row in rows))
    if arguments.write:
        page.write(rows)


if __name__ == "__main__":
    main()
