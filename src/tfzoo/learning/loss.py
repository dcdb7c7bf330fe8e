"""Class weights and label smoothing of a cross entropy, and the loss of a constant prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import normalize

import torch
from torch import Tensor

from tfzoo.base.values import check_range
from tfzoo.errors import BadOption, did_you_mean, listing


@dataclass
class Loss:
    """Class weights of a classifier's loss.

    Args:
        class_weights: weights by label, such as ``{NUM: 2.0}``; other labels have weight 1. Or
            ``balanced``: the weight of a class is ``n / (c n_y)``, with ``n`` training texts, ``c``
            classes and ``n_y`` texts of the class. None: all weights are 1. The loss is the
            weighted mean over texts, so that only the ratios of weights matter.

    Raises:
        BadOption: a weight that is negative or not finite, or a value of another form.
    """

    class_weights: Literal["balanced"] | dict[str, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.class_weights, Mapping):
            for label, weight in self.class_weights.items():
                check_range(f"loss.class_weights[{str(label)!r}]", weight, ge=0)
            self.class_weights = {
                normalize("NFC", str(label)): float(w) for label, w in self.class_weights.items()
            }
        elif self.class_weights not in (None, "balanced"):
            raise BadOption(
                f"={self.class_weights!r} is neither 'balanced' nor weights by "
                "label such as {NUM: 2.0}",
                key="loss.class_weights",
            )

    def weights(self, labels: Sequence[str], counts: Sequence[int] | None = None) -> Tensor | None:
        """The weight of each class: ``(c)``. ``counts`` are the numbers of training texts per
        class; without them, ``balanced`` gives None.

        Raises:
            BadOption: a label that the data does not have, or every weight is 0.
        """
        if self.class_weights is None:
            return torch.ones(len(labels))
        if isinstance(self.class_weights, Mapping):
            for label in self.class_weights.keys() - set(labels):
                raise BadOption(
                    f": no label {label!r}.{did_you_mean(label, labels)} Labels: {listing(labels)}",
                    key="loss.class_weights",
                )
            weights = torch.tensor([self.class_weights.get(label, 1.0) for label in labels])
            if not bool(weights.any()):
                raise BadOption(": every weight is 0", key="loss.class_weights")
            return weights
        if counts is None:
            return None
        each = torch.tensor(counts)
        return each.sum() / (len(labels) * each.clamp(min=1.0))


def share(smoothing: float, classes: int, pad: int | None = None) -> float:
    """What smoothing gives each class that is neither the label nor padding."""
    return smoothing / max(classes - (1 if pad is None else 2), 1)


def class_losses(
    logits: Tensor, label: Tensor, smoothing: float = 0.0, pad: int | None = None
) -> tuple[Tensor, Tensor]:
    """``-sum_j q_j log p_j`` and ``-log p_y`` of each text, in nats: ``(b c), (b) -> (b), (b)``, in
    fp32, or float64 for float64 logits.

    ``q`` is ``1 - smoothing`` at the label ``y``, 0 at ``pad`` and ``smoothing / (c - 1)``
    elsewhere, as in tensor2tensor, the code of Vaswani et al. 2017. Szegedy et al. 2016 (section
    7), whose idea it is, and ``F.cross_entropy`` give ``smoothing / c`` to every class, the label
    too: they have with ``smoothing`` what this has with ``smoothing (c - 1) / c``.
    """
    log_p = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    nll = -log_p.gather(-1, label[:, None])[:, 0]
    others = -log_p.sum(-1) - nll
    if pad is not None:
        others = others + log_p[:, pad]
    return (1 - smoothing) * nll + share(smoothing, logits.shape[-1], pad) * others, nll


def constant_loss(counts: Tensor, smoothing: float = 0.0, pad: int | None = None) -> float:
    """The smallest mean loss that one prediction for all labels reaches, in nats: the entropy of
    the labels, of which there are ``counts`` ``(c)``, as the loss smooths them, where ``pad`` gets
    nothing. Without smoothing it is the entropy of their frequencies.
    """
    p = counts.double() / counts.sum()
    q = (1 - smoothing) * p + share(smoothing, len(p), pad) * (1 - p)
    if pad is not None:
        q[pad] = 0.0
    return float(torch.special.entr(q).sum())
