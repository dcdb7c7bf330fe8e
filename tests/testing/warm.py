"""What a process loads before checks are forked from it."""

import gc

import lightning.pytorch  # noqa: F401
import pytest  # noqa: F401
import torch
import torch._decomp.decompositions_for_jvp  # compiled where torch.func.jvp is first used
import torch._inductor
import transformers.masking_utils  # noqa: F401

import tests.testing.rare
import tests.testing.rules  # noqa: F401
import tfzoo.search
import tfzoo.tasks.classification
import tfzoo.tasks.translation  # noqa: F401
from tests.testing import patching
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.testing import contracts
from tfzoo.testing.samples import COMPONENT_KINDS

torch.set_num_threads(1)
for kind in KINDS:
    contracts(kind)
    for name in registry(kind).names() if kind in COMPONENT_KINDS else ():
        registry(kind).entry(name)
patching.remember()
gc.freeze()  # a look of the garbage collector, too, copies memory into a fork
