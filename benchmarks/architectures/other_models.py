"""segmentation_models_pytorch, monai, x_transformers, vit_pytorch and kornia: a class, its settings, its inputs."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from benchmarks.architectures.example import Example, Factory

_IMAGES = (2, 3, 64, 64)
_VOLUME = (1, 1, 32, 32, 32)
_N_WORDS = 99

# Module: class: settings; and the shape of the input, the images above unless told.
_Entry = tuple[dict[str, Any], tuple[int, ...]]
_SMP: dict[str, Any] = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 3}
_SEGMENTATION: dict[str, _Entry] = {
    name: ({**_SMP, **more}, _IMAGES)
    for name, more in {
        "Unet": {"encoder_depth": 3, "decoder_channels": (32, 16, 8)},
        "UnetPlusPlus": {"encoder_depth": 3, "decoder_channels": (32, 16, 8)},
        "Linknet": {},
        "FPN": {"decoder_pyramid_channels": 32, "decoder_segmentation_channels": 32, "decoder_dropout": 0.0},
        "PSPNet": {"psp_out_channels": 32, "psp_dropout": 0.0},
        "DeepLabV3": {"decoder_channels": 16, "decoder_aspp_dropout": 0.0},
        "DeepLabV3Plus": {"decoder_channels": 16, "decoder_aspp_dropout": 0.0},
        "MAnet": {"encoder_depth": 3, "decoder_channels": (32, 16, 8)},
        "UPerNet": {"decoder_channels": 32},
        "Segformer": {"decoder_segmentation_channels": 32},
    }.items()
}
_SPATIAL: dict[str, Any] = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
_GRAY = (1, 1, 64, 64)
_MONAI: dict[str, _Entry] = {
    "UNet": ({**_SPATIAL, "channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 1}, _GRAY),
    "AttentionUnet": ({**_SPATIAL, "channels": (8, 16, 32), "strides": (2, 2)}, _GRAY),
    "BasicUNet": ({**_SPATIAL, "features": (8, 8, 16, 32, 32, 8)}, _GRAY),
    "BasicUNetPlusPlus": ({**_SPATIAL, "features": (8, 8, 16, 32, 32, 8)}, _GRAY),
    "DynUNet": (
        {
            **_SPATIAL,
            "kernel_size": [3, 3, 3],
            "strides": [1, 2, 2],
            "upsample_kernel_size": [2, 2],
            "filters": [8, 16, 32],
        },
        _GRAY,
    ),
    "SegResNet": ({"spatial_dims": 3, "init_filters": 8, "in_channels": 1, "out_channels": 2}, _VOLUME),
    "VNet": ({"spatial_dims": 3, "in_channels": 1, "out_channels": 2}, _VOLUME),
    "UNETR": (
        {
            "in_channels": 1,
            "out_channels": 2,
            "img_size": (32, 32, 32),
            "feature_size": 8,
            "hidden_size": 48,
            "mlp_dim": 96,
            "num_heads": 4,
        },
        _VOLUME,
    ),
    "SwinUNETR": ({"in_channels": 1, "out_channels": 2, "feature_size": 12, "spatial_dims": 2}, _GRAY),
    "DenseNet121": ({**_SPATIAL}, _GRAY),
    "EfficientNetBN": (
        {
            "model_name": "efficientnet-b0",
            "pretrained": False,
            "spatial_dims": 2,
            "in_channels": 1,
            "num_classes": 2,
        },
        _GRAY,
    ),
    "HighResNet": (_SPATIAL, _GRAY),
    "SENet154": ({"spatial_dims": 2, "in_channels": 1, "num_classes": 2, "layers": (1, 1, 1, 1)}, _GRAY),
    "FlexibleUNet": (
        {"in_channels": 1, "out_channels": 2, "backbone": "efficientnet-b0", "spatial_dims": 2},
        _GRAY,
    ),
    "MedNeXtS": ({**_SPATIAL}, _GRAY),
    "AutoEncoder": ({**_SPATIAL, "channels": (8, 16), "strides": (2, 2)}, _GRAY),
    "ViT": (
        {
            "in_channels": 1,
            "img_size": (32, 32),
            "patch_size": (8, 8),
            "hidden_size": 48,
            "mlp_dim": 96,
            "num_layers": 2,
            "num_heads": 4,
            "spatial_dims": 2,
        },
        (2, 1, 32, 32),
    ),
    "VQVAE": (
        {
            **_SPATIAL,
            "channels": (8, 16),
            "num_res_layers": 1,
            "num_res_channels": (8, 16),
            "downsample_parameters": ((2, 4, 1, 1), (2, 4, 1, 1)),
            "upsample_parameters": ((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)),
            "num_embeddings": 16,
            "embedding_dim": 8,
        },
        _GRAY,
    ),
}
_SQUARE: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 8,
    "num_classes": 10,
    "dim": 48,
    "depth": 2,
    "heads": 4,
    "mlp_dim": 96,
}
_NARROW: dict[str, Any] = {"dim_head": 16}
_VIT_PYTORCH: dict[str, _Entry] = {
    **{
        name: ({**_SQUARE, **_NARROW, **more}, _IMAGES)
        for name, more in {
            "vit/ViT": {},
            "simple_vit/SimpleViT": {},
            "deepvit/DeepViT": {},
            "cait/CaiT": {"cls_depth": 1},
            "parallel_vit/ViT": {},
            "pit/PiT": {"depth": (1, 1)},
            "vit_for_small_dataset/ViT": {},
            "xcit/XCiT": {"cls_depth": 1},
            "normalized_vit/nViT": {},
            "simple_vit_with_register_tokens/SimpleViT": {},
            "simple_vit_with_qk_norm/SimpleViT": {},
            "rvt/RvT": {},
        }.items()
    },
    "cct/CCT": (
        {
            "img_size": 64,
            "embedding_dim": 48,
            "num_layers": 2,
            "num_heads": 4,
            "mlp_ratio": 2.0,
            "num_classes": 10,
        },
        _IMAGES,
    ),
    "cvt/CvT": (
        {
            "num_classes": 10,
            "s1_emb_dim": 16,
            "s2_emb_dim": 32,
            "s2_heads": 2,
            "s3_emb_dim": 48,
            "s3_heads": 2,
            "s3_depth": 1,
        },
        _IMAGES,
    ),
    "levit/LeViT": (
        {
            "image_size": 224,
            "num_classes": 10,
            "dim": (32, 48, 64),
            "depth": 1,
            "heads": (2, 3, 4),
            "mlp_mult": 2,
        },
        (1, 3, 224, 224),
    ),
    "cross_vit/CrossViT": (
        {"image_size": 96, "num_classes": 10, "sm_dim": 32, "lg_dim": 48, "depth": 1, "lg_enc_depth": 1},
        (2, 3, 96, 96),
    ),
    "max_vit/MaxViT": (
        {"num_classes": 10, "dim": 16, "dim_conv_stem": 16, "depth": (1, 1), "dim_head": 8, "window_size": 7},
        (1, 3, 112, 112),
    ),
    "mobile_vit/MobileViT": (
        {
            "image_size": (64, 64),
            "dims": [24, 32, 40],
            "channels": [8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 64],
            "num_classes": 10,
        },
        _IMAGES,
    ),
    "nest/NesT": (
        {
            "image_size": 64,
            "patch_size": 4,
            "num_classes": 10,
            "dim": 32,
            "heads": 2,
            "num_hierarchies": 3,
            "block_repeats": (1, 1, 1),
        },
        _IMAGES,
    ),
    "sep_vit/SepViT": (
        {"num_classes": 10, "dim": 16, "depth": (1, 1), "heads": (1, 2), "dim_head": 16},
        (1, 3, 112, 112),
    ),
    "twins_svt/TwinsSVT": (
        {
            "num_classes": 10,
            "s1_emb_dim": 16,
            "s2_emb_dim": 32,
            "s3_emb_dim": 32,
            "s3_depth": 1,
            "s4_emb_dim": 48,
        },
        (1, 3, 224, 224),
    ),
    "vit_1d/ViT": (
        {"seq_len": 64, "patch_size": 8, "num_classes": 10, "dim": 48, "depth": 2, "heads": 4, "mlp_dim": 96},
        (2, 3, 64),
    ),
    "vit_3d/ViT": (
        {
            "image_size": 32,
            "image_patch_size": 8,
            "frames": 4,
            "frame_patch_size": 2,
            "num_classes": 10,
            "dim": 48,
            "depth": 2,
            "heads": 4,
            "mlp_dim": 96,
        },
        (1, 3, 4, 32, 32),
    ),
}
_X_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "decoder": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "t5 bias": {"rel_pos_bias": True},
    "rms norm, swiglu": {"use_rmsnorm": True, "ff_swish": True, "ff_glu": True},
    "qk norm": {"attn_qk_norm": True},
    "grouped queries": {"attn_kv_heads": 2, "rotary_pos_emb": True},
    "sandwich": {"sandwich_coef": 1},
    "macaron": {"macaron": True},
    "shift tokens": {"shift_tokens": 1},
    "memory tokens": {},
}
_KORNIA: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian blur": ("filters.gaussian_blur2d", {"kernel_size": (5, 5), "sigma": (1.5, 1.5)}),
    "sobel": ("filters.sobel", {}),
    "canny": ("filters.canny", {}),
    "median blur": ("filters.median_blur", {"kernel_size": (3, 3)}),
    "bilateral blur": (
        "filters.bilateral_blur",
        {"kernel_size": (3, 3), "sigma_color": 0.1, "sigma_space": (1.5, 1.5)},
    ),
    "laplacian": ("filters.laplacian", {"kernel_size": 3}),
    "rgb to hsv": ("color.rgb_to_hsv", {}),
    "rgb to lab": ("color.rgb_to_lab", {}),
    "rgb to gray": ("color.rgb_to_grayscale", {}),
    "equalize": ("enhance.equalize_clahe", {}),
    "adjust gamma": ("enhance.adjust_gamma", {"gamma": 1.8}),
    "sharpness": ("enhance.sharpness", {"factor": 0.5}),
    "rotate": ("geometry.rotate", {"angle": torch.tensor([20.0, -40.0])}),
    "resize": ("geometry.resize", {"size": (24, 40)}),
    "dilation": ("morphology.dilation", {"kernel": torch.ones(3, 3)}),
    "harris": ("feature.harris_response", {}),
    "pyramid": ("geometry.pyrdown", {}),
}


def segmentation_factories() -> dict[str, Factory]:
    """By the names of segmentation_models_pytorch's classes."""
    return _built("segmentation_models_pytorch", _SEGMENTATION)


