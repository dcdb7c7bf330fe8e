"""The tokenizer of a published model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from tfzoo.base.registry import register
from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.values import check_range
from tfzoo.data.tokenizer import FILE, LARGEST, Compiled, loaded, sha256_of, state_of, state_with
from tfzoo.errors import BadRun

OWN = ("<|padding|>", "<|endoftext|>")
"""The special tokens of a tokenizer that was trained here."""


@register("tokenizer", "pretrained")
class Pretrained(Compiled):
    """The tokenizer of a published model, with its ids: ``tokenizer.json`` in a ``folder`` that
    ``save_pretrained`` of ``transformers`` wrote; of other files the library ``transformers``
    makes it.

    Text becomes the same ids as there; those of padding, begin, end, mask and separators are used
    as they are. What a text gives back depends on the tokenizer: BERT's adds spaces. A text that
    spells the name of a special token is encoded as any other text. Without a ``folder``, a
    byte-level BPE of ``vocab_size`` tokens is trained, as GPT-2's was (Radford et al. 2019, section
    2.2). With ``sha256``, a folder whose tokenizer or special ids have another sum is refused.

    Raises:
        BadOption: ``vocab_size`` is under 258 (256 bytes and two special ids) or over 10 million.
        BadRun: the folder has no tokenizer, or it is damaged or another one.
    """

    transformers_class = "PreTrainedTokenizerFast"

    smallest: ClassVar[int] = 256 + len(OWN)
    """The smallest vocabulary that is learnt."""
    read: ClassVar[Any] = staticmethod(state_of)
    """The state of a folder's tokenizer."""
    content: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, *, folder: str | None = None, sha256: str | None = None, vocab_size: int = 8000
    ) -> None:
        name = f"tokenizer {self.entry.name!r}, option 'vocab_size'"
        check_range(name, vocab_size, ge=self.smallest, le=LARGEST, whole=True)
        self.folder, self.sha256, self.vocab_size = folder, sha256, vocab_size

    def train(self, lines: Iterable[str]) -> None:
        """Read the folder; without one, choose the vocabulary from these lines.

        Raises:
            BadRun: the folder's tokenizer has another sum than ``sha256``.
        """
        if self.folder is None:
            state = self.learnt(lines)
        else:
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

    def learnt(self, lines: Iterable[str]) -> str:
        """The state of a tokenizer with a vocabulary from these lines."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        fresh = Tokenizer(models.BPE())
        fresh.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        fresh.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=list(OWN),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        fresh.train_from_iterator(lines, trainer)
        special = SpecialIds(pad=0, bos=1, eos=1)
        return state_with(special, library=fresh.to_str(), size=fresh.get_vocab_size())

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are tokens."""
        return int(self.content["size"])

    def _open(self) -> None:
        """Make the library's tokenizer of the :attr:`content` of a state."""
        self.library = loaded(self.content["library"])

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its ``transformers_class``."""
        return {FILE: self.content["library"].encode()}
