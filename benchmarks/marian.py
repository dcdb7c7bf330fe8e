"""`transformers`' MarianMTModel with the weights of a tfzoo Transformer: the same function, so that
only speed and memory differ.
"""

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

import tfzoo
from tfzoo.base.special_ids import OWN
from tfzoo.masks import Mask
from tfzoo.models.context import DecoderCache
from tfzoo.models.initialise import initialise

BOS, EOS, PAD = OWN.bos, OWN.eos, OWN.pad


def pair(
    vocab_size: int, dim: int, heads: int, layers: int, *, dropout: float, hidden: int | None = None
) -> tuple[tfzoo.Transformer, MarianMTModel]:
    """The two models: post-norm, ReLU, sinusoidal positions, three-way tied and scaled embeddings;
    equal weights.
    """
    hidden = hidden or 4 * dim
    feedforward = {"name": "relu", "hidden": hidden}
    ours = tfzoo.Transformer(
        vocab_size, dim, heads, layers, residual="post", feedforward=feedforward, dropout=dropout
    )
    initialise(ours, 1)
    theirs = marian(vocab_size, dim, heads, layers, dropout=dropout, hidden=hidden)
    copy(ours, theirs)
    return ours, theirs


def marian(
    vocab_size: int, dim: int, heads: int, layers: int, *, dropout: float, hidden: int
) -> MarianMTModel:
    """A MarianMTModel as its library starts it."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocab_size,
            decoder_vocab_size=vocab_size,
            d_model=dim,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            activation_function="relu",
            dropout=dropout,
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            bos_token_id=BOS,
            max_position_embeddings=512,
            attn_implementation="sdpa",
        )
    )


@torch.no_grad()
def copy(ours: tfzoo.Transformer, theirs: MarianMTModel) -> None:
    """Our weights into Marian's layout; its table of positions becomes the interleaved one, a
    permutation of its own.
    """
    theirs.model.shared.weight.copy_(ours.target_embedding.weight)
    for ours_side, side in (
        (ours.encoder, theirs.model.encoder),
        (ours.decoder, theirs.model.decoder),
    ):
        positions = side.embed_positions.weight
        pos = torch.arange(len(positions))[None]
        positions.copy_(ours_side.position.embed(torch.zeros(1, *positions.shape), pos)[0])
        for layer, other in zip(ours_side.layers, side.layers, strict=True):
            blocks = [(layer.self_attention, other.self_attn, other.self_attn_layer_norm)]
            if layer.cross_attention is not None:
                blocks.append(
                    (layer.cross_attention, other.encoder_attn, other.encoder_attn_layer_norm)
                )
            for block, attention, norm in blocks:
                for name, to in (
                    ("query", "q_proj"),
                    ("key", "k_proj"),
                    ("value", "v_proj"),
                    ("output", "out_proj"),
                ):
                    linear(getattr(block.inner, name), getattr(attention, to))
                linear(block.norm, norm)
            inner, outer = [
                m for m in layer.feedforward.inner.modules() if isinstance(m, nn.Linear)
            ]
            linear(inner, other.fc1)
            linear(outer, other.fc2)
            linear(layer.feedforward.norm, other.final_layer_norm)


def linear(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


def batches(
    count: int, vocab_size: int, tokens: int, mean: float, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    """Bucketed batches of about ``tokens`` target tokens, sentences of mean length ``mean``: ``(b
    k), (b n)``, begin and end included.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = (
        torch.poisson(
            torch.full((count * int(tokens / mean),), mean - 2), generator=generator
        ).long()
        + 2
    )
    lengths = lengths.sort().values
    made, row = [], 0
    while row < len(lengths):
        rows = max(int(tokens / int(lengths[min(row + int(tokens / mean), len(lengths) - 1)])), 1)
        part = lengths[row : row + rows]
        row += rows
        source, target = (
            torch.randint(4, vocab_size, (len(part), int(part.max()) + extra), generator=generator)
            for extra in (0, 1)
        )
        column = torch.arange(int(part.max()) + 1)
        source[column[:-1] >= part[:, None]] = PAD
        target[column >= part[:, None] + 1] = PAD
        source.scatter_(1, part[:, None] - 1, EOS)
        target[:, 0] = BOS
        target.scatter_(1, part[:, None], EOS)
        made.append((source, target))
    order = torch.randperm(len(made), generator=generator)
    return [made[i] for i in order.tolist()]


def mask_of(ids: Tensor) -> Mask:
    """Which tokens are real, as the collator says it."""
    lengths = (ids != PAD).sum(1)
    return Mask.right(lengths if (ids == PAD).any() else None, ids.shape[1])


def our_loss(model: tfzoo.Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy of the real tokens, as TranslationTask computes it; the indices and flags
    are its collator's.
    """
    from tfzoo.learning.cross_entropy import cross_entropy

    real = (target[:, 1:] != PAD).flatten().nonzero()[:, 0]
    inputs = target[:, :-1]
    hidden = model.hidden(source, inputs, source_mask=mask_of(source), target_mask=mask_of(inputs))
    wanted = target[:, 1:].flatten()
    return cross_entropy(hidden.flatten(0, 1)[real], model.output_weight, wanted[real])[0] / len(
        real
    )


def their_loss(model: MarianMTModel, source: Tensor, target: Tensor) -> Tensor:
    """The same number, by Marian's own layers."""
    logits = their_logits(model, source, target).flatten(0, 1)
    return nn.functional.cross_entropy(logits, target[:, 1:].flatten(), ignore_index=PAD)


def their_logits(model: MarianMTModel, source: Tensor, target: Tensor) -> Tensor:
    """``(b k), (b n) -> (b n-1 v)``"""
    return model(
        input_ids=source, attention_mask=source != PAD, decoder_input_ids=target[:, :-1]
    ).logits


class Endless:
    """A tfzoo model for search that ends no sentence before ``length`` tokens."""

    def __init__(self, model: tfzoo.Transformer, length: int) -> None:
        self.init_cache, self.model, self.max_positions = model.init_cache, model, length

    def decode_step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        logits = self.model.decode_step(tokens, cache)
        logits[:, EOS] = -torch.inf
        return logits
