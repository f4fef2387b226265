"""Calls of attention as a person writes them: what is not the default, and cuDNN's kernel by way of the runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from longhand.emit.module.paragraphs import CallOfLibrary, functional
from longhand.emit.text.python_code import CallCode, Code, KeywordCode, LiteralCode
from longhand.lower.ir import View

Write = Callable[[Any], Code]

_OPERANDS = ("query", "key", "value")
_KEPT = ("out", "logsumexp", "philox_seed", "philox_offset")


def attention_call(
    target: torch._ops.OpOverload, given: Mapping[str, Any], write: Write
) -> CallOfLibrary | None:
    """A call of attention; None where it says more than people write.

    Args:
        target: What is called.
        given: All its arguments by the schema's names.
        write: Prints one.
    """
    name = str(target.overloadpacket.__name__)
    if name == "scaled_dot_product_attention":
        return _functional(given, write)
    # The runtime asks whether the machine's cuDNN can, and takes another kernel where it cannot.
    if given["attn_bias"] is not None or given["dropout_p"]:
        return None
    names = ("grad_out", *_OPERANDS, *_KEPT) if name.endswith("_backward") else _OPERANDS
    is_causal = [KeywordCode("is_causal", write(True))] if given["is_causal"] else []
    parts = (*(write(given[word]) for word in names), *is_causal, *scale_argument(given))
    function = name.removeprefix("_scaled_dot_product_")
    return CallOfLibrary(CallCode(function, parts), runtime=function)


def _functional(given: Mapping[str, Any], write: Write) -> CallOfLibrary:
    parts: list[Code] = [write(given[name]) for name in _OPERANDS]
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
    for name, default in defaults.items():
        value = given.get(name, default)
        if name == "scale":
            parts += scale_argument(given)
        elif isinstance(value, View) or value != default:
            parts.append(KeywordCode(name, write(value)))
    return functional("scaled_dot_product_attention", parts)


def scale_argument(given: Mapping[str, Any]) -> list[Code]:
    """``scale=256**-0.5`` of a call of attention; nothing where it is what attention scales by anyway."""
    scale, query = given.get("scale"), given.get("query")
    if not isinstance(scale, float) or not isinstance(query, View):
        return [] if scale is None else [KeywordCode("scale", LiteralCode(repr(scale)))]
    width = query.shape[-1]
    if isinstance(width, int) and width > 0 and scale == 1.0 / math.sqrt(width):
        return []
    square = round(scale**-2) if scale > 0 else 0
    is_root = square > 1 and scale == square**-0.5
    return [KeywordCode("scale", LiteralCode(f"{square}**-0.5" if is_root else repr(scale)))]
