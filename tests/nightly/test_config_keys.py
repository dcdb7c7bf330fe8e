"""No key of a ``config.json`` changes the numbers of tfzoo or ``transformers`` alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers

import tfzoo
from benchmarks.architectures import PEERS
from tests.published_folders import peer_of
from tfzoo.errors import TfzooError
from tfzoo.models.architectures import architecture
from tfzoo.models.architectures.config import READERS

VOCAB, LENGTH = 40, 24
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "tanh", "quick_gelu"]
ROPES: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_theta": 3000.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"type": "linear", "factor": 2.0},
    {"type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "truncate": False},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
]
KEYS: dict[str, list[Any]] = {
    **dict.fromkeys(("rope_scaling", "rope_parameters"), ROPES),
    **dict.fromkeys(("hidden_act", "hidden_activation", "activation_function"), ACTIVATIONS),
    **dict.fromkeys(("activation", "dense_act_fn", "classifier_activation"), ACTIVATIONS),
    **{key: [500.0] for key in ("rope_theta", "rotary_emb_base", "local_rope_theta")},
    **{key: [0.5, 1.0] for key in ("partial_rotary_factor", "rotary_pct")},
    **{key: [None, 1, 4] for key in ("sliding_window", "local_attention", "max_window_layers")},
    "position_embedding_type": ["relative_key", "relative_key_query"],
    "layer_types": [["full_attention"] * 2, ["sliding_attention"] * 2],
    "is_causal": [False],
    "use_sliding_window": [False, True],
}
"""Values to try, beside those that follow from what is there; also keys that are not there."""
SAYS_NOTHING = {"architectures", "dtype", "id2label", "label2id", "model_type"}
SPLIT = {"t5": ["scale_decoder_outputs"], "t5_v1_1": ["scale_decoder_outputs"]}
"""Keys that files of older versions lack, and that decide alone where they are there."""


def others(value: Any) -> list[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value // 2, 1), 0, None]
    return [0.37, value * 3 + 0.01] if isinstance(value, float) else []


def changed(config: dict[str, Any], known: list[str]) -> Iterator[dict[str, Any]]:
    """The configuration with one key changed, or without it."""
    rope = {"rope_theta", "rotary_emb_base", "partial_rotary_factor", "rotary_pct", "rope_scaling"}
    for key in dict.fromkeys([*config, *KEYS, *known]):
        rest = {name: one for name, one in config.items() if name != key}
        if key in rope:  # what newer files say instead
            rest.pop("rope_parameters", None)
        if key in SAYS_NOTHING:
            continue
        if key in config:
            yield rest
        for value in [*KEYS.get(key, []), *others(config.get(key))]:
            if value != config.get(key) or isinstance(value, bool):
                yield {**rest, key: value}


def logits_of(model: Any, config: dict[str, Any]) -> torch.Tensor:
    """Of a text, and of a part of it in reverse where the model reads two."""
    ids = torch.arange(5, 5 + LENGTH)[None]
    both = {"input_ids": ids, "decoder_input_ids": ids[:, :9].flip(1)}
    wanted = both if config.get("is_encoder_decoder") else {"input_ids": ids}
    if isinstance(model, transformers.PreTrainedModel):
        return model(**wanted).logits
    return model(*wanted.values())


CLASSES = [
    (name, cls)
    for name in PEERS
    for cls in (
        architecture(name).transformers,
        *architecture(name).classifier.get("classes", [])[:1],
    )
]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "class_name"), CLASSES)
@torch.no_grad()
def test_no_key_changes_the_numbers_of_one_alone(name, class_name, tmp_path):
    said = architecture(name)
    special = {"pad_token_id": 1 if name == "roberta" else 0, "bos_token_id": 2, "eos_token_id": 3}
    peer = peer_of(class_name, {**PEERS[name].config, **special, "vocab_size": VOCAB})
    if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
        peer.lm_head.weight = torch.nn.Parameter(torch.randn_like(peer.lm_head.weight))
    peer.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config = {key: one for key, one in config.items() if key not in SPLIT.get(name, [])}
    config |= {"tie_word_embeddings": False} if name == "t5_v1_1" else {}
    known = [key for reader in said.config.get("readers", ()) for key in READERS[reader].keys]
    apart, equal = [], 0
    for tried in changed(config, known):
        path.write_text(json.dumps(tried), "utf-8")
        what = {key: one for key, one in tried.items() if key not in config or config[key] != one}
        what |= {key: "missing" for key in config if key not in tried}
        try:
            theirs = type(peer).from_pretrained(
                tmp_path,
                attn_implementation="eager",
                experts_implementation="eager",
                dtype=torch.float64,
            )
            wanted = logits_of(theirs.eval(), config)
        except Exception:  # no model of theirs either, or one that these weights do not fit
            continue
        try:
            model = tfzoo.from_pretrained(tmp_path).double()
        except TfzooError:
            continue
        found = logits_of(model, config)
        if found.shape != wanted.shape or (found - wanted).abs().max() > 1e-4 * wanted.abs().max():
            apart.append(what)
        equal += 1
    assert not apart
    assert equal > 10
