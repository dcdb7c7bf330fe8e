"""A decoder-only language model (Radford et al. 2018), built from components."""

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.functional import soft_cap
from tfzoo.base.linear import linear
from tfzoo.base.values import check_range
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.constructor import with_stack_options
from tfzoo.models.context import DecoderCache
from tfzoo.models.embedding import Embedding
from tfzoo.models.initialise import reset_output
from tfzoo.models.inputs import check_ids, check_step
from tfzoo.models.options import StackOptions
from tfzoo.models.stack import Stack


class LanguageModel(nn.Module):
    """An embedding, a decoder without memory, and an output projection: the logits of the next
    token after each token. :func:`tfzoo.generate` continues a text.

    >>> import tfzoo, torch
    >>> model = LanguageModel(8000, dim=64, heads=4, layers=2, norm="rms", position="rotary").eval()
    >>> text = torch.randint(4, 8000, (2, 7))
    >>> model(text).shape
    torch.Size([2, 7, 8000])
    >>> tfzoo.generate(model, text, max_new_tokens=5).shape
    torch.Size([2, 5])

    Args:
        vocab_size: number of token ids.
        dim: width of the model.
        heads, layers, attention, ..., max_length: see :class:`tfzoo.models.options.StackOptions`.
        like: the name of an architecture (``tfzoo architectures``). Its options are used where none
            are given here: those of its layers, and for the class of its own model all of them.
        scale_embeddings: multiply embeddings by ``sqrt(dim)`` (Vaswani et al. 2017, section 3.4).
        tie: the embedding and the output projection are one matrix (Press and Wolf 2017).
        head_bias: add a trained bias to the logits.
        logit_cap: logits are ``c tanh(logits / c)`` for this ``c`` (Gemma 2, arXiv:2408.00118,
            section 2); None: they are left as they are.
        init_std: scale the initial weights of each embedding and linear layer to this root mean
            square; None: keep the initialisation of each.
        embedding_std: standard deviation of the initial embeddings, whatever ``init_std`` is; None:
            ``1 / sqrt(dim)``, or ``init_std`` where given.
        allow: names of clash rules to ignore.

    Raises:
        BadOption, UnknownName: an option or a component that does not exist, or a wrong value.
        Clash: components that cannot work together.
    """

    config: dict[str, Any]
    """The arguments of the constructor."""

    @with_stack_options
    def __init__(
        self,
        vocab_size: int,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        *,
        like: str | None = None,
        scale_embeddings: bool = True,
        tie: bool = True,
        head_bias: bool = False,
        logit_cap: float | None = None,
        init_std: float | None = None,
        embedding_std: float | None = None,
        allow: list[str] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__()
        check_range("logit_cap", logit_cap, gt=0, optional=True)
        options = StackOptions(layers, heads, **stack)
        self.decoder = Stack(dim, options, causal=True, cross=False, allow=allow or ())
        self.max_positions = self.decoder.max_positions
        self.embedding = Embedding(vocab_size, dim, scale=scale_embeddings, std=embedding_std)
        self.projection = None if tie else nn.Parameter(torch.empty(vocab_size, dim))
        self.output_bias = nn.Parameter(torch.empty(vocab_size)) if head_bias else None
        self.logit_cap = logit_cap
        self.init_std = init_std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """See :func:`~tfzoo.models.initialise.reset_output`."""
        reset_output(self)

    @property
    def output_weight(self) -> Tensor:
        """The weight of the output projection: ``(v d)``."""
        return self.embedding.weight if self.projection is None else self.projection

    def forward(
        self,
        text: Tensor | None = None,
        *,
        embeddings: Tensor | None = None,
        mask: Mask | None = None,
        positions: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """The logits of the next token after each token: ``(b n) -> (b n v)``.

        Args:
            text: token ids, all of them real where ``mask`` does not say which are padding.
            embeddings: ``(b n d)``, in place of ``text``, as they enter the decoder: those of
                ``model.embedding(text)``, or of images, sounds and prompts that are learned.
            mask: :meth:`tfzoo.Mask.right` of lengths, or ``Mask(keys=...)`` ``(b n)`` of padding
                on any side. ``Mask(causal=True, allowed=...)``: which earlier tokens a token may
                see, for texts packed into one row. No token sees padding after it, mask or none.
            positions: ``(b n)`` or ``(1 n)``, as in :meth:`tfzoo.Decoder.forward`.
            cache: from :meth:`init_cache`; the other arguments are then those of the new tokens.

        Raises:
            BadOption: not one of ``text`` and ``embeddings``, a ``text`` that is not ``(b n)``, or
                as :meth:`tfzoo.Decoder.forward`.
        """
        return self.logits(
            self.hidden(
                text,
                embeddings=embeddings,
                mask=mask,
                positions=positions,
                cache=cache,
            )
        )

    def hidden(
        self,
        text: Tensor | None = None,
        *,
        embeddings: Tensor | None = None,
        mask: Mask | None = None,
        positions: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """The decoder's last hidden states: ``(b n) -> (b n d)``; arguments and errors are those of
        :meth:`forward`.
        """
        if (text is None) == (embeddings is None):
            raise BadOption("pass text, token ids (b n), or embeddings (b n d), and not both")
        if text is not None:
            check_ids("text", text)
        return self.decoder(
            self.embedding(text) if embeddings is None else embeddings,
            mask=mask,
            positions=positions,
            cache=cache,
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """The output projection: ``(* d) -> (* v)``."""
        logits = linear(hidden, self.output_weight, self.output_bias)
        return logits if self.logit_cap is None else soft_cap(logits, self.logit_cap)

    def init_cache(self) -> DecoderCache:
        """An empty cache. ``model(text, cache=cache)`` and :meth:`decode_step` append to it."""
        return self.decoder.init_cache()

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Append a token to each row, and return the logits of the next one: ``(b) -> (b v)``."""
        check_step(tokens)
        logits: Tensor = self(tokens[:, None], cache=cache)
        return logits[:, 0]
