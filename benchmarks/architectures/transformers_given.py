"""What the rule cannot know of a model of transformers: settings that have no default, inputs that its forward needs.

Made with small numbers that fit the rule's (`shrinking`): widths of 64, four heads, images of 32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.architectures.shrinking import HEADS, IMAGE, N_WORDS, PATCH, WIDTH

__all__ = ["INPUTS", "SETTINGS"]

Inputs = dict[str, torch.Tensor]
_HEAD = {"head_dim": WIDTH // HEADS}
_SERIES = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 2,
    "feature_size": 6,  # two lags, two times, and where and how wide the values lie
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
_BACKBONE = {
    "backbone_config": {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "out_features": ["stage4"],
    },
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_kwargs": None,
}
_LEVELS = {
    **_BACKBONE,
    "backbone_config": {**_BACKBONE["backbone_config"], "out_features": ["stage2", "stage3", "stage4"]},  # type: ignore[dict-item]
}

_REPVIT = {
    "architecture": "repvit_m1.dist_in1k",
    "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
}
_TURNS = {
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
    }
}

SETTINGS: dict[str, dict[str, Any]] = {
    "autoformer": {**_SERIES, "label_length": 4},
    "bit": {"num_groups": 4},
    "cohere_compass": {f"text_config.{key}": value for key, value in _TURNS.items()},
    "cohere_compass_text": _TURNS,
    "conditional_detr": _BACKBONE,
    "cvt": {
        "embed_dim": [16, 32, 48],
        "num_heads": [1, 2, 3],
        "depth": [1, 2, 3],
    },
    "dab-detr": _BACKBONE,
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_group": 1, "topk_group": 1},
    "deformable_detr": _LEVELS,
    "depth_pro": {"patch_size": IMAGE},
    "detr": _BACKBONE,
    "donut-swin": {"embed_dim": 16, "num_heads": [2, 2], "depths": [1, 1], "window_size": 2},
    "dots1": {
        "n_shared_experts": 1,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
    },
    "edgetam": {f"vision_config.backbone_config.{key}": value for key, value in _REPVIT.items()},
    "edgetam_vision_model": {f"backbone_config.{key}": value for key, value in _REPVIT.items()},
    "efficientnet": {
        "in_channels": [32, 16, 24, 40, 80, 112, 192],
        "out_channels": [16, 24, 40, 80, 112, 192, 320],
        "width_coefficient": 0.25,
        "depth_coefficient": 0.25,
        "hidden_dim": 320,
    },
    "ernie4_5_vl_moe": {
        "text_config.rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [3, 3, 2],
        }
    },
    "esm": {"vocab_size": N_WORDS, "mask_token_id": 32, "pad_token_id": 1},
    "exaone4_5_vision": {"window_size": 32},
    "gemma3n": {"vision_config.architecture": "resnet10t"},
    "glm_image_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
    },
    "glpn": {
        "hidden_sizes": [8, 16, 24, 32],
        "num_attention_heads": [1, 2, 2, 4],
        "depths": [1, 1, 1, 1],
        "decoder_hidden_size": 16,
    },
    "hunyuan_v1_dense": _HEAD,
    "hunyuan_v1_moe": _HEAD,
    "hunyuan_vl": {
        "text_config.rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [2, 2, 2, 2],
        },
        "text_config.head_dim": WIDTH // HEADS,
    },
    "hunyuan_vl_text": _HEAD,
    "informer": _SERIES,
    "layoutlmv3": {"coordinate_size": 8, "shape_size": 16, "max_2d_position_embeddings": 128},
    "kosmos-2": {"latent_query_num": 8},
    "levit": {
        "hidden_sizes": [16, 32, 48],
        "num_attention_heads": [2, 2, 4],
        "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
        "patch_size": 16,
        "image_size": 64,
    },
    "lfm2_moe": {"layer_types": ["full_attention", "conv"]},
    "lilt": {"hidden_size": 96, "max_2d_position_embeddings": 1024},
    "longcat_flash": {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "qk_head_dim": 24, "head_dim": 8},
    "maskformer": {
        "fpn_feature_size": 32,
        "mask_feature_size": 32,
        "backbone_config": {
            "model_type": "swin",
            "embed_dim": 16,
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
            "image_size": 64,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "mask2former": {
        "feature_size": 32,
        "mask_feature_size": 32,
        "backbone_config": {
            "model_type": "swin",
            "embed_dim": 16,
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 2, 2, 4],
            "window_size": 2,
            "image_size": 64,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    },
    "markuplm": {"max_xpath_tag_unit_embeddings": 256, "max_xpath_subs_unit_embeddings": 1024},
    "maskformer-swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2},
    "ministral": _HEAD,
    "mistral4": {"qk_rope_head_dim": 16, "qk_head_dim": 32, "head_dim": 32},
    "mobilebert": {
        "embedding_size": 32,
        "true_hidden_size": 32,
        "intra_bottleneck_size": 32,
        "hidden_size": 64,
        "intermediate_size": 64,
    },
    "mobilevitv2": {"image_size": 128},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"n_groups": 2, "mamba_num_heads": 4, "mamba_head_dim": 16},
    "qwen2_5_vl_vision": {"window_size": 32},
    "qwen4_exp": {"text_config.layer_types": ["linear_attention", "indexed_attention"]},
    "qwen4_exp_text": {"layer_types": ["linear_attention", "indexed_attention"]},
    "table-transformer": _BACKBONE,
    "textnet": {
        "stem_num_channels": 3,
        "stem_out_channels": 16,
        "hidden_sizes": [16, 16, 24, 32, 32],
    },
    "patchtst": {"context_length": 32, "patch_length": 4, "patch_stride": 4, "num_input_channels": 3},
    "patchtsmixer": {"context_length": 32, "patch_length": 4, "patch_stride": 4, "num_input_channels": 3},
    "perceiver": {"d_latents": 64, "d_model": 64, "num_latents": 8},
    "perception_lm": {
        "vision_config.architecture": "vit_pe_core_tiny_patch16_384",
        "vision_config.model_args": {
            "embed_dim": WIDTH,
            "depth": 2,
            "num_heads": HEADS,
            "img_size": (IMAGE, IMAGE),
        },
    },
    "pvt_v2": {
        "hidden_sizes": [8, 16, 24, 32],
        "num_attention_heads": [1, 2, 2, 4],
        "depths": [1, 1, 1, 1],
        "image_size": 64,
    },
    "reformer": {
        "axial_pos_embds_dim": [24, 40],
        "axial_pos_shape": [4, 8],
        "max_position_embeddings": 32,
        "attn_layers": ["local", "lsh"],
        "num_buckets": 4,
        "lsh_attn_chunk_length": 8,
        "local_attn_chunk_length": 8,
        "hash_seed": 0,
    },
    "seggpt": {"image_size": [2 * IMAGE, IMAGE]},
    "swin2sr": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    "time_series_transformer": _SERIES,
    "timm_backbone": {"backbone": "resnet10t"},
    "timm_wrapper": {"architecture": "resnet10t"},
    "uvdoc": {
        "backbone_config": {
            "model_type": "uvdoc_backbone",
            "resnet_head": ((3, 8), (8, 8)),
            "resnet_configs": (
                ((8, 8, 1, False),),
                ((8, 16, 1, True), (16, 16, 3, False)),
                ((16, 32, 1, True), (32, 32, 3, False)),
            ),
            "stage_configs": (((32, 1),), ((32, 2), (32, 1))),
            "out_features": ["stage1", "stage2"],
        },
        "bridge_connector": (32, 32),
        "out_point_positions2D": ((32, 8), (8, 2)),
    },
}


def _words(length: int = 19) -> torch.Tensor:
    return torch.randint(3, N_WORDS - 10, (2, length))


def _boxes(length: int = 19) -> torch.Tensor:
    """The corners of a word's box."""
    low, extent = torch.randint(0, 40, (2, length, 2)), torch.randint(1, 40, (2, length, 2))
    return torch.cat([low, low + extent], -1)


