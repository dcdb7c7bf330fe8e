"""Inputs and outputs of other projects' code, in ``golden/``; its manifest says which."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent / "golden"


@cache
def manifest() -> dict[str, dict[str, Any]]:
    cases = json.loads((FOLDER / "manifest.json").read_text("utf-8"))["cases"]
    return {case["id"]: case for case in cases}


def load(case_id: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A case and its arrays by name: ``in.*``, ``param.*``, ``mask.*``, ``out.*``, ``grad.*``."""
    case = manifest()[case_id]
    arrays = {}
    if "file" in case:
        with np.load(FOLDER / case["file"]) as stored:
            for name in stored.files:
                arrays[name] = torch.from_numpy(stored[name].copy())
                dtype = case["arrays"][name]["dtype"]
                if dtype in ("bfloat16", "float16"):
                    arrays[name] = arrays[name].to(getattr(torch, dtype))
    return case, arrays


def parameters(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The peer's state dict."""
    names = [name for name in arrays if name.startswith("param.")]
    return {name.removeprefix("param."): arrays[name] for name in names}
