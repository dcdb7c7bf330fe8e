"""Small tasks with random weights, to be exported."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from onnxruntime import InferenceSession
from torch import Tensor

import tfzoo
from tfzoo.base.registry import create
from tfzoo.data.tokenizer import Tokenizer, TokenizerPair, Vocabulary
from tfzoo.errors import BadOption
from tfzoo.testing.samples import randomize

LINES = ("one two three", "four five six", "seven plus eight", "nine and ten")
GERMAN = ("eins zwei", "drei")
SIZES: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2, "dropout": 0.0}
SPEC = {"name": "bpe", "vocab_size": 270}


@cache
def tokenizer(spec: str = "bpe", lines: tuple[str, ...] = LINES) -> Tokenizer:
    made: Tokenizer = create("tokenizer", SPEC if spec == "bpe" else spec)
    made.train(lines)
    return made


def translator(*, joint: bool = True, spec: str = "bpe", **options: Any) -> tfzoo.TranslationTask:
    """With random weights, so that weight and bias of a norm count."""
    torch.manual_seed(0)
    source, target = tokenizer(spec), tokenizer(spec, *(() if joint else (GERMAN,)))
    kept = SPEC if spec == "bpe" else spec
    pair = TokenizerPair(source, target, "en", "de", kept)
    sizes = {"source_vocab_size": None if joint else len(source), "tie": "all" if joint else "none"}
    model = tfzoo.Transformer(len(target), **{**SIZES, **sizes, **options})
    randomize(model)
    return tfzoo.TranslationTask(model, pair).eval()


def classifier(**options: Any) -> tfzoo.ClassificationTask:
    torch.manual_seed(0)
    vocabulary = Vocabulary(tokenizer(), ["no", "yes", "perhaps"], SPEC)
    model = tfzoo.TransformerClassifier(len(tokenizer()), 3, **{**SIZES, **options})
    randomize(model)
    return tfzoo.ClassificationTask(model, vocabulary).eval()


def refusal(export: Callable[[Any, Path], None], task: Any, folder: Path) -> str:
    """What an export is refused with, or ""."""
    try:
        export(task, folder)
    except BadOption as error:
        return str(error)
    return ""


class Session:
    """An ONNX file in onnxruntime: ``session(source, lengths, **past)`` gives outputs by name."""

    def __init__(self, path: Path) -> None:
        self.session = InferenceSession(path, providers=["CPUExecutionProvider"])

    def __call__(self, *ids: Tensor, **past: Tensor) -> dict[str, Tensor]:
        inputs = [one.name for one in self.session.get_inputs()]
        given = dict(zip(inputs, ids, strict=False)) | past
        found = self.session.run(None, {name: given[name].numpy() for name in inputs})
        names = [one.name for one in self.session.get_outputs()]
        return dict(zip(names, map(torch.from_numpy, found), strict=True))
