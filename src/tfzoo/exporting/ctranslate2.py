"""A trained translator for CTranslate2, which decodes fast and in int8, without PyTorch."""

from __future__ import annotations

import copy
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.contracts import Component, Norm
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.errors import BadOption
from tfzoo.exporting.failures import own_model
from tfzoo.exporting.files import write_tokenizer
from tfzoo.feedforward._layers import Gated, Plain
from tfzoo.learning.task import Task
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.transformer import Transformer
from tfzoo.runs.files import new_folder

ACTIVATIONS: dict[str, Any] = {
    **{"RELU": F.relu, "GELU": F.gelu, "GELUTanh": partial(F.gelu, approximate="tanh")},
    **{"SWISH": F.silu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid},
}
LACKING = (
    *("cap", "window", "query_key_norm", "gate", "head_scale", "embedding_projection", "parallel"),
    *("pattern", "value_head_dim"),
)
"""Options that CTranslate2 has nothing like."""
NEVER = -1e9
"""The logit of padding and BOS, which are never generated."""
LONGEST = 2048
"""The positions in a table of an encoding that has no longest one."""
NEAR, FURTHEST = 1024, 8192
"""Biases are exact for distances under the first; all from the second on have the same one."""
BASE = 10_000.0
"""The frequencies of a rotation are stated relative to those of this base."""
LENGTHS = (1, 2, 7, 16, 40)
"""The lengths of the texts that are compared, without EOS."""
TOLERANCE = 2e-3
"""Of a log probability."""


