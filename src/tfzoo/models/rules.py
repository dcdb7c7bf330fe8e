"""Facts about components, from their traits and the methods that they override; the rules by which
they clash, each with its reason.
"""

from collections.abc import Callable, Collection, Set
from contextlib import suppress
from dataclasses import dataclass

from tfzoo.base.registry import Entry, registry
from tfzoo.contracts import Position
from tfzoo.errors import BadComponent, BadOption, Clash, UnknownName, listing


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


@dataclass(frozen=True)
class Parts:
    """The components that a rule looks at.

    ``query_key_norm``: the norm of queries and keys, or None.
    ``causal``: the stack is a decoder. ``window``: self-attention has a window.
    ``ends_with_norm``: the last operation of the stack is a norm. ``pooling``: the pooling of a
    classifier, otherwise None.
    """

    attention: Entry
    weighting: Entry
    norm: Entry
    residual: Entry
    position: Entry
    feedforward: Entry
    mixer: Entry
    query_key_norm: Entry | None
    causal: bool
    window: bool
    ends_with_norm: bool
    pooling: Entry | None = None


@dataclass(frozen=True)
class Rule:
    """Components clash where ``broken`` is true: an error, unless the rule is ``allowable``, as the
    model can be computed nevertheless, and ``allow`` names it. A rule with two reasons stands in
    two lines of :data:`RULES`.

    Args:
        why: what the rule is for.
        reason: a format of :class:`Parts`.
        kind, instead, fits: the message lists the components of a kind that fit, as ``instead``.
    """

    name: str
    why: str
    broken: Callable[[Parts], bool]
    reason: str
    kind: str
    instead: str
    fits: Callable[[Entry], bool]
    allowable: bool = False

    def others(self) -> str:
        """The components to choose from instead."""
        return f"{self.instead}: {names_that_fit(self.kind, self.fits)}"


