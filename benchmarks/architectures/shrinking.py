"""A configuration of transformers, made small by a rule: widths, layers, heads, experts, words, images.

What the rule does is decided by a key's name and the kind of its default value. Sub-configurations are shrunk alike.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from typing import Any

__all__ = ["layers_as", "missing_settings", "named_value", "shrunk", "small_experts", "words_within"]

WIDTH, HEADS, KEY_HEADS, LAYERS, N_WORDS, IMAGE, PATCH = 64, 4, 2, 2, 99, 32, 8

_N_LAYERS = (
    r"(\w+_)?(num_hidden_layers|n_layers?|num_layers|num_blocks|"
    r"encoder_layers|decoder_layers|n_blocks?|num_\w+_layers)$"
)
_EXPERTS: tuple[tuple[str, int], ...] = (
    (r"(num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_expert|expert_num)$", 4),
    (r"(num_experts_per_tok\w*|moe_topk|moe_k|num_selected_experts|top_k_experts|moe_top_k)$", 2),
    (r"(n_group|topk_group|num_expert_group)$", 1),
)
# The first pattern that a key matches decides; None leaves the default.
_INTEGERS: tuple[tuple[str, int | None], ...] = (
    (r"num_feat_extract_layers$", None),
    (r"(\w+_)?codebook_size$", 64),
    (
        r"mask_(time|feature)_length$",
        2,
    ),  # of what a model of sound hides in training: it hears four steps here
    (r".*(layer_id|layer_idx|_index|select_layer|interval|_pattern|_freq|_step|_period|every|offset)$", None),
    (
        r"(pad|bos|eos|cls|sep|mask|unk|image|video|audio|speech|boi|eoi|boa|eoa|decoder_start|vision_\w+|\w*)_token_(id|index)$",
        None,
    ),
    (
        r"(num_)?(key_value_heads|kv_heads|key_value_attention_heads)$|n_head_kv$|multi_query_group_num$",
        KEY_HEADS,
    ),
    (r"(\w+_)?num_(key_value|kv)_heads$", KEY_HEADS),
    (
        r"(\w+_)?(attention_|query_|attn_)?(num_heads|n_heads?|num_attention_heads|attention_heads|nheads|num_head)$",
        HEADS,
    ),
    (
        r"(\w+_)?(head_dim|head_size|d_kv|dim_head|qk_nope_head_dim|v_head_dim|key_dim|value_head_dim)$",
        WIDTH // HEADS,
    ),
    (r"qk_rope_head_dim|rotary_dim|index_head_dim$", 8),
    (r"(q|kv|o|qk|index)_lora_rank|(\w+_)?lora_rank$|.*_rank$", 8),
    (_N_LAYERS, LAYERS),
    *_EXPERTS,
    (r"(\w+_)?(vocab_size|n_vocab|vocab_size_per_layer_input)$|entity_vocab_size$", N_WORDS),
    (
        r"(\w+_)?(intermediate_size|ffn_dim|ffn_hidden_size|d_ff|d_inner|hidden_dim|dim_feedforward|n_inner|mlp_dim|d_ffn|intermediate_dim)$",
        96,
    ),
    (
        r"(\w+_)?(max_position_embeddings|n_positions|n_ctx|max_source_positions|max_target_positions|max_seq_len|max_sequence_length)$",
        128,
    ),
    (r"(\w+_)?(image_size|img_size|input_size|crop_size)$", IMAGE),
    (r"(\w+_)?patch_size$", PATCH),
    (
        r"(\w+_)?(hidden_size|d_model|n_embd|embed_dim|embedding_dim|dim|emb_dim|projection_dim|embedding_size|proj_dim|"
        r"hidden_channels|decoder_hidden_size|projector_dim|output_dim|proj_size|model_dim|word_embed_proj_dim|feat_dim)$",
        WIDTH,
    ),
    (r"(sliding_window|attention_window|window_size|local_attention|chunk_size|attention_chunk_size)$", 8),
    (r"(state_size|ssm_state_size|mamba_d_state|time_step_rank|mamba_dt_rank)$", 4),
    (r"num_mel_bins|feature_size$|input_feat_per_channel$", 16),
    (r"(num_queries|num_query_tokens|num_detection_tokens|num_latents|num_labels)$", 4),
)
# Of what checkpoints alone tell.
_OPEN = (
    (r"\w+_kv_heads$", KEY_HEADS),
    (r"\w+_(budget|topk|top_k)$", 8),
    (r"\w+_ratio$", 2),
    (r"clip_qkv$", 8),
)
# Of half a head of WIDTH // HEADS: how much of it turns by time, height and width.
_SECTIONS = {"mrope_section": [2, 3, 3], "partial_rotary_factor": 1.0}
_LARGE = 512  # an integer that no pattern knows and that is at least this is a width


def shrunk(config_class: type, n_layers: int | None = None, /, **settings: Any) -> Any:
    """A small configuration of a class; `settings` win over the rule.

    Args:
        config_class: Of transformers.
        n_layers: How many layers each stack and each stage of one has; None: what the rule says.
        settings: By name, as the class takes them; ``text_config.vocab_size`` of one within.

    Raises:
        Exception: Whatever the class raises: the rule does not fit it.
    """
    default = config_class()
    values = default.to_dict()
    sub_classes = getattr(config_class, "sub_configs", None) or {}
    small: dict[str, Any] = {"use_cache": False}
    n_kinds = values.get("num_hidden_layers")
    for key, value in values.items():
        if key in sub_classes:
            sub = getattr(default, key)
            if hasattr(sub, "to_dict"):
                own = {
                    name.removeprefix(f"{key}."): one
                    for name, one in settings.items()
                    if name.startswith(f"{key}.")
                }
                small[key] = shrunk(type(sub), n_layers, **own)
        elif isinstance(value, list) and len(value) == n_kinds and key.startswith("layer"):
            small[key] = _both_kinds(value) * ((n_layers or LAYERS) // LAYERS)
        elif n_layers is not None and (deep := _deep(key, value, n_layers)) is not None:
            small[key] = deep
        elif (smaller := _small(key, value, values)) is not None:
            small[key] = smaller
    turned = values.get("rope_parameters")
    if isinstance(turned, dict) and turned.get("rope_type") == "default" and _reads_sections(config_class):
        small["rope_parameters"] = {**turned, **_SECTIONS}
    n_words = settings.get("vocab_size", small.get("vocab_size", N_WORDS))
    own = {name: value for name, value in settings.items() if "." not in name}
    return config_class(**{**small, **words_within(values, n_words), **own})


def words_within(values: dict[str, Any], n_words: int) -> dict[str, int]:
    """The special words of a configuration that a small vocabulary has no place for, at its end."""
    told = [key for key in values if re.fullmatch(r"\w+_token_(id|index)", key)]
    return {
        key: n_words - 1 - place
        for place, key in enumerate(told)
        if isinstance(values[key], int) and values[key] >= n_words
    }


def named_value(key: str) -> float | int | None:
    """What a setting is by its name alone, where no class has a default; None where the name does not tell."""
    if re.search(r"drop(out)?(_|$)|drop_path|layerdrop|jitter", key):
        return 0.0
    if key.endswith("rope_theta"):
        return 10_000.0
    return next((n for pattern, n in (*_INTEGERS, *_OPEN) if re.fullmatch(pattern, key)), None)


def missing_settings(default: Any) -> dict[str, Any]:
    """Settings that a configuration leaves open and its class does not derive, by their names.

    A class has none where each checkpoint tells its own: how many experts there are, how wide they are, which layers
    have them, and which word stands for an image.
    """
    missing: dict[str, Any] = {}
    n_words = 0
    for field in dataclasses.fields(default):
        key, kind = field.name, str(field.type)
        if vars(default).get(key, 0) is not None:  # not getattr: layers may differ, and then it raises
            continue
        if re.fullmatch(r"(image|video|audio)_token_(id|index)", key):
            n_words += 1
            missing[key] = N_WORDS - n_words
        elif key == "mlp_layer_types":
            missing[key] = ["dense", "sparse"]
        elif "dict" in kind and key.endswith("_map"):
            missing[key] = {}
        elif re.search(r"\bint\b", kind) and isinstance(size := named_value(key), int):
            missing[key] = size
    return missing


def layers_as(key: str, value: Any, n_layers: int = LAYERS) -> Any:
    """As many layers as are asked for at most, where a key says how many there are; None where it does not."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and re.fullmatch(_N_LAYERS, key):
        return min(value, n_layers)
    is_list = isinstance(value, list | tuple) and re.search(r"depth|layers|num_blocks", key)
    if is_list and value and all(type(item) is int for item in value):
        return type(value)(min(item, 1) for item in value)
    return None


