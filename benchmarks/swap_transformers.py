"""``tfzoo.swap`` against every attention of ``transformers`` that goes through its
``AttentionInterface``: the smallest random model of each, in float64, by its own eager path and
with ``scaled_dot_product`` and the norms that it has swapped in:

    python -m benchmarks.swap_transformers --write

writes docs/swap-transformers.md. Names of folders in ``transformers/models`` choose among them.

A configuration is made small by rules: widths are divided by one number, which keeps their
proportions, and numbers of layers, experts, positions and words are cut. The first numbers with
which a model is built and called count. Where the peer's code says float32, float64 is read, so
that nothing rounds.
"""

from __future__ import annotations

# ruff: noqa: E501, RUF024, RUF071
import argparse
import importlib
import inspect
import json
import math
import multiprocessing
import re
import resource
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from os.path import commonprefix
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import tfzoo
from tfzoo.errors import BadOption
from tfzoo.swapping import huggingface, norms

MODELS = Path(transformers.__file__).parent / "models"
TABLE = Path(__file__).parents[1] / "docs/swap-transformers.md"
TOLERANCE = 1e-9
SECONDS = 45
"""For all models of one file."""
MOST_MEMORY = 6 * 2**30
MOST_PARAMETERS = 160_000_000
FACTORS = ((32, 4), (16, 4), (8, 2), (8, 4), (16, 1), (4, 1))
"""What widths and numbers of heads are divided by."""


class NoFloat32(TorchFunctionMode):
    """Reads float64 where a function is called with float32."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        if func is Tensor.float:
            func = Tensor.double
        kwargs = {name: wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(wide, args), **kwargs)


# Configurations -----------------------------------------------------------------------------------

WIDTH = re.compile(
    r"hidden|dim|d_model|d_ff|d_kv|embd|embed|rank|channels|width|head_size|intermediate|mlp_|"
    r"inner|filters|mrope|d_state|dt_rank|out_features|projection_size|num_pos_feats|scalar|"
    r"size_per_head|d_rel|output_size|input_size|kv_channels|mamba_d_ssm|pooler"
)
NO_WIDTH = re.compile(
    r"num_hidden|hidden_act|_dropout|_prob|ratio|vocab|token|kernel|base_channels|conv_dim$"
    r"|hidden_layers|dim_index|conv_kernel_dim|temperature|num_conv|max_|_layers?$|groups|_std|expand"
)
HEADS = re.compile(r"(num|n)_(\w+_)?heads?(_per_\w+)?$|attention_heads$|^n_head$|^heads$")
OF_ONE_HEAD = re.compile(
    r"head_dim$|head_size$|d_kv$|kv_channels|^qk_|d_head$|mrope|size_per_head|head_width"
)
LAYERS = re.compile(r"(num|n)_?(\w+_)?(hidden_)?layers?$|^(\w+_)?layers$|^depth$|^(\w+_)?depth$")
EXPERTS = re.compile(r"(num|n)_(\w+_)?experts$|^num_local_experts$")
POSITIONS = re.compile(r"max_(\w+_)?position_embeddings|n_positions|max_\w*positions|n_ctx")
VOCABULARY = re.compile(r"vocab_size|codebook_size|num_embeddings$")
TOKENS = re.compile(r"token_(id|index)s?$|_token$|^_?(pad|bos|eos|sep)_\w*id$")
WORDS, SPECIAL = 256, 200


def smaller(name: str, value: Any, factor: tuple[int, int], layers: int | None) -> Any:
    """A field of a configuration made small; the value itself if it does not matter."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict):
        return {key: smaller(str(key), item, factor, layers) for key, item in value.items()}
    if isinstance(value, list | tuple):
        made = [smaller(name, item, factor, layers) for item in value]
        return made if isinstance(value, list) else tuple(made)
    if TOKENS.search(name) and isinstance(value, int):
        return value if value < SPECIAL else SPECIAL + value % (WORDS - SPECIAL)
    if not isinstance(value, int):
        return value
    if LAYERS.search(name):
        return min(value, layers or value)
    for pattern, most in ((VOCABULARY, WORDS), (POSITIONS, 128), (EXPERTS, 16)):
        if pattern.search(name):
            return min(value, most)
    if name in ("image_size", "crop_size", "img_size"):
        return value
    width, heads = factor
    if HEADS.search(name):
        return value // heads if value % heads == 0 else 1 if "key_value" in name else value
    if OF_ONE_HEAD.search(name):
        width = width // heads
    elif not WIDTH.search(name) or NO_WIDTH.search(name):
        return value
    return value // width if value % width == 0 and value > width else value


