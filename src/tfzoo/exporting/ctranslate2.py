"""A trained translator for CTranslate2, which decodes fast and in int8, without PyTorch.

CTranslate2 has its own layers. A part of ours is exported where it computes what one of them
computes (:mod:`tfzoo.exporting.probes`), and refused by name where it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tfzoo.base.special_ids import SpecialIds
from tfzoo.contracts import FeedForward, Norm, Residual, Weighting
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.errors import BadOption
from tfzoo.exporting import probes
from tfzoo.exporting.failures import counterpart, no_counterpart, own_model
from tfzoo.exporting.files import write_tokenizer
from tfzoo.exporting.positions import encode_positions
from tfzoo.feedforward._layers import Gated, Plain
from tfzoo.learning.task import Task
from tfzoo.models.mixer import Mixer
from tfzoo.models.multihead import SelfOrCrossAttention
from tfzoo.models.stack import Stack
from tfzoo.models.transformer import Transformer
from tfzoo.runs.files import new_folder

T = TypeVar("T")

OPTIONS = {"query_norm": "query_key_norm"}
"""The options whose modules have other names."""
NEVER = -1e9
"""The logit of padding and BOS, which are never generated."""


def export(task: Task, folder: Path) -> None:
    """Write a translator, in fp32, and its tokenizer to a new folder. Before they get their names,
    its translations and their scores are compared with the model's.

    Raises:
        BadOption: CTranslate2 has nothing like a part of the model, or computes something else.
        TfzooError: the folder exists and is not empty, or cannot be written.
    """
    model = own_model(task, "ctranslate2").float()
    if not isinstance(model, Transformer):
        raise BadOption(f"ctranslate2 translates; a {task.entry.name} model is exported --to onnx")
    special = task.tokenizer.special
    if special.forced_bos is not None:
        raise no_counterpart(f"a forced first token (id {special.forced_bos})")
    with torch.no_grad():
        spec = model_spec(model, special)
    names = tokens(task.tokenizer.source), tokens(task.tokenizer.target)
    spec.register_source_vocabulary(names[0])
    spec.register_target_vocabulary(names[1])
    if special.cls not in (None, special.bos):
        raise no_counterpart("a text that begins with another id than a translation")
    spec.config.unk_token = names[1][special.eos if special.unk is None else special.unk]
    spec.config.bos_token, spec.config.eos_token = names[1][special.bos], names[1][special.eos]
    spec.config.decoder_start_token = names[1][special.start]
    spec.config.add_source_bos = special.cls is not None
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    with new_folder(folder) as place:
        spec.save(str(place))
        write_tokenizer(task, place)
        compare(model, special, task.max_positions(), place, names)


def tokens(tokenizer: Tokenizer) -> list[str]:
    """The name of each id: that of the tokenizer or its library, or the number where there is
    none.
    """
    library = getattr(tokenizer, "library", None)
    name_of: Any = getattr(tokenizer, "name_of", getattr(library, "id_to_token", str))
    return [name_of(one) or f"<id {one}>" for one in range(len(tokenizer))]


def model_spec(model: Transformer, special: SpecialIds) -> Any:
    """The weights and settings of a model as CTranslate2 names them."""
    from ctranslate2.specs import TransformerSpec

    eps: set[float] = set()
    encoder, decoder = (stack_spec(one, eps) for one in (model.encoder, model.decoder))
    encoder.embeddings[0].weight = numpy(model.source_embedding.weight)
    decoder.embeddings.weight = numpy(model.target_embedding.weight)
    encoder.scale_embeddings = float(model.source_embedding.factor)
    decoder.scale_embeddings = float(model.target_embedding.factor)
    bias = torch.zeros(len(model.output_weight))
    if model.output_bias is not None:
        bias += model.output_bias.detach()
    bias[[*special.never]] = NEVER
    decoder.projection.weight, decoder.projection.bias = numpy(model.output_weight), numpy(bias)
    spec = TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = same("norms with different eps", eps)
    return spec


def stack_spec(stack: Stack, eps: set[float]) -> Any:
    """The weights and settings of an encoder or a decoder; the eps of its norms are added to
    ``eps``.
    """
    from ctranslate2.specs import common_spec, transformer_spec

    check_options(stack)
    layers = [sublayers(layer, stack.causal) for layer in stack.layers]
    every = [one for layer in layers for one in layer]
    norm_first = same(
        "two kinds of residual connection",
        (counterpart(probes.has_norm_first(one, stack.dim), one) for one in every),
    )
    ends = {"layer_norm": stack.final_norm, "layernorm_embedding": stack.embedding_norm}
    modules = [*map(norm_of, every), *filter(None, ends.values())]
    norms = {one: counterpart(probes.layer_norm(one, stack.dim), one) for one in modules}
    attentions: list[Any] = [one.inner for layer in layers for one in layer[:-1]]
    feedforwards: list[Any] = [layer[-1].inner for layer in layers]
    positions = encode_positions(stack)
    made = transformer_spec.TransformerEncoderSpec
    if stack.causal:
        made = transformer_spec.TransformerDecoderSpec
    spec = made(
        len(layers),
        same("layers with different heads", (one.heads for one in attentions)),
        pre_norm=norm_first,
        no_final_norm=stack.final_norm is None,
        activation=common_spec.Activation[
            same("two activation functions", map(activation, feedforwards))
        ],
        layernorm_embedding=stack.embedding_norm is not None,
        ffn_glu=same("gated beside plain layers", (isinstance(one, Gated) for one in feedforwards)),
        rms_norm=same("RMS norm beside layer norm", (one.beta is None for one in norms.values())),
        head_dim=same("layers with different head_dim", map(head_dim, attentions)),
        **positions.options,
    )
    positions.fill(spec)
    for name, norm in ends.items():
        if norm is not None:
            if not hasattr(spec, name):
                raise no_counterpart("a final norm after layers that end with one")
            fill_norm(getattr(spec, name), norms[norm])
    for layer, filled in zip(layers, spec.layer, strict=True):
        places = [filled.self_attention, *([filled.attention] if stack.causal else []), filled.ffn]
        for sublayer, place in zip(layer, places, strict=True):
            fill_norm(place.layer_norm, norms[norm_of(sublayer)])
            fill(place, sublayer.inner)
    eps |= {norm.eps for norm in norms.values()}
    return spec


def check_options(stack: Stack) -> None:
    """Refuse options of a stack that CTranslate2 has nothing like."""
    if not len(stack.layers):
        raise no_counterpart("a stack without layers")
    if stack.embedding_projection is not None:
        raise no_counterpart("embedding_projection")
    if any(window is not None for _, window in stack.positions_and_windows):
        raise no_counterpart("window")
    if any(name for name, _ in stack.positions_and_windows):
        raise no_counterpart("layers with different positions")


def sublayers(layer: Any, cross: bool) -> list[Residual]:
    """The sublayers of a layer: self-attention, cross-attention if any, feed-forward."""
    found = [layer.self_attention, *([layer.cross_attention] if cross else []), layer.feedforward]
    for sublayer, kind in zip(
        found, (*[SelfOrCrossAttention] * (len(found) - 1), FeedForward), strict=True
    ):
        if sublayer is None:
            lacks = "feed-forward layer" if kind is FeedForward else "self-attention"
            raise no_counterpart(f"a layer without {lacks}")
        if not isinstance(sublayer.inner, kind):
            raise no_counterpart(
                sublayer.inner if isinstance(sublayer.inner, Mixer) else "parallel"
            )
    return found


def norm_of(residual: Residual) -> Norm:
    """The norm of a residual connection that has one."""
    return residual.norm  # type: ignore[return-value]  # probes.has_norm_first has found it


def activation(feedforward: FeedForward) -> str:
    """The name of the activation function."""
    if not isinstance(feedforward, Plain | Gated):
        raise no_counterpart(feedforward)
    return counterpart(probes.activation(feedforward), feedforward)


def head_dim(block: SelfOrCrossAttention) -> int:
    """The width of a head of queries, keys and values."""
    if not isinstance(block.value, nn.Linear) or not isinstance(block.query, nn.Linear):
        raise no_counterpart("projections: none")
    width = block.query.out_features // block.heads
    if block.value.out_features != block.kv_heads * width:
        raise no_counterpart("value_head_dim")
    return width


def fill(place: Any, inner: Any) -> None:
    """Put the weights of a sublayer into its place."""
    if isinstance(inner, SelfOrCrossAttention):
        fill_attention(place, inner)
        return
    gated = isinstance(inner, Gated)
    parts = inner.inner.weight.chunk(2) if gated else (inner.inner.weight,)
    biases = (
        (None,) * len(parts) if inner.inner.bias is None else inner.inner.bias.chunk(len(parts))
    )
    places = (place.linear_0, place.linear_0_noact) if gated else (place.linear_0,)
    for one, weight, bias in zip(places, parts, biases, strict=True):
        fill_linear(one, [weight], [bias])
    fill_linear(place.linear_1, [inner.outer.weight], [inner.outer.bias])


def fill_attention(place: Any, block: SelfOrCrossAttention) -> None:
    """Put the weights of an attention block into its place."""
    for name in ("cap", "weighting", "query_norm", "gate", "head_scale"):
        part = getattr(block, name)
        if part is not None:
            raise no_counterpart(
                OPTIONS.get(name, name) if not isinstance(part, Weighting) else part
            )
    scale = probes.score_scale(block.attention, block.heads, head_dim(block))
    place.queries_scale = counterpart(scale, block.attention) / block.temperature
    repeats = block.heads // block.kv_heads
    query, output = weight_and_bias(block.query), weight_and_bias(block.output)
    key = weight_and_bias(block.key or block.query, block.kv_heads, repeats)
    value = weight_and_bias(block.value, block.kv_heads, repeats)
    *inputs, last = place.linear
    groups = [[query], [key, value]] if len(inputs) == 2 else [[query, key, value]]
    for one, group in zip((*inputs, last), (*groups, [output]), strict=True):
        fill_linear(one, *zip(*group, strict=True))


def weight_and_bias(module: Any, heads: int = 1, times: int = 1) -> tuple[Tensor, Tensor | None]:
    """The weight and bias of a linear layer with each of its heads so many times, as they are
    where queries share keys and values.
    """

    def repeated(x: Tensor) -> Tensor:
        one = x.reshape(heads, -1, *x.shape[1:])
        return one.repeat_interleave(times, 0).reshape(-1, *x.shape[1:])

    return repeated(module.weight), None if module.bias is None else repeated(module.bias)


def fill_linear(place: Any, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
    """Put the weights and biases of linear layers, one below the other, into one."""
    place.weight = numpy(torch.cat(list(weights)))
    if biases[0] is not None:
        place.bias = numpy(torch.cat([one for one in biases if one is not None]))


def fill_norm(place: Any, norm: probes.LayerNorm) -> None:
    """Put the weights of a norm into its place."""
    place.gamma = numpy(norm.gamma)
    if norm.beta is not None:
        place.beta = numpy(norm.beta)


def numpy(x: Tensor) -> Any:
    """A tensor as an fp32 array of its own."""
    return x.detach().cpu().float().clone().numpy()


def same(what: str, values: Iterable[T]) -> T:
    """The value that all have in common; ``what`` is what is refused if they differ."""
    found = set(values)
    if len(found) > 1:
        raise no_counterpart(what)
    return found.pop()


LENGTHS = (1, 2, 7, 16, 40)
"""The lengths of texts, without EOS, for which translations are compared."""
STEPS = 24
"""The most tokens of a translation."""
TOLERANCE = 2e-3
"""Of a log probability."""


def compare(
    model: Transformer,
    special: SpecialIds,
    limits: tuple[int | None, int | None],
    folder: Path,
    names: tuple[list[str], list[str]],
) -> None:
    """Translate texts of several lengths in one batch with the files in a folder, by greedy and by
    beam search, and check the log probability of each translation against the model's; and, of
    greedy translations, that each token is the model's most probable one. ``limits`` are the most
    tokens of source and target, and ``names`` those of their ids.

    Raises:
        BadOption: they differ.
    """
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    most, longest = limits
    ordinary = special.ordinary(len(names[0]) - len(special.every))
    texts = [
        [ordinary[(17 * place + n) % len(ordinary)] for place in range(n)]
        for n in LENGTHS
        if most is None or n <= most - special.frame
    ]
    ids = {name: id for id, name in enumerate(names[1])}
    for beam in (1, 3):
        found = translator.translate_batch(
            [[names[0][id] for id in one] for one in texts],
            beam_size=beam,
            max_decoding_length=min(STEPS, (longest or STEPS + 1) - 1),
            length_penalty=0,
            return_scores=True,
            disable_unk=False,
            return_end_token=True,
        )
        for given, result in zip(texts, found, strict=True):
            made = [ids[name] for name in result.hypotheses[0]]
            log_p = log_probabilities(model, special, given, made)
            best = log_p.amax(-1)
            reached = log_p.gather(1, torch.tensor(made)[:, None])[:, 0]
            apart = abs(float(reached.sum()) - result.scores[0]) / len(made)
            if beam == 1:
                apart = max(apart, float((best - reached).max()))
            if not apart <= TOLERANCE:
                raise BadOption(
                    f"ctranslate2: the log probability of a token differs from the model's by "
                    f"{apart:.1g} for a text of {len(given)} tokens, beam {beam}"
                )


@torch.no_grad()
def log_probabilities(
    model: Transformer, special: SpecialIds, source: Sequence[int], target: Sequence[int]
) -> Tensor:
    """The log probability of every token at each place of a translation: ``(t v)``."""
    begin = [] if special.cls is None else [special.cls]
    texts = [*begin, *source, special.eos], [special.start, *target[:-1]]
    logits: Tensor = model(*(torch.tensor([ids]) for ids in texts))[0]
    logits[:, [*special.never]] = float("-inf")
    return logits.log_softmax(-1)
