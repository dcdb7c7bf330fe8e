"""Each published architecture of tfzoo against the model of Hugging Face's ``transformers``:

    python -m benchmarks.architectures --write

builds both from a small random configuration, copies the weights by the architecture's table, and
writes the largest differences of logits, of gradients, of cached steps, and of the logits of what
transformers loads of an imported model's export into benchmarks/architectures.md, each divided by
the largest value that was compared.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.func import functional_call

import tfzoo
from tfzoo.base.special_ids import OWN
from tfzoo.exporting.transformers import config_of, tensors_of
from tfzoo.masks import Mask
from tfzoo.models.architectures import architecture
from tfzoo.models.architectures.weights import convert_weights
from tfzoo.testing.samples import randomize

BOS, EOS, PAD = OWN.bos, OWN.eos, OWN.pad

PAGE = Path(__file__).with_suffix(".md")
VOCAB = 30
SIZES: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2}
EXACT, ROUNDED = 1e-8, 1e-5
"""How far tfzoo may be off, as a share of the largest value: where the peer computes in float64,
and where it rounds norms and angles to fp32.
"""
SOURCE = torch.tensor([[5, 9, 12, 7, 21, 3], [14, 6, 3, 8, 11, 17]])
TARGET = torch.tensor([[4, 8, 22, 15, 9], [13, 7, 19, 3, 10]])
LENGTHS = {"source": (6, 4), "target": (5, 3)}
"""Of the padded texts."""


@dataclass(frozen=True)
class Peer:
    """How both models are made small.

    Args:
        config: the configuration of the peer.
        sizes: the options of tfzoo's model, beside ``SIZES`` and those of the architecture.
        feedforward: options of its feed-forward component.
        fraction: the share of rotated channels, where that of the architecture leaves too few.
        window: that of its pattern, short enough to matter.
        bound: how far tfzoo may be off.
        padded: the peer has a mask.
    """

    config: Mapping[str, Any]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    bound: float = EXACT
    padded: bool = True
    feedforward: Mapping[str, Any] = field(default_factory=dict)
    fraction: float | None = None
    window: int | None = None


def small(name: str) -> dict[str, Any]:
    """The options of tfzoo's small model, beside those of the architecture."""
    stack, made = architecture(name).stack, PEERS[name]
    feedforward = stack["feedforward"]
    found = {**SIZES, **made.sizes}
    found["feedforward"] = {
        **({"name": feedforward} if isinstance(feedforward, str) else feedforward),
        "hidden": 24,
        **made.feedforward,
    }
    if made.fraction is not None:
        found["position"] = {**stack["position"], "fraction": made.fraction}
    if made.window is not None:
        found["pattern"] = [
            {key: made.window if key == "window" else value for key, value in entry.items()}
            for entry in stack["pattern"]
        ]
    return found


