"""The tokenizer of a published model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfzoo.base.registry import register
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.tokenizer import FILE, Published, loaded, state_of, state_with

OWN = ("<|padding|>", "<|endoftext|>")
"""The special tokens of a tokenizer that was trained here."""


@register("tokenizer", "pretrained")
class Pretrained(Published):
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

    smallest = 256 + len(OWN)
    read = staticmethod(state_of)

    def learnt(self, lines: Iterable[str]) -> str:
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

    def _ids(self, texts: Sequence[str]) -> Iterable[list[int]]:
        found = self._trained().encode_batch_fast(list(texts), add_special_tokens=False)
        return (encoding.ids for encoding in found)

    def __len__(self) -> int:
        """The size of the model's vocabulary, which may have more ids than there are tokens."""
        size: int = self.content["size"]
        return size

    def _open(self) -> None:
        self.library = loaded(self.content["library"])

    def files(self) -> dict[str, bytes]:
        """The files of which ``transformers`` makes a tokenizer of its ``transformers_class``."""
        return {FILE: self.content["library"].encode()}

    def name_of(self, token: int) -> str | None:
        """The name of an id."""
        name: str | None = self._trained().id_to_token(token)
        return name
