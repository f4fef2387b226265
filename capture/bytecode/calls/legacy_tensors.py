"""Constructors from before torch.tensor: ``torch.IntTensor([64])``, of numbers, is a call of torch.tensor."""

from __future__ import annotations

import torch

from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.calls.tensors import torch_call
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Const, Seq, Value

__all__ = ["RULES"]

RULES = Rules()
_NUMBERS: dict[torch.dtype, tuple[type, ...]] = {
    torch.bool: (bool,),
    torch.uint8: (int,),
    torch.int8: (int,),
    torch.int16: (int,),
    torch.int32: (int,),
    torch.int64: (int,),
    torch.float16: (int, float),
    torch.bfloat16: (int, float),
    torch.float32: (int, float),
    torch.float64: (int, float),
}


def _legacy(word: str, dtype: torch.dtype) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs or not _is_of_numbers(trace, args[0], _NUMBERS[dtype]):
            raise Unsupported(f"a {word} is made of something else than a list of numbers")
        return torch_call(trace, torch.tensor, args, {"dtype": Const(dtype), "device": Const("cpu")})

    return rule


def _is_of_numbers(trace: Trace, value: Value, kinds: tuple[type, ...]) -> bool:
    """Whether it is a list of numbers, or of such lists."""
    value = trace.force(value)
    if not isinstance(value, Seq) or value.kind not in (list, tuple):
        return False
    items = [trace.force(part) for part in value.items]
    return all(
        type(part.value) in kinds if isinstance(part, Const) else _is_of_numbers(trace, part, kinds)
        for part in items
    )


for _word, _dtype in {
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
}.items():
    RULES[getattr(torch, _word)] = _legacy(_word, _dtype)
