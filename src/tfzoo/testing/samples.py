"""Small random components and inputs, and what a component computes on them, so that two can be
compared without knowing their kind.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry, create
from tfzoo.base.values import members
from tfzoo.contracts import Attention, FeedForward, Norm, Pooling, Position, Residual, Weighting
from tfzoo.errors import BadOption
from tfzoo.masks import Mask
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.options import StackOptions

SIZES: Mapping[str, Any] = {
    "dim": 16,
    "heads": 2,
    "head_dim": 8,
    "max_length": 48,
    "causal": False,
    "options": StackOptions(layers=2, heads=2, max_length=48, dropout=0.0),
    "layer": 1,
    "layers": 2,
    "cross": False,
    "decoder_layers": 0,
    "dropout": 0.0,
    "norm": "layer",
    "max_steps": 100,
    "betas": (0.9, 0.98),
    "eps": 1e-9,
}
"""What a model would supply."""


def build_randomized(
    entry: Entry, options: Mapping[str, Any] | None = None, /, **sizes: Any
) -> Any:
    """A component with every parameter and every running statistic drawn at random: a start of ones
    and zeros hides mistakes.
    """
    return randomize(build(entry, options, **sizes))


def build(entry: Entry, options: Mapping[str, Any] | None = None, /, **sizes: Any) -> Any:
    """A component as its constructor leaves it."""
    known = KINDS[entry.kind].supplied
    supplied = {key: value for key, value in {**SIZES, **sizes}.items() if key in known}
    if "inner" in known:  # a part may change how its sublayer starts, so each has its own
        supplied.setdefault("inner", nn.Linear(supplied["dim"], supplied["dim"]))
    return create(entry.kind, {"name": entry.name, **(options or {})}, **supplied)


def variants(entry: Entry) -> Iterator[dict[str, Any]]:
    """The default, and each option's other choices where it has a few to choose from and the
    component takes them without another option.
    """
    yield {}
    for name, option in entry.options.items():
        for choice in members(option.annotation):
            value = not option.default if choice is bool else choice
            if isinstance(value, type) or value == option.default:
                continue
            try:
                build(entry, {name: value})
            except BadOption:
                continue
            yield {name: value}


@torch.no_grad()
def randomize(module: nn.Module, scale: float = 1.0) -> nn.Module:
    """Move every parameter and every saved statistic by a random amount; statistics only up, as a
    variance stays positive.
    """
    for parameter in module.parameters():
        size = 0.3 if parameter.dim() < 2 else 0.7 * parameter.shape[-1] ** -0.5
        parameter.add_(torch.randn_like(parameter) * scale * size)
    saved = module.state_dict(keep_vars=True)
    for name, buffer in module.named_buffers():
        if name in saved and buffer.is_floating_point():
            buffer.add_(torch.rand_like(buffer))
    return module


def reloaded(state: Mapping[str, Any]) -> Any:
    """A state dict, saved and loaded."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def lengths_to_valid(lengths: list[int], n: int, left: bool = False) -> Tensor:
    """True at real tokens: ``(b n)``."""
    place = torch.arange(n)[None]
    count = torch.tensor(lengths)[:, None]
    return place >= n - count if left else place < count


B, N, D = 3, 6, SIZES["dim"]
"""A batch of sequences with which parts are tested."""
RIGHT, LEFT = (lengths_to_valid([6, 4, 2], N, left=left) for left in (False, True))
"""True at real tokens, with padding on the right and on the left: ``(b n)``."""


HEADS, WIDTH, FAR = SIZES["heads"], SIZES["head_dim"], 400


