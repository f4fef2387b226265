"""Calls of attention as a person writes them: what is not the default, and cuDNN's kernel by way of the runtime."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from longhand.emit.module.paragraphs import CallOfLibrary, functional
from longhand.emit.text.expression import root_text
from longhand.emit.text.python_code import CallCode, Code, KeywordCode, LiteralCode
from longhand.lower.ir import Buffer, Extern, View

Write = Callable[[Any], Code]

_OPERANDS = ("query", "key", "value")
_WIDEST_HEAD = 1024
_KEPT = ("out", "logsumexp", "philox_seed", "philox_offset")


def attention_call(
    target: torch._ops.OpOverload, given: Mapping[str, Any], dtype: torch.dtype, write: Write
) -> CallOfLibrary | None:
    """A call of attention; None where it says more than people write.

    Args:
        target: What is called.
        given: All its arguments by the schema's names.
        dtype: Of what it computes.
        write: Prints one.
    """
    name = str(target.overloadpacket.__name__)
    if name == "scaled_dot_product_attention":
        return _functional(given, dtype, write)
    # The runtime asks whether the machine's cuDNN can, and takes another kernel where it cannot.
    if given["attn_bias"] is not None or given["dropout_p"]:
        return None
    names = ("grad_out", *_OPERANDS, *_KEPT) if name.endswith("_backward") else _OPERANDS
    is_causal = [KeywordCode("is_causal", write(True))] if given["is_causal"] else []
    parts = (*(write(given[word]) for word in names), *is_causal, *scale_argument(given, dtype))
    function = name.removeprefix("_scaled_dot_product_")
    return CallOfLibrary(CallCode(function, parts), runtime=function)


def held_by_position(call: CallOfLibrary, step: Extern, buffers: Mapping[str, Buffer]) -> CallOfLibrary:
    """The call, by way of the runtime where it makes gradients of attention that kernels read as (batch, position,
    head, dim): that looks whether they lie so.
    """
    name = str(step.target.overloadpacket.__name__)
    if not name.startswith("_scaled_dot_product") or not name.endswith("_backward"):
        return call
    made = [buffers[name] for name in step.outputs[: len(_OPERANDS)] if name in buffers]
    if not any(one.layout_is_known and one.shape for one in made):
        return call
    return dataclasses.replace(call, code=CallCode("by_position", (call.code,)), runtime="by_position")


def _functional(given: Mapping[str, Any], dtype: torch.dtype, write: Write) -> CallOfLibrary:
    parts: list[Code] = [write(given[name]) for name in _OPERANDS]
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
    for name, default in defaults.items():
        value = given.get(name, default)
        if name == "scale":
            parts += scale_argument(given, dtype)
        elif isinstance(value, View) or value != default:
            parts.append(KeywordCode(name, write(value)))
    return functional("scaled_dot_product_attention", parts)


def scale_argument(given: Mapping[str, Any], dtype: torch.dtype) -> list[Code]:
    """``scale=256**-0.5`` of a call of attention; nothing where it is what attention scales by anyway."""
    scale, query = given.get("scale"), given.get("query")
    if not isinstance(scale, float) or not isinstance(query, View):
        return [] if scale is None else [KeywordCode("scale", LiteralCode(repr(scale)))]
    width = query.shape[-1]
    if isinstance(width, int) and width > 0 and _is_alike(scale, 1.0 / math.sqrt(width), dtype):
        return []
    return [KeywordCode("scale", LiteralCode(_scale_text(scale)))]


def _scale_text(scale: float) -> str:
    """``256**-0.5`` where heads may be as wide as that, else ``1 / 64``, else the number."""
    width = round(scale**-2) if scale > 0 else 0
    if 1 < width <= _WIDEST_HEAD and scale == width**-0.5:
        return f"{width}**-0.5"
    divisor = round(1 / scale) if scale > 0 else 0
    is_whole = divisor > 1 and math.frexp(scale)[0] == 0.5 and 1 / divisor == scale
    return f"1 / {divisor}" if is_whole else root_text(scale) or repr(scale)


def _is_alike(scale: float, other: float, dtype: torch.dtype) -> bool:
    """Whether attention computes the same with two scales: with floats, it multiplies by them or by their roots.

    ``12**-0.5`` and ``1 / math.sqrt(12)`` differ in the last digit of a double.
    """
    if dtype == torch.float64 or scale <= 0:
        return scale == other
    computed = torch.tensor([[one, math.sqrt(one)] for one in (scale, other)], dtype=torch.float64).float()
    return torch.equal(*computed)
