"""The kinds of components: where their files are, their base class, what a model supplies to their
constructors, and the traits that they may declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of component.

    Args:
        package: the package of its files.
        base: the class that components of this kind subclass; empty where any class will do.
        supplied: the arguments that a model supplies.
        traits: the traits that a component may declare.
    """

    package: str
    base: str = ""
    supplied: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()


KINDS: Mapping[str, Kind] = {
    "attention": Kind(
        "tfzoo.attention",
        "tfzoo.contracts.Attention",
        frozenset({"heads", "head_dim", "layer", "layers"}),
        frozenset({"rotatable", "nonpositive", "mixes_heads"}),
    ),
    "weighting": Kind(
        "tfzoo.weighting",
        "tfzoo.contracts.Weighting",
        frozenset({"heads"}),
        frozenset(
            {
                "softmax",
                "sparse",
                "ignores_scores",
                "needs_positive_scores",
                "discontinuous",
                "surrogate_gradient",
            }
        ),
    ),
    "mixer": Kind(
        "tfzoo.mixer",
        "tfzoo.blocks.mixer.Mixer",
        frozenset({"dim", "options", "causal", "layer", "layers"}),
        frozenset({"attends", "identity", "ordered", "reach", "bidirectional", "breaks_graph"}),
    ),
    "residual": Kind(
        "tfzoo.residual",
        "tfzoo.contracts.Residual",
        frozenset({"inner", "dropout", "dim", "norm", "layer", "layers"}),
        frozenset({"final_norm", "ends_with_norm", "parallel"}),
    ),
    "norm": Kind(
        "tfzoo.norm",
        "tfzoo.contracts.Norm",
        frozenset({"dim"}),
        frozenset({"mixes_tokens:training", "mixes_tokens:always", "centres_texts"}),
    ),
    "position": Kind(
        "tfzoo.position",
        "tfzoo.contracts.Position",
        frozenset({"dim", "heads", "head_dim", "max_length", "causal"}),
        frozenset({"needs_length", "bounded"}),
    ),
    "feedforward": Kind(
        "tfzoo.feedforward",
        "tfzoo.contracts.FeedForward",
        frozenset({"dim"}),
        frozenset({"identity", "auxiliary_loss", "discontinuous", "waits_for_device"}),
    ),
    "pooling": Kind(
        "tfzoo.pooling",
        "tfzoo.contracts.Pooling",
        frozenset({"dim"}),
        frozenset({"ordered", "averages"}),
    ),
    "schedule": Kind("tfzoo.tasks.schedules", supplied=frozenset({"max_steps"})),
    "optimizer": Kind("tfzoo.tasks.optimizers", supplied=frozenset({"betas", "eps"})),
    "tokenizer": Kind("tfzoo.data.tokenizers"),
    "dataset": Kind("tfzoo.data.sets"),
}
