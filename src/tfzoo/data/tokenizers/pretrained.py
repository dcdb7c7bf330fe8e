"""The tokenizer of a published model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from tfzoo.base.registry import register
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.tokenizer import FILE, Compiled, loaded, sha256_of, state_of
from tfzoo.errors import BadOption, BadRun


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

    read: ClassVar[Any] = staticmethod(state_of)
    """The state of a folder's tokenizer."""
    content: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, *, folder: str | None = None, sha256: str | None = None) -> None:
        self.folder, self.sha256 = folder, sha256

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