def monai_factories() -> dict[str, Factory]:
    """By the names in monai.networks.nets."""
    return _built("monai.networks.nets", _MONAI)


def vit_pytorch_factories() -> dict[str, Factory]:
    """By module and class of vit_pytorch."""
    return _built("vit_pytorch", _VIT_PYTORCH)


def _built(package: str, entries: dict[str, _Entry]) -> dict[str, Factory]:
    def factory(name: str, settings: dict[str, Any], shape: tuple[int, ...]) -> Factory:
        return lambda: (_found(package, name)(**settings).eval(), (torch.randn(shape),), {})

    return {name: factory(name, *entry) for name, entry in entries.items()}


def _found(package: str, path: str) -> Any:
    """``vit.ViT`` in a package, whose modules may not have been imported."""
    module, _, name = f"{package}.{path.replace('/', '.')}".rpartition(".")
    return getattr(importlib.import_module(module), name)


def x_transformers_factories() -> dict[str, Factory]:
    """Decoders by what is special about them, and an encoder and decoder."""

    def factory(name: str, settings: dict[str, Any]) -> Factory:
        def make() -> Example:
            import x_transformers

            layers = x_transformers.Decoder(dim=48, depth=2, heads=4, attn_dim_head=16, **settings)
            extra = {"num_memory_tokens": 3} if name == "memory tokens" else {}
            model = x_transformers.TransformerWrapper(
                num_tokens=_N_WORDS, max_seq_len=32, attn_layers=layers, **extra
            )
            return model.eval(), (torch.randint(_N_WORDS, (2, 19)),), {}

        return make

    return {name: factory(name, settings) for name, settings in _X_TRANSFORMERS.items()} | {"vision": _vision}