def _pixels(config: Any) -> torch.Tensor:
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", IMAGE)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return torch.randn(2, 3, height, width)


def _patch_size(config: Any) -> int:
    channels = getattr(config, "in_channels", None) or getattr(config, "in_chans", None) or 3
    return int(channels * (getattr(config, "temporal_patch_size", None) or 1) * config.patch_size**2)


def _grid(pixels: str, grid: str, n_frames: int = 1) -> Callable[[Any], Inputs]:
    """The patches of two images, side by side; `n_frames` where the configuration does not say how many one holds."""

    def make(config: Any) -> Inputs:
        return {
            pixels: torch.randn(16 + 32, n_frames * _patch_size(config)),
            grid: torch.tensor([[1, 4, 4], [1, 4, 8]]),
        }

    return make


def _series(config: Any) -> Inputs:
    past = config.context_length + max(config.lags_sequence)
    values = torch.randn(2, past + config.prediction_length)
    times = torch.randn(2, past + config.prediction_length, config.num_time_features)
    return {
        "past_values": values[:, :past].clone(),
        "past_time_features": times[:, :past].clone(),
        "past_observed_mask": torch.ones(2, past),
        "future_values": values[:, past:].clone(),
        "future_time_features": times[:, past:].clone(),
    }


def _sound(config: Any) -> Inputs:
    length = 2 * config.max_source_positions
    return {
        "input_features": torch.randn(2, config.num_mel_bins, length),
        "input_features_mask": torch.ones(2, length, dtype=torch.long),
    }


