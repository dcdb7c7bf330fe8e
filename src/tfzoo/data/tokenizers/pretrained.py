"""The tokenizer of a published model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tfzoo.base.registry import register
from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.values import check_range
from tfzoo.data import published_tokenizer
from tfzoo.data.library import LARGEST, LINE_ENDS, Compiled, loaded

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

    def __init__(
        self, *, folder: str | None = None, sha256: str | None = None, vocab_size: int = 8000
    ) -> None:
        name = "tokenizer 'pretrained', option 'vocab_size'"
        check_range(name, vocab_size, ge=256 + len(OWN), le=LARGEST, whole=True)
        self.folder, self.sha256, self.vocab_size = folder, sha256, vocab_size
        self.text, self.size = "", 0
        self.ids: SpecialIds | None = None

    @property
    def special(self) -> SpecialIds:
        """The special ids of the published model."""
        self._trained()
        return self.ids or SpecialIds(pad=0, bos=1, eos=1)

    def train(self, lines: Iterable[str]) -> None:
        """Read the folder; without one, choose the vocabulary from these lines."""
        if self.folder is not None:
            state = published_tokenizer.state_of(Path(self.folder).expanduser())
            self.restore(published_tokenizer.check_sum(state, self.sha256, self.folder))
            return
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
        text = published_tokenizer.text_of_state(fresh.to_str(), special, fresh.get_vocab_size())
        self.restore(text)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without those of :attr:`special` but the unknown one."""
        found = self._trained().encode_batch_fast(list(texts), add_special_tokens=False)
        never = self.special.every - {self.special.unk}
        return [[one for one in encoding.ids if one not in never] for encoding in found]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids, without special ones; a line end becomes a space."""
        special = self.special.every
        kept = [[one for one in line if one not in special] for line in ids]
        return [LINE_ENDS.sub(" ", text) for text in self._trained().decode_batch(kept)]

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are tokens."""
        self._trained()
        return self.size

    def state(self) -> str:
        """The text of ``tokenizer.json``, with special ids and size."""
        self._trained()
        return published_tokenizer.text_of_state(self.text, self.special, self.size)

    def restore(self, state: str) -> None:
        self.text, self.ids, self.size = published_tokenizer.parts_of_state(state)
        self.library = loaded(self.text)

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its ``transformers_class``."""
        self._trained()
        return {published_tokenizer.FILE: self.text.encode()}

    def name_of(self, token: int) -> str | None:
        """The name of an id."""
        name: str | None = self._trained().id_to_token(token)
        return name