def _vision() -> Example:
    import x_transformers

    encoder = x_transformers.Encoder(dim=48, depth=2, heads=4, attn_dim_head=16)
    model = x_transformers.ViTransformerWrapper(
        image_size=32, patch_size=8, num_classes=10, attn_layers=encoder
    )
    return model.eval(), (torch.randn(2, 3, 32, 32),), {}


class Step(nn.Module):
    """A function of kornia as a module, whose tensors are buffers: they go where it goes, and become what it becomes.

    Args:
        path: Its name within kornia.
        settings: What it is called with besides images.
    """

    def __init__(self, path: str, settings: dict[str, Any]) -> None:
        super().__init__()
        self.function = _found("kornia", path)
        self.settings = {
            name: value for name, value in settings.items() if not isinstance(value, torch.Tensor)
        }
        for name, value in settings.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(name, value.clone())

    def forward(self, images: torch.Tensor) -> Any:
        """What the function returns."""
        return self.function(images, **self.settings, **self._buffers)


def kornia_factories() -> dict[str, Factory]:
    """Image operations, each as a module."""

    def factory(path: str, settings: dict[str, Any]) -> Factory:
        return lambda: (Step(path, settings), (torch.rand(2, 3, 32, 32),), {})

    return {name: factory(*entry) for name, entry in _KORNIA.items()}
