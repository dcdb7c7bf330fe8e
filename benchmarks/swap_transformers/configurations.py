"""Small configurations: widths are divided by one number, which keeps their proportions, and
numbers of layers, experts, positions and words are cut.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import transformers

from benchmarks.swap_transformers.special import OPTIONS

WIDTH = re.compile(
    r"hidden|dim|d_model|d_ff|d_kv|embd|embed|rank|channels|width|head_size|intermediate|mlp_|inner|"
    r"filters|mrope|d_state|dt_rank|out_features|projection_size|num_pos_feats|scalar|size_per_head|"
    r"d_rel|output_size|input_size|kv_channels|mamba_d_ssm|pooler"
)
NO_WIDTH = re.compile(
    r"num_hidden|hidden_act|_dropout|_prob|ratio|vocab|token|kernel|base_channels|conv_dim$|expand|"
    r"hidden_layers|dim_index|conv_kernel_dim|temperature|num_conv|max_|_layers?$|groups|_std"
)
HEADS = re.compile(r"(num|n)_(\w+_)?heads?(_per_\w+)?$|attention_heads$|^n_head$|^heads$")
OF_ONE_HEAD = re.compile(
    r"head_dim$|head_size$|d_kv$|kv_channels|^qk_|d_head$|mrope|size_per_head|head_width"
)
LAYERS = re.compile(r"(num|n)_?(\w+_)?(hidden_)?layers?$|^(\w+_)?layers$|^depth$|^(\w+_)?depth$")
MOST = (
    (re.compile(r"vocab_size|codebook_size|num_embeddings$"), 256),
    (re.compile(r"max_(\w+_)?position_embeddings|n_positions|max_\w*positions|n_ctx"), 128),
    (re.compile(r"(num|n)_(\w+_)?experts$|^num_local_experts$"), 16),
    (re.compile(r"^num_queries$"), 8),
)
TOKENS = re.compile(r"token_(id|index)s?$|_token$|^_?(pad|bos|eos|sep)_\w*id$")
WORDS, SPECIAL = 256, 200
KEPT = ("image_size", "crop_size", "img_size")


@dataclass(frozen=True)
class Size:
    """What widths and numbers of heads are divided by, and how many layers there are at most."""

    width: int
    heads: int
    layers: int | None


def smaller(name: str, value: Any, size: Size) -> Any:
    """A field of a configuration made small; the value itself if it does not matter."""
    if isinstance(value, dict):
        return {key: smaller(str(key), item, size) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(smaller(name, item, size) for item in value)
    if isinstance(value, bool) or not isinstance(value, int) or name in KEPT:
        return value
    if TOKENS.search(name):
        return value if value < SPECIAL else SPECIAL + value % (WORDS - SPECIAL)
    if LAYERS.search(name):
        return min(value, size.layers or value)
    for pattern, most in MOST:
        if pattern.search(name):
            return min(value, most)
    if HEADS.search(name):
        return value // size.heads if value % size.heads == 0 else min_heads(name, value)
    if OF_ONE_HEAD.search(name):
        return divided(value, size.width // size.heads)
    if WIDTH.search(name) and not NO_WIDTH.search(name):
        return divided(value, size.width)
    return value


def min_heads(name: str, value: int) -> int:
    """A number of heads that cannot be divided."""
    return 1 if "key_value" in name else value


def divided(value: int, by: int) -> int:
    """A width, divided where that leaves a whole number over 1."""
    return value // by if value % by == 0 and value > by else value


def small_config(config: Any, size: Size, options: dict[str, Any] | None = None) -> Any:
    """A configuration like this one, with small values, down to those that it contains."""
    known = set(inspect.signature(type(config)).parameters)
    own = OPTIONS.get(config.model_type, {})
    made = {name: smaller(name, value, size) for name, value in own.items()} | (options or {})
    for name, value in vars(config).items():
        if type(value).__name__ == "TimmBackboneConfig":
            made[name] = backbone()
        elif isinstance(value, transformers.PreTrainedConfig) and name not in made:
            made[name] = small_config(value, size)
        elif name in known and name not in made:
            new = smaller(name, value, size)
            if new != value:
                made[name] = new
    made |= small_image(config, size)
    made |= layer_lists(config, made, known - own.keys(), size)
    if getattr(config, "_out_indices", None):
        last = made.get("num_hidden_layers", math.inf)
        made["out_indices"] = sorted({min(one, last) for one in config._out_indices})
    return type(config)(**made)


def small_image(config: Any, size: Size) -> dict[str, Any]:
    """An image of four patches a side."""
    patch, image = getattr(config, "patch_size", None), getattr(config, "image_size", None)
    if size.layers is not None and isinstance(patch, int) and isinstance(image, int):
        return {"image_size": 4 * patch} if image > patch else {}
    if isinstance(patch, tuple | list) and isinstance(image, tuple | list) and len(patch) == 2:
        return {"image_size": [4 * one for one in patch]}
    return {}


def layer_lists(
    config: Any, made: dict[str, Any], free: Iterable[str], size: Size
) -> dict[str, Any]:
    """Lists with an entry for each layer, cut after as many layers as hold every kind of entry."""
    count = made.get("num_hidden_layers")
    if count is None:
        return {}
    lists = {
        name: value
        for name, value in vars(config).items()
        if name in free and isinstance(value, list) and len(value) == config.num_hidden_layers
    }
    for value in lists.values():
        kinds = {json.dumps(item) for item in value}
        while {json.dumps(item) for item in value[:count]} < kinds:
            count += 1
    cut = {name: smaller(name, value[:count], size) for name, value in lists.items()}
    return {"num_hidden_layers": count, **cut}


def backbone() -> Any:
    """One that needs no further library, for one that does."""
    return transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 8, 8],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )


def fact(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields that a configuration, or one that it contains, has."""
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    for value in vars(config).values():
        if isinstance(value, transformers.PreTrainedConfig):
            found = fact(value, *names)
            if found is not None:
                return found
    return default
