"""Tokenizers: their interface, what a checkpoint keeps of them, and their states by the files of a
published model, in a folder that ``save_pretrained`` of ``transformers`` wrote.

Which ids a published model has for padding, begin, end and others is said in several files.
``config.json`` and ``generation_config.json`` say what a model reads and writes,
``tokenizer_config.json`` has names, and ``tokenizer.json`` puts tokens before and after a text. Of
two that contradict each other the first of this list holds; what stands around a text that an
encoder reads is what ``tokenizer.json`` puts there.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from os.path import lexists
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.base import files
from tfzoo.base.loading import require
from tfzoo.base.registry import Spec, create
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.table import parts, words_of
from tfzoo.errors import BadRun, TfzooError

if TYPE_CHECKING:
    import tokenizers

FILE = "tokenizer.json"
NAMED = ("tokenizer_config.json", "special_tokens_map.json")
SENTENCEPIECE = ("source.spm", "target.spm")
"""Marian's files of SentencePiece."""
VOCABULARIES = ("vocab.json", "target_vocab.json")
"""Marian's ids of pieces: of both languages or of the source, and of the target."""
USUAL = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
"""Their special tokens where no file says others."""
SIZES = ("vocab_size", "decoder_vocab_size")
"""The keys of ``config.json`` that say how many ids source and target have."""


if hasattr(os, "register_at_fork"):
    # The library's threads would hang where a process forks (workers of a DataLoader, say). It
    # switches them off itself, but warns on every fork.
    os.register_at_fork(before=partial(os.environ.setdefault, "TOKENIZERS_PARALLELISM", "false"))


class Encoder(Protocol):
    """Turns lines into ids."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS. An empty line has no ids."""

    def state(self) -> str:
        """Everything that it has learnt, as text."""


class Tokenizer(Encoder, Protocol):
    """Text to ids and back. A component of kind ``tokenizer`` in ``data/tokenizers.py``;
    its constructor takes options only.

    ``decode(encode([line])) == [line]`` up to Unicode's normal form NFC. No text is encoded as one
    of the special ids, not even one that spells their names; only a tokenizer with a closed
    vocabulary gives the unknown one.

    It may have a method ``of_target() -> Tokenizer``: that of the language that is translated to,
    where text of both is not cut alike, with ``own_ids_of_target: bool``.
    """

    @property
    def special(self) -> SpecialIds:
        """The ids of padding, begin, end and others."""

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines. They can be iterated once."""

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped."""

    def __len__(self) -> int:
        """The size of the vocabulary, including the special ids."""

    def restore(self, state: str) -> None:
        """Load what :meth:`state` returned. A wrong state, which a stranger may have written, is an
        error of any type.
        """


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of each id, with its leading space."""
    # `decode` strips a text's first space. Two equal tokens show it, in front of the second.
    once = tokenizer.decode([[one] for one in ids])
    twice = tokenizer.decode([[one, one] for one in ids])
    return [pair[len(single) :] for single, pair in zip(once, twice, strict=True)]


def restored(spec: Spec, state: Any) -> Tokenizer:
    """The tokenizer of a spec, from a state that a stranger may have written: BadRun if it cannot
    be used.
    """
    tokenizer: Tokenizer = create("tokenizer", spec)
    with of_a_stranger("the checkpoint's contents do not match: its tokenizer"):
        tokenizer.restore(state)
        tokenizer.decode(tokenizer.encode(["one two", ""]))
        if hasattr(tokenizer, "of_target"):
            tokenizer.of_target()
    return tokenizer


@contextmanager
def of_a_stranger(called: str) -> Iterator[None]:
    """Raise BadRun, in one line, where a library fails on what is ``called`` so."""
    try:
        yield
    except (TfzooError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a PanicException of the library tokenizers is no Exception
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise BadRun(f"{called} is refused: {reason[:200]}") from None


@dataclass
class TokenizerPair:
    """The tokenizers of a translator. ``source`` and ``target`` are the same object if the
    vocabulary is joint.

    The languages are codes such as ``"en"``, ``"de"``, ``"zh-CN"``; the target's decides which of
    its tokenizers sacreBLEU uses. ``spec`` is the name and the options of both tokenizers.
    """

    source: Tokenizer
    target: Tokenizer
    source_language: str
    target_language: str
    spec: Spec = "bpe"
    joint: bool = field(init=False)
    """Whether both languages share one vocabulary, so that embeddings can be shared too."""

    def __post_init__(self) -> None:
        self.joint = self.source is self.target
        if hasattr(self.target, "of_target"):
            self.target = self.target.of_target()
        self.joint &= not getattr(self.target, "own_ids_of_target", False)

    @property
    def special(self) -> SpecialIds:
        """The special ids of both."""
        return self.target.special

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """One that is joint, or those of both languages."""
        return [self.source] if self.joint else [self.source, self.target]

    @property
    def encoders(self) -> list[tuple[int, Tokenizer]]:
        """What encodes which column."""
        return [(0, self.source), (1, self.target)]

    def state(self) -> dict[str, Any]:
        """Plain values from which :meth:`restore` builds the pair; part of every checkpoint."""
        return {
            "languages": [self.source_language, self.target_language],
            "tokenizer": self.spec if isinstance(self.spec, str) else dict(self.spec),
            "states": [tokenizer.state() for tokenizer in self.tokenizers],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> TokenizerPair:
        """Build the pair from its :meth:`state`; needs neither text nor cache."""
        source, target = state["languages"]
        tokenizers = [restored(state["tokenizer"], text) for text in state["states"]]
        return cls(tokenizers[0], tokenizers[-1], source, target, state["tokenizer"])


@dataclass
class PairEncoder:
    """The tokens of pairs, ``first SEP second``, in the form of a tokenizer, so that they are
    cached.
    """

    tokenizer: Tokenizer

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        each = [text if text.strip() else "" for pair in texts for text in parts(pair)]
        ids, between = self.tokenizer.encode(each), self.tokenizer.special.sep
        return [
            [*first, *between, *second] for first, second in zip(ids[::2], ids[1::2], strict=True)
        ]

    def state(self) -> str:
        return f"pairs, {self.tokenizer.special.sep} between them\n{self.tokenizer.state()}"


BEFORE = "a"
"""A word."""


@dataclass
class WordEncoder:
    """The tokens of a text, word by word, in the form of a tokenizer, so that they are cached. They
    are those of the text: a word after the first one is encoded behind another word and a space,
    which some tokenizers put into its first token. A word without a token is the unknown token, or
    EOS where there is none.
    """

    tokenizer: Tokenizer

    def words(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """The tokens of each word of each text."""
        words = [words_of(text) for text in texts]
        (before,) = self.tokenizer.encode([BEFORE])
        every: list[str] = []
        for text in words:
            every += [*text[:1], *(f"{BEFORE} {word}" for word in text[1:])]
        ids = iter(self.tokenizer.encode(every))
        special = self.tokenizer.special
        unknown = [special.eos if special.unk is None else special.unk]
        return [
            [(next(ids)[len(before) if place else 0 :]) or unknown for place in range(len(text))]
            for text in words
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[token for word in text for token in word] for text in self.words(texts)]

    def state(self) -> str:
        return f"words in their text\n{self.tokenizer.state()}"


class WordLengths(WordEncoder):
    """The number of tokens of each word."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(word) for word in text] for text in self.words(texts)]

    def state(self) -> str:
        return f"lengths, {super().state()}"


