"""The interface of a mixer, the sublayer that mixes tokens: self-attention or a replacement."""

from collections.abc import Mapping, Set
from typing import Any, ClassVar

import torch
from torch import Tensor

from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.inputs import check_tokens
from tfzoo.models.options import StackOptions
from tfzoo.models.rules import names_that_fit, reads_any_mask


class Mixer(Component):
    """Mixes the tokens of a sequence: ``(b n d) -> (b n d)``, by ``forward(x, context, layer)``.
    Supplied are ``dim``, ``options``
    (:class:`~tfzoo.models.options.StackOptions`), ``causal``, and the index ``layer`` of
    ``layers``.

    Outputs at other tokens must not depend on padding
    (:meth:`~tfzoo.models.context.Context.non_padding`) nor, in a causal stack, on later tokens. To
    decode token by token, a mixer stores what it needs of earlier tokens in
    ``context.cache.target[layer]``, a :class:`~tfzoo.models.context.LayerCache`.
    :func:`~tfzoo.contracts.value_matrices` says which method it may have beside ``forward``.

    A stack calls a mixer with the context of its layers. Alone, it is called with tokens, and a
    mask where there is padding:

    >>> import tfzoo, torch
    >>> mixer, x = tfzoo.create("mixer", "gru", dim=8, causal=True), torch.randn(2, 3, 8)
    >>> mixer(x, mask=tfzoo.Mask(keys=torch.tensor([[True] * 3, [True, True, False]]))).shape
    torch.Size([2, 3, 8])
    """

    alone: ClassVar[Mapping[str, Any]] = {"causal": False, "layer": 0, "layers": 1}
    """What :func:`tfzoo.create` supplies where its caller does not."""

    reads: ClassVar[Set[str]] = frozenset()
    """The options of attention that its constructor reads in ``options``. A model in which nothing
    reads such an option refuses a value other than the default.
    """

    @classmethod
    def gather(cls, supplied: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of :func:`tfzoo.create`, with options of attention in ``options``:
        ``heads=4`` is ``options=StackOptions(heads=4)``.
        """
        options = {key: value for key, value in supplied.items() if key in cls.reads}
        rest = {key: value for key, value in supplied.items() if key not in options}
        return {**rest, "options": rest.get("options", StackOptions()).updated(options)}

    mixes_tokens: ClassVar[bool] = True
    """A residual connection around it passes the padding mask on."""

    causal: bool = False
    """Whether it was built so that tokens see no later ones; set by the constructor."""

    def __call__(
        self,
        x: Tensor,
        context: Context | Mask | None = None,
        layer: int = 0,
        *,
        mask: Mask | None = None,
    ) -> Tensor:
        """``(b n d) -> (b n d)``. Outputs at padding are without meaning.

        Args:
            context: what the layers of a stack share; None, or the mask, outside one.
            layer: the index of the layer in the cache.
            mask: outside a stack. ``Mask(keys=non_padding)``, boolean ``(b n)``; mixers with the
                trait ``attends`` take any mask. None: no padding.

        Raises:
            BadOption: a shape does not fit, or the mixer cannot read this mask.
        """
        if not isinstance(context, Context):
            if context is not None and mask is not None:
                raise BadOption("two masks: pass one, by position or as mask=")
            context = self.context(x, mask if context is None else context)
        y: Tensor = super().__call__(x, context, layer)
        return y

    def context(self, x: Tensor, mask: Mask | None) -> Context:
        """The context of a mixer alone, without positional encoding and cache."""
        mask = Mask() if mask is None else mask
        dim = self.built_for.get("dim", x.shape[-1])
        check_tokens(x, dim, self.causal or getattr(mask, "causal", False), mask, None)
        if not reads_any_mask(self.entry):
            if mask.causal and not self.causal:
                never = "bidirectional" in self.entry.traits
                raise BadOption(
                    f"a causal mask, but mixer {self.entry.name!r} was built to read later tokens: "
                    + ("use another one" if never else "create one with causal=True")
                )
            if mask.allowed is not None:
                raise BadOption(
                    f"mixer {self.entry.name!r} cannot hide tokens as mask.allowed says: use "
                    + names_that_fit("mixer", reads_any_mask)
                )
        place = torch.arange(x.shape[1], device=x.device)[None]
        return Context(Mask(mask.causal or self.causal, mask.keys, 0, mask.allowed), place, place)
