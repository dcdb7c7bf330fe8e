"""Runs ``tfzoo`` once for each list of words on standard input and tells what came of it: ``python
tests/commands/strangers.py < JSON``.
"""

import io
import json
import sys
import time
from contextlib import redirect_stderr, redirect_stdout

from tfzoo.commands.main import main

found = []
for args in json.load(sys.stdin):
    out, err, start = io.StringIO(), io.StringIO(), time.perf_counter()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(args)
    heavy = [name for name in ("lightning", "beside", "jsonargparse") if name in sys.modules]
    found.append(
        {
            "code": code,
            "out": out.getvalue(),
            "err": err.getvalue(),
            "seconds": time.perf_counter() - start,
            "imported": heavy,
        },
    )
print(json.dumps(found))
