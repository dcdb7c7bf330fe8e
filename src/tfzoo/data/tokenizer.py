"""The interface of a tokenizer, and the pair of tokenizers that a translator uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tfzoo.base.registry import Spec, create
from tfzoo.base.special_ids import SpecialIds
from tfzoo.errors import BadOption, BadRun, TfzooError


class Tokenizer(Protocol):
    """Text to ids and back. A component of kind ``tokenizer`` in ``data/tokenizers/``; its
    constructor takes options only.

    ``decode(encode([line])) == [line]`` up to Unicode's normal form NFC. No text is encoded as one
    of the special ids, not even one that spells their names; only a tokenizer with a closed
    vocabulary gives the unknown one.

    It may have a method ``remarks() -> list[str]``: what to print before training about the
    vocabulary that it has chosen; and ``of_target() -> Tokenizer``: that of the language that is
    translated to, where text of both is not cut alike, with ``own_ids_of_target: bool``.
    """

    @property
    def special(self) -> SpecialIds:
        """The ids of padding, begin, end and others, which data, models, search and exports take
        from here.
        """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines. They can be iterated once."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS. Many lines in one call are faster than many
        calls. An empty line has no ids.
        """

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped."""

    def __len__(self) -> int:
        """The size of the vocabulary, including the special ids."""

    def state(self) -> str:
        """Everything that :meth:`train` has chosen, as text."""

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
    """The tokenizer of a spec, from a state that a stranger may have written.

    Raises:
        BadRun: it cannot be used.
    """
    tokenizer: Tokenizer = create("tokenizer", spec)
    with of_a_stranger("the checkpoint's contents do not match: its tokenizer"):
        tokenizer.restore(state)
        tokenizer.decode(tokenizer.encode(["one two", ""]))
        len(tokenizer)
        if hasattr(tokenizer, "of_target"):
            tokenizer.of_target()
    return tokenizer


@contextmanager
def of_a_stranger(called: str) -> Iterator[None]:
    """Say in one line what is wrong with what is ``called`` so and given to a library.

    Raises:
        BadRun: the library fails.
    """
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

    ``source_language`` and ``target_language`` are codes such as ``"en"``, ``"de"``, ``"zh-CN"``;
    the target's decides which of its tokenizers sacreBLEU uses. ``spec`` is the name and the
    options of both tokenizers.

    Raises:
        BadOption: the tokenizers have different special ids.
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
        if not self.joint and self.source.special != self.target.special:
            raise BadOption(
                "the tokenizers of source and target have different special ids: "
                f"{self.source.special} and {self.target.special}"
            )

    @property
    def special(self) -> SpecialIds:
        """The special ids of both."""
        return self.target.special

    def state(self) -> dict[str, Any]:
        """Plain values from which :meth:`restore` builds the pair; part of every checkpoint."""
        tokenizers = [self.source] if self.joint else [self.source, self.target]
        return {
            "languages": [self.source_language, self.target_language],
            "tokenizer": self.spec if isinstance(self.spec, str) else dict(self.spec),
            "states": [tokenizer.state() for tokenizer in tokenizers],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> TokenizerPair:
        """Build the pair from its :meth:`state`; needs neither text nor cache."""
        spec, texts, languages = state["tokenizer"], state["states"], state["languages"]
        two = isinstance(languages, list) and len(languages) == 2
        if len(texts) not in (1, 2) or not (two and all(isinstance(one, str) for one in languages)):
            raise BadRun(
                "the checkpoint's contents do not match: a pair has one or two tokenizers, and two "
                "languages"
            )
        source, target = languages
        tokenizers = [restored(spec, text) for text in texts]
        return cls(tokenizers[0], tokenizers[-1], source, target, spec)
