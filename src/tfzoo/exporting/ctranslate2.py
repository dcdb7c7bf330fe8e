"""A trained translator for CTranslate2, which decodes fast and in int8, without PyTorch.

CTranslate2's own converter reads what ``--to transformers`` writes, such as T5. What is here is for
translators that ``transformers`` has no model for.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from tfzoo.base.files import new_folder
from tfzoo.components.feedforward._layers import Gated, Plain
from tfzoo.contracts import Component
from tfzoo.errors import BadOption
from tfzoo.exporting.model import name_of, own_model, sample, write_tokenizer
from tfzoo.learning.task import Task
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.transformer import Transformer

ACTIVATIONS: dict[str, Any] = {
    **{"RELU": F.relu, "GELU": F.gelu, "GELUTanh": partial(F.gelu, approximate="tanh")},
    **{"SWISH": F.silu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid},
}
LACKING = (
    *("cap", "window", "query_key_norm", "gate", "head_scale", "embedding_projection", "parallel"),
    *("pattern", "value_head_dim", "embedding_norm"),
)
"""Options that are not written."""
NEVER = -1e9
"""The logit of padding and BOS, which are never generated."""
LONGEST = 2048
"""The positions in a table of an encoding that has no longest one."""
COMPARED = 40
"""The tokens of the text that is compared, without EOS."""
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

    model: Any = own_model(task, "ctranslate2").float()
    special = task.tokenizer.special
    need(isinstance(model, Transformer), f"a model of task {task.entry.name!r}")
    need(special.cls is special.forced_bos is None, "the special tokens of its tokenizer")
    source, target = (
        [name_of(side, one) or f"<id {one}>" for one in range(len(side))]
        for side in (task.tokenizer.source, task.tokenizer.target)
    )
    spec: Any = TransformerSpec(*(stack_spec(model, side) for side in ("encoder", "decoder")))
    spec.encoder.embeddings[0].weight = model.source_embedding.weight
    spec.decoder.embeddings.weight = model.target_embedding.weight
    bias = torch.zeros(len(target)) if model.output_bias is None else model.output_bias.clone()
    bias[[*special.never]] = NEVER
    spec.decoder.projection.weight, spec.decoder.projection.bias = model.output_weight, bias
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    names = {"unk": special.eos if special.unk is None else special.unk, "bos": special.bos}
    for key, one in {**names, "eos": special.eos, "decoder_start": special.start}.items():
        setattr(spec.config, f"{key}_token", target[one])
    spec.config.layer_norm_epsilon = model.decoder.layers[0].feedforward.norm.eps
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    with new_folder(folder) as place:
        spec.save(str(place))
        write_tokenizer(task, place)
        compare(model, task, place, source, target)


def need(fits: object, part: object) -> None:
    """Raise BadOption, which names a part or an option that CTranslate2 lacks, unless it fits."""
    if not fits:
        what = f"{part.entry.kind} {part.entry.name!r}" if isinstance(part, Component) else part
        raise BadOption(
            f"ctranslate2 has nothing like {what}: its ct2-transformers-converter reads what "
            "--to transformers writes, --to onnx exports more parts, --to safetensors all"
        )


def stack_spec(model: Any, side: str) -> Any:
    """The weights and settings of the ``encoder`` or the ``decoder``."""
    from ctranslate2.specs import common_spec, transformer_spec

    stack, options = getattr(model, side), {**model.config, **(model.config[side] or {})}
    for key in LACKING:
        need(not options[key], key)
    need(options["layers"] and options["first_norm"], "a stack without layers or its first norm")
    need(options["projections"] == "linear", "projections: none")
    first = stack.layers[0]
    attention: Any = getattr(first.self_attention, "inner", "a layer without self-attention")
    feedforward: Any = getattr(first.feedforward, "inner", "a layer without feed-forward layer")
    need(isinstance(attention, SelfOrCrossAttention), attention)
    need(isinstance(feedforward, Plain), feedforward)
    norm: Any = getattr(first.feedforward, "norm", None) or first.feedforward
    need(hasattr(norm, "eps") and hasattr(norm, "weight"), norm)
    x, z = torch.randn(1, 9, stack.dim), torch.linspace(-6, 6, 25)
    act = feedforward.activation
    activation = [name for name, one in ACTIVATIONS.items() if torch.allclose(one(z), act(z))]
    need(activation, feedforward)
    at, position, rotary = torch.arange(stack.max_positions or LONGEST)[None], stack.position, {}
    need(not stack.needs_length and position.bias(at[:, :1], at[:, :1]) is None, position)
    rotation = position.angles(at[:, :1])
    if rotation is not None:  # a short text shows no difference
        need(getattr(position, "scaling", position) is None, position)
        rotary = {"rotary_dim": 2 * rotation.cos.shape[-1], "rotary_base": position.base}
        rotary["rotary_interleave"] = not rotation.halves
    cls = transformer_spec.TransformerDecoderSpec
    spec: Any = (cls if stack.causal else transformer_spec.TransformerEncoderSpec)(
        options["layers"],
        attention.heads,
        pre_norm=stack.final_norm is not None,
        activation=common_spec.Activation[activation[0]],
        ffn_glu=isinstance(feedforward, Gated),
        rms_norm=not torch.allclose(norm(x), norm(x + 1), atol=1e-4),
        head_dim=attention.query.out_features // attention.heads,
        num_heads_kv=None if attention.kv_heads == attention.heads else attention.kv_heads,
        **rotary,
    )
    spec.scale_embeddings = float(model.source_embedding.factor)
    if hasattr(spec, "position_encodings"):
        table = position.embed(torch.zeros(*at.shape, stack.dim), at)[0]
        spec.position_encodings.encodings = table.clone()
    fill_stack(spec, stack)
    return spec


def fill_stack(spec: Any, stack: Any) -> None:
    """Put the weights of a stack into their places."""
    if stack.final_norm is not None:
        fill_norm(spec.layer_norm, stack.final_norm)
    for layer, place in zip(stack.layers, spec.layer, strict=True):
        fill_attention(place.self_attention, layer.self_attention)
        if stack.causal:
            fill_attention(place.attention, layer.cross_attention)
        fill_norm(place.ffn.layer_norm, layer.feedforward.norm)
        inner = [getattr(place.ffn, key, None) for key in ("linear_0", "linear_0_noact")]
        fill([one for one in inner if one], layer.feedforward.inner.inner)
        fill([place.ffn.linear_1], layer.feedforward.inner.outer)


def fill_attention(place: Any, residual: Any) -> None:
    """Put the weights of an attention block and its norm into their places."""
    block = residual.inner
    fill_norm(place.layer_norm, residual.norm)
    unit = torch.eye(block.query.out_features // block.heads)[:1].expand(1, block.heads, 1, -1)
    place.queries_scale = float(block.attention.scores(unit, unit).mean()) / block.temperature
    inputs = [block.query, block.key or block.query, block.value]
    groups = [inputs] if len(place.linear) == 2 else [inputs[:1], inputs[1:]]
    for one, group in zip(place.linear, [*groups, [block.output]], strict=True):
        fill([one], *group)


def fill(places: list[Any], *linear: Any) -> None:
    """Put linear layers, one below the other, into places, each of which gets as many rows."""
    for key in ("weight", "bias"):
        values = [getattr(one, key) for one in linear if getattr(one, key) is not None]
        parts = torch.cat(values).chunk(len(places)) if values else ()
        for place, part in zip(places, parts, strict=False):
            setattr(place, key, part)


def fill_norm(place: Any, norm: Any) -> None:
    """Put the weights of a norm into its place."""
    place.gamma = norm.weight + getattr(norm, "centred", 0)
    if hasattr(place, "beta"):
        place.beta = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias


def compare(model: Any, task: Task, folder: Path, *vocabularies: list[str]) -> None:
    """Compare the log probabilities of the tokens of a translation with the model's;
    ``vocabularies`` are the names of ids, of the source and of the target.

    Raises:
        BadOption: they differ.
    """
    from ctranslate2 import Translator

    translator = Translator(str(folder), compute_type="float32", intra_threads=1)
    special = task.tokenizer.special
    most = min([COMPARED, *(limit - 1 for limit in task.max_positions() if limit)])
    size = min(map(len, vocabularies))
    ids = sample(special, size, 1, most)[0][0].tolist()
    (found,) = translator.score_batch(*([[names[one] for one in ids]] for names in vocabularies))
    ended = torch.tensor([*ids, special.eos])
    logits = model(ended[None], torch.tensor([[special.start, *ids]]))[0]
    logits[:, [*special.never]] = NEVER
    apart = -F.cross_entropy(logits, ended, reduction="none") - torch.tensor(found.log_probs)
    if not (largest := float(apart.abs().max())) <= TOLERANCE:
        entries = [one.entry for one in model.modules() if isinstance(one, Component)]
        parts = sorted({f"{entry.kind} {entry.name!r}" for entry in entries})
        raise BadOption(
            f"ctranslate2: the log probability of a token differs from the model's by "
            f"{largest:.1g}: it lacks one of {', '.join(parts)}"
        )