def small_experts(key: str, value: int) -> int | None:
    """Few experts, where a key says how many there are or are asked."""
    few = next((small for pattern, small in _EXPERTS if re.fullmatch(pattern, key)), None)
    return None if few is None else min(few, value)


def _deep(key: str, value: Any, n_layers: int) -> int | list[int] | None:
    """As many layers as are asked for, where a key says how many there are."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and re.fullmatch(_N_LAYERS, key):
        return n_layers
    if isinstance(value, list | tuple) and re.search(r"depth|layers|num_blocks", key):
        return [n_layers] * len(value) if value and all(type(item) is int for item in value) else None
    return None


def _both_kinds(layers: list[Any]) -> list[Any]:
    """Two layers, of two kinds where there are two."""
    other = next((layer for layer in layers if layer != layers[0]), layers[0])
    return [layers[0], other]


def _small(key: str, value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return 0.0 if re.search(r"drop(out)?(_|$)|drop_path|layerdrop|jitter", key) else None
    if isinstance(value, int):
        if key == "num_key_value_heads" and "kv_lora_rank" in values:
            return HEADS  # latent attention has no groups
        return _small_integer(key, value)
    if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        return _small_list(key, list(value))
    if isinstance(value, dict) and "mrope_section" in value:
        return {**value, **_SECTIONS}
    return None


def _reads_sections(config_class: type) -> bool:
    """Whether the model of a configuration turns by sections that its code names and its configuration does not."""
    spec = importlib.util.find_spec(config_class.__module__.replace(".configuration_", ".modeling_"))
    return spec is not None and spec.origin is not None and "mrope_section" in Path(spec.origin).read_text()


def _small_integer(key: str, value: int) -> int | None:
    for pattern, small in _INTEGERS:
        if re.fullmatch(pattern, key):
            return None if small is None else min(small, value) if value > 0 else value
    return WIDTH if value >= _LARGE else None


def _small_list(key: str, values: list[int]) -> list[int] | None:
    if re.search(r"depth|layers|num_blocks", key):
        return [min(value, 1) for value in values]
    if re.search(r"hidden_size|embed_dims?|channels|widths?|sizes|dims?$", key) and max(values) >= 48:
        # The first may be an image's own three.
        return [value if value == 3 else max(8, value // 8 // 8 * 8) for value in values]
    if re.search(r"image_size|input_size", key):
        return [IMAGE] * len(values)
    return None