def inputs(dim: int = D, heads: int = HEADS) -> Mapping[str, Tensor]:
    """One set of inputs in the default dtype, the same in every call. ``valid`` may be left out."""
    draw, head = torch.Generator().manual_seed(9), (B, heads, N, dim // heads)
    found = {name: torch.randn(head, generator=draw) for name in "qkv"}
    found["scores"] = torch.randn(B, heads, N, N, generator=draw)
    found["x"] = torch.randn(B, N, dim, generator=draw)
    places = {"pos": torch.arange(N)[None], "far": torch.arange(0, FAR, 3)[None]}
    return {**found, **places, "valid": RIGHT, "length": RIGHT.sum(1, keepdim=True)}


def of_attention(attention: Attention, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Outputs and weights under a mask."""
    named: dict[str, Any] = {"mask": Mask(causal=True, keys=given.get("valid")), "temperature": 1.3}
    return [
        attention.forward(given["q"], given["k"], given["v"], **named),
        attention.weights(given["q"], given["k"], **named),
    ]


def of_weighting(weighting: Weighting, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Weights under a mask, in the dtype of the scores."""
    scores = given["scores"]
    weights = weighting(at_least_fp32(scores), Mask(causal=True, keys=given.get("valid")))
    return [weights.to(scores.dtype)]


def of_mixer(mixer: Mixer, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output at real tokens, of a mixer that is not causal."""
    valid, pos = given.get("valid"), given["pos"]
    out: Tensor = mixer(given["x"], Context(Mask(keys=valid), pos, pos), 0)
    return [out if valid is None else out.masked_fill(~valid[..., None], 0.0)]


def of_residual(residual: Residual, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output."""
    return [residual(given["x"], given.get("valid"))]


def apply_norm(norm: Norm, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """The output and the running statistics afterwards; the norm itself stays as it was."""
    before = [buffer.clone() for buffer in norm.buffers()]
    out = norm(x, valid)
    after = [buffer.clone() for buffer in norm.buffers()]
    with torch.no_grad():
        for buffer, value in zip(norm.buffers(), before, strict=True):
            buffer.copy_(value)
    return out, after


def of_norm(norm: Norm, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Both modes, and the running statistics that training left."""
    mode, x, valid = norm.training, given["x"], given.get("valid")
    evaluated, _ = apply_norm(norm.eval(), x, valid)
    trained, statistics = apply_norm(norm.train(), x, valid)
    norm.train(mode)
    return [evaluated, trained, *statistics]


def of_position(position: Position, given: Mapping[str, Tensor]) -> list[Tensor]:
    """What each hook does near and far."""
    pos, far = given["pos"], given["far"]
    turn, bias, distant = (
        position.angles(pos),
        position.bias(pos, pos),
        position.bias(far[:, -1:], far),
    )
    outs = [position.embed(given["x"], pos, given["length"])]
    if turn is not None:
        outs.append(turn(given["q"]))
    return outs + [one for one in (bias, distant) if one is not None]


def of_feedforward(feedforward: FeedForward, given: Mapping[str, Tensor]) -> list[Tensor]:
    """The output, and an auxiliary loss over real tokens."""
    outs = [feedforward(given["x"])]
    if "auxiliary_loss" in feedforward.entry.traits:
        mode = feedforward.training
        feedforward.train()(given["x"], 0.0, given.get("valid"))
        feedforward.train(mode)
        if feedforward.auxiliary_loss is not None:
            outs.append(feedforward.auxiliary_loss)
    return outs


def of_pooling(pooling: Pooling, given: Mapping[str, Tensor]) -> list[Tensor]:
    """With padding and without."""
    return [pooling(given["x"], given.get("valid")), pooling(given["x"])]


PROBES: Mapping[str, Callable[..., list[Tensor]]] = {
    "attention": of_attention,
    "weighting": of_weighting,
    "mixer": of_mixer,
    "residual": of_residual,
    "norm": of_norm,
    "position": of_position,
    "feedforward": of_feedforward,
    "pooling": of_pooling,
}


COMPONENT_KINDS = tuple(PROBES)
"""The kinds that are modules of a model."""


def probe(kind: str, module: Any) -> list[Tensor]:
    """All that a component computes."""
    return PROBES[kind](module, inputs())
