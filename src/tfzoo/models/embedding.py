"""Token embeddings."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from tfzoo.base.values import check_range
from tfzoo.errors import BadOption


class Embedding(nn.Embedding):
    """One vector per token, times ``sqrt(dim)`` if ``scale`` (Vaswani et al. 2017, section 3.4).
    With ``token_types``, a vector of the token's type is added (BERT's segments; Devlin et al.
    2019, section 3.2).

    Initialised from ``N(0, std^2)``, by default from ``N(0, 1/dim)``, so that the logits of a tied
    output layer initially have variance 1 if the components of the hidden states have variance 1.

    Raises:
        BadOption: ``vocab_size`` or ``dim`` under 1, ``token_types`` under 0; ``std`` not over 0.
    """

    __call__: Callable[..., Tensor]  # what torch leaves open

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        scale: bool = True,
        token_types: int = 0,
        std: float | None = None,
    ) -> None:
        check_range("vocab_size", vocab_size, ge=1, whole=True)
        check_range("dim", dim, ge=1, whole=True)
        check_range("token_types", token_types, ge=0, whole=True)
        check_range("embedding_std", std, gt=0, optional=True)
        self.std = std  # which the constructor of nn.Embedding reads, through reset_parameters
        super().__init__(vocab_size, dim)
        self.factor = math.sqrt(dim) if scale else 1.0
        self.types = Embedding(token_types, dim, scale=False, std=std) if token_types else None

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std or self.embedding_dim**-0.5)

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """``(b n) -> (b n d)``; ``types`` ``(b n)`` are 0 to ``token_types - 1``, by default 0.

        Raises:
            BadOption: ``types``, but no ``token_types``; on a CPU, an id of no embedding.
        """
        try:
            x = super().forward(ids)
        except IndexError:
            raise BadOption(
                f"ids from {int(ids.min())} to {int(ids.max())}, but the embedding has 0 to "
                f"{self.num_embeddings - 1}: they are of another tokenizer"
            ) from None
        x = x if self.factor == 1.0 else x * self.factor
        if self.types is not None:
            return x + (self.types.weight[0] if types is None else self.types(types))
        if types is not None:
            raise BadOption("types for a model without them: set token_types")
        return x