def small_config(
    config: Any, factor: tuple[int, int], layers: int | None, options: Any = None
) -> Any:
    """A configuration like this one, with small values, down to those that it contains."""
    known = set(inspect.signature(type(config)).parameters)
    own = OPTIONS.get(config.model_type, {})
    given = {name: smaller(name, value, factor, layers) for name, value in own.items()}
    given.update(options or {})
    for name, value in vars(config).items():
        if type(value).__name__ == "TimmBackboneConfig":
            given[name] = resnet(fact(config, "num_feature_levels", default=3))
        elif isinstance(value, transformers.PreTrainedConfig):
            given[name] = small_config(value, factor, layers)
        elif name in known and name not in given:
            new = smaller(name, value, factor, layers)
            if new != value:
                given[name] = new
    patch, image = getattr(config, "patch_size", None), getattr(config, "image_size", None)
    if layers is not None and isinstance(patch, int) and isinstance(image, int) and image > patch:
        given["image_size"] = 4 * patch
    if isinstance(patch, tuple | list) and isinstance(image, tuple | list) and len(patch) == 2:
        given["image_size"] = [4 * one for one in patch]
    count = given.get("num_hidden_layers")
    if count is not None:
        whole = config.num_hidden_layers
        for name, value in vars(config).items():
            if (
                name in known
                and name not in own
                and isinstance(value, list)
                and len(value) == whole
            ):
                kinds = {json.dumps(item) for item in value}
                while {json.dumps(item) for item in value[:count]} < kinds:
                    count += 1
        given["num_hidden_layers"] = count
        for name, value in vars(config).items():
            if (
                name in known
                and name not in own
                and isinstance(value, list)
                and len(value) == whole
            ):
                given[name] = smaller(name, value[:count], factor, layers)
    return type(config)(**given)


def resnet(levels: int) -> Any:
    """A backbone that needs no further library, for one that does."""
    return transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 8, 8],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )


# Inputs -------------------------------------------------------------------------------------------


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


def ids(config: Any, length: int = 7, rows: int = 2) -> Tensor:
    words = min(fact(config, "vocab_size", default=60), 60)
    return torch.arange(rows * length).view(rows, length) * 3 % (words - 5) + 4


def right_padding(length: int = 7) -> Tensor:
    return (torch.arange(length) < torch.tensor([[length], [length - 3]])).long()


def pictures(config: Any, *more: int) -> Tensor:
    size = fact(config, "image_size", "crop_size", "img_size", default=32)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = fact(config, "num_channels", "in_channels", "in_chans", default=3)
    return torch.randn(2, *more, channels, height, width)


GRID = ((1, 4, 4), (1, 4, 8))
"""Times, rows and columns of patches of two pictures."""


def patches(config: Any) -> Tensor:
    """The patches of both pictures of ``GRID`` in one row."""
    patch = fact(config, "patch_size", default=14)
    frames = fact(config, "temporal_patch_size", default=1)
    channels = fact(config, "in_channels", "num_channels", "in_chans", default=3)
    return torch.randn(48, channels * frames * patch**2)


def squares(config: Any) -> Tensor:
    patch = fact(config, "patch_size", default=14)
    return torch.randn(48, fact(config, "in_channels", "num_channels", default=3), patch, patch)


PATCHES = [
    patches,
    squares,
    lambda config: torch.cat((patches(config), patches(config)), -1),
    lambda config: squares(config)[None],
]


def frames(config: Any) -> Tensor:
    return pictures(config, fact(config, "num_frames", "frames_per_clip", default=4))


def bins(config: Any) -> int:
    return fact(
        config,
        "num_mel_bins",
        "feature_size",
        "feat_dim",
        "feature_projection_input_dim",
        "input_dim",
        "input_size",
        default=80,
    )