def theta(base: float) -> dict[str, Any]:
    """The peer's base of rotary angles."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base}}


SIDE = {"layers": 2, "attention_heads": 2, "ffn_dim": 24}
SEQ2SEQ = {f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in SIDE.items()}
SEQ2SEQ |= {"d_model": 16, "max_position_embeddings": 32, "decoder_start_token_id": BOS}
HIDDEN = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
HIDDEN |= {"intermediate_size": 24, "max_position_embeddings": 32}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24, "n_positions": 32}
GROUPED = {**HIDDEN, "num_key_value_heads": 1, "head_dim": 12}
BOUNDED = {"max_length": 32}
OWN_HEADS = {"kv_heads": 1, "head_dim": 12}

ROBERTA = {"max_position_embeddings": 34, "type_vocab_size": 1, "pad_token_id": 1}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 32}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
PARTIAL = {"rope_parameters": {**theta(1e4)["rope_parameters"], "partial_rotary_factor": 0.5}}
MODERN = {"num_hidden_layers": 4, "local_attention": 4, "cls_token_id": BOS, "sep_token_id": EOS}
OLMO = {**HIDDEN, "num_key_value_heads": 1, **theta(500_000.0)}
OSS = {**GROUPED, "sliding_window": 3, "num_local_experts": 4, "num_experts_per_tok": 2}
FNET = {key: value for key, value in HIDDEN.items() if key != "num_attention_heads"}
SWISH = {**SEQ2SEQ, "activation_function": "swish", "scale_embedding": True}
GEMMA = {**GROUPED, "query_pre_attn_scalar": 12, "sliding_window": 3}
exact, rounded = partial(Peer, bound=EXACT), partial(Peer, bound=ROUNDED)
EXPERTS = {"experts": 4, "top_k": 2}
PEERS: dict[str, Peer] = {
    "marian": rounded(SWISH),
    "bart": exact(SEQ2SEQ, BOUNDED),
    "t5": rounded(T5),
    "t5_v1_1": rounded({**T5, **GATED}),
    "bert": exact(HIDDEN, BOUNDED),
    "roberta": exact({**HIDDEN, **ROBERTA, "layer_norm_eps": 1e-5}, BOUNDED),
    "distilbert": exact(DISTIL, BOUNDED),
    "gpt2": exact(GPT, BOUNDED),
    "llama": rounded(GROUPED, OWN_HEADS),
    "qwen3": rounded({**GROUPED, **theta(1e6)}, OWN_HEADS),
    "gptj": rounded({**GPT, "rotary_dim": 4}, fraction=0.5),
    "gpt_neox": rounded({**HIDDEN, **PARTIAL}, fraction=0.5),
    "gemma2": rounded(GEMMA, OWN_HEADS, window=3),
    "olmo2": rounded(OLMO, {"kv_heads": 1}),
    "fnet": exact(FNET, BOUNDED, padded=False),
    "gpt_oss": rounded(OSS, OWN_HEADS, window=3, feedforward=EXPERTS),
    "modernbert": rounded({**HIDDEN, **MODERN}, {"layers": 4}, window=4),
}


@dataclass(frozen=True)
class Differences:
    """The largest ones, each as a share of the largest value."""

    outputs: float
    gradients: float
    cached: float | None
    exported: float


def build(name: str) -> tuple[Any, Any]:
    """The peer and tfzoo's model of an architecture, in float64, with random weights each."""
    found, made = architecture(name), PEERS[name]
    torch.manual_seed(0)
    cls = getattr(transformers, found.transformers)
    special = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    config = cls.config_class(vocab_size=VOCAB, **{**special, **made.config})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    peer = cls(config).double().eval()
    if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
        peer.lm_head.weight = nn.Parameter(torch.empty_like(peer.lm_head.weight).normal_())
    trained = {key for key, one in peer.named_parameters() if one.requires_grad}
    fixed = {key: one.clone() for key, one in peer.state_dict().items() if key not in trained}
    randomize(peer)
    peer.load_state_dict(fixed, strict=False)
    model = getattr(tfzoo, found.model)(VOCAB, like=name, **small(name))
    return peer, model.double().eval()


@dataclass(frozen=True)
class Batch:
    """Ids of the texts; which outputs are of real tokens: the last text's, ``(b n)``; and the types
    of tokens for models that have them.
    """

    texts: tuple[Tensor, ...]
    real: Tensor
    types: Tensor | None = None

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """Of tfzoo's model."""
        return self.texts if self.types is None else (*self.texts, self.types)

    @property
    def masks(self) -> dict[str, Mask]:
        """Which tokens are real, for tfzoo's model."""
        names = ("source_mask", "target_mask") if len(self.texts) == 2 else ("mask",)
        return {name: Mask(keys=one != PAD) for name, one in zip(names, self.texts, strict=True)}


def batch(model: Any, padded: bool) -> Batch:
    """A source and a target for a Transformer, one text for others."""
    texts, masks = [], []
    for ids, lengths in ((SOURCE, LENGTHS["source"]), (TARGET, LENGTHS["target"])):
        real = torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None] if padded else ids > 0
        texts.append(ids.masked_fill(~real, PAD))
        masks.append(real)
    if isinstance(model, tfzoo.Transformer):
        return Batch(tuple(texts), masks[1])
    types = model.config.get("token_types", 0)
    return Batch((texts[0],), masks[0], texts[0] % types if types else None)


def peer_outputs(peer: Any, given: Batch) -> Tensor:
    """The peer's logits ``(b n v)``."""
    inputs = {}
    for prefix, text in zip(("", "decoder_"), given.texts, strict=False):
        inputs[f"{prefix}input_ids"] = text
        inputs[f"{prefix}attention_mask"] = (text != PAD).long()
    if given.types is not None:
        inputs["token_type_ids"] = given.types
    logits: Tensor = peer(**inputs).logits
    return logits


