"""The interface of each kind of component.

One alphabet of shapes, in docstrings, einops patterns and tests::

    b batch   h heads   n tokens   q query tokens   k key tokens   d model width
    c width of one head   e width of one value head   v vocabulary

Masks are boolean: True means "not padding" or "may attend". Positions are integers. What each trait
says of a component is in :mod:`tfzoo.base.kinds`.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32, soft_cap
from tfzoo.base.functional import dropout as drop
from tfzoo.base.registry import Entry, NormSpec, create
from tfzoo.base.rotation import Rotation
from tfzoo.base.values import PLAIN
from tfzoo.errors import BadComponent, BadOption
from tfzoo.masks import Mask, Pairs, check_type, dense


class Component(nn.Module):
    """A registered module. :func:`tfzoo.register` sets ``entry``: name, paper, options, traits;
    :func:`tfzoo.create` sets ``built_for``: the sizes that it supplied.
    """

    entry: ClassVar[Entry]
    built_for: Mapping[str, int] = {}

    def extra_repr(self) -> str:
        """What it was built with, as far as it keeps it, and the shapes of its parameters."""
        entry = getattr(self, "entry", None)
        names = (*entry.supplied, *entry.options) if entry else ()
        kept = {name: vars(self)[name] for name in names if name in vars(self)}
        values = [
            f"{name}={value!r}"
            for name, value in kept.items()
            if value is not None and type(value) in PLAIN
        ]
        shapes = [f"{name}: {tuple(p.shape)}" for name, p in self.named_parameters(recurse=False)]
        return ", ".join(values + shapes)


def check_shape(part: nn.Module, name: str, x: Any, shape: tuple[int, ...]) -> None:
    """Check the shape ``(b h q k)`` of what a part of somebody's own has computed."""
    if getattr(x, "shape", None) != shape:
        came = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise BadComponent(
            f"class {type(part).__qualname__}: {name} must be (b h q k), here {shape}, not {came}"
        )


class Weighting(Component):
    """From scores to weights, by ``forward(scores, mask)``: ``(b h q k), mask -> (b h q k)``.

    Scores are in fp32 or better, and so are weights. The attention has applied temperature, soft
    cap and bias to them; a bias may be -inf, which hides a key as the mask does. Weights are
    exactly 0 at hidden keys, and a query that may look at no key has weights of 0 and finite
    gradients. Where a part divides by the number of keys, it is the number that the query may look
    at.
    """

    def __call__(self, scores: Tensor, mask: Mask | None = None) -> Tensor:
        """``mask`` None hides nothing.

        Raises:
            BadOption: ``mask`` is something else than a :class:`tfzoo.Mask`.
        """
        mask = Mask() if mask is None else mask
        check_type("mask", mask)
        weights: Tensor = super().__call__(scores, mask)
        check_shape(self, "weights", weights, (*scores.shape,))
        return weights


