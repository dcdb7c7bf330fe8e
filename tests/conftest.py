"""What holds for all tests: they do not write to the user's cache, and a processor capability that
is chosen for PyTorch holds for oneDNN too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# PyTorch's flash attention in bf16 asks oneDNN whether the processor packs pairs of numbers, and
# fails if ATEN_CPU_CAPABILITY then forbids it. Both libraries read this once, when they are loaded.
ISA = {"default": "SSE41", "avx2": "AVX2"}.get(os.environ.get("ATEN_CPU_CAPABILITY", ""))
if ISA is not None:
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ISA)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
