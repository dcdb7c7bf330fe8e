"""Subwords of the library SentencePiece, which published translators come with."""

from __future__ import annotations

import copy
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import cast

from tfzoo.base.loading import require
from tfzoo.base.registry import register
from tfzoo.base.special_ids import OWN
from tfzoo.data.tokenizer import (
    SENTENCEPIECE,
    VOCABULARIES,
    pieces_of,
    sentencepiece_of,
    state_with,
)
from tfzoo.data.tokenizers.pretrained import Pretrained
from tfzoo.errors import BadOption

LONGEST_LINE = 2**20
"""The most bytes of a line that training reads; the library leaves longer ones out."""


@register("tokenizer", "sentencepiece", paper="arXiv:1808.06226")
class SentencePiece(Pretrained):
    """The pieces of the library SentencePiece (Kudo and Richardson 2018), with the ids of a
    published model: ``source.spm``, ``target.spm`` and ``vocab.json`` (and ``target_vocab.json``,
    where each language has its own ids) of Marian's translators, in a ``folder``.

    Text becomes the same ids as in ``transformers``; a text for Marian may begin with the language
    that it is to be translated to, ``>>fra<<``. Without a ``folder``, a unigram model of at most
    ``vocab_size`` pieces is trained; its pieces leave text as it is, and bytes stand for what is no
    piece. "▁" (U+2581) becomes a space. With ``sha256``, a folder whose tokenizer has another sum
    is refused. Needs ``tfzoo[sentencepiece]``.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million,
            or too small for the characters of the text.
        BadRun: the folder has no such files, or they are damaged or others.
        TfzooError: the library is not installed.
    """

    transformers_class = "MarianTokenizer"
    smallest = 4 + 256
    """The special ids and the bytes that stand for what is no piece."""
    read = staticmethod(sentencepiece_of)
    id_of: Mapping[str, int] | None = None

    def __init__(
        self, *, folder: str | None = None, sha256: str | None = None, vocab_size: int = 8000
    ) -> None:
        require("sentencepiece", "sentencepiece")
        super().__init__(folder=folder, sha256=sha256, vocab_size=vocab_size)

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

    def learnt(self, lines: Iterable[str]) -> str:
        model = trained(lines, self.vocab_size)
        size = pieces_of(model).get_piece_size()
        models = [b64encode(model).decode()]
        return state_with(OWN, models=models, vocabularies=[], sizes=[size], side=0)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        library, id_of = self.library, self.id_of
        if id_of is None:
            return cast(list[list[int]], library.encode(list(texts), out_type=int))
        return [self._in(id_of, text) for text in texts]

    def _in(self, id_of: Mapping[str, int], text: str) -> list[int]:
        """The ids of a line in a vocabulary that is not the library's."""
        end = text.find("<<") + 2 if text.startswith(">>") else 0
        language = [text[:end]] if end > 1 else []
        pieces = self.library.encode(text[end:] if language else text, out_type=str)
        return [id_of.get(piece, id_of["<unk>"]) for piece in [*language, *pieces]]

    def _texts(self, ids: list[list[int]]) -> list[str]:
        library = self.library
        if self.id_of is None:
            size = library.get_piece_size()
            return [library.decode([one for one in line if one < size]) for line in ids]
        pieces = ([self.piece_of.get(one, "") for one in line] for line in ids)
        return [library.decode_pieces(line).replace("▁", " ").strip() for line in pieces]

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are pieces."""
        return int(self.content["sizes"][self.content["side"]])

    def _open(self) -> None:
        side, texts = self.content["side"], self.content["vocabularies"]
        self.id_of = json.loads(texts[side]) if texts else None
        self.piece_of = {one: piece for piece, one in (self.id_of or {}).items()}
        self.library = pieces_of(b64decode(self.content["models"][side]))

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its class
        ``transformers_class``; none without a vocabulary beside them.
        """
        if self.id_of is None:
            return {}
        models = map(b64decode, self.content["models"])
        texts = map(str.encode, self.content["vocabularies"])
        return dict(zip((*SENTENCEPIECE, *VOCABULARIES), (*models, *texts), strict=False))

    def name_of(self, token: int) -> str | None:
        """The name of an id."""
        return self.piece_of.get(token)


def trained(lines: Iterable[str], size: int) -> bytes:
    """A unigram model, as the library writes it."""
    from sentencepiece import SentencePieceTrainer

    written = BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=LONGEST_LINE,
            num_threads=1,  # sums of several have no fixed order
            minloglevel=2,
            pad_id=OWN.pad,
            unk_id=OWN.unk,
            bos_id=OWN.bos,
            eos_id=OWN.eos,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2] or str(error)
        raise BadOption(f"tokenizer 'sentencepiece', vocab_size {size:,}: {reason}") from None
    return written.getvalue()
