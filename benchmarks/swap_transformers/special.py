"""Fields of configurations whose own values have no attention, or are not whole."""

from __future__ import annotations

from typing import Any

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
MROPE = {"rope_parameters": {**ROPE, "mrope_section": [8, 12, 12]}}
OPTIONS: dict[str, dict[str, Any]] = {
    "glm4v_moe_text": {**MROPE, "num_attention_heads": 32},
    "glm_ocr_text": MROPE,
    "ernie4_5_vl_moe_text": {"rope_parameters": {**ROPE, "mrope_section": [24, 24, 16]}},
    "hunyuan_vl_text": {"rope_parameters": {**ROPE, "mrope_section": [16] * 4}, "head_dim": 128},
    **{
        name: {"rope_parameters": {**ROPE, "mrope_section": [16, 24, 24]}}
        for name in (
            "qwen2_vl_text",
            "qwen2_5_vl_text",
            "paddleocr_vl_text",
            "glm4v_text",
            "glm_image_text",
            "qwen2_5_omni_text",
            "qwen2_5_omni_talker",
        )
    },
    "bamba": {"attn_layer_indices": [1]},
    "chameleon": {"vocabulary_map": {"<image>": 4, "IMGIMGA": 5}},
    "patchtsmixer": {"self_attn": True},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {"rope_parameters": ROPE},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64},
    "emu3": {"vocabulary_map": {"<image>": 4, "<|extra_200|>": 5}},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "step3p5": {"sliding_window": 4},
    "xmod": {"default_language": "en_XX"},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "informer": {"prediction_length": 4},
    "time_series_transformer": {"prediction_length": 4},
    "autoformer": {"prediction_length": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "llama4_vision_model": {"intermediate_size": 3072},
    "mllama_text_model": {"cross_attention_layers": [1]},
    "mllama_vision_model": {"intermediate_layers_indices": [0]},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
