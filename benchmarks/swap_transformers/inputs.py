"""Inputs to try with a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.swap_transformers.configurations import fact


def ids(config: Any, length: int = 7, rows: int = 2) -> Tensor:
    words = min(fact(config, "vocab_size", default=60), 60)
    return torch.arange(rows * length).view(rows, length) * 3 % (words - 5) + 4


def right_padding(length: int = 7) -> Tensor:
    return (torch.arange(length) < torch.tensor([[length], [length - 3]])).long()


def pictures(config: Any, *more: int) -> Tensor:
    size = fact(config, "image_size", "crop_size", "img_size", default=64)
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
        frames,
    ],
    "pixel_values_videos": [frames],
    "merge_sizes": [lambda config: torch.tensor([1, 1])],
    "mask": [lambda config: None],
    "context": [lambda config: torch.randn(2, 7, hidden(config))],
    "input_features": [
        lambda config: torch.randn(2, bins(config), times(config)),
        lambda config: torch.randn(2, times(config), bins(config)),
        lambda config: torch.randn(2, 1, times(config), bins(config)),
    ],
    "input_values": [
        lambda config: torch.randn(2, 2400),
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


CALLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "DeepseekOcr2VisionEncoder": lambda config: {
        "inputs_embeds": torch.randn(2, 8, hidden(config)),
        "num_patches": 4,
    },
    "Dots3NoteAudioModel": lambda config: {
        "input_features": torch.randn(2, bins(config), times(config)),
        "chunk_sample_lengths": torch.tensor([200, 120]) * 160,
    },
    "EfficientLoFTRModel": lambda config: {"pixel_values": torch.randn(2, 2, 1, 64, 64)},
    "Florence2VisionBackbone": lambda config: {"hidden_states": torch.randn(2, 3, 64, 64)},
    "FunAsrNanoEncoder": lambda config: {
        "input_features": torch.randn(2, 20, config.input_size),
        "input_features_mask": right_padding(20),
    },
    "GraniteSpeech5Encoder": lambda config: {
        "input_features": torch.randn(2, 20, 4 * config.num_mel_bins)
    },
    "IdeficsModel": lambda config: {
        "input_ids": ids(config),
        "pixel_values": pictures(config, 1),
        "image_attention_mask": torch.ones(2, 7, 1, dtype=torch.long),
    },
    "Kimi_K25VisionModel": lambda config: {
        "pixel_values": squares(config),
        "grid_thw": torch.tensor(GRID),
    },
    "MllamaVisionModel": lambda config: {
        "pixel_values": pictures(config, 1, config.max_num_tiles),
        "aspect_ratio_ids": torch.ones(2, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(2, 1, config.max_num_tiles, dtype=torch.long),
    },
    "MllamaTextModel": lambda config: {
        "input_ids": ids(config),
        "cross_attention_states": torch.randn(2, 5, hidden(config)),
    },
    "Molmo2VisionModel": lambda config: {
        "pixel_values": torch.randn(2, config.num_position_embeddings, 3 * config.patch_size**2)
    },
    "MuseGlimmerAssistantModel": lambda config: {
        "noise_embeds": torch.randn(2, 4, hidden(config)),
        "context_hidden_states": torch.randn(2, 7, 5 * hidden(config)),
    },
    "Phi4MultimodalAudioModel": lambda config: {
        "hidden_states": torch.randn(2, 40, config.input_size),
        "mask": None,
    },
    **dict.fromkeys(
        ("Qwen2_5OmniAudioEncoder", "Qwen3OmniMoeAudioEncoder"),
        lambda config: {
            "input_features": torch.randn(config.num_mel_bins, 60),
            "feature_lens": torch.tensor([40, 20]),
        },
    ),
    **dict.fromkeys(
        ("Qwen3OmniMoeCode2WavTransformerModel", "Qwen3OmniMoeTalkerCodePredictorModel"),
        lambda config: {"inputs_embeds": torch.randn(2, 7, hidden(config))},
    ),
    **dict.fromkeys(
        (
            "PPOCRV5MobileRecForTextRecognition",
            "PPOCRV5ServerRecForTextRecognition",
            "PPOCRV6SmallRecForTextRecognition",
        ),
        lambda config: {"pixel_values": torch.randn(2, 3, 96, 256)},
    ),
    "VoxtralRealtimeTextModel": lambda config: {
        "input_ids": ids(config),
        "t_cond": torch.randn(1, 1, hidden(config)),
    },
    "XCLIPModel": lambda config: {"input_ids": ids(config), "pixel_values": frames(config)},
}
"""Inputs of models that the rules do not find, by class."""


def batches(model: Any) -> Iterator[dict[str, Any]]:
    """Inputs to try: the main one with its mask, then all that are known, then what is required."""
    torch.manual_seed(1)
    if type(model).__name__ in CALLS:
        yield CALLS[type(model).__name__](model.config)
        return
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
