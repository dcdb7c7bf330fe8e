"""Subwords of the library SentencePiece, which published translators come with."""

from __future__ import annotations

import copy
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence

from tfzoo.base.loading import require
from tfzoo.base.registry import register
from tfzoo.data.tokenizer import SENTENCEPIECE, VOCABULARIES, pieces_of, sentencepiece_of
from tfzoo.data.tokenizers.pretrained import Pretrained


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
    read = staticmethod(sentencepiece_of)

    def __init__(self, *, folder: str | None = None, sha256: str | None = None) -> None:
        require("sentencepiece", "sentencepiece")
        super().__init__(folder=folder, sha256=sha256)

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