INPUTS: dict[str, Callable[[Any], Inputs]] = {
    "autoformer": _series,
    "audioflamingo3_encoder": _sound,
    "blip_2_qformer": lambda config: {
        "query_embeds": torch.randn(2, 4, config.hidden_size),
        "encoder_hidden_states": torch.randn(2, 5, config.encoder_hidden_size),
    },
    "bros": lambda config: {"input_ids": _words(), "bbox": torch.rand(2, 19, 8)},
    "decision_transformer": lambda config: {
        "states": torch.randn(2, 6, config.state_dim),
        "actions": torch.randn(2, 6, config.act_dim),
        "rewards": torch.randn(2, 6, 1),
        "returns_to_go": torch.randn(2, 6, 1),
        "timesteps": torch.arange(6).expand(2, 6).clone(),
        "attention_mask": torch.ones(2, 6),
    },
    "exaone4_5_vision": _grid("hidden_states", "grid_thw"),
    "glm_image_vision": _grid("pixel_values", "grid_thw"),
    "hunyuan_vl_vision": _grid("pixel_values", "grid_thw"),
    "hy_v4_vl_vision": _grid("pixel_values", "grid_thw"),
    "cosmos3_edge_vision": _grid("pixel_values", "grid_thw"),
    "kimi_k25_vision": lambda config: {
        "pixel_values": torch.randn(48, 3, config.patch_size, config.patch_size),
        "grid_thw": torch.tensor([[1, 4, 4], [1, 4, 8]]),
    },
    "informer": _series,
    "layoutlmv3": lambda config: {"input_ids": _words(), "bbox": _boxes()},
    "idefics": lambda config: {
        "input_ids": _words(),
        "pixel_values": _pixels(config)[:, None],
        "image_attention_mask": torch.ones(2, 19, 1, dtype=torch.long),
    },
    "kosmos-2": lambda config: {
        "input_ids": _words(),
        "pixel_values": _pixels(config),
        "image_embeds_position_mask": (torch.arange(19) < config.latent_query_num).repeat(2, 1),
    },
    "lfm3_vl_vision": _grid("pixel_values", "grid_thw"),
    "lilt": lambda config: {"input_ids": _words(), "bbox": _boxes()},
    "lxmert": lambda config: {
        "input_ids": _words(),
        "visual_feats": torch.randn(2, 5, config.visual_feat_dim),
        "visual_pos": torch.rand(2, 5, config.visual_pos_dim),
    },
    "markuplm": lambda config: {"input_ids": _words()},
    "patchtst": lambda config: {"past_values": torch.randn(2, config.context_length, 3)},
    "patchtsmixer": lambda config: {"past_values": torch.randn(2, config.context_length, 3)},
    "owlvit": lambda config: {"input_ids": _words(16), "pixel_values": _pixels(config)},
    "owlv2": lambda config: {"input_ids": _words(16), "pixel_values": _pixels(config)},
    "muse_glimmer_vision": _grid("pixel_values", "grid_thw", n_frames=2),
    "muse_spark_vision": _grid("pixel_values", "grid_thw", n_frames=2),
    "perceiver": lambda config: {"inputs": torch.randn(2, 12, config.d_model)},
    "qwen2_5_vl_vision": _grid("hidden_states", "grid_thw"),
    "reformer": lambda config: {"input_ids": _words(32)},
    "siglip2": lambda config: {
        "input_ids": _words(),
        "pixel_values": torch.randn(2, 16, 3 * PATCH**2),
        "pixel_attention_mask": torch.ones(2, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4], [4, 4]]),
    },
    "siglip2_vision_model": lambda config: {
        "pixel_values": torch.randn(2, 16, 3 * PATCH**2),
        "pixel_attention_mask": torch.ones(2, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4], [4, 4]]),
    },
    "seggpt": lambda config: {  # the prompt's image lies above the image
        name: torch.randn(2, 3, IMAGE, IMAGE)
        for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")
    },
    "time_series_transformer": _series,
    "timesfm": lambda config: {
        "past_values": torch.randn(2, 64),
        "past_values_padding": torch.zeros(2, 64, dtype=torch.long),
        "freq": torch.zeros(2, 1, dtype=torch.long),
    },
    "uvdoc": lambda config: {"pixel_values": torch.randn(2, 3, 128, 128)},
    "vjepa2": lambda config: {
        "pixel_values_videos": torch.randn(1, config.frames_per_clip, 3, config.crop_size, config.crop_size)
    },
    "wav2vec2-bert": lambda config: {
        "input_features": torch.randn(2, 20, config.feature_projection_input_dim)
    },
    "xmod": lambda config: {"input_ids": _words(), "lang_ids": torch.zeros(2, dtype=torch.long)},
}
