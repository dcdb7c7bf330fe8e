"""The kinds of components: where their files are, their base class, what a model supplies to their
constructors, and the traits that they may declare.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """A kind of component.

    Args:
        package: the package of its files.
        base: the class that components of this kind subclass; empty where any class will do.
        supplied: the arguments that a model supplies.
        traits: the traits that a component may declare, and what each says of it.
        settings: the constructor's arguments are sections of a recipe, not options of a component.
    """

    package: str
    base: str = ""
    supplied: frozenset[str] = frozenset()
    traits: Mapping[str, str] = field(default_factory=dict)
    settings: bool = False


KINDS: Mapping[str, Kind] = {
    "attention": Kind(
        "tfzoo.components.attention",
        "tfzoo.contracts.Attention",
        frozenset({"heads", "head_dim", "layer", "layers"}),
        {
            "rotatable": "rotating queries and keys alike changes no output",
            "nonpositive": "no score exceeds 0",
            "mixes_heads": "the outputs of several heads are combined",
        },
    ),
    "weighting": Kind(
        "tfzoo.components.weighting",
        "tfzoo.contracts.Weighting",
        frozenset({"heads"}),
        {
            "softmax": "weights are those of a softmax; attention then uses its fastest way",
            "sparse": "a key that a query may look at can have a weight of exactly 0",
            "ignores_scores": "weights do not depend on the scores, which get no gradient",
            "needs_positive_scores": "all weights are 0 where no score exceeds 0",
            "surrogate_gradient": "the gradient is not that of the weights",
        },
    ),
    "mixer": Kind(
        "tfzoo.components.mixer",
        "tfzoo.models.mixer.Mixer",
        frozenset({"dim", "options", "causal", "layer", "layers"}),
        {
            "attends": "it reads the options of attention, the rotation and bias of "
            "the positional encoding, and any mask",
            "identity": "the output is the input; a layer then has no such sublayer",
            "ordered": "the output depends on the order of tokens, without a positional encoding",
            "reach": "tokens farther away than some distance have no influence",
            "bidirectional": "an output depends on later tokens, so that it cannot be in a decoder",
            "breaks_graph": "torch.compile cannot trace it into one graph",
        },
    ),
    "residual": Kind(
        "tfzoo.components.residual",
        "tfzoo.contracts.Residual",
        frozenset(
            {"inner", "dropout", "dim", "norm", "layer", "layers", "cross", "decoder_layers"}
        ),
        {
            "final_norm": "a stack needs a norm after its last layer",
            "ends_with_norm": "the output is that of a norm",
            "replaces": "there is no residual connection: the input is kept nowhere",
            "parallel": "it is x + f(norm(x)), so that attention and feed-forward "
            "layer may share it",
        },
    ),
    "norm": Kind(
        "tfzoo.components.norm",
        "tfzoo.contracts.Norm",
        frozenset({"dim"}),
        {
            "mixes_tokens:training": "in training, the output at a token depends on other tokens, "
            "also on those of other texts",
            "mixes_tokens:always": "the output at a token depends on other tokens",
            "centres_texts": "the mean of the output over the tokens of a sequence is the "
            "same for every sequence",
        },
    ),
    "position": Kind(
        "tfzoo.components.position",
        "tfzoo.contracts.Position",
        frozenset({"dim", "heads", "head_dim", "max_length", "causal"}),
        {
            "needs_length": "it needs the length of each sequence",
            "bounded": "every position must be under max_length",
            "bias_of_distance": "its bias depends on nothing but the distance",
        },
    ),
    "feedforward": Kind(
        "tfzoo.components.feedforward",
        "tfzoo.contracts.FeedForward",
        frozenset({"dim"}),
        {
            "identity": "the output is the input; a layer then has no such sublayer",
            "auxiliary_loss": "in training, it has a loss of its own over the tokens that "
            "are no padding",
        },
    ),
    "pooling": Kind(
        "tfzoo.components.pooling",
        "tfzoo.contracts.Pooling",
        frozenset({"dim"}),
        {
            "averages": "the output depends on nothing but the mean and the number of the tokens",
            "reads_first": "the output depends on nothing but the first token",
        },
    ),
    "task": Kind("tfzoo.tasks", "tfzoo.learning.task.Task", settings=True),
    "schedule": Kind("tfzoo.learning.optim", supplied=frozenset({"max_steps"})),
    "optimizer": Kind("tfzoo.learning.optim", supplied=frozenset({"betas", "eps"})),
    "tokenizer": Kind(
        "tfzoo.data.tokenizers",
        traits={"published": "it is read from a published model's folder, and cannot be trained"},
    ),
    "dataset": Kind("tfzoo.data.sets"),
}