@torch.no_grad()
def export(task: Task, folder: Path) -> None:
    """Write a translator, in fp32, and its tokenizer to a new folder, after comparing the log
    probabilities of translations.

    Raises:
        BadOption: CTranslate2 has nothing like a part of the model, or computes something else.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    from ctranslate2.specs import TransformerSpec

    model = own_model(task, "ctranslate2").float()
    if not isinstance(model, Transformer):
        raise BadOption(f"ctranslate2 translates; a {task.entry.name} model is exported --to onnx")
    special = task.tokenizer.special
    need(special.forced_bos is None, f"a forced first token (id {special.forced_bos})")
    need(special.cls in (None, special.bos), "a text that begins with another id than its reply")
    source, target = tokens(task.tokenizer.source), tokens(task.tokenizer.target)
    spec: Any = TransformerSpec(*(stack_spec(model, side) for side in ("encoder", "decoder")))
    spec.encoder.embeddings[0].weight = model.source_embedding.weight
    spec.decoder.embeddings.weight = model.target_embedding.weight
    spec.encoder.scale_embeddings = float(model.source_embedding.factor)
    spec.decoder.scale_embeddings = float(model.target_embedding.factor)
    bias = torch.zeros(len(target)) if model.output_bias is None else model.output_bias.clone()
    bias[[*special.never]] = NEVER
    spec.decoder.projection.weight, spec.decoder.projection.bias = model.output_weight, bias
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    epsilon, *others = {one.eps for one in model.modules() if isinstance(one, Norm)}
    need(not others, "norms with different eps")
    for key, value in {
        "unk_token": target[special.eos if special.unk is None else special.unk],
        **{"bos_token": target[special.bos], "eos_token": target[special.eos]},
        **{"decoder_start_token": target[special.start], "layer_norm_epsilon": epsilon},
        **{"add_source_bos": special.cls is not None, "add_source_eos": True},
    }.items():
        setattr(spec.config, key, value)
    spec.validate()
    spec.optimize()
    with new_folder(folder) as place:
        spec.save(str(place))
        write_tokenizer(task, place)
        compare(model, task, place, source, target)


def tokens(tokenizer: Tokenizer) -> list[str]:
    """The name of each id: that of the tokenizer or its library, or the number where there is
    none.
    """
    library = getattr(tokenizer, "library", None)
    name_of: Any = getattr(tokenizer, "name_of", getattr(library, "id_to_token", str))
    return [name_of(one) or f"<id {one}>" for one in range(len(tokenizer))]


def need(fits: object, part: object) -> None:
    """Raise BadOption, which names a part or an option that CTranslate2 lacks, unless it fits."""
    if not fits:
        what = f"{part.entry.kind} {part.entry.name!r}" if isinstance(part, Component) else part
        more = "--to onnx exports more parts, --to safetensors all"
        raise BadOption(f"ctranslate2 has nothing like {what}; {more}")


def stack_spec(model: Transformer, side: str) -> Any:
    """The weights and settings of the ``encoder`` or the ``decoder``."""
    from ctranslate2.specs import common_spec, transformer_spec

    stack: Any = getattr(model, side)
    options = {**model.config, **(model.config[side] or {})}
    for key in LACKING:
        need(not options[key], key)
    need(options["first_norm"] and options["projections"] == "linear", "projections: none")
    need(options["layers"], "a stack without layers")
    first = stack.layers[0]
    attention: Any = getattr(first.self_attention, "inner", "a layer without self-attention")
    feedforward: Any = getattr(first.feedforward, "inner", "a layer without feed-forward layer")
    need(isinstance(attention, SelfOrCrossAttention), attention)
    need(isinstance(feedforward, Plain | Gated), feedforward)
    norm: Any = getattr(first.feedforward, "norm", None) or first.feedforward
    need(hasattr(norm, "eps") and hasattr(norm, "weight"), norm)
    x, z = torch.randn(1, 9, stack.dim), torch.linspace(-6, 6, 25)
    act = feedforward.activation
    activation = [name for name, one in ACTIVATIONS.items() if torch.allclose(one(z), act(z))]
    need(activation, feedforward)
    position, attributes = position_spec(stack)
    cls = transformer_spec.TransformerDecoderSpec
    spec: Any = (cls if stack.causal else transformer_spec.TransformerEncoderSpec)(
        len(stack.layers),
        attention.heads,
        pre_norm=stack.final_norm is not None,
        activation=common_spec.Activation[activation[0]],
        layernorm_embedding=stack.embedding_norm is not None,
        ffn_glu=isinstance(feedforward, Gated),
        rms_norm=not torch.allclose(norm(x), norm(x + 1), atol=1e-4),
        head_dim=attention.query.out_features // attention.heads,
        num_heads_kv=None if attention.kv_heads == attention.heads else attention.kv_heads,
        **position,
    )
    if hasattr(spec, "position_encodings"):
        at = torch.arange(stack.max_positions or LONGEST)[None]
        table = stack.position.embed(torch.zeros(*at.shape, stack.dim), at)[0]
        spec.position_encodings.encodings = table.clone()
    ends = {"layer_norm": stack.final_norm, "layernorm_embedding": stack.embedding_norm}
    for name, one in ends.items():
        if one is not None:
            fill_norm(getattr(spec, name), one)
    for layer, place in zip(stack.layers, spec.layer, strict=True):
        fill_attention(place.self_attention, layer.self_attention)
        for name, value in attributes.items():
            setattr(place.self_attention, name, value)
        if stack.causal:
            fill_attention(place.attention, layer.cross_attention)
        fill_feedforward(place.ffn, layer.feedforward)
    return spec


def position_spec(stack: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A positional encoding as options of a stack and attributes of each self-attention; both are
    empty for a table that is added to embeddings.
    """
    from ctranslate2.specs.attention_spec import RotaryScalingType

    position = stack.position
    need(not stack.needs_length, position)
    at = torch.tensor([[FURTHEST]])
    if "bias_of_distance" in position.entry.traits:
        steps = torch.logspace(math.log2(NEAR), math.log2(FURTHEST), NEAR + 1, base=2)[:-1]
        far = torch.cat([torch.arange(NEAR), steps.ceil().long()])[None]
        sides = [at - far] if stack.causal else [at - far, at + far]
        biases = torch.cat([position.bias(at, keys)[0, :, 0].T for keys in sides])
        biased = {"relative_attention_bias": biases.contiguous()}
        furthest = {"relative_attention_max_distance": np.int32(FURTHEST)}
        return {"relative_attention_bias": True}, biased | furthest
    need(position.bias(at, at) is None, position)
    rotation = copy.deepcopy(position).double().angles(torch.ones(1, 1))
    if rotation is None:
        return {}, {}
    need(torch.allclose(rotation.cos**2 + rotation.sin**2, torch.ones_like(rotation.cos)), position)
    angles = torch.atan2(rotation.sin, rotation.cos).flatten()
    plain = BASE ** -(torch.arange(len(angles)) / len(angles)).double()
    options: dict[str, Any] = {
        "rotary_dim": 2 * len(angles),
        "rotary_interleave": not rotation.halves,
    }
    options |= {"rotary_base": BASE, "rotary_scaling_type": RotaryScalingType.Su}
    keys = ("rotary_scaling_long_factor", "rotary_scaling_short_factor")
    return options, dict.fromkeys(keys, (plain / angles).float())


