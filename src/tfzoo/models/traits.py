"""Facts about components, from their traits and from the methods that they override."""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress

from tfzoo.base.registry import Entry, registry
from tfzoo.contracts import Position
from tfzoo.errors import BadComponent, listing


def names_that_fit(kind: str, fits: Callable[[Entry], bool]) -> str:
    """The names of all components of a kind for which ``fits`` is true, joined by commas. A
    component of another package that cannot be loaded is left out.
    """
    found = []
    for name in registry(kind).names():
        with suppress(BadComponent):
            found += [name] if fits(registry(kind).entry(name)) else []
    return listing(found)


def rotates(position: Entry) -> bool:
    """Whether a positional encoding rotates queries and keys."""
    return getattr(position.cls, "angles", None) is not Position.angles


def acts_on_scores(position: Entry) -> bool:
    """Whether a positional encoding rotates queries and keys, or adds to scores."""
    return rotates(position) or getattr(position.cls, "bias", None) is not Position.bias


def mixes_tokens(norm: Entry) -> bool:
    """Whether the output of a norm at one token depends on other tokens."""
    return any(trait.startswith("mixes_tokens") for trait in norm.traits)


def reads_any_mask(mixer: Entry) -> bool:
    """Whether a mixer hides from each token what a mask hides, or mixes no tokens."""
    return bool(mixer.traits & {"attends", "identity"})


def options_read(mixer: Entry) -> Set[str]:
    """The options of attention that a mixer reads."""
    reads: Set[str] = getattr(mixer.cls, "reads", frozenset())
    return reads


def has_auxiliary_loss(feedforward: Entry) -> bool:
    """Whether a feed-forward layer adds a loss of its own, over non-padding tokens."""
    return "auxiliary_loss" in feedforward.traits


def embeds(position: Entry) -> bool:
    """Whether a positional encoding adds to the embeddings."""
    return getattr(position.cls, "embed", None) is not Position.embed
