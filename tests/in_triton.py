"""Kernels in Triton without a GPU: through its interpreter, and through its compiler for CUDA."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def needs_interpreter() -> None:
    """Skip a test where kernels cannot be interpreted; ``nox -s nightly`` can."""
    pytest.importorskip("triton", reason="needs the extra triton: run `nox -s nightly`")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("needs TRITON_INTERPRET=1: run `nox -s nightly`")


COMPILE = """
import importlib, json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

module, cases = json.loads(sys.argv[1])
for name, types, constants in cases:
    kernel = getattr(importlib.import_module(module), name)
    signature = {n: types.get(n, "i32") for n in kernel.arg_names}
    source = ASTSource(
        fn=kernel, signature=signature | dict.fromkeys(constants, "constexpr"), constexprs=constants
    )
    for capability in (80, 90):
        assert triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]
"""

Case = tuple[str, dict[str, str], dict[str, object]]
"""A kernel, the types of its arguments but for those of integers, and its constants."""


def compile_for_cuda(module: str, cases: list[Case], cache: Path) -> None:
    """What the interpreter lets pass, such as names that a kernel may not use, is refused here."""
    pytest.importorskip("triton", reason="needs the extra triton: run `nox -s nightly`")
    env = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    env["TRITON_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", COMPILE, json.dumps([module, cases])]
    subprocess.run(command, env=env, check=True)
