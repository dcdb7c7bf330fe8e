"""The tokenizers: bytes; those that are learnt from text by Hugging Face's library ``tokenizers``;
and those of published models.
"""

from __future__ import annotations

import copy
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tfzoo.base.loading import require
from tfzoo.base.registry import Entry, register
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.base.values import check_range
from tfzoo.data.tokenizer import (
    FILE,
    SENTENCEPIECE,
    VOCABULARIES,
    loaded,
    pieces_of,
    sentencepiece_of,
    sha256_of,
    state_of,
)
from tfzoo.errors import BadOption, BadRun

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("pad ", "unknown ", "begin ", "end ")
"""Names of the special ids, 0 to 3; no piece of text ends with a space after a letter."""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The library's names of single bytes. PIECES splits them, so no piece of text is one of them."""

LARGEST = 10_000_000
"""The largest vocabulary. The library reserves memory for it before it trains."""

PIECES = r" ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Words, numbers and runs of punctuation, each with the space before it, and runs of spaces."""

WORDS = r" ?\S+|\s+"
"""What stands between spaces, with the space before it, and runs of spaces."""

LINE_ENDS = re.compile(r"[\r\n]")

FIRST = len(OWN.every)
"""The id of byte 0."""


@register("tokenizer", "bytes", paper="arXiv:2105.13626")
class Bytes:
    """Each byte of the text in UTF-8 is a token, ``byte + 4``: 260 ids, without training.

    As in ByT5 (Xue et al. 2021), except for its special ids. No token is unknown, and
    ``decode(encode(x)) == x``. Bytes that are not UTF-8, which a model may generate, are decoded as
    U+FFFD.
    """

    special: ClassVar[SpecialIds] = OWN

    def train(self, lines: Iterable[str]) -> None:
        """Nothing is learnt: all bytes are known."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        return [[byte + FIRST for byte in text.encode("utf-8", "replace")] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped; a line end in the output of a
        model becomes a space.
        """
        kept = [bytes(token - FIRST for token in sentence if token >= FIRST) for sentence in ids]
        return [LINE_ENDS.sub(" ", text.decode("utf-8", "replace")) for text in kept]

    def __len__(self) -> int:
        return FIRST + 256

    def state(self) -> str:
        """A constant: there is no state."""
        return "bytes of UTF-8"

    def restore(self, state: str) -> None:
        """Nothing to restore."""


class Compiled:
    """A tokenizer around that of a library, which it has after training or restoring."""

    entry: ClassVar[Entry]
    special: SpecialIds = OWN
    library: Any = None

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped; a line end in the output of a
        model becomes a space.
        """
        special = self.special.every
        kept = [[one for one in line if one not in special] for line in ids]
        return [LINE_ENDS.sub(" ", text) for text in self._texts(kept)]

    def _texts(self, ids: list[list[int]]) -> list[str]:
        return list(self.library.decode_batch(ids))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found = self.library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]


@dataclass(kw_only=True, eq=False)
class LibraryTokenizer(Compiled):
    """Encodes text in normal form NFC. Spaces belong to the pieces, whose concatenation it is."""

    least: ClassVar[Mapping[str, int]] = {"vocab_size": len(SPECIAL) + len(BYTES)}
    """The least value of each option that is a number. A vocabulary falls back to bytes."""
    vocab_size: int = 8000
    lowercase: bool = False

    def __post_init__(self) -> None:
        for option, least in self.least.items():
            name = f"tokenizer {self.entry.name!r}, option {option!r}"
            check_range(name, getattr(self, option), ge=least, le=LARGEST, whole=True)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        return self._ids(texts)

    def __len__(self) -> int:
        return int(self.library.get_vocab_size())

    def state(self) -> str:
        """The library's own JSON."""
        return str(self.library.to_str())

    def restore(self, state: str) -> None:
        self.library = loaded(state)

    def _trained(
        self,
        lines: Iterable[str],
        model: Any,
        trainer: Any,
        special: Sequence[str] = (*SPECIAL, *BYTES),
        pieces: str = PIECES,
        **options: Any,
    ) -> tokenizers.Tokenizer:
        """A tokenizer of the library around one of its models, which a class of trainers with these
        options has trained.
        """
        from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

        fresh = Tokenizer(model)
        # with a space in front, a line's first word is encoded as elsewhere; the decoder strips it
        lower = [normalizers.Lowercase()] if self.lowercase else []
        fresh.normalizer = normalizers.Sequence(
            [normalizers.NFC(), *lower, normalizers.Prepend(" ")]
        )
        fresh.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
        fresh.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        sizes = {"vocab_size": self.vocab_size, "special_tokens": list(special)}
        fresh.train_from_iterator(lines, trainer(**sizes, show_progress=False, **options))
        return fresh

    def _keep(self, fresh: tokenizers.Tokenizer, **model: Any) -> None:
        """Use this tokenizer of the library, with these settings of its model changed, and without
        looking for the names of special ids in text.
        """
        state = json.loads(fresh.to_str())
        state["added_tokens"] = []
        state["model"].update(model)
        self.restore(json.dumps(state, ensure_ascii=False))


