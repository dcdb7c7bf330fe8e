"""Files of JSON, changed in their place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Let a function change what a file holds."""
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")
