"""timm, one model for each of its modules, and torchvision: classification, segmentation and video."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from benchmarks.architectures.example import Example, Factory

# Small variants first: a module's model is the first of its names that has one of these words.
_SMALL_WORDS = (
    "atto|femto|zepto|mini",
    "pico|nano",
    "xxs|xx_small|xxsmall|_s0|_m0|t0|_mci0",
    "xs\\b|x_small|005|_035|_040|020",
    "tiny|_t\\b|_t_|ti\\b|b0|050|18|_xs",
    "small|_s\\b|_s_|26|s0|b1",
)
_TIMM_NAMES = {
    "vision_transformer": "vit_tiny_patch16_224",
    "vision_transformer_sam": "samvit_base_patch16_224",
    "beit": "beit_base_patch16_224",
    "crossvit": "crossvit_tiny_240",
    "efficientnet": "efficientnet_b0",
    "mobilenetv3": "mobilenetv3_small_050",
    "regnet": "regnetx_002",
    "resnet": "resnet10t",
    "swin_transformer": "swin_tiny_patch4_window7_224",
    "eva": "eva02_tiny_patch14_224",
}
_MOST_PARAMETERS = 40_000_000
_SIDE = 64

_TORCHVISION: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        (
            "convnext_tiny",
            "densenet121",
            "efficientnet_b0",
            "efficientnet_v2_s",
            "mnasnet0_5",
            "mobilenet_v2",
            "mobilenet_v3_small",
            "regnet_x_400mf",
            "regnet_y_400mf",
            "resnet18",
            "resnet50",
            "resnext50_32x4d",
            "shufflenet_v2_x0_5",
            "squeezenet1_1",
            "swin_t",
            "swin_v2_t",
            "wide_resnet50_2",
            "alexnet",
            "vgg11_bn",
            "googlenet",
        ),
        ("", (2, 3, _SIDE, _SIDE)),
    ),
    "inception_v3": ("", (2, 3, 96, 96)),
    "vit_b_32": ("", (1, 3, _SIDE, _SIDE)),
    "maxvit_t": ("", (1, 3, 224, 224)),
    **{
        f"segmentation/{name}": ("segmentation", (2, 3, _SIDE, _SIDE))
        for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
    },
    **{
        f"video/{name}": ("video", (1, 3, 8, _SIDE, _SIDE))
        for name in ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t")
    },
    "video/s3d": ("video", (1, 3, 16, 224, 224)),
    "video/mvit_v2_s": ("video", (1, 3, 16, 224, 224)),
    "optical_flow/raft_small": ("optical_flow", (1, 3, 128, 128)),
}


def timm_factories() -> dict[str, Factory]:
    """By timm's module names."""
    import timm
    from timm.models._registry import _module_to_models

    def factory(module: str) -> Factory:
        return lambda: _timm_model(timm, _TIMM_NAMES.get(module) or _smallest(_module_to_models[module]))

    return {module: factory(module) for module in sorted(_module_to_models)}


def _smallest(names: Any) -> str:
    """The variant whose name says that it is small; `test_` models have too little of their family in them."""
    ordered = sorted(
        (name for name in names if not name.startswith("test_")), key=lambda name: (len(name), name)
    )
    for words in _SMALL_WORDS:
        for name in ordered:
            if re.search(words, name):
                return name
    return ordered[0]


def _timm_model(timm: Any, name: str) -> Example:
    """A model of timm on the smallest images that it takes, with the settings of these that it knows."""
    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    given = config.input_size if config is not None else (3, 224, 224)
    failure: Exception | None = None
    for side in dict.fromkeys((_SIDE, 96, 128, given[-1])):
        settings: list[dict[str, Any]] = [
            {"img_size": side, "depth": 2},
            {"img_size": side},
            {"depth": 2},
            {},
        ]
        for extra in settings if side == _SIDE else settings[1::2]:
            try:
                return _timm_example(timm, name, given[0], side, {"num_classes": 10, **extra})
            except Exception as error:
                failure = error
    raise failure or ValueError(name)


def deep_timm(module: str, n_layers: int) -> Example:
    """A module's model with as many layers as are asked for, in each of its stages.

    Raises:
        ValueError: It does not take a number of layers.
    """
    import timm
    from timm.models._registry import _module_to_models

    name = _TIMM_NAMES.get(module) or _smallest(_module_to_models[module])
    stages = (n_layers,) * 4
    depths: list[dict[str, Any]] = [{"depth": n_layers}, {"depths": stages}, {"layers": stages}]
    for depth in depths:
        for size in ({"img_size": _SIDE}, {}):
            try:
                return _timm_example(timm, name, 3, _SIDE, {"num_classes": 10, **size, **depth})
            except (TypeError, ValueError, AssertionError, RuntimeError):  # timm says it in one of these
                continue
    raise ValueError(f"{name} takes no number of layers")


def _timm_example(timm: Any, name: str, n_channels: int, side: int, settings: dict[str, Any]) -> Example:
    with torch.device("meta"):
        n_parameters = sum(p.numel() for p in timm.create_model(name, **settings).parameters())
    if n_parameters > _MOST_PARAMETERS:
        raise ValueError(f"{name} has {n_parameters:,} parameters")
    module = timm.create_model(name, **settings).eval()
    images = torch.randn(2, n_channels, side, side)
    with torch.no_grad():
        module(images)
    return module, (images,), {}


def torchvision_factories() -> dict[str, Factory]:
    """Of each family the smallest."""
    import torchvision

    def factory(name: str, place: str, shape: tuple[int, ...]) -> Factory:
        def make() -> Example:
            module: nn.Module = _torchvision_model(
                torchvision.models, name.rpartition("/")[2], place, shape[-1]
            )
            images = torch.randn(shape)
            return module.eval(), (images, torch.randn(shape)) if place == "optical_flow" else (images,), {}

        return make

    return {name: factory(name, place, shape) for name, (place, shape) in _TORCHVISION.items()}


def _torchvision_model(models: Any, name: str, place: str, side: int) -> nn.Module:
    settings: dict[str, Any] = {"num_classes": 10} if place != "optical_flow" else {}
    if place == "segmentation":
        settings["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        settings |= {"init_weights": False, "aux_logits": False}
    if name.startswith("vit_"):
        settings["image_size"] = side
    return models.get_model(name, weights=None, **settings)