def fill_attention(place: Any, residual: Any) -> None:
    """Put the weights of an attention block and its norm into their places."""
    block = residual.inner
    fill_norm(place.layer_norm, residual.norm)
    unit = torch.eye(block.query.out_features // block.heads)[:1].expand(1, block.heads, 1, -1)
    scale = block.attention.scores(unit, unit).unique()
    need(len(scale) == 1, block.attention)
    place.queries_scale = float(scale) / block.temperature
    inputs = [block.query, block.key or block.query, block.value]
    groups = [inputs] if len(place.linear) == 2 else [inputs[:1], inputs[1:]]
    for one, group in zip(place.linear, [*groups, [block.output]], strict=True):
        fill_linear(one, *group)


def fill_feedforward(place: Any, residual: Any) -> None:
    """Put the weights of a feed-forward layer and its norm into their places."""
    fill_norm(place.layer_norm, residual.norm)
    inner, outer = residual.inner.inner, residual.inner.outer
    linear = [place.linear_0, *filter(None, [getattr(place, "linear_0_noact", None)])]
    for index, one in enumerate(linear):
        one.weight = inner.weight.chunk(len(linear))[index]
        if inner.bias is not None:
            one.bias = inner.bias.chunk(len(linear))[index]
    fill_linear(place.linear_1, outer)


def fill_linear(place: Any, *linear: Any) -> None:
    """Put the weights and biases of linear layers, one below the other, into one."""
    place.weight = torch.cat([one.weight for one in linear])
    if linear[0].bias is not None:
        place.bias = torch.cat([one.bias for one in linear])


def fill_norm(place: Any, norm: Any) -> None:
    """Put the weights of a norm into its place."""
    place.gamma = norm.weight + getattr(norm, "centred", 0)
    if hasattr(place, "beta"):
        place.beta = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias


def compare(
    model: Transformer, task: Task, folder: Path, source: list[str], target: list[str]
) -> None:
    """Compare the log probabilities of the tokens of translations with the model's; ``source`` and
    ``target`` are the names of ids.

    Raises:
        BadOption: they differ.
    """
    from ctranslate2 import Translator

    translator = Translator(str(folder), compute_type="float32", intra_threads=1)
    special = task.tokenizer.special
    most = min(limit - special.frame for limit in (*filter(None, task.max_positions()), LONGEST))
    ordinary = special.ordinary(min(len(source), len(target)) - len(special.every))
    for n in (one for one in LENGTHS if one <= most):
        ids = [ordinary[17 * place % len(ordinary)] for place in range(n)]
        texts = ([[names[one] for one in ids]] for names in (source, target))
        (result,) = translator.score_batch(*texts)
        begin = [] if special.cls is None else [special.cls]
        given = [*begin, *ids, special.eos], [special.start, *ids]
        logits: Tensor = model(*(torch.tensor([one]) for one in given))[0]
        logits[:, [*special.never]] = NEVER
        wanted = logits.log_softmax(-1).gather(1, torch.tensor([[*ids, special.eos]]).T)[:, 0]
        apart = float((torch.tensor(result.log_probs) - wanted).abs().max())
        if not apart <= TOLERANCE:
            found = (one.entry for one in model.modules() if isinstance(one, Component))
            parts = {f"{entry.kind} {entry.name!r}" for entry in found}
            raise BadOption(
                f"ctranslate2: the log probability of a token differs from the model's by "
                f"{apart:.1g} for a text of {n} tokens: it lacks one of {', '.join(sorted(parts))}"
            )
