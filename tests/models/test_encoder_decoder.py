"""Encoders, decoders and layers that are used alone: positions, padding, caches, misuse."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch

import tfzoo
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.errors import BadOption, Clash
from tfzoo.masks import Mask
from tfzoo.models.rules import embeds
from tfzoo.testing.samples import randomize

DIM, HEADS, N = 8, 2, 7
SMALL: dict[str, Any] = {"dim": DIM, "heads": HEADS, "dropout": 0.0, "max_length": 16}
POSITIONS = registry("position").names()
IN_LAYERS = [name for name in POSITIONS if not embeds(registry("position").entry(name))]
COUNTING = [
    name for name in POSITIONS if "needs_length" not in registry("position").entry(name).traits
]
"""Positions that a decoder may have."""


def built(cls, **options):
    torch.manual_seed(0)
    module = cls(**{**SMALL, **options}, allow=["unrotatable-attention"])
    return randomize(module).double().eval()


def vectors(b=2, n=N):
    torch.manual_seed(1)
    return torch.randn(b, n, DIM, dtype=torch.float64)


def padded(*rows):
    """``"..xx"`` is two times padding and two tokens."""
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


# Positions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_are_read_and_not_places(position):
    """Tokens in another order, each with its position, give the same outputs in that order."""
    encoder, x, order = (
        built(tfzoo.Encoder, layers=1, position=position),
        vectors(),
        torch.randperm(N),
    )
    close(encoder(x, positions=torch.arange(N)[None]), encoder(x))
    close(encoder(x[:, order], positions=order.expand(2, -1)), encoder(x)[:, order])


@pytest.mark.parametrize("position", COUNTING)
def test_packed_texts_are_read_as_if_alone(position):
    """Two texts of 3 and 4 tokens in one row; a decoder reads them in two pieces, too."""
    x, text = vectors(), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    pos, allowed = torch.tensor([[0, 1, 2, 0, 1, 2, 3]]), (text[:, None] == text)[None, None]
    for cls, options in ((tfzoo.Encoder, {}), (tfzoo.Decoder, {"cross_attention": False})):
        stack = built(cls, layers=1, position=position, **options)
        y = stack(x, mask=Mask(stack.causal, allowed=allowed), positions=pos)
        close(y, torch.cat([stack(x[:, :3]), stack(x[:, 3:])], 1))
    cache, found = stack.init_cache(), []
    for part in (slice(0, 5), slice(5, 7)):
        mask = Mask(causal=True, allowed=allowed[:, :, part, : part.stop])
        found.append(stack(x[:, part], mask=mask, positions=pos[:, part], cache=cache))
    close(torch.cat(found, 1), y)


@pytest.mark.parametrize("position", IN_LAYERS)
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_layer_alone_is_a_stack_of_one_layer(position, kind):
    alone = {"encoder": tfzoo.EncoderLayer, "decoder": tfzoo.DecoderLayer}[kind]
    stack = {"encoder": tfzoo.Encoder, "decoder": tfzoo.Decoder}[kind]
    layer = built(alone, position=position, residual="post")
    whole = built(stack, position=position, residual="post", layers=1)
    whole.load_state_dict(
        {
            name if name.startswith("position.") else f"layers.0.{name}": value
            for name, value in layer.state_dict().items()
        }
    )
    x, memory = vectors(), [vectors(n=3)] if kind == "decoder" else []
    mask = Mask(keys=padded("xxxxxxx", "..xxxxx"))
    close(layer(x, *memory, mask=mask), whole(x, *memory, mask=mask))


# The cache ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", registry("attention").names())
def test_generation_with_a_cache_equals_one_pass(attention):
    """For prompts that are padded on either side, or given in several pieces."""
    x = vectors()
    for position in COUNTING:
        decoder = built(
            tfzoo.Decoder, layers=1, attention=attention, position=position, cross_attention=False
        )
        for row, pieces in (("xx..xxx", (4, 1, 1, 1)), ("...xxxx", (2, 5))):
            real = padded("xxxxxxx", row)
            cache, outputs, start = decoder.init_cache(), [], 0
            for n in pieces:
                keys = real[:, start : start + n]
                mask = None if keys.all() else Mask(keys=keys)
                outputs.append(decoder(x[:, start : start + n], mask=mask, cache=cache))
                start += n
            y = torch.cat(outputs, 1)
            close(y[0], decoder(x[:1])[0])
            close(y[1, real[1]], decoder(x[1:, real[1]])[0])


@pytest.mark.parametrize("cls", [tfzoo.Decoder, tfzoo.DecoderLayer])
def test_a_cache_holds_the_memory_and_follows_its_rows(cls):
    """Two sentences with two beams each; a prompt that is padded on the left."""
    decoder, x, memory = built(cls, position="rotary"), vectors(), vectors(n=3) + 1
    real, source = padded("xxxxxxx", ".xxxxxx"), padded("xxx", "xx.")
    cache = decoder.init_cache(memory, memory_mask=Mask(keys=source))
    beams, rows = torch.tensor([0, 0, 1, 1]), torch.tensor([2, 3])
    decoder(x[:, :3], mask=Mask(keys=real[:, :3]), cache=cache)
    cache.reorder(beams)
    decoder(x[beams, 3:5], cache=cache)
    cache.keep_batch(torch.tensor([1]))
    cache.reorder(rows)
    y = decoder(x[beams][rows, 5:], cache=cache)
    alone = decoder(x[1:, 1:], memory[1:, :2])[:, 4:]
    close(y, alone.expand(2, -1, -1))


def test_given_positions_go_on_in_the_cache():
    for position in COUNTING:
        decoder = built(tfzoo.Decoder, layers=1, position=position, cross_attention=False)
        x, cache = vectors(), decoder.init_cache()
        decoder(x[:, :2], cache=cache)
        decoder(x[:, 2:4], positions=torch.tensor([[2, 5], [3, 4]]), cache=cache)
        y = decoder(x[:, 4:], cache=cache)
        whole = torch.tensor([[0, 1, 2, 5, 6, 7, 8], [0, 1, 3, 4, 5, 6, 7]])
        close(y, decoder(x, positions=whole)[:, 4:])


# Misuse -------------------------------------------------------------------------------------------


def encoder(**options):
    return built(tfzoo.Encoder, layers=1, **options)


def decoder(**options):
    return built(tfzoo.Decoder, layers=1, **options)


def language_model():
    return decoder(cross_attention=False)


def cached(rows, **call):
    model = decoder()
    cache = model.init_cache(vectors(n=3))
    model(vectors(), cache=cache)
    return model(vectors(rows), cache=cache, **call)


X, MEMORY = vectors(), vectors(n=3)
EVERYTHING = torch.ones(1, 1, 7, 7, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encoder()(torch.ones(2, 7)), r"x must be vectors \(b n 8\), not \(2 7\)"),
        (lambda: encoder()(torch.ones(2, 7, 9)), r"x must be vectors \(b n 8\), not \(2 7 9\)"),
        (lambda: encoder()(X, mask=Mask(keys=padded("xxx", "xxx"))), r"mask.keys must be \(2 7\)"),
        (lambda: encoder()(X, mask=padded("xx", "xx")), "mask must be a tfzoo.Mask, not Tensor: "),
        (
            lambda: encoder()(X, mask=Mask(allowed=torch.ones(3, 1, 7, 7).bool())),
            r"mask.allowed must be \(b\|1 1\|h 7 k\) for 2 rows, not \(3 1 7 7\)",
        ),
        (
            lambda: decoder().init_cache(MEMORY, memory_mask=Mask(allowed=EVERYTHING)),
            "memory_mask.allowed needs queries, and init_cache has none: use memory_mask.keys",
        ),
        (lambda: encoder()(X, mask=Mask(causal=True)), "this module is not causal"),
        (
            lambda: decoder()(X, MEMORY, mask=Mask(allowed=EVERYTHING)),
            r"mask.allowed without causal, but this .* is causal.*pass Mask\(causal=True, allow",
        ),
        (lambda: decoder()(X, MEMORY, mask=Mask(start=3)), "mask.start follows from the cache"),
        (
            lambda: encoder()(X, positions=torch.arange(7)),
            r"positions must be integers \(2 7\) or \(1 7\)",
        ),
        (lambda: encoder()(X, positions=torch.ones(2, 7)), "positions must be integers"),
        (
            lambda: encoder(position="learned")(X, positions=torch.arange(10, 17)[None]),
            "positions from 10 to 16, but position 'learned' has 0 to 15",
        ),
        (
            lambda: encoder(position="learned")(X, positions=torch.arange(-1, 6)[None]),
            "positions from -1 to 5",
        ),
        (lambda: encoder(position="learned")(vectors(n=17)), "17 .* 'learned' has 16: raise max_l"),
        (
            lambda: tfzoo.Transformer(9, 8, 2, 1).decode_step(torch.ones(2, 5).long(), None),
            r"a step takes one token of each row, \(b\), not \(2 5\)",
        ),
        (
            lambda: tfzoo.LanguageModel(9, 8, 2, 1).decode_step(torch.ones(2, 5).long(), None),
            r"a step takes one token of each row, \(b\), not \(2 5\)",
        ),
        (lambda: decoder()(X), "cross-attention needs a memory"),
        (lambda: decoder().init_cache(), "cross-attention needs a memory"),
        (lambda: decoder()(X, vectors(3)), "x has 2 rows, and memory 3"),
        (lambda: decoder()(X, MEMORY[..., :3]), r"memory must be vectors \(b n 8\)"),
        (
            lambda: decoder()(X, MEMORY, memory_mask=Mask(keys=padded("xx", "xx"))),
            r"memory_mask.keys must be \(2 3\)",
        ),
        (
            lambda: decoder()(X, MEMORY, memory_mask=Mask(allowed=EVERYTHING[:, :, 1:, :3])),
            r"memory_mask.allowed must be \(b\|1 1\|h 7 k\)",
        ),
        (lambda: language_model()(X, MEMORY), "a memory, but there is no cross-attention"),
        (lambda: language_model()(X, memory_mask=Mask()), "memory_mask without memory"),
        (lambda: cached(2, memory=MEMORY), "pass memory and memory_mask to init_cache"),
        (lambda: cached(3), "x has 3 rows, and the cache 2"),
        (
            lambda: decoder()(vectors(3), cache=decoder().init_cache(MEMORY)),
            "3 rows, which is no multiple of the 2",
        ),
        (
            lambda: tfzoo.EncoderLayer(8, 2, position="sinusoidal"),
            "adds to the embeddings, before the first layer.* In a layer: .*rotary",
        ),
    ],
)
def test_misuse_is_refused_with_the_reason(call, message):
    with pytest.raises(BadOption, match=message):
        call()


def test_a_norm_that_mixes_tokens_is_refused_where_a_mask_hides_tokens():
    mask = Mask(allowed=EVERYTHING)
    for norm in registry("norm").names():
        reads_all = "mixes_tokens:always" in registry("norm").entry(norm).traits
        module = tfzoo.EncoderLayer(8, 2, norm=norm).double()
        module(X, mask=Mask(keys=padded("xxxxxxx", "xxxx...")))
        with pytest.raises(Clash, match="leaky-norm") if reads_all else nullcontext():
            module(X, mask=mask)
        tfzoo.EncoderLayer(8, 2, norm=norm, allow=["leaky-norm"]).double()(X, mask=mask)


def test_a_translator_is_not_what_generate_continues():
    model = tfzoo.Transformer(8, dim=8, heads=2, layers=1)
    with pytest.raises(BadOption, match=r"tfzoo\.search\.search is for models with a source"):
        tfzoo.generate(model, torch.ones(1, 2, dtype=torch.long), max_new_tokens=3)
