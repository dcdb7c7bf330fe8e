"""Folders that ``transformers`` writes, with small random models and tokenizers."""

import random
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tfzoo.base.registry import registry
from tfzoo.testing.samples import randomize

LEARNT = [
    name
    for name in registry("tokenizer").names()
    if "published" not in registry("tokenizer").entry(name).traits
]
"""Tokenizers that are trained on text, or need no training."""

LINES = [
    "a small cat sat on the mat, and the dog saw it.",
    "größer als 3 Häuser: ein Straßenfest!",
    "Кошка сидит на коврике, собака бежит.",
    "猫は座布団の上に座っています。",
    "القطة تجلس على السجادة.",
]
"""In four scripts and more."""


def mixed_lines(count: int) -> list[str]:
    """Lines of words and characters of several scripts."""
    draw = random.Random(0)
    words = " ".join(LINES).split()
    letters = "".join(words)
    return [
        " ".join(
            draw.choice(words) if draw.random() < 0.7 else "".join(draw.choices(letters, k=4))
            for _ in range(draw.randrange(1, 20))
        )
        for _ in range(count)
    ]


def peer_of(class_name: str, config: dict[str, Any]) -> Any:
    """A model of ``transformers`` with random weights, in float64."""
    torch.manual_seed(0)
    cls = getattr(transformers, class_name)
    made = cls.config_class(**config)
    made._attn_implementation = made._experts_implementation = "eager"
    peer = cls(made).double().eval()
    trained = {key for key, one in peer.named_parameters() if one.requires_grad}
    fixed = {key: one.clone() for key, one in peer.state_dict().items() if key not in trained}
    randomize(peer)
    peer.load_state_dict(fixed, strict=False)
    return peer


def byte_level(special: list[str], before: str = "", after: str = "") -> Tokenizer:
    """As GPT-2's, Llama 3's and RoBERTa's, with tokens before and after a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    train(tokenizer, trainers.BpeTrainer, special, vocab_size=320, initial_alphabet=alphabet)
    frame(tokenizer, special, before, after)
    return tokenizer


def word_piece(special: list[str]) -> Tokenizer:
    """As BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer, special, vocab_size=320)
    frame(tokenizer, special, "[CLS]", "[SEP]")
    return tokenizer


def unigram(special: list[str]) -> Tokenizer:
    """As T5's and Marian's, of SentencePiece."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    train(tokenizer, trainers.UnigramTrainer, special, vocab_size=200, unk_token="<unk>")
    frame(tokenizer, special, "", "</s>")
    return tokenizer


def train(tokenizer: Tokenizer, trainer: Any, special: list[str], **options: Any) -> None:
    tokens = [AddedToken(one, lstrip=one == "<mask>") for one in special]  # as RoBERTa's mask
    made = trainer(special_tokens=tokens, show_progress=False, **options)
    tokenizer.train_from_iterator(LINES * 20, made)


def frame(tokenizer: Tokenizer, special: list[str], before: str, after: str) -> None:
    between = f"{after} " if before and after else ""
    if before or after:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{before} $A {after}".strip(),
            pair=f"{before} $A {between}$B {after}".strip(),
            special_tokens=[(one, special.index(one)) for one in {before, after} - {""}],
        )


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZERS: dict[str, tuple[Tokenizer, dict[str, str]]] = {
    "gpt2": (
        byte_level(["<|endoftext|>"]),
        {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    ),
    "llama": (byte_level(["<s>", "</s>"], before="<s>"), {"bos_token": "<s>", "eos_token": "</s>"}),
    "roberta": (
        byte_level(["<s>", "<pad>", "</s>", "<mask>"], before="<s>", after="</s>"),
        {
            **{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
            **{"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"},
        },
    ),
    "bert": (
        word_piece(BERT),
        {
            **{"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"},
            **{"sep_token": "[SEP]", "mask_token": "[MASK]"},
        },
    ),
    "t5": (
        unigram(["<pad>", "</s>", "<unk>"]),
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    ),
    "marian": (
        unigram(["</s>", "<unk>", "<pad>"]),
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    ),
}
"""A tokenizer of each family, and the names of its special tokens."""


def save_tokenizer(name: str, folder: Path) -> Any:
    """Write a tokenizer into a folder."""
    tokenizer, named = TOKENIZERS[name]
    peer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    peer.save_pretrained(folder)
    return peer


def with_special_ids(name: str) -> dict[str, int | None]:
    """What a configuration says about the ids of a tokenizer."""
    tokenizer, named = TOKENIZERS[name]
    keys = ("pad", "bos", "eos", "cls", "sep")
    found = {key: named.get(f"{key}_token") for key in keys}
    return {
        f"{key}_token_id": None if one is None else tokenizer.token_to_id(one)
        for key, one in found.items()
        if key not in ("cls", "sep") or one is not None
    }


def save(name: str, class_name: str, config: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    """Write a model and a tokenizer into a folder."""
    tokenizer = save_tokenizer(name, folder)
    size = TOKENIZERS[name][0].get_vocab_size() + 3  # more rows than tokens, as published ones have
    peer = peer_of(class_name, {**config, **with_special_ids(name), "vocab_size": size}).float()
    peer.save_pretrained(folder)
    return peer, tokenizer