def times(config: Any) -> int:
    return 2 * fact(config, "max_source_positions", default=100)


def windows(config: Any) -> int:
    return fact(config, "context_length", default=32)


def of_series(config: Any, length: int) -> Tensor:
    return torch.randn(2, length, fact(config, "num_time_features", default=1))


def past(config: Any) -> int:
    return windows(config) + max(fact(config, "lags_sequence", default=[0]))


def hidden(config: Any) -> int:
    return fact(config, "hidden_size", "d_model", "n_embd", "dim")


MAKERS: dict[str, list[Any]] = {
    "input_ids": [
        ids,
        lambda config: ids(config, 7, 2 * fact(config, "num_codebooks", default=1)),
        lambda config: torch.stack(
            [ids(config)] * (1 + fact(config, "num_codebooks", default=1)), -1
        ),
    ],
    "attention_mask": [lambda config: right_padding()],
    "decoder_input_ids": [
        lambda config: ids(config, 5),
        lambda config: ids(config, 5, 2 * fact(config, "num_codebooks", default=1)),
        lambda config: torch.stack([ids(config, 5)] * fact(config, "num_channels", default=9), -1),
    ],
    "pixel_values": [
        pictures,
        lambda config: pictures(config, 2),
        lambda config: pictures(config, 1, 1),
        lambda config: torch.randn(2, 1, 16, 3 * fact(config, "patch_size", default=14) ** 2),
        lambda config: torch.randn(2, 16, 3 * fact(config, "patch_size", default=14) ** 2),
    ],
    "pixel_values_videos": [frames],
    "input_features": [
        lambda config: torch.randn(2, bins(config), times(config)),
        lambda config: torch.randn(2, times(config), bins(config)),
        lambda config: torch.randn(2, 1, times(config), bins(config)),
    ],
    "input_values": [
        lambda config: torch.randn(2, 800),
        lambda config: torch.randn(2, 1, 3200),
        lambda config: torch.randn(2, fact(config, "max_length", default=64), bins(config)),
    ],
    "audio_values": [lambda config: torch.randn(2, 1, 3200)],
    "input_features_mask": [lambda config: torch.ones(2, times(config), dtype=torch.long)],
    "pixel_position_ids": [
        lambda config: torch.stack((torch.arange(16) % 4, torch.arange(16) // 4), -1).expand(
            2, 16, 2
        )
    ],
    "grid_thw": [lambda config: torch.tensor(GRID)],
    "image_grid_thw": [lambda config: torch.tensor(GRID)],
    "hidden_states": [patches, squares, lambda config: torch.randn(2, 7, hidden(config))],
    "inputs_embeds": [lambda config: torch.randn(2, 7, hidden(config))],
    "noise_embeds": [lambda config: torch.randn(2, 7, hidden(config))],
    "context_hidden_states": [lambda config: torch.randn(2, 7, hidden(config))],
    "encoder_hidden_states": [lambda config: torch.randn(2, 5, hidden(config))],
    "bbox": [lambda config: torch.arange(56).view(2, 7, 4) % 20],
    "target_sizes": [lambda config: torch.tensor([[4, 4], [4, 4]], dtype=torch.int32)],
    "flattened_patches": [
        lambda config: torch.cat(
            (
                torch.arange(32).view(2, 16, 1).expand(2, 16, 2) % 4 + 1,
                torch.randn(2, 16, fact(config, "patch_embed_hidden_size", "hidden_size")),
            ),
            -1,
        )
    ],
    "past_values": [
        lambda config: torch.randn(2, past(config)),
        lambda config: torch.randn(
            2, windows(config), fact(config, "num_input_channels", default=1)
        ),
    ],
    "past_time_features": [lambda config: of_series(config, past(config))],
    "past_observed_mask": [
        lambda config: torch.ones(2, past(config)),
        lambda config: torch.ones(
            2, windows(config), fact(config, "num_input_channels", default=1)
        ),
    ],
    "future_values": [lambda config: torch.randn(2, fact(config, "prediction_length", default=4))],
    "future_time_features": [
        lambda config: of_series(config, fact(config, "prediction_length", default=4))
    ],
    "aspect_ratio_ids": [lambda config: torch.ones(2, 1, dtype=torch.long)],
    "aspect_ratio_mask": [lambda config: torch.ones(2, 1, 4, dtype=torch.long)],
    "states": [lambda config: torch.randn(2, 7, config.state_dim)],
    "actions": [lambda config: torch.randn(2, 7, config.act_dim)],
    "rewards": [lambda config: torch.randn(2, 7, 1)],
    "returns_to_go": [lambda config: torch.randn(2, 7, 1)],
    "timesteps": [lambda config: torch.arange(7).expand(2, 7)],
    "past_values_mask": [lambda config: torch.ones(2, windows(config))],
}
"""What each argument may be: the first that the model takes counts."""


def batches(model: Any) -> Iterator[dict[str, Any]]:
    """Inputs to try: the main one with its mask, then all that are known, then what is required."""
    parameters = inspect.signature(model.forward).parameters
    required = [
        name
        for name, one in parameters.items()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    main = [model.main_input_name] if model.main_input_name in parameters else []
    main += [name for name in required if name not in main]
    if "input_ids" in main and "attention_mask" in parameters:
        main.append("attention_mask")
    if "decoder_input_ids" in parameters:
        main.append("decoder_input_ids")
    if "input_features_mask" in parameters and "input_features" in main:
        main.append("input_features_mask")
    text = [
        name
        for name in ("input_ids", "attention_mask", "encoder_hidden_states")
        if name in parameters
    ]
    known = [name for name in MAKERS if name in parameters]
    known = [name for name in known if name != "inputs_embeds" or "input_ids" not in known]
    tried: list[list[str]] = []
    for names in (main, text if "input_ids" in text else [], required, known):
        names = [name for name in dict.fromkeys(names) if name in MAKERS]
        if not names or names in tried:
            continue
        tried.append(names)
        for kind in range(max(len(MAKERS[name]) for name in names)):
            torch.manual_seed(1)
            try:
                yield {name: made(name, kind, names, model.config) for name in names}
            except (TypeError, ValueError, RuntimeError):  # not for such a configuration
                continue


def made(name: str, kind: int, names: list[str], config: Any) -> Any:
    """The argument of this name, by the maker of this number or the last."""
    grid = name == "pixel_values" and {"grid_thw", "image_grid_thw"} & {*names}
    makers = PATCHES if grid else MAKERS[name]
    return makers[min(kind, len(makers) - 1)](config)


# Comparison ---------------------------------------------------------------------------------------


def tensors(output: Any) -> Iterator[Tensor]:
    """The tensors of an output that are numbers with a fraction, in order; no caches."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, dict):
        for name, value in output.items():
            if name != "past_key_values" and "attentions" not in name:
                yield from tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from tensors(value)


class Recorded:
    """Outputs of the attention modules of a model, in the order of the calls."""

    def __init__(self, model: nn.Module) -> None:
        self.outputs: dict[str, list[Tensor]] = {}
        self.handles = [
            module.register_forward_hook(self.hook(name))
            for name, module in model.named_modules()
            if huggingface.calls_interface(module)
        ]

    def hook(self, name: str) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self.outputs.setdefault(name, []).append(next(tensors(output)).detach())

        return keep


@torch.no_grad()
def run(model: nn.Module, batch: dict[str, Any]) -> tuple[dict[str, list[Tensor]], list[Tensor]]:
    """Outputs of each attention and of the model."""
    recorded = Recorded(model)
    transformers.set_seed(2)
    try:
        with NoFloat32():
            whole = list(tensors(model(**batch)))
    finally:
        for handle in recorded.handles:
            handle.remove()
    if not all(one.isfinite().all() for found in recorded.outputs.values() for one in found):
        raise ValueError("its outputs are not finite")
    return recorded.outputs, whole


def run_by_sdpa(model: Any, batch: dict[str, Any]) -> dict[str, list[Tensor]] | None:
    """Outputs of each attention by ``sdpa``; None where the model has none."""
    try:
        model.set_attn_implementation("sdpa")
        return run(model, batch)[0]
    except Exception:  # of any kind: it is somebody else's
        return None
    finally:
        model.set_attn_implementation("eager")


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference, in units of the largest number where that is over 1."""
    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    same = torch.where(one == other, torch.zeros_like(one), (one - other).abs())
    return float(same.max() / one.abs().max().clamp(min=1.0))


@dataclass
class Row:
    """What became of an attention class, in which model."""

    attention: str
    model: str
    outcome: str
    reason: str = ""
    difference: float = 0.0
    parameters: int = 0


def own_norms(model: nn.Module) -> dict[str, list[str]]:
    """The names of the norms that are ``layer``, and of those that are ``rms``."""
    like = next(model.parameters())
    found: dict[str, list[str]] = {"layer": [], "rms": []}
    for name, module in model.named_modules():
        if not name or not norms.is_norm(module):
            continue
        try:
            known = norms.find_norm(module, like)
        except norms.NotSwappable:
            continue
        x = torch.randn(1, 3, known.dim)
        differences = {}
        for kind in found:
            replacement, _ = norms.norm_replacement(module, known, kind)
            with torch.no_grad(), NoFloat32():
                differences[kind] = distance(module(x), replacement(x))
        found[min(differences, key=lambda kind: differences[kind])].append(name)
    return found


def swapped(model: Any) -> dict[str, str]:
    """Swap in the model's own attention and norms; return why attentions were refused, by name."""
    report = tfzoo.swap(model, attention="scaled_dot_product", allow=["unrotatable-attention"])
    for kind, names in own_norms(model).items():
        if names:
            literal = [re.sub(r"([\[\]*?])", r"[\1]", name) for name in names]
            tfzoo.swap(model, norm=kind, only=literal)
    return {one.name: one.reason for one in report.modules if one.outcome == "refused"}


def compare(model: Any, batch: dict[str, Any], wanted: set[str]) -> list[Row]:
    """A row for each attention class of the model that is wanted and was called."""
    before, whole = run(model, batch)
    by_sdpa = run_by_sdpa(model, batch)
    modules: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if name in before and type(module).__name__ in wanted:
            modules.setdefault(type(module).__name__, []).append(name)
    if not modules:
        return []
    size = sum(one.numel() for one in model.parameters())

    def row(kind: str, outcome: str, reason: str, difference: float = 0.0) -> Row:
        return Row(kind, type(model).__name__, outcome, reason, difference, size)

    try:
        refused = swapped(model)
        after, whole_after = run(model, batch)
        of_whole = largest(whole, whole_after)
    except BadOption as error:
        return [row(kind, "refused", str(error).splitlines()[-1]) for kind in modules]
    except Exception as error:  # of any kind: what ran before does not run now
        return [row(kind, "different", told(error)) for kind in modules]
    rows = []
    for kind, names in modules.items():
        if names[0] in refused:
            rows.append(row(kind, "refused", refused[names[0]]))
            continue
        of_attention = max(largest(before[name], after[name]) for name in names)
        difference = max(of_attention, of_whole)
        if difference < TOLERANCE:
            rows.append(row(kind, "equal", "", difference))
            continue
        reason = f"attention {of_attention:.1e}, whole {of_whole:.1e}"
        if by_sdpa and max(largest(by_sdpa[name], after[name]) for name in names) < TOLERANCE:
            rows.append(row(kind, "equal", "to its sdpa path, from which its eager path differs"))
        else:
            rows.append(row(kind, "different", reason, difference))
    return rows


def largest(some: list[Tensor], others: list[Tensor]) -> float:
    """The largest :func:`distance` of two lists of outputs."""
    return max((distance(*pair) for pair in zip(some, others, strict=True)), default=0.0)


# One file -----------------------------------------------------------------------------------------


def attention_classes(module: Any) -> list[str]:
    """The names of the classes whose forward calls the interface."""
    return [one.__name__ for one in classes_of(module) if huggingface.class_calls_interface(one)]


def classes_of(module: Any) -> list[type[nn.Module]]:
    return [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, nn.Module) and one.__module__ == module.__name__
    ]


def model_classes(module: Any) -> list[Any]:
    """Models, those without a head first, and of these the ones named like an attention."""
    attentions = attention_classes(module)
    models = [one for one in classes_of(module) if issubclass(one, transformers.PreTrainedModel)]
    models = [
        one
        for one in models
        if one.config_class is not None and one.forward is not transformers.PreTrainedModel.forward
    ]

    def order(model: type[nn.Module]) -> tuple[bool, int, int]:
        name = model.__name__
        alike = max((len(commonprefix((name, one))) for one in attentions), default=0)
        return "For" in name, -alike, len(name)

    return sorted(models, key=order)


def random_weights(model: nn.Module) -> None:
    """Matrices of a size that makes scores differ; vectors are near what they started with."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() < 2:
                parameter.copy_(torch.nan_to_num(parameter) + 0.1 * noise)
            else:
                parameter.copy_(noise * min(0.3, 1.5 * parameter[0].numel() ** -0.5))


ROPE = {"rope_type": "default", "rope_theta": 10000.0}
MROPE = {"rope_parameters": {**ROPE, "mrope_section": [8, 12, 12]}}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("glm4v_moe_text", "glm_ocr_text"), MROPE),
    **dict.fromkeys(
        (
            "qwen2_vl_text",
            "qwen2_5_vl_text",
            "paddleocr_vl_text",
            "glm4v_text",
            "glm_image_text",
            "qwen2_5_omni_text",
            "qwen2_5_omni_talker",
        ),
        {"rope_parameters": {**ROPE, "mrope_section": [16, 24, 24]}},
    ),
    "bamba": {"attn_layer_indices": [1]},
    "chameleon": {"vocabulary_map": {"<image>": 4, "IMGIMGA": 5}},
    "patchtsmixer": {"self_attn": True},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {"rope_parameters": ROPE},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl_text": {"head_dim": 128},
    "informer": {"prediction_length": 4},
    "time_series_transformer": {"prediction_length": 4},
    "autoformer": {"prediction_length": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
"""Of configurations whose own values have no attention, or are not whole."""

CROSS = {"is_decoder": True, "add_cross_attention": True}


def built(
    model_class: Any, options: dict[str, Any], factor: tuple[int, int], layers: int | None
) -> Any:
    """The model of a class in eval mode, small and random."""
    kind = model_class.config_class

    def config() -> Any:
        made = small_config(kind(**options), factor, layers, options)
        made._experts_implementation = "eager"
        made.use_cache = kind.model_type != "blt" and getattr(made, "use_cache", True)
        return made

    with torch.device("meta"):
        empty = model_class._from_config(config(), attn_implementation="eager")
    size = sum(one.numel() for one in empty.parameters())
    if size > MOST_PARAMETERS:
        raise TooLarge(f"{size:,} parameters")
    model = model_class._from_config(config(), attn_implementation="eager").double().eval()
    random_weights(model)
    return model


class TooLarge(Exception):
    """The rules did not make a model small."""


def rows_of(name: str) -> Iterator[Row]:
    """The rows of one file."""
    torch.set_default_dtype(torch.float64)
    module = importlib.import_module(name)
    missing = dict.fromkeys(attention_classes(module))
    errors: dict[str, str] = {}
    for model_class in model_classes(module):
        for row in tries(model_class, set(missing), errors):
            missing.pop(row.attention, None)
            yield row
        if not missing:
            return
    first = next(iter(errors.items()), ("", "no model calls it"))
    for attention in missing:
        yield Row(attention, first[0], "not built", first[1])


def tries(model_class: Any, wanted: set[str], errors: dict[str, str]) -> Iterator[Row]:
    """Rows of the first small models that are built and called, for each class that is wanted."""
    for options in ({}, CROSS):
        if options and not any("Cross" in name for name in wanted):
            continue
        for layers in (2, None):
            reasons: list[str] = []
            for factor in FACTORS:
                try:
                    model = built(model_class, options, factor, layers)
                except Exception as error:  # of any kind: it is somebody else's
                    errors.setdefault(model_class.__name__, told(error))
                    if isinstance(error, TooLarge | ImportError | TypeError | AttributeError):
                        break
                    continue
                classes = {type(one).__name__ for one in model.modules()}
                if not classes & wanted:
                    errors.setdefault(model_class.__name__, "has no such attention")
                    break
                rows, reason = called(model, wanted)
                for row in rows:
                    wanted.discard(row.attention)
                    yield row
                reasons.append(reason)
                if reason:
                    errors[model_class.__name__] = reason
                if not classes & wanted or reasons[-3:] == [reason] * 3:
                    break
            if not wanted:
                return


def called(model: Any, wanted: set[str]) -> tuple[list[Row], str]:
    """Rows from the first inputs that the model takes; or the first error."""
    reason = ""
    for batch in batches(model):
        try:
            rows = compare(model, batch, wanted)
        except Exception as error:  # of any kind: it is somebody else's
            reason = reason or told(error)
            continue
        if rows:
            return rows, reason
    return [], reason


def told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]


def child(name: str, pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        for row in rows_of(name):
            pipe.send(asdict(row))
    finally:
        pipe.close()


def family(name: str) -> list[Row]:
    """The rows of one file, by a process of its own, which has a limit of time."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(name, sender))
    process.start()
    sender.close()
    rows, ends = [], time.monotonic() + SECONDS
    try:
        while receiver.poll(max(0.0, ends - time.monotonic())):
            rows.append(Row(**receiver.recv()))
        reason = f"not done in {SECONDS} s"
    except EOFError:
        reason = "the process ended"
    process.kill()
    process.join()
    module = importlib.import_module(name)
    done = {row.attention for row in rows}
    rows += [
        Row(one, "", "not built", reason) for one in attention_classes(module) if one not in done
    ]
    return rows


def files(names: list[str]) -> Iterator[str]:
    """The modules of ``transformers`` that call the interface."""
    for path in sorted(MODELS.glob("*/modeling_*.py")):
        chosen = not names or path.parent.name in names
        if chosen and "ALL_ATTENTION_FUNCTIONS" in path.read_text(encoding="utf-8"):
            yield f"transformers.models.{path.parent.name}.{path.stem}"


def page(rows: list[Row]) -> str:
    """The page of documentation."""
    counts = {kind: sum(row.outcome == kind for row in rows) for kind in OUTCOMES}
    lines = [
        HEAD.format(
            classes=len(rows),
            torch=torch.__version__.split("+")[0],
            transformers=transformers.__version__,
            **{kind.replace(" ", "_"): count for kind, count in counts.items()},
        ),
        "| attention | in the model | outcome | |",
        "|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row.attention.lower(), row.model)):
        reason = row.reason.replace("|", "\\|").replace("<", "&lt;")
        reason = f"`{reason}`" if row.outcome == "not built" else reason
        lines.append(f"| {row.attention} | {row.model} | {row.outcome} | {reason} |")
    return "\n".join([*lines, ""])


OUTCOMES = ("equal", "refused", "not built", "different")
HEAD = """# Swap in the models of transformers

`tfzoo.swap` gives a model's own output when it swaps in the model's own attention and norms. That is
tried with every class of `transformers` {transformers} whose forward goes through its
`AttentionInterface`:

```sh
python -m benchmarks.swap_transformers --write
```

builds the smallest random model that has it, in float64, runs the model's own eager path, swaps in
`scaled_dot_product` and, for each norm, the one that it is, and compares the outputs of each
attention and of the whole model. *Equal* is within 1e-9 of the largest value; where the peer's code
rounds to float32, float64 is read instead, so that nothing rounds. *Refused* is an error of one line.
*Not built* says what kept the rules from a small model of it.

Of {classes} classes, {equal} are equal, {refused} refused, {different} different, and {not_built}
were not built (PyTorch {torch}).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="folders of transformers/models; all of them")
    parser.add_argument("--write", action="store_true", help=f"into {TABLE.name}")
    parser.add_argument("--results", type=Path, help="a file with the rows so far, to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    kept = arguments.results
    results = json.loads(kept.read_text("utf-8")) if kept and kept.exists() else {}
    for name in files(arguments.names):
        if name not in results:
            results[name] = [asdict(row) for row in family(name)]
            for row in results[name]:
                shown = (row["outcome"], row["attention"], row["model"], row["reason"])
                print("{:10} {:42} {:36} {}".format(*shown), f"{row['difference']:.1e}", flush=True)
            if kept:
                kept.write_text(json.dumps(results), "utf-8")
    rows = [Row(**row) for name in files(arguments.names) for row in results[name]]
    print({kind: sum(row.outcome == kind for row in rows) for kind in OUTCOMES})
    if arguments.write:
        TABLE.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    main()