@register("tokenizer", "bpe", paper="arXiv:1508.07909, section 3.2")
class BPE(LibraryTokenizer):
    """Merge the most frequent pair of adjacent symbols until there are ``vocab_size`` symbols.

    Sennrich et al. 2016, over characters as in section 3.2. Spaces are ordinary characters (as in
    arXiv:1808.06226), so that decoding is concatenation and Chinese gets no spaces. A character
    that is not in the vocabulary becomes its UTF-8 bytes: no token is unknown, and
    ``decode(encode(x)) == x`` up to NFC. At most half of the vocabulary is single characters.
    ``lowercase`` converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines; 60,000 short ones take a second."""
        from tokenizers import models, trainers

        model, learnt = models.BPE(byte_fallback=True), self.vocab_size - self.least["vocab_size"]
        characters = max(1, learnt // 2)
        self._keep(self._trained(lines, model, trainers.BpeTrainer, limit_alphabet=characters))


@register("tokenizer", "unigram", paper="arXiv:1804.10959, section 3.2")
class Unigram(LibraryTokenizer):
    """Split text into the most probable sequence of pieces: ``argmax sum_i log p(x_i)``.

    Kudo 2018. Training removes the pieces that the likelihood needs least, until ``vocab_size`` are
    left. Spaces are ordinary characters, so that decoding is concatenation. All characters of
    the training text are kept, also where these alone exceed ``vocab_size``; others become their
    UTF-8 bytes: no token is unknown, and ``decode(encode(x)) == x`` up to NFC. ``lowercase``
    converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines."""
        from tokenizers import models, trainers

        trainer = trainers.UnigramTrainer
        fresh = self._trained(lines, models.Unigram(), trainer, unk_token=SPECIAL[1])
        vocabulary = json.loads(fresh.to_str())["model"]["vocab"]
        self._keep(fresh, byte_fallback=True, vocab=ordered(vocabulary))


def ordered(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The pieces sorted by rounded score, then by spelling. The library sums in no fixed order, so
    the last digits of its scores, and without this the ids, would vary. So would those of the
    characters that it adds at the end, in no fixed order, with the least score plus 0.0001 for each
    before: here all characters with so small a score have the least.
    """
    named = len(SPECIAL) + len(BYTES)
    least = min((score for _, score in pieces[named:]), default=0.0)
    added = least + len(pieces) / 10_000
    rest = (
        (piece, round(least if len(piece) == 1 and score < added else score, 9))
        for piece, score in pieces[named:]
    )
    return pieces[:named] + sorted(rest, key=lambda pair: (-pair[1], pair[0]))


@register("tokenizer", "character")
@dataclass(kw_only=True, eq=False)
class Character(LibraryTokenizer):
    """Each character is a token; those beyond the ``vocab_size`` most frequent become UTF-8 bytes.

    Spaces are characters too. No token is unknown, and ``decode(encode(x)) == x`` up to NFC.
    ``lowercase`` converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    vocab_size: int = 4000

    def train(self, lines: Iterable[str]) -> None:
        """Choose the characters from these lines."""
        from tokenizers import Tokenizer, decoders, models, normalizers

        normalizer = normalizers.Sequence(
            [normalizers.NFC(), *([normalizers.Lowercase()] if self.lowercase else [])]
        )
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalizer.normalize_str(line))
        common = sorted(counts, key=lambda character: (-counts[character], character))
        kept = common[: self.vocab_size - self.least["vocab_size"]]
        names = {name: id for id, name in enumerate([*SPECIAL, *BYTES, *kept])}
        fresh = Tokenizer(models.BPE(names, [], byte_fallback=True))  # BPE without merges
        fresh.normalizer = normalizer
        fresh.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        self._keep(fresh)


@register("tokenizer", "word")
@dataclass(kw_only=True, eq=False)
class Word(LibraryTokenizer):
    """Words, numbers and runs of punctuation: the ``vocab_size`` most frequent ones are known.

    Of these, only those that occur at least ``min_count`` times. All others become the unknown
    token.

    A word includes the space before it, so that decoding is concatenation and restores known words
    exactly. This suits classification, not translation. ``lowercase`` converts text to lower case,
    which decoding does not undo. With ``cut: spaces``, text is split at spaces only, for text whose
    punctuation is already separated: ``'s`` or ``[MAX`` is then one word. A script that is written
    without spaces, such as Chinese, gives words only if spaces stand between them.

    Raises:
        BadOption: ``vocab_size`` is under 5 (four special ids and a word) or over 10 million, or
            ``min_count`` under 1.
    """

    least: ClassVar[Mapping[str, int]] = {"vocab_size": len(SPECIAL) + 1, "min_count": 1}
    vocab_size: int = 30_000
    min_count: int = 1
    cut: Literal["signs", "spaces"] = "signs"

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines."""
        from tokenizers import models, trainers

        fresh = self._trained(
            lines,
            models.WordLevel(unk_token=SPECIAL[1]),
            trainers.WordLevelTrainer,
            SPECIAL,
            PIECES if self.cut == "signs" else WORDS,
            min_frequency=self.min_count,
        )
        self._keep(fresh)


@register("tokenizer", "pretrained", traits={"published"})
class Pretrained(Compiled):
    """The tokenizer of a published model, with its ids: ``tokenizer.json`` in a ``folder`` that
    ``save_pretrained`` of ``transformers`` wrote; of other files the library ``transformers``
    makes it.

    Text becomes the same ids as there; those of padding, begin, end, mask and separators are used
    as they are. What a text gives back depends on the tokenizer: BERT's adds spaces. A text that
    spells the name of a special token is encoded as any other text. With ``sha256``, a folder whose
    tokenizer or special ids have another sum is refused.

    Raises:
        BadOption: in ``train``: there is no ``folder``.
        BadRun: in ``train``: the folder has no tokenizer, or it is damaged or another one.
    """

    transformers_class = "PreTrainedTokenizerFast"
    extra = ""
    """The library that it needs beside ``tokenizers``."""

    read: ClassVar[Any] = staticmethod(state_of)
    """The state of a folder's tokenizer."""
    content: Mapping[str, Any]

    def __init__(self, *, folder: str | None = None, sha256: str | None = None) -> None:
        self.folder, self.sha256 = folder, sha256
        if self.extra:
            require(self.extra, self.extra)

    def train(self, lines: Iterable[str]) -> None:
        """Read the folder."""
        if self.folder is None:
            raise BadOption(
                f"tokenizer {self.entry.name!r} needs the option 'folder', that of a published "
                "model; 'bpe' and 'unigram' are trained on your text"
            )
        state = self.read(Path(self.folder).expanduser())
        if self.sha256 not in (None, sha256_of(state)):
            raise BadRun(
                f"{self.folder} has another tokenizer than it had: its SHA-256 is "
                f"{sha256_of(state)}"
            )
        self.restore(state)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without those of :attr:`special` but the unknown one."""
        never = self.special.every - {self.special.unk}
        return [[one for one in line if one not in never] for line in self._ids(texts)]

    def state(self) -> str:
        """The files of the library, special ids and sizes."""
        return json.dumps(self.content)

    def restore(self, state: str) -> None:
        self.content = json.loads(state)
        ids: dict[str, Any] = {
            key: tuple(one) if isinstance(one, list) else one
            for key, one in self.content["special"].items()
        }
        self.special = SpecialIds(**ids)
        self._open()

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are tokens."""
        return int(self.content["size"])

    def _open(self) -> None:
        """Make the library's tokenizer of the :attr:`content` of a state."""
        self.library = loaded(self.content["library"])

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its ``transformers_class``."""
        return {FILE: self.content["library"].encode()}


@register("tokenizer", "sentencepiece", paper="arXiv:1808.06226", traits={"published"})
class SentencePiece(Pretrained):
    """The pieces of the library SentencePiece (Kudo and Richardson 2018), with the ids of a
    published model: ``source.spm``, ``target.spm`` and ``vocab.json`` (and ``target_vocab.json``,
    where each language has its own ids) of Marian's translators, in a ``folder``.

    Text becomes the same ids as in ``transformers``; a text for Marian may begin with the language
    that it is to be translated to, ``>>fra<<``. "▁" (U+2581) becomes a space. With ``sha256``, a
    folder whose tokenizer has another sum is refused. Needs ``tfzoo[sentencepiece]``.

    Raises:
        BadOption: in ``train``: there is no ``folder``.
        BadRun: in ``train``: the folder has no such files, or they are damaged or others.
        TfzooError: the library is not installed.
    """

    transformers_class = "MarianTokenizer"
    extra = "sentencepiece"
    read = staticmethod(sentencepiece_of)

    def of_target(self) -> SentencePiece:
        """That of the language that is translated to, whose text is cut into other pieces, and
        where there are two vocabularies has other ids.
        """
        other = copy.copy(self)
        other.restore(json.dumps({**self.content, "side": -1}))
        return other

    @property
    def own_ids_of_target(self) -> bool:
        """Whether the language that is translated to has other ids."""
        return len(self.content["vocabularies"]) == 2

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._ids_of(text) for text in texts]

    def _ids_of(self, text: str) -> list[int]:
        end = text.find("<<") + 2 if text.startswith(">>") else 0
        language = [text[:end]] if end > 1 else []
        pieces = self.library.encode(text[end:] if language else text, out_type=str)
        unknown = self.id_of["<unk>"]
        return [self.id_of.get(piece, unknown) for piece in [*language, *pieces]]

    def _texts(self, ids: list[list[int]]) -> list[str]:
        pieces = ([self.piece_of.get(one, "") for one in line] for line in ids)
        return [self.library.decode_pieces(line).replace("▁", " ").strip() for line in pieces]

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are pieces."""
        return int(self.content["sizes"][self.content["side"]])

    def _open(self) -> None:
        side = self.content["side"]
        self.id_of: Mapping[str, int] = json.loads(self.content["vocabularies"][side])
        self.piece_of = {one: piece for piece, one in self.id_of.items()}
        self.library = pieces_of(b64decode(self.content["models"][side]))

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its ``transformers_class``."""
        models = map(b64decode, self.content["models"])
        texts = map(str.encode, self.content["vocabularies"])
        return dict(zip((*SENTENCEPIECE, *VOCABULARIES), (*models, *texts), strict=False))

    def name_of(self, token: int) -> str | None:
        """The name of an id."""
        return self.piece_of.get(token)