class Attention(Component):
    """Weighted sums of values: ``weighting(cap(scores / temperature) + bias) v``; the weighting is
    a softmax by default, and the soft cap is left out.

    Projections, heads, cache, rotation and the choice of temperature and dropout belong to the
    block around it. A variant writes :meth:`scores`, or, where part of the work depends on the key
    alone, :meth:`prepare_keys` and :meth:`prepared_scores`, so that a decoder does this work once
    per key. A variant with a faster way to softmax attention overrides
    :meth:`softmax_attention`; a test holds it to its own scores.

    Raises:
        BadComponent: a class overrides :meth:`prepare_keys` without :meth:`prepared_scores`, or
            :meth:`forward`.
    """

    alone: ClassVar[Mapping[str, Any]] = {"layer": 0}
    """What :func:`tfzoo.create` supplies where its caller does not."""
    fuses: ClassVar[bool] = False
    """Whether :meth:`softmax_attention` also takes a soft cap, ``cap``, and a ``bias`` that is
    :class:`~tfzoo.masks.Pairs`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own, where = vars(cls), f"attention class {cls.__qualname__}"
        if "forward" in own:
            raise BadComponent(
                f"{where}: it overrides forward, which also sees to caps, weightings and dropout: "
                "write scores(q, k), and softmax_attention where there is a faster way"
            )
        if "prepare_keys" in own and cls.prepared_scores is Attention.prepared_scores:
            raise BadComponent(
                f"{where}: it overrides prepare_keys, so it must override prepared_scores too"
            )

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """``(b h q c), (b h k c) -> (b h q k)``"""
        if type(self).prepared_scores is Attention.prepared_scores:
            raise BadComponent(f"attention class {type(self).__qualname__}: write scores(q, k)")
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
        mask: Mask | None = None,
        bias: Tensor | Pairs | None = None,
        temperature: float = 1.0,
        cap: float | None = None,
        weighting: Weighting | None = None,
        keys_prepared: bool = False,
    ) -> Tensor:
        """The attention map, ``weighting(cap(scores / temperature) + bias)`` in fp32 or better:
        ``-> (b h q k)``; zeros for a query that may look at no key.
        """
        mask = Mask() if mask is None else mask
        check_type("mask", mask)
        scores = self.prepared_scores(q, k) if keys_prepared else self.scores(q, k)
        check_shape(self, "scores", scores, (*q.shape[:3], k.shape[2]))
        scores = at_least_fp32(scores)
        bias = dense(bias, scores.shape[-2], scores.shape[-1], scores.device)
        if temperature != 1.0:
            scores = scores / temperature
        if cap is not None:
            scores = soft_cap(scores, cap)
        if weighting is None:
            return mask.softmax(scores, bias)
        return weighting(scores if bias is None else scores + bias, mask)

    def combine(self, weights: Tensor, v: Tensor) -> Tensor:
        """The output from weights and values, ``weights v``: ``(b h q k), (b h k e) -> (b h q
        e)``.
        """
        return weights @ v

    def softmax_attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask,
        bias: Tensor | None,
        temperature: float,
        dropout: float,
    ) -> Tensor:
        """:meth:`forward` for softmax weights without a cap; ``k`` is what :meth:`prepare_keys`
        returned. To be overridden where there is a faster way than weights and :meth:`combine`;
        an override may take more, as :attr:`fuses` says.
        """
        weights = self.weights(
            q, k, mask=mask, bias=bias, temperature=temperature, keys_prepared=True
        )
        return self.combine(drop(weights.to(v.dtype), dropout), v)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        bias: Tensor | Pairs | None = None,
        temperature: float = 1.0,
        dropout: float = 0.0,
        cap: float | None = None,
        weighting: Weighting | None = None,
        keys_prepared: bool = False,
    ) -> Tensor:
        """``(b h q c), (b h k c), (b h k e) -> (b h q e)``.

        Args:
            mask: which query may look at which key; None: each at all. Hidden keys and values must
                be finite, as a weight of 0 times NaN is NaN; stacks and layers see to it.
            bias: added to the scores; broadcasts to ``(b h q k)``, or is a function of indices.
            temperature: divides the scores.
            dropout: probability in force, 0 outside training.
            cap: the limit of a soft cap on the scores; None: no cap.
            weighting: from scores to weights; None: softmax.
            keys_prepared: ``k`` is what :meth:`prepare_keys` returned, ``(b h k *)``.

        Raises:
            BadOption: heads are not split, or of another number or width than it was made for, or
                ``mask`` or ``weighting`` is something else or does not fit.
            BadComponent: scores or weights are not ``(b h q k)``.
        """
        mask = Mask() if mask is None else mask
        check_type("mask", mask)
        if q.ndim != 4:
            raise BadOption(
                f"queries must be (b h q c), not {tuple(q.shape)}: split the heads, or use the "
                "mixer 'multihead', which has the projections too"
            )
        for key, size in (("heads", q.shape[1]), ("head_dim", q.shape[3])):
            if self.built_for.get(key, size) != size:
                raise BadOption(
                    f"attention {self.entry.name!r} was made with {key}={self.built_for[key]}, and "
                    f"queries (b h q c) are {tuple(q.shape)}: its {key} must be {size}"
                )
        if k.shape[:-1] != v.shape[:-1]:
            shapes = f"{tuple(k.shape)} and {tuple(v.shape)}"
            raise BadOption(f"keys and values must be of the same tokens, not {shapes}")
        mask.check_fits(*q.shape[:2])
        if weighting is not None and not callable(weighting):
            raise BadOption(
                f'weighting must be a module, tfzoo.create("weighting", ...), not {weighting!r}'
            )
        k = k if keys_prepared else self.prepare_keys(k)
        given: dict[str, Any] = {"bias": bias, "cap": cap}
        if not self.fuses:
            given = {"bias": dense(bias, q.shape[-2], k.shape[-2], q.device)}
        if weighting is None and (cap is None or self.fuses):
            return self.softmax_attention(
                q, k, v, mask=mask, temperature=temperature, dropout=dropout, **given
            )
        weights = self.weights(
            q,
            k,
            mask=mask,
            bias=bias,
            temperature=temperature,
            cap=cap,
            weighting=weighting,
            keys_prepared=True,
        )
        return self.combine(drop(weights.to(v.dtype), dropout), v)


def value_matrices(sublayer: nn.Module) -> list[Tensor]:
    """The matrices that values pass on their way through a sublayer, whole parameters, which a
    residual connection may scale at the start as ``deepnorm`` does: what the sublayer's method of
    this name gives, or else all of its parameters of two or more axes.

    A sublayer writes the method where some of its matrices make scores, gates or choices instead,
    as queries, keys and routers do.
    """
    declared = getattr(sublayer, "value_matrices", None)
    if declared is not None:
        return list(declared())
    return [one for one in sublayer.parameters() if one.dim() > 1]


def check_tokens(part: Component, x: Tensor, valid: object) -> None:
    """Check the width of tokens ``(b n d)``, and that ``valid`` is None or boolean ``(b n)``."""
    dim = part.built_for.get("dim", x.shape[-1])
    if dim != x.shape[-1]:
        where = f"{part.entry.kind} {part.entry.name!r}"
        raise BadOption(f"{where} was made with dim={dim}, and its input is {tuple(x.shape)}")
    if valid is None:
        return
    if not isinstance(valid, Tensor) or valid.dtype != torch.bool or valid.shape != x.shape[:2]:
        size = f" {tuple(valid.shape)}" if isinstance(valid, Tensor) else ""
        kind = valid.dtype if isinstance(valid, Tensor) else type(valid).__name__
        raise BadOption(
            f"what is padding must be a boolean tensor (b n), here {tuple(x.shape[:2])}, True at "
            f"tokens, not {kind}{size}"
        )


class Norm(Component):
    """``(b n d), (b n) -> (b n d)``, by ``forward(x, valid=None)``. Statistics in fp32 or better;
    the output has the input's dtype.

    ``valid`` is False at padding, None without padding; only a norm that mixes tokens reads it.
    """

    def __call__(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        check_tokens(self, x, valid)
        y: Tensor = super().__call__(x, valid)
        return y


class Residual(Component):
    """A residual connection and a norm around a sublayer: ``(b n d), (b n) -> (b n d)``.

    A part says where its norm stands, :attr:`norm`, by ``forward(x, valid=None, *args)``, which
    passes ``args`` to :meth:`branch`. Supplied are also where it stands itself: the
    index ``layer`` of ``layers``; ``cross``, whether the stack reads the memory of an encoder;
    ``decoder_layers``, the number of layers of the decoder that reads this encoder, 0 if none does.
    :meth:`branch` is ``f`` in formulas. Of how the sublayer starts, a part may scale what
    :func:`value_matrices` gives.

    Args:
        inner: the sublayer, called with the tokens and further arguments.
        dropout: dropout probability of the sublayer's output, in training mode.
        dim: the width ``d``.
        norm: the name and the options of the norm.
    """

    alone: ClassVar[Mapping[str, Any]] = {
        "dropout": 0.0,
        "layer": 0,
        "layers": 1,
        "cross": False,
        "decoder_layers": 0,
    }
    """What :func:`tfzoo.create` supplies where its caller does not."""

    def __init__(self, inner: nn.Module, dropout: float, dim: int, norm: NormSpec) -> None:
        super().__init__()
        made_for = getattr(inner, "built_for", {}).get("dim", dim)
        if made_for != dim:
            raise BadOption(
                f"inner was made with dim={made_for}, its residual connection with {dim}"
            )
        self.inner = inner
        self.dropout = dropout
        self.norm: Norm = create("norm", norm, dim=dim)

    def __call__(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        """``(b n d), (b n) -> (b n d)``; ``valid`` is False at padding. ``args`` are passed to the
        sublayer; a mixer that gets none of them gets the mask, so that no token sees padding.
        """
        if valid is not None and not args and getattr(type(self.inner), "mixes_tokens", False):
            args = (Mask(keys=valid),)
        y: Tensor = super().__call__(x, valid, *args)
        return y

    def branch(self, x: Tensor, *args: Any) -> Tensor:
        """The sublayer and its dropout: ``(b n d) -> (b n d)``."""
        return drop(self.inner(x, *args), self.dropout if self.training else 0.0)


class Position(Component):
    """Positional encoding. The model calls all three hooks; a component overrides those it needs.

    Positions are ``(1 n)`` for right-padded sequences and ``(b n)`` where they differ between rows;
    alone, also ``(n)``.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raises BadOption, which says which hooks to call instead."""
        raise BadOption(
            f"position {self.entry.name!r} is not called, its hooks are, with pos = "
            "torch.arange(n): x = position.embed(x, pos); rotation = position.angles(pos), then "
            "rotation(q) and rotation(k); bias = position.bias(pos, pos), added to the scores"
        )

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
    """``(b n d) -> (b n d)``, each token by itself, by ``forward(x, dropout=0.0)``: ``dropout`` is
    the probability in force on the hidden layer. :func:`value_matrices` says which method it may
    have beside it.

    With the trait ``auxiliary_loss``, it also takes ``valid`` ``(b n)``, False at padding, None
    without padding, and in training mode it sets :attr:`auxiliary_loss`.
    """

    auxiliary_loss: Tensor | None = None
    """To be added to the training loss, ``()``: what the last call in training mode set."""
    expert_share: Tensor | None = None
    """The share of the tokens that each expert took in that call: ``(experts)``."""

    __call__: Callable[..., Tensor]  # what torch leaves open


class Pooling(Component):
    """``(b n d), (b n) -> (b d)``, by ``forward(x, valid=None)``: one vector per sequence. A
    sequence of no token gives zeros.

    ``valid`` is False at padding, None without padding. Sums in fp32 or better; the output has the
    input's dtype. ``forward`` may return anything for a sequence of no token, and gets at least
    one place to read, if need be of padding.
    """

    def __call__(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        check_tokens(self, x, valid)
        if not x.shape[1]:
            x, valid = F.pad(x, (0, 0, 0, 1)), x.new_zeros(x.shape[0], 1, dtype=torch.bool)
        y: Tensor = super().__call__(x, valid)
        return y if valid is None else y.masked_fill(~valid.any(1, keepdim=True), 0.0)

    def token_index(self, x: Tensor, valid: Tensor | None = None) -> Tensor | None:
        """Of ``x`` ``(b n *)``, the index of the one token of each text that is read: ``(b)``; None
        where more may be. A model computes its last feed-forward sublayer for that token alone.
        """
        return None
