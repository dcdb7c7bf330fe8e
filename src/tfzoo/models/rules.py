"""Facts about components, from their traits and the methods that they override; the rules by which
they clash, each with its reason. A clash raises an error, unless ``allow`` names its rule and the
rule can be allowed.

The alternatives that a message lists are computed from the traits of all registered components.
"""

from __future__ import annotations

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
    """``reason`` returns why components clash, or None if they do not; ``remedy`` lists alternative
    components; ``allowable`` returns whether ``allow`` may name the rule: whether the model can be
    computed nevertheless.
    """

    name: str
    reason: Callable[[Parts], str | None]
    remedy: Callable[[], str]
    allowable: Callable[[Parts], bool] = lambda parts: False


def leaky_norm(parts: Parts) -> str | None:
    """A norm over several tokens gives a decoder information about the tokens to predict."""
    if not (parts.causal and mixes_tokens(parts.norm)):
        return None
    if "mixes_tokens:always" in parts.norm.traits:
        return (
            f"norm {parts.norm.name!r} computes its statistics over all tokens of a sentence, "
            "so that a causal model would see later ones"
        )
    return (
        f"norm {parts.norm.name!r} mixes tokens while training, "
        "so that a causal model would see later ones then, but not afterwards"
    )


def norm_ignores_mask(norm: str) -> Clash:
    """The error for ``Mask(allowed=...)`` with a norm that computes statistics over each row, such
    as instance norm. Batch norm is not affected: its statistics are over the whole batch.
    """
    others = names_that_fit("norm", lambda one: not mixes_tokens(one))
    return Clash(
        "leaky-norm",
        f"norm {norm!r} computes its statistics over all tokens of a row, also over those that "
        "mask.allowed hides.",
        f"Norms that mix no tokens: {others}. To run it anyway: allow: [leaky-norm]",
    )


def unknown_length(parts: Parts) -> str | None:
    """A decoder does not know the length of the sequence that it generates."""
    if parts.causal and "needs_length" in parts.position.traits:
        return (
            f"position {parts.position.name!r} needs the sentence's length, "
            "which depends on later tokens, and those a causal model must not see"
        )
    return None


def unrotatable_attention(parts: Parts) -> str | None:
    """With rotary positions, scores depend on relative position alone if rotating q and k by the
    same angle does not change them (Su et al. 2021, eq. 11).
    """
    if rotates(parts.position) and "rotatable" not in parts.attention.traits:
        return (
            f"position {parts.position.name!r} rotates queries and keys, "
            f"but the scores of attention {parts.attention.name!r} change when both are rotated "
            "alike, so they would depend on absolute position"
        )
    return None


def constant_pooling(parts: Parts) -> str | None:
    """The pooling depends only on the mean and the number of a sequence's tokens, and the norm
    before it gives all sequences the same mean. The logits then depend only on the length.
    """
    if parts.pooling is None or not parts.ends_with_norm:
        return None
    if "averages" in parts.pooling.traits and "centres_texts" in parts.norm.traits:
        return (
            f"pooling {parts.pooling.name!r} depends only on mean and number of a text's tokens, "
            f"and norm {parts.norm.name!r} before it gives every text the same mean, so that "
            "all texts of one length would get the same class"
        )
    return None


def first_token_pooling(parts: Parts) -> str | None:
    """In a causal model, the first token depends on no other."""
    if parts.causal and parts.pooling is not None and "reads_first" in parts.pooling.traits:
        return (
            f"pooling {parts.pooling.name!r} reads the first token of a text, which in a causal "
            "model depends on no other token"
        )
    return None


def bidirectional_mixer(parts: Parts) -> str | None:
    """A decoder must not read later tokens."""
    if parts.causal and "bidirectional" in parts.mixer.traits:
        return f"mixer {parts.mixer.name!r} reads later tokens, which a causal model must not see"
    return None


def unread_position(parts: Parts) -> str | None:
    """A positional encoding acts on the scores of self-attention, which the model does not use."""
    if not acts_on_scores(parts.position):
        return None
    if "attends" not in parts.mixer.traits:
        reader = f"mixer {parts.mixer.name!r} has none"
    elif "ignores_scores" in parts.weighting.traits:
        reader = f"weighting {parts.weighting.name!r} does not read them"
    else:
        return None
    return f"position {parts.position.name!r} acts on the scores of self-attention, but {reader}"


def zero_weights(parts: Parts) -> str | None:
    """The weighting gives weight only to positive scores, and the attention's scores are never
    positive: all weights and their gradients are 0.
    """
    if (
        "needs_positive_scores" in parts.weighting.traits
        and "nonpositive" in parts.attention.traits
    ):
        return (
            f"weighting {parts.weighting.name!r} gives weight only to scores over 0, "
            f"and the scores of attention {parts.attention.name!r} are never over 0"
        )
    return None


