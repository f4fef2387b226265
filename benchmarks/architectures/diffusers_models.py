"""diffusers: the networks that denoise, and the autoencoder."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.architectures.example import Example, Factory

_BLOCKS = {
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "norm_num_groups": 8,
}


def diffusers_factories() -> dict[str, Factory]:
    """By the names of diffusers' classes."""
    makers = (
        _unet,
        _conditional_unet,
        _autoencoder,
        _dit,
        _sd3,
        _flux,
        _vq,
        _pixart,
        _controlnet,
        _prior,
    )
    return {maker.__doc__.rstrip(".") if maker.__doc__ else maker.__name__: maker for maker in makers}


def _model(name: str, kwargs: dict[str, Any], **settings: Any) -> Example:
    import diffusers

    return getattr(diffusers, name)(**settings).eval(), (), kwargs


def _unet() -> Example:
    """UNet2DModel."""
    return _model(
        "UNet2DModel",
        {"sample": torch.randn(2, 3, 16, 16), "timestep": torch.tensor([3, 7])},
        sample_size=16,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
        **_BLOCKS,
    )


def _conditional_unet() -> Example:
    """UNet2DConditionModel."""
    return _model(
        "UNet2DConditionModel",
        {
            "sample": torch.randn(2, 4, 16, 16),
            "timestep": torch.tensor([3, 7]),
            "encoder_hidden_states": torch.randn(2, 7, 32),
        },
        sample_size=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **_BLOCKS,
    )


def _autoencoder() -> Example:
    """AutoencoderKL."""
    return _model(
        "AutoencoderKL",
        {"sample": torch.randn(2, 3, 16, 16)},
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=16,
        **_BLOCKS,
    )


def _vq() -> Example:
    """VQModel."""
    return _model(
        "VQModel",
        {"sample": torch.randn(2, 3, 16, 16)},
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        num_vq_embeddings=16,
        **_BLOCKS,
    )


def _dit() -> Example:
    """DiTTransformer2DModel."""
    return _model(
        "DiTTransformer2DModel",
        {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "timestep": torch.tensor([3, 7]),
            "class_labels": torch.tensor([1, 2]),
        },
        num_attention_heads=4,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        norm_num_groups=8,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=10,
    )


def _sd3() -> Example:
    """SD3Transformer2DModel."""
    return _model(
        "SD3Transformer2DModel",
        {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "encoder_hidden_states": torch.randn(2, 7, 32),
            "pooled_projections": torch.randn(2, 24),
            "timestep": torch.tensor([3, 7]),
        },
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=64,
        pooled_projection_dim=24,
        out_channels=4,
        pos_embed_max_size=8,
    )


def _flux() -> Example:
    """FluxTransformer2DModel."""
    return _model(
        "FluxTransformer2DModel",
        {
            "hidden_states": torch.randn(2, 16, 16),
            "encoder_hidden_states": torch.randn(2, 7, 32),
            "pooled_projections": torch.randn(2, 24),
            "timestep": torch.tensor([0.3, 0.7]),
            "img_ids": torch.randn(16, 3),
            "txt_ids": torch.zeros(7, 3),
        },
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=32,
        pooled_projection_dim=24,
        axes_dims_rope=(4, 4, 8),
    )


def _pixart() -> Example:
    """PixArtTransformer2DModel."""
    return _model(
        "PixArtTransformer2DModel",
        {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "encoder_hidden_states": torch.randn(2, 7, 32),
            "timestep": torch.tensor([3, 7]),
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
        num_attention_heads=4,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        cross_attention_dim=64,
        caption_channels=32,
        sample_size=8,
        patch_size=2,
        use_additional_conditions=False,
    )


def _controlnet() -> Example:
    """ControlNetModel."""
    return _model(
        "ControlNetModel",
        {
            "sample": torch.randn(2, 4, 16, 16),
            "timestep": torch.tensor([3, 7]),
            "encoder_hidden_states": torch.randn(2, 7, 32),
            "controlnet_cond": torch.randn(2, 3, 128, 128),
        },
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(8, 16),
        **_BLOCKS,
    )


def _prior() -> Example:
    """PriorTransformer."""
    return _model(
        "PriorTransformer",
        {
            "hidden_states": torch.randn(2, 32),
            "timestep": torch.tensor([3, 7]),
            "proj_embedding": torch.randn(2, 32),
            "encoder_hidden_states": torch.randn(2, 7, 32),
        },
        num_attention_heads=4,
        attention_head_dim=16,
        num_layers=2,
        embedding_dim=32,
        num_embeddings=7,
    )