@dataclass
class Vocabulary:
    """The tokenizer of a classifier and its labels: class k is ``labels[k]``. ``spec`` is the name
    and the options of the tokenizer; ``texts`` are the names of the texts that one example has,
    two for pairs.
    """

    tokenizer: Tokenizer
    labels: list[str]
    spec: Spec = "bpe"
    texts: Sequence[str] = ("text",)

    @property
    def special(self) -> SpecialIds:
        """The special ids of the tokenizer."""
        return self.tokenizer.special

    @property
    def pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return len(self.texts) == 2

    @property
    def encoders(self) -> list[tuple[int, Tokenizer | PairEncoder]]:
        """What encodes which column: a text, or a pair as one text."""
        return [(0, PairEncoder(self.tokenizer) if self.pairs else self.tokenizer)]

    def state(self) -> dict[str, Any]:
        """Plain values from which :meth:`restore` builds it; part of every checkpoint."""
        spec = self.spec if isinstance(self.spec, str) else dict(self.spec)
        return {
            "tokenizer": spec,
            "state": self.tokenizer.state(),
            "labels": list(self.labels),
            "texts": list(self.texts),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Vocabulary:
        """Build the vocabulary from its :meth:`state`; needs neither text nor cache."""
        tokenizer = restored(state["tokenizer"], state["state"])
        return cls(tokenizer, list(state["labels"]), state["tokenizer"], list(state["texts"]))


def loaded(text: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, which encodes the names of special tokens as any other text."""
    from tokenizers import Tokenizer

    library = Tokenizer.from_str(text)
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True
    return library


def found_in(folder: Path) -> tuple[str, str]:
    """The name of a folder's tokenizer, and its state: BadRun if there is none, or if it is damaged
    or refused.
    """
    if not lexists(folder / FILE) and (folder / SENTENCEPIECE[0]).is_file():
        return "sentencepiece", sentencepiece_of(folder)
    return "pretrained", state_of(folder)


def state_of(folder: Path) -> str:
    """The state of :class:`tfzoo.data.tokenizers.Pretrained` of a folder."""
    names: Mapping[str, str] = {}
    if lexists(folder / FILE):
        text = files.text_of(folder / FILE)
    else:
        text, names = converted(folder)
    with of_a_stranger(f"the tokenizer in {folder}"):
        library = loaded(text)
        around, pair = library.encode("").ids, library.encode("", "").ids
        least = max(library.get_vocab(with_added_tokens=True).values()) + 1
    special = special_ids(folder, library.token_to_id, around, pair, names)
    return state_with(special, library=text, size=size_of(folder, least, SIZES[0], special))


def converted(folder: Path) -> tuple[str, dict[str, str]]:
    """The text of ``tokenizer.json`` that ``transformers`` makes of the other files of a folder,
    and the names of special tokens.
    """
    with of_a_stranger(f"{folder} has no {FILE}, and what transformers makes of its other files"):
        from transformers import AutoTokenizer

        made: Any = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        if not any((folder / name).is_file() for name in made.vocab_files_names.values()):
            raise BadRun(f"{folder} has no {FILE}, nor a vocabulary of which one is made")
        return str(made.backend_tokenizer.to_str()), dict(made.special_tokens_map)


def sentencepiece_of(folder: Path) -> str:
    """The state of :class:`tfzoo.data.tokenizers.SentencePiece` of a folder."""
    apart = json_of(folder / NAMED[0]).get("separate_vocabs")
    names = VOCABULARIES[: 2 if apart else 1]
    with of_a_stranger(f"the tokenizer in {folder}"):
        models = [(folder / name).read_bytes() for name in SENTENCEPIECE]
        for model in models:
            pieces_of(model)
        texts = [(folder / name).read_text("utf-8") for name in names]
        vocabularies = [json.loads(text) for text in texts]
        least = [max(one["<unk>"], *one.values()) + 1 for one in vocabularies]
    for piece in USUAL.values() if apart else ():
        if len({one.get(piece) for one in vocabularies}) == 2:
            raise BadRun(f"{folder} has another id for {piece} in each of {' and '.join(names)}")
    end = vocabularies[0].get("</s>")
    around = [] if end is None else [end]
    special = special_ids(folder, vocabularies[0].get, around, around * 2, USUAL)
    sizes = [size_of(folder, *one, special) for one in zip(least, SIZES, strict=False)]
    encoded = [b64encode(model).decode() for model in models]
    return state_with(special, models=encoded, vocabularies=texts, sizes=sizes, side=0)


def pieces_of(model: bytes) -> Any:
    """The library SentencePiece with a model."""
    require("sentencepiece", "sentencepiece")
    from sentencepiece import SentencePieceProcessor

    library = SentencePieceProcessor()
    library.LoadFromSerializedProto(model)
    return library


def size_of(folder: Path, least: int, key: str, special: SpecialIds) -> int:
    """The size of a vocabulary of a folder's model, which ``config.json`` says by a ``key``; its
    tokenizer has ``least`` tokens.
    """
    config = json_of(folder / "config.json")
    size = config.get(key) or config.get(SIZES[0], least)
    if type(size) is not int or size < least:
        raise BadRun(f"{folder} has a tokenizer of {least:,} tokens, and a model of {size}")
    if (most := max(special.every)) >= size:
        raise BadRun(
            f"{folder}: the special id {most} is outside of the vocabulary of {size:,} tokens: set "
            "an id of the tokenizer in config.json or generation_config.json"
        )
    return size


def state_with(special: SpecialIds, **content: Any) -> str:
    """A state as text."""
    return json.dumps({**content, "special": asdict(special)})


def sha256_of(state: str) -> str:
    """The sum of a state, in hexadecimal."""
    return sha256(state.encode("utf-8", "surrogatepass")).hexdigest()


def json_of(path: Path) -> dict[str, Any]:
    """The content of a file of JSON; empty where there is none."""
    found = files.json_of(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def special_ids(
    folder: Path,
    id_of: Callable[[str], int | None],
    around: list[int],
    pair: list[int],
    usual: Mapping[str, str] = MappingProxyType({}),
) -> SpecialIds:
    """The special ids by the files of a folder. ``around`` and ``pair`` are the ids that stand
    around a text and two texts; ``usual`` are the names of special tokens where no file says them.
    """
    model = [json_of(folder / f"{name}.json") for name in ("config", "generation_config")]
    numbers = {key: one for file in model for key, one in file.items() if one is not None}
    named = {**usual, **json_of(folder / NAMED[1]), **json_of(folder / NAMED[0])}

    def token(name: str) -> int | None:
        said = named.get(f"{name}_token")
        said = said.get("content") if isinstance(said, Mapping) else said
        return id_of(said) if isinstance(said, str) else None

    def ids(name: str) -> list[int]:
        said = numbers.get(f"{name}_token_id")
        said = said if isinstance(said, list) else [said]
        if said and all(type(one) is int and one >= 0 for one in said):
            return said
        known = token(name)
        return [] if known is None else [known]

    framed = len(around) == 2
    ends = [around[1]] if framed else ids("eos") or ids("sep")
    if not ends:
        raise BadRun("no file says which id ends a text (eos_token_id)")
    begins = ids("bos") or ids("cls") or around[:1] or ends
    start = numbers.get("decoder_start_token_id")
    return SpecialIds(
        pad=next(iter(ids("pad")), None),
        bos=begins[0],
        eos=ends[0],
        unk=token("unk"),
        mask=token("mask"),
        cls=around[0] if framed else None,
        sep=tuple(pair[1:-1]) if framed else (),
        decoder_start=start if type(start) is int else None,
        forced_bos=next(iter(ids("forced_bos")), None),
        prompt_bos=bool(around) and around[0] == begins[0],
        also_eos=tuple(one for one in dict.fromkeys(ids("eos")) if one != ends[0]),
    )
