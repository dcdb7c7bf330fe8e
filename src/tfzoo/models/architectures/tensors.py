"""The tensors in a file of Hugging Face's ``transformers``, by the names that an architecture has
for them, and which of them were read.

Files differ in what they are called: those of an older ``transformers`` have no ``prefix``, which
the whole model puts before the names of its trunk, and ``gamma`` and ``beta`` for the weight and
bias of a norm. An architecture's file has, beside ``prefix``,

- ``copies``: names under which a file may hold a tensor, or one of several, a second time, which
  is then equal, or alone;
- ``saved_as``: names that ``save_pretrained`` writes in place of others;
- ``zero``: tensors that tfzoo's model has no place for, and that are added: they must be 0;
- ``unused``: patterns of tensors that change no output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase

from torch import Tensor

from tfzoo.errors import BadOption, listing
from tfzoo.models.architectures import architecture

OLD_NAMES = (("weight", "gamma"), ("bias", "beta"))


class Tensors(Mapping[str, Tensor]):
    """The tensors ``names`` of an architecture; ``read`` gives one by its name in the file."""

    def __init__(self, name: str, names: Collection[str], read: Callable[[str], Tensor]) -> None:
        self.architecture, self.names, self.read = architecture(name), frozenset(names), read
        self.copies = {
            name: [one] if isinstance(one, str) else one
            for name, one in self.architecture.copies.items()
        }
        self.seen: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.in_file(name) is not None

    def __getitem__(self, name: str) -> Tensor:
        found = self.in_file(name)
        if found is None:
            raise KeyError(name)
        self.seen.add(found)
        return self.read(found)

    def in_file(self, name: str) -> str | None:
        """The name in the file of what the architecture calls ``name``; None: it has none."""
        copies = [one for one, originals in self.copies.items() if name in originals]
        saved = self.architecture.saved_as.get(name, name)
        return next((other for one in (name, saved, *copies) for other in self.others(one)), None)

    def others(self, name: str) -> list[str]:
        """The names in the file by which one name may be meant."""
        prefix = f"{self.architecture.prefix}."
        found = [name, name.removeprefix(prefix)]
        for new, old in OLD_NAMES:
            if name.endswith(f".{new}"):
                found += [f"{one.removesuffix(new)}{old}" for one in found[:2]]
        return [one for one in found if one in self.names]

    def check_all_read(self) -> None:
        """Refuse a tensor that was not read, though it could change what a model computes.

        Raises:
            BadOption: naming it.
        """
        said, left = self.architecture, self.names - self.seen
        prefix = f"{said.prefix}."
        for copy, originals in self.copies.items():
            for name in left.intersection(self.others(copy)):
                sources = [one for one in map(self.in_file, originals) if one not in (None, name)]
                if any(self.same(name, one) for one in sources if one):
                    left -= {name}
        for zero in said.zero:
            left -= {name for name in self.others(zero) if not self.read(name).any()}
        for pattern in said.unused:
            left -= {
                name
                for name in left
                if fnmatchcase(name, pattern) or fnmatchcase(f"{prefix}{name}", pattern)
            }
        if left:
            raise BadOption(
                f"tfzoo's model has no place for {listing(sorted(left), 3)}: more layers, "
                "another head, tensors that should be equal and are not, or another architecture"
            )

    def same(self, first: str, second: str) -> bool:
        """Whether two tensors of the file are equal."""
        one, other = self.read(first), self.read(second)
        return one.shape == other.shape and bool((one == other).all())