def compare(name: str) -> Differences:
    """Both models on the same batches, padded and not."""
    peer, model = build(name)
    parameters = {key: one for key, one in peer.named_parameters() if one.requires_grad}
    own = dict(model.named_parameters())
    state = peer.state_dict()
    stored = {key: state[key] for key, _ in peer.named_buffers() if key in state}
    converted = convert_weights(name, model, stored | parameters)
    weights = {key: value for key, value in converted.items() if key in own}
    outputs, gradients = [], []
    for padded in (False, True) if PEERS[name].padded else (False,):
        given = batch(model, padded)
        theirs = peer_outputs(peer, given)[given.real]
        ours = functional_call(model, weights, given.arguments, given.masks)[given.real]
        outputs.append(difference(ours, theirs))
        upstream = torch.randn(theirs.shape, dtype=theirs.dtype)
        # The gradients of both with respect to the peer's parameters, through the conversion.
        found, expected = (
            torch.autograd.grad(
                (y * upstream).sum(),
                list(parameters.values()),
                allow_unused=True,
                retain_graph=True,
            )
            for y in (ours, theirs)
        )
        gradients.append(difference(flat(found, parameters), flat(expected, parameters)))
    cached = None
    if not isinstance(model, tfzoo.MaskedLanguageModel):
        model.load_state_dict(convert_weights(name, model, peer.state_dict()))
        given = batch(model, padded=False)
        cached = difference(step_by_step(model, given), peer_outputs(peer, given))
    with TemporaryDirectory() as place:
        peer.save_pretrained(place)
        imported: Any = tfzoo.from_pretrained(place)
    given = batch(imported, padded=False)
    written = loaded_export(imported, peer.config.pad_token_id)
    exported = difference(peer_outputs(written, given), peer_outputs(peer, given))
    return Differences(max(outputs), max(gradients), cached, exported)


def loaded_export(model: Any, pad: int | None = 0) -> Any:
    """What transformers loads of an exported model."""
    name, config = config_of(model, [], pad=pad)
    cls = getattr(transformers, config["architectures"][0])
    with TemporaryDirectory() as place:
        save_file(tensors_of(name, model), Path(place, "model.safetensors"), {"format": "pt"})
        Path(place, "config.json").write_text(json.dumps(config), "utf-8")
        eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
        peer, info = cls.from_pretrained(place, output_loading_info=True, **eager)
    left = {key for one in info.values() for key in one if "pooler" not in key}  # FNet's is unused
    if left:
        raise ValueError(f"transformers did not load {left} of {name}")
    return peer.eval()


def flat(grads: tuple[Tensor | None, ...], parameters: Mapping[str, Tensor]) -> Tensor:
    """All gradients in one vector; those of parameters that were not used are 0."""
    pairs = zip(grads, parameters.values(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


@torch.no_grad()
def step_by_step(model: Any, given: Batch) -> Tensor:
    """The logits of the last text, one token at a time with the cache: ``(b n v)``."""
    *source, text = given.texts
    memory = model.init_cache(*source)
    return torch.stack([model.decode_step(ids, memory) for ids in text.unbind(1)], 1)


def difference(ours: Tensor, theirs: Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def table(measured: Mapping[str, Differences]) -> str:
    """Of Markdown."""
    rows = [
        "| architecture | model | paper | outputs | gradients | cached | exported |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in measured.items():
        found = architecture(name)
        cached = "-" if one.cached is None else f"{one.cached:.0e}"
        rows.append(
            f"| `{name}` | `{found.model}` | {link(found.paper)} "
            f"| {one.outputs:.0e} | {one.gradients:.0e} | {cached} | {one.exported:.0e} |"
        )
    return "\n".join(rows)


def link(paper: str) -> str:
    """Of Markdown."""
    for prefix, site in (("arXiv:", "arxiv.org/abs/"), ("aclanthology:", "aclanthology.org/")):
        if paper.startswith(prefix):
            return f"[{paper}](https://{site}{paper.removeprefix(prefix)})"
    return f"[its site]({paper})"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into benchmarks/architectures.md")
    parser.add_argument("names", nargs="*", help="all by default")
    given = parser.parse_args(words)
    measured = {name: compare(name) for name in given.names or sorted(PEERS)}
    text = table(measured)
    print(text)
    if given.write:
        page = PAGE.read_text("utf-8")
        start, end = (
            page.index("| architecture |"),
            page.index("\n\n", page.index("| architecture |")),
        )
        PAGE.write_text(page[:start] + text + page[end:], "utf-8")


if __name__ == "__main__":
    main()