RULES = (
    Rule(
        "leaky-norm",
        "A norm over several tokens gives a decoder information about the tokens to predict.",
        lambda parts: parts.causal and "mixes_tokens:always" in parts.norm.traits,
        "norm {0.norm.name!r} computes its statistics over all tokens of a sentence, so that a "
        "decoder would see later ones",
        "norm",
        "Norms that mix no tokens",
        lambda norm: not mixes_tokens(norm),
    ),
    Rule(
        "leaky-norm",
        "The same, but while training alone.",
        lambda parts: parts.causal and mixes_tokens(parts.norm),
        "norm {0.norm.name!r} mixes tokens while training, so that a decoder would see later ones "
        "then, but not afterwards",
        "norm",
        "Norms that mix no tokens",
        lambda norm: not mixes_tokens(norm),
        allowable=True,
    ),
    Rule(
        "unknown-length",
        "A decoder does not know the length of the sequence that it generates.",
        lambda parts: parts.causal and "needs_length" in parts.position.traits,
        "position {0.position.name!r} needs the sentence's length, which depends on later tokens, "
        "and those a decoder must not see",
        "position",
        "Positions that need no length",
        lambda position: "needs_length" not in position.traits,
    ),
    Rule(
        "unrotatable-attention",
        "With rotary positions, scores depend on relative position alone if rotating q and k by "
        "the same angle does not change them (Su et al. 2021, eq. 11).",
        lambda parts: rotates(parts.position) and "rotatable" not in parts.attention.traits,
        "position {0.position.name!r} rotates queries and keys, but the scores of attention "
        "{0.attention.name!r} change when both are rotated alike, so they would depend on absolute "
        "position",
        "attention",
        "Rotatable",
        lambda attention: "rotatable" in attention.traits,
        allowable=True,
    ),
    Rule(
        "constant-pooling",
        "The pooling depends only on the mean and the number of a sequence's tokens, and the norm "
        "before it gives all sequences the same mean. The logits then depend only on the length.",
        lambda parts: (
            parts.pooling is not None
            and parts.ends_with_norm
            and "averages" in parts.pooling.traits
            and "centres_texts" in parts.norm.traits
        ),
        "pooling {0.pooling.name!r} depends only on mean and number of a text's tokens, and norm "
        "{0.norm.name!r} before it gives every text the same mean, so that all texts of one length "
        "would get the same class",
        "pooling",
        "Poolings that depend on more than the mean",
        lambda pooling: "averages" not in pooling.traits,
    ),
    Rule(
        "first-token-pooling",
        "In a causal model, the first token depends on no other.",
        lambda parts: (
            parts.causal and parts.pooling is not None and "reads_first" in parts.pooling.traits
        ),
        "pooling {0.pooling.name!r} reads the first token of a text, which in a decoder "
        "depends on no other token",
        "pooling",
        "Poolings that read other tokens",
        lambda pooling: "reads_first" not in pooling.traits,
    ),
    Rule(
        "bidirectional-mixer",
        "A decoder must not read later tokens.",
        lambda parts: parts.causal and "bidirectional" in parts.mixer.traits,
        "mixer {0.mixer.name!r} reads later tokens, which a decoder must not see",
        "mixer",
        "Mixers for decoders",
        lambda mixer: "bidirectional" not in mixer.traits,
    ),
    Rule(
        "unread-position",
        "A positional encoding acts on the scores of self-attention, which the model has not.",
        lambda parts: acts_on_scores(parts.position) and "attends" not in parts.mixer.traits,
        "position {0.position.name!r} acts on the scores of self-attention, but mixer "
        "{0.mixer.name!r} has none",
        "position",
        "Positions that do not act on scores",
        lambda position: not acts_on_scores(position),
    ),
    Rule(
        "unread-position",
        "The same, but the model does not use the scores.",
        lambda parts: acts_on_scores(parts.position) and "ignores_scores" in parts.weighting.traits,
        "position {0.position.name!r} acts on the scores of self-attention, but weighting "
        "{0.weighting.name!r} does not read them",
        "position",
        "Positions that do not act on scores",
        lambda position: not acts_on_scores(position),
    ),
    Rule(
        "zero-weights",
        "The weighting gives weight only to positive scores, and the attention's scores are never "
        "positive: all weights and their gradients are 0.",
        lambda parts: (
            "needs_positive_scores" in parts.weighting.traits
            and "nonpositive" in parts.attention.traits
        ),
        "weighting {0.weighting.name!r} gives weight only to scores over 0, and the scores of "
        "attention {0.attention.name!r} are never over 0",
        "weighting",
        "Weightings that accept such scores",
        lambda weighting: "needs_positive_scores" not in weighting.traits,
    ),
    Rule(
        "equal-tokens",
        "Each token is replaced by the mean of all tokens, without a residual connection.",
        lambda parts: (
            not (parts.causal or parts.window)
            and "attends" in parts.mixer.traits
            and "ignores_scores" in parts.weighting.traits
            and "replaces" in parts.residual.traits
        ),
        "weighting {0.weighting.name!r} gives every token of a text the same mean, and residual "
        "{0.residual.name!r} keeps nothing of the token itself, so that all tokens become the same",
        "residual",
        "Residual connections that keep the token",
        lambda residual: "replaces" not in residual.traits,
    ),
    Rule(
        "mixing-query-key-norm",
        "Queries and keys are normalised token by token: when decoding, only the new token's are "
        "computed, and the cache has those of the earlier ones.",
        lambda parts: parts.query_key_norm is not None and mixes_tokens(parts.query_key_norm),
        "query_key_norm has norm {0.query_key_norm.name!r}, which mixes tokens, but queries and "
        "keys are normalised token by token, without a mask",
        "norm",
        "Norms that mix no tokens",
        lambda norm: not mixes_tokens(norm),
    ),
)
UNREAD = "unread-option"
"""The rule of :func:`tfzoo.models.constructor.check_attention_options`, which looks at a whole
model; the others look at a stack.
"""


def norm_ignores_mask(norm: str) -> Clash:
    """The error for ``Mask(allowed=...)`` with a norm that computes statistics over each row, such
    as instance norm. Batch norm is not affected: its statistics are over the whole batch.
    """
    return Clash(
        "leaky-norm",
        f"norm {norm!r} computes its statistics over all tokens of a row, also over those that "
        "mask.allowed hides.",
        f"{RULES[0].others()}. To run it anyway: allow: [leaky-norm]",
    )


def check_clashes(parts: Parts, allow: Collection[str] = ()) -> None:
    """Check the components of a stack, and the pooling after it, against all rules.

    Raises:
        Clash: a rule is broken that ``allow`` does not name or cannot allow. The message has the
            reason, alternatives, and the rule's name.
        UnknownName: a name in ``allow`` is not that of a rule.
        BadOption: ``allow`` is one name.
    """
    if isinstance(allow, str):
        raise BadOption(f"allow is a list of rules: allow=[{allow!r}]")
    for name in allow:
        if name not in (known := {UNREAD, *(rule.name for rule in RULES)}):
            raise UnknownName("rule to allow", name, known)
    if parts.window and "attends" not in parts.mixer.traits:
        raise BadOption(
            f"window acts on self-attention, but mixer {parts.mixer.name!r} has none: leave it out"
        )
    for rule in RULES:
        if not rule.broken(parts) or (rule.name in allow and rule.allowable):
            continue
        hint = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{rule.reason.format(parts)}.", f"{rule.others()}. {hint}")