def equal_tokens(parts: Parts) -> str | None:
    """Each token is replaced by the mean of all tokens, without a residual connection."""
    if (
        not (parts.causal or parts.window)
        and "attends" in parts.mixer.traits
        and "ignores_scores" in parts.weighting.traits
        and "replaces" in parts.residual.traits
    ):
        return (
            f"weighting {parts.weighting.name!r} gives every token of a text the same mean, and "
            f"residual {parts.residual.name!r} keeps nothing of the token itself, so that all "
            "tokens become the same"
        )
    return None


def mixing_query_key_norm(parts: Parts) -> str | None:
    """Queries and keys are normalised token by token: when decoding, only the new token's are
    computed, and the cache has those of the earlier ones.
    """
    if parts.query_key_norm is not None and mixes_tokens(parts.query_key_norm):
        return (
            f"query_key_norm has norm {parts.query_key_norm.name!r}, which mixes tokens, but "
            "queries and keys are normalised token by token, without a mask"
        )
    return None


def norms_that_mix_nothing() -> str:
    """The remedy for a norm that mixes tokens."""
    return "Norms that mix no tokens: " + names_that_fit("norm", lambda one: not mixes_tokens(one))


RULES = (
    Rule(
        "leaky-norm",
        leaky_norm,
        norms_that_mix_nothing,
        lambda parts: "mixes_tokens:always" not in parts.norm.traits,
    ),
    Rule(
        "unknown-length",
        unknown_length,
        lambda: (
            "Positions that need no length: "
            + names_that_fit("position", lambda position: "needs_length" not in position.traits)
        ),
    ),
    Rule(
        "unrotatable-attention",
        unrotatable_attention,
        lambda: "Rotatable: " + names_that_fit("attention", lambda one: "rotatable" in one.traits),
        lambda parts: True,
    ),
    Rule(
        "constant-pooling",
        constant_pooling,
        lambda: (
            "Poolings that depend on more than the mean: "
            + names_that_fit("pooling", lambda pooling: "averages" not in pooling.traits)
        ),
    ),
    Rule(
        "first-token-pooling",
        first_token_pooling,
        lambda: (
            "Poolings that read other tokens: "
            + names_that_fit("pooling", lambda pooling: "reads_first" not in pooling.traits)
        ),
    ),
    Rule(
        "bidirectional-mixer",
        bidirectional_mixer,
        lambda: (
            "Mixers for decoders: "
            + names_that_fit("mixer", lambda mixer: "bidirectional" not in mixer.traits)
        ),
    ),
    Rule(
        "unread-position",
        unread_position,
        lambda: (
            "Positions that do not act on scores: "
            + names_that_fit("position", lambda position: not acts_on_scores(position))
        ),
    ),
    Rule(
        "zero-weights",
        zero_weights,
        lambda: (
            "Weightings that accept such scores: "
            + names_that_fit("weighting", lambda one: "needs_positive_scores" not in one.traits)
        ),
    ),
    Rule(
        "equal-tokens",
        equal_tokens,
        lambda: (
            "Residual connections that keep the token: "
            + names_that_fit("residual", lambda one: "replaces" not in one.traits)
        ),
    ),
    Rule("mixing-query-key-norm", mixing_query_key_norm, norms_that_mix_nothing),
)
UNREAD = "unread-option"
"""The rule of :func:`tfzoo.models.constructor.check_attention_options`, which looks at a whole
model; the others look at a stack.
"""


def check_clashes(parts: Parts, allow: Collection[str] = ()) -> None:
    """Check the components of a stack, and the pooling after it, against all rules.

    Raises:
        Clash: a rule is broken that ``allow`` does not name or cannot allow. The message has the
            reason, alternatives, and the rule's name.
        UnknownName: a name in ``allow`` is not that of a rule.
    """
    for name in allow:
        if name not in (known := [UNREAD, *(rule.name for rule in RULES)]):
            raise UnknownName("rule to allow", name, known)
    if parts.window and "attends" not in parts.mixer.traits:
        raise BadOption(
            f"window acts on self-attention, but mixer {parts.mixer.name!r} has none: leave it out"
        )
    for rule in RULES:
        reason = rule.reason(parts)
        if reason is None or (rule.name in allow and rule.allowable(parts)):
            continue
        side = "in the decoder, " if parts.causal and parts.pooling is None else ""
        allow_hint = (
            f"To run it anyway: allow: [{rule.name}]"
            if rule.allowable(parts)
            else f"This cannot be allowed ({rule.name})"
        )
        raise Clash(rule.name, f"{side}{reason}.", f"{rule.remedy()}. {allow_hint}")
