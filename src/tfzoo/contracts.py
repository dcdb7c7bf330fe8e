"""The interface of each kind of component.

One alphabet of shapes, in docstrings, einops patterns and tests::

    b batch   h heads   n tokens   q query tokens   k key tokens   d model width
    c width of one head   e width of one value head   v vocabulary

Masks are boolean and True means "real" or "may look". Positions are integers.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor, nn

from tfzoo.dropout import dropout as drop
from tfzoo.errors import BadComponent
from tfzoo.masks import Mask, check_type
from tfzoo.precision import at_least_fp32
from tfzoo.registry import Entry
from tfzoo.rotation import Rotation


class Component(nn.Module):
    """A registered module. :func:`tfzoo.register` sets ``entry``: name, paper, options, traits."""

    entry: ClassVar[Entry]


class Attention(Component):
    """Softmax attention: ``softmax(scores / temperature + bias) v``.

    Projections, heads, cache, rotation and the choice of temperature and dropout belong to the
    block around it. A variant writes :meth:`scores`, or, where part of the work depends on the key
    alone, :meth:`prepare_keys` and :meth:`prepared_scores`, so that a decoder does this work once
    per key. A variant with a faster way to the output overrides :meth:`forward`; a
    test holds it to its own scores.

    Raises:
        BadComponent: a class overrides :meth:`prepare_keys` without :meth:`prepared_scores`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        where = f"attention class {cls.__qualname__}"
        if "keys" in vars(cls):
            raise BadComponent(
                f"{where}: keys(k) is called prepare_keys(k) since tfzoo 0.2, and scores(q, k) "
                "takes plain keys: write prepare_keys(k) and prepared_scores(q, k)"
            )
        if "prepare_keys" in vars(cls) and "prepared_scores" not in vars(cls):
            raise BadComponent(
                f"{where}: it overrides prepare_keys, so it must override prepared_scores too"
            )

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """``(b h q c), (b h k c) -> (b h q k)``"""
        if type(self).prepared_scores is Attention.prepared_scores:
            raise NotImplementedError(f"{type(self).__qualname__}.scores(q, k)")
        return self.prepared_scores(q, self.prepare_keys(k))

    def prepare_keys(self, k: Tensor) -> Tensor:
        """The part of the work that depends on the key alone, each key by itself: ``(b h k c) ->
        (b h k *)``.
        """
        return k

    def prepared_scores(self, q: Tensor, k: Tensor) -> Tensor:
        """:meth:`scores` from keys that :meth:`prepare_keys` returned: ``(b h q c), (b h k *) -> (b
        h q k)``.
        """
        return self.scores(q, k)

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        *,
        mask: Mask,
        bias: Tensor | None = None,
        temperature: float = 1.0,
        keys_prepared: bool = False,
    ) -> Tensor:
        """The attention map, ``softmax(scores / temperature + bias)`` in fp32 or better: ``-> (b h
        q k)``; zeros for a query that may look at no key.
        """
        check_type("mask", mask)
        scores = self.prepared_scores(q, k) if keys_prepared else self.scores(q, k)
        scores = at_least_fp32(scores)
        if temperature != 1.0:
            scores = scores / temperature
        return mask.softmax(scores, bias)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask,
        bias: Tensor | None = None,
        temperature: float = 1.0,
        dropout: float = 0.0,
        keys_prepared: bool = False,
    ) -> Tensor:
        """``(b h q c), (b h k c), (b h k e) -> (b h q e)``.

        Args:
            mask: which query may look at which key.
            bias: added to the scores; broadcasts to ``(b h q k)``.
            temperature: divides the scores.
            dropout: probability in force, 0 outside training.
            keys_prepared: ``k`` is what :meth:`prepare_keys` returned, ``(b h k *)``.
        """
        weights = self.weights(
            q, k, mask=mask, bias=bias, temperature=temperature, keys_prepared=keys_prepared
        )
        return drop(weights.to(v.dtype), dropout) @ v


class Norm(Component):
    """``(b n d), (b n) -> (b n d)``. Statistics in fp32 or better; the output has the input's
    dtype.

    ``valid`` is True at real tokens, None where all are; only a norm that mixes tokens reads it.
    Traits: ``mixes_tokens:training`` (batch: running statistics afterwards),
    ``mixes_tokens:always`` (instance), and ``centres_texts``: the mean of the output over the
    tokens of a sequence is the same for every sequence.
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        raise NotImplementedError


class Position(Component):
    """Positional encoding. The model calls all three hooks; a component overrides those it needs.

    Positions are ``(1 n)`` for right-padded sequences and ``(b n)`` where they differ between rows.
    Traits: ``needs_length`` (:meth:`embed` needs the length of each sequence) and ``bounded``
    (every position must be under ``max_length``).
    """

    def embed(self, x: Tensor, pos: Tensor, length: Tensor | None = None) -> Tensor:
        """Before the first layer: ``(b n d), (b|1 n), (b 1) -> (b n d)``."""
        return x

    def angles(self, pos: Tensor) -> Rotation | None:
        """The rotation of queries and keys of self-attention, applied before the cache: ``(b|1
        n)``; in fp32 or better, also under autocast.
        """
        return None

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """Added to the scores of self-attention: ``(b|1 q), (b|1 k) -> (b|1 h q k)``; shared by all
        layers.
        """
        return None


class FeedForward(Component):
    """``(b n d) -> (b n d)``, each token by itself. ``dropout`` is the probability in force on the
    hidden layer.

    The trait ``identity`` says that the output is the input; a layer then has no such sublayer.
    """

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        raise NotImplementedError


class Pooling(Component):
    """``(b n d), (b n) -> (b d)``: one vector per sequence. A sequence of no token gives zeros.

    ``valid`` is True at real tokens, None where all are. Sums in fp32 or better; the output has the
    input's dtype. Traits: ``ordered`` (the output depends on the order of the tokens) and
    ``averages`` (it depends on nothing but their mean and number).
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        raise NotImplementedError


class Cache(Protocol):
    """What a decoder keeps between steps. Models provide it, search uses it."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows, in this order (may repeat): hypotheses that go on, beams that move."""

    def keep_batch(self, sentences: Tensor) -> None:
        """Keep these sentences of the source, in this order; called before rows of the others are
        dropped.
        """
