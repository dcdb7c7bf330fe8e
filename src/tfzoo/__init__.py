"""Interchangeable Transformer components for PyTorch Lightning.

Names load when touched: ``import tfzoo`` imports neither torch nor lightning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfzoo import errors, testing
    from tfzoo.base.allocator import keep_freed_memory
    from tfzoo.base.registry import create, describe, list_components, register
    from tfzoo.base.special_ids import SpecialIds
    from tfzoo.data.batches import ClassificationBatch, ParallelBatch
    from tfzoo.data.classification import ClassificationData
    from tfzoo.data.translation import TranslationData
    from tfzoo.learning.loss import Loss
    from tfzoo.learning.optim import Optim
    from tfzoo.masks import Mask
    from tfzoo.models.classifier import TransformerClassifier
    from tfzoo.models.decoder import Decoder, DecoderLayer
    from tfzoo.models.encoder import Encoder, EncoderLayer
    from tfzoo.models.generation import generate
    from tfzoo.models.language_model import LanguageModel
    from tfzoo.models.masked_language_model import MaskedLanguageModel
    from tfzoo.models.torch_attention import MultiheadAttention
    from tfzoo.models.transformer import Transformer
    from tfzoo.plots.maps import attention_maps
    from tfzoo.search import Search
    from tfzoo.swapping.saved import from_pretrained
    from tfzoo.swapping.swap import swap
    from tfzoo.tasks.classification import ClassificationTask
    from tfzoo.tasks.translation import TranslationTask
    from tfzoo.training.swap_parts import SwapParts

__version__ = "0.2.0"

_WHERE = {
    "ClassificationBatch": "tfzoo.data.batches",
    "ClassificationData": "tfzoo.data.classification",
    "ClassificationTask": "tfzoo.tasks.classification",
    "Decoder": "tfzoo.models.decoder",
    "DecoderLayer": "tfzoo.models.decoder",
    "Encoder": "tfzoo.models.encoder",
    "EncoderLayer": "tfzoo.models.encoder",
    "LanguageModel": "tfzoo.models.language_model",
    "Loss": "tfzoo.learning.loss",
    "Mask": "tfzoo.masks",
    "MaskedLanguageModel": "tfzoo.models.masked_language_model",
    "MultiheadAttention": "tfzoo.models.torch_attention",
    "Optim": "tfzoo.learning.optim",
    "ParallelBatch": "tfzoo.data.batches",
    "Search": "tfzoo.search",
    "SpecialIds": "tfzoo.base.special_ids",
    "SwapParts": "tfzoo.training.swap_parts",
    "Transformer": "tfzoo.models.transformer",
    "TransformerClassifier": "tfzoo.models.classifier",
    "TranslationData": "tfzoo.data.translation",
    "TranslationTask": "tfzoo.tasks.translation",
    "attention_maps": "tfzoo.plots.maps",
    "create": "tfzoo.base.registry",
    "describe": "tfzoo.base.registry",
    "from_pretrained": "tfzoo.swapping.saved",
    "generate": "tfzoo.models.generation",
    "keep_freed_memory": "tfzoo.base.allocator",
    "list_components": "tfzoo.base.registry",
    "register": "tfzoo.base.registry",
    "swap": "tfzoo.swapping.swap",
}
_MODULES = ("errors", "testing")

__all__ = [
    "ClassificationBatch",
    "ClassificationData",
    "ClassificationTask",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "LanguageModel",
    "Loss",
    "Mask",
    "MaskedLanguageModel",
    "MultiheadAttention",
    "Optim",
    "ParallelBatch",
    "Search",
    "SpecialIds",
    "SwapParts",
    "Transformer",
    "TransformerClassifier",
    "TranslationData",
    "TranslationTask",
    "attention_maps",
    "create",
    "describe",
    "errors",
    "from_pretrained",
    "generate",
    "keep_freed_memory",
    "list_components",
    "register",
    "swap",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tfzoo.{name}")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'tfzoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
