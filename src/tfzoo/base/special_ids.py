"""The ids that no text is encoded as: padding, the begin and the end of a text, and others."""

from dataclasses import dataclass

from tfzoo.base.values import Named
from tfzoo.errors import BadOption


@dataclass(frozen=True)
class SpecialIds(Named):
    """The special ids of a tokenizer, ``tokenizer.special``.

    >>> bert = SpecialIds(pad=0, unk=100, bos=101, cls=101, eos=102, mask=103)
    >>> sorted(bert.every)
    [0, 100, 101, 102, 103]
    >>> SpecialIds(pad=0, bos=0, eos=1).start
    0

    Args:
        pad: fills short rows of a batch, and may be an id of another meaning: a batch says which of
            its tokens are real. None where a tokenizer has none, such as GPT-2's: ``eos`` fills.
        unk: stands for what the vocabulary lacks; None: it lacks nothing.
        bos: begins a document, and what a decoder writes.
        eos: ends a text.
        mask: stands for a token that is to be found.
        cls: begins a text that an encoder reads; None: nothing does.
        sep: the ids between two texts that are read as one; by default ``eos``.
        decoder_start: what a decoder of translations reads first, where that is not ``bos``.
        forced_bos: what a decoder of translations writes first, whatever its logits: the language
            of mBART. None: what it likes.
        also_eos: other ids at which search and generation end.
        prompt_bos: a text that is to be continued begins with ``bos``, too; GPT-2's do not.

    Raises:
        BadOption: an id is no whole number from 0 on.
    """

    pad: int | None
    bos: int
    eos: int
    unk: int | None = None
    mask: int | None = None
    cls: int | None = None
    sep: tuple[int, ...] = ()
    decoder_start: int | None = None
    forced_bos: int | None = None
    also_eos: tuple[int, ...] = ()
    prompt_bos: bool = True

    def __post_init__(self) -> None:
        for name, ids in vars(self).items():
            if name == "prompt_bos":
                continue
            for one in ids if isinstance(ids, tuple) else (ids,):
                if not (one is None or (type(one) is int and one >= 0)):
                    raise BadOption(f"special id {name} must be a whole number from 0 on: {one!r}")
        if self.sep == ():
            object.__setattr__(self, "sep", (self.eos,))

    @property
    def fill(self) -> int:
        """What fills short rows: ``pad``, or ``eos`` where there is no padding."""
        return self.eos if self.pad is None else self.pad

    @property
    def unpredicted(self) -> int | None:
        """The id of padding, if it has no other meaning that a model has to predict."""
        return None if self.pad in (*self.ends, self.unk, self.mask) else self.pad

    @property
    def start(self) -> int:
        """What a decoder of translations reads first."""
        return self.bos if self.decoder_start is None else self.decoder_start

    @property
    def before_target(self) -> list[int]:
        """What stands before a translation that a decoder learns: ``start``, and what is forced."""
        return [self.start, *([] if self.forced_bos is None else [self.forced_bos])]

    @property
    def frame(self) -> int:
        """The special tokens around a text that an encoder reads."""
        return 1 if self.cls is None else 2

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids at which search and generation end."""
        return (self.eos, *self.also_eos)

    @property
    def never(self) -> frozenset[int]:
        """What search never writes: padding and ``start``, unless a text ends with it."""
        return frozenset({self.fill, self.start}) - {*self.ends}

    @property
    def every(self) -> frozenset[int]:
        """All special ids."""
        kept = (self.pad, self.unk, self.mask, self.cls, self.decoder_start)
        known = {one for one in kept if one is not None}
        return frozenset({self.bos, *self.ends, *self.sep, *known})

    def ordinary(self, count: int) -> list[int]:
        """The first ``count`` ids that are not special."""
        return [one for one in range(count + len(self.every)) if one not in self.every][:count]


OWN = SpecialIds(pad=0, unk=1, bos=2, eos=3)
"""Those of tfzoo's own tokenizers, which give all other tokens the ids from 4 on."""
