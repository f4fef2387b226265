"""A configuration of transformers, made small by one factor: every width of a model and of its halves, alike.

What was equal stays equal, what was a product stays one: where a width has to be another's, the names need not tell.
What a class derives from other settings, it derives again from the small ones.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from benchmarks.architectures.shrinking import (
    IMAGE,
    LAYERS,
    N_WORDS,
    layers_as,
    missing_settings,
    small_experts,
    words_within,
)

__all__ = ["scaled"]

_NARROWEST = 32  # what is less is a count, a kernel's size, a patch
_POSITIONS = 512
_LARGEST_SIDE = 512
_MOST_STAGES = 5
_MULTIPLE = 8  # rows that PyTorch's grouped products take begin at multiples of 16 bytes
# Not a width, however large it is.
_COUNTED = re.compile(
    r".*(_id|_ids|_index|_indices|_idx|theta|rate|position\w*|length|_ctx|seq_len|temperature|window\w*|context\w*|"
    r"offset|eps|epsilon|steps?|strides?|kernel\w*|ratios?|chunk\w*|bins|scale|hop\w*|tokens|\w*_size_list)$|"
    r"(num|n|max|min|log|fps|sampling)_\w+|(\w+_)?(image|img|crop|input|patch|block|eval|grid)_size$"
)
_OF_A_LAYER = re.compile(r"(\w+_)?(feature_layers?|select_layer|layer_indices|layer_idx)")
_WORDS = re.compile(r"(\w+_)?(vocab_size|n_vocab|vocab_size_per_layer_input)$|entity_vocab_size$")
_IMAGES = re.compile(r"(\w+_)?(image|img|crop|input)_size$")
_WHERE = re.compile(r"(\w+_)?(position_embeddings|positions|n_ctx|seq_len|sequence_length)$")


def scaled(
    default: Any,
    factor: int,
    settings: dict[str, Any],
    /,
    *,
    keeps_images: bool = False,
    is_filled: bool = False,
) -> Any:
    """A configuration with widths divided by a factor, few layers, few words and small images.

    Args:
        default: The configuration that the class makes, or that the one around it makes of it.
        factor: What widths are divided by.
        settings: By name, as the class takes them, ``text_config.vocab_size`` of one within; they win.
        keeps_images: Whether images are as large as they are: tables of positions may be made for them.
        is_filled: Whether sizes that are left open are given by their names.

    Raises:
        Exception: Whatever the class raises: the rule does not fit it.
    """
    fields = {field.name: field for field in dataclasses.fields(default)}
    alone = vars(type(default)())
    small: dict[str, Any] = {"use_cache": False} if "use_cache" in fields else {}
    small |= missing_settings(default) if is_filled else {}
    n_layers = fields["num_hidden_layers"].default if "num_hidden_layers" in fields else None
    if getattr(default, "_out_indices", None):  # what a backbone gives to the one around it
        small["out_indices"] = list(default.out_indices)
    for key, value in vars(default).items():
        if hasattr(value, "to_dict"):
            own = {
                name.removeprefix(f"{key}."): one
                for name, one in settings.items()
                if name.startswith(f"{key}.")
            }
            small[key] = scaled(value, factor, own, keeps_images=keeps_images, is_filled=is_filled)
        elif key not in fields or key.startswith("_"):
            continue
        elif fields[key].default is None and value == alone.get(key):
            if _OF_A_LAYER.fullmatch(key) or (
                is_filled and _has_widths(value)
            ):  # or writes out, where it is not given
                small[key] = _smaller(key, value, factor)
        elif keeps_images and _IMAGES.fullmatch(key):
            small[key] = _kept(value)
        elif key == "num_hidden_layers" and getattr(default, "_out_indices", None):
            small[key] = max(default.out_indices)  # as deep as what is taken from it
        elif key == "num_hidden_layers" and _counts_stages(default, value):
            small[key] = value
        elif _is_per_layer(value, n_layers):
            small[key] = type(value)(_smaller(key, item, factor) for item in value[:LAYERS])
        else:
            small[key] = _smaller(key, value, factor)
    small |= _patches_again(default, small)
    own = {name: value for name, value in settings.items() if "." not in name}
    return type(default)(**{**small, **words_within(small, N_WORDS), **own})


def _counts_stages(default: Any, n_layers: int) -> bool:
    """Whether what is called a layer is a stage: lists of few tell of each how deep it is, or how wide."""
    return any(
        isinstance(value, list | tuple) and len(value) == n_layers for value in vars(default).values()
    ) and (n_layers <= _MOST_STAGES)


def _is_per_layer(value: Any, n_layers: int | None) -> bool:
    return isinstance(value, list | tuple) and len(value) == n_layers and len(value) > _MOST_STAGES


def _has_widths(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and all(type(one) is int for one in value)
    return is_list and bool(value) and max(value) >= _NARROWEST


def _kept(value: Any) -> Any:
    """An image's side as it is, or a quarter of it where it is so large that a call takes seconds."""
    if isinstance(value, list | tuple):
        return type(value)(_kept(one) for one in value)
    return value // 4 if isinstance(value, int) and value > _LARGEST_SIDE else value


def _patches_again(default: Any, small: dict[str, Any]) -> dict[str, int]:
    """What is the number of an image's patches, in a row or in all, is that of the small one."""
    image, patch = getattr(default, "image_size", None), getattr(default, "patch_size", None)
    few = small.get("image_size")
    if not all(isinstance(one, int) for one in (image, patch, few)) or not patch:
        return {}
    row, few_in_row = image // patch, few // small.get("patch_size", patch)
    again = {row: few_in_row, row**2: few_in_row**2}
    known = ("image_size", "patch_size")
    return {
        key: again[value]
        for key in small
        if key not in known
        and type(value := vars(default).get(key)) is int
        and value in again
        and "size" in key
    }


def _smaller(key: str, value: Any, factor: int) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return 0.0 if re.search(r"drop(out)?(_|$)|drop_path|layerdrop|jitter", key) else value
    if _OF_A_LAYER.fullmatch(key):
        return _layer_within(value)
    if key.endswith("shared_layers"):
        return 0  # of two, none has one of its kind before it
    if (few := layers_as(key, value)) is not None:
        return few
    if isinstance(value, int):
        return _smaller_integer(key, value, factor)
    if isinstance(value, list | tuple):
        if _IMAGES.fullmatch(key):
            return type(value)(IMAGE for _ in value)
        return type(value)(_smaller(key, item, factor) for item in value)
    return value


def _layer_within(value: Any) -> Any:
    """The number of a layer, or of several, where there are few; those that are counted from the end stay."""
    if isinstance(value, list | tuple):
        return type(value)(one if one < 0 else max(LAYERS - 1 - place, 0) for place, one in enumerate(value))
    return min(value, LAYERS - 1) if isinstance(value, int) else value


def _smaller_integer(key: str, value: int, factor: int) -> int:
    if _WORDS.fullmatch(key):
        return min(value, N_WORDS)
    if _IMAGES.fullmatch(key):
        return min(value, IMAGE)
    if _WHERE.fullmatch(key):
        return min(value, _POSITIONS)
    if (few := small_experts(key, value)) is not None:
        return few
    if value >= _NARROWEST and re.search(r"(filters|channels|groups)$", key):
        return _divided(value, factor)
    if value < _NARROWEST or _COUNTED.fullmatch(key):
        return value
    return _divided(value, factor)


def _divided(value: int, factor: int) -> int:
    narrow = max(value // factor, 1)
    return narrow // _MULTIPLE * _MULTIPLE if narrow >= _MULTIPLE else narrow
