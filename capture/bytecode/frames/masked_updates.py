"""``x[mask] += 1``: data says how many elements change, but nothing of that size outlives the statement.

So it is ``x.copy_(torch.where(mask, x + 1, x))``, where what would be computed of the others does no harm.
"""

from __future__ import annotations

import math

import torch

from longhand.capture import torch_transforms
from longhand.capture.bytecode.calls.tensors import tensor_method, torch_call
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import operators
from longhand.capture.bytecode.values.constants import from_python
from longhand.capture.bytecode.values.tracked import Const, Tensor, Value
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["updates_masked"]

_AFTER = (Opcode.BINARY_OP, Opcode.SWAP, Opcode.SWAP, Opcode.STORE_SUBSCR)
_SYMBOLS = frozenset(["+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>="])
_DIVIDE = frozenset(["/=", "//=", "%="])


def updates_masked(trace: Trace, frame: Frame, owner: Value, key: Value) -> bool:
    """Does what a statement such as ``x[mask] += 1`` does, if the item that is read now is part of one.

    Args:
        trace: The capture.
        frame: Its instructions after this one write the item back; owner and key lie on its stack for that.
        owner: What is indexed.
        key: By what.

    Returns:
        Whether it did: then the statement's other instructions are done as well.
    """
    owner, key = trace.force(owner), trace.force(key)
    if not (isinstance(owner, Tensor) and isinstance(key, Tensor) and _is_mask(key.fake, owner.fake)):
        return False
    if trace.n_index_modes or torch_transforms.is_inside_transform():
        return False
    load, *after = frame.decoded.instructions[frame.index : frame.index + 1 + len(_AFTER)]
    if tuple(step.name for step in after) != _AFTER or [step.arg for step in after[1:3]] != [3, 2]:
        return False
    symbol, number = operators.BINARY_NAMES[after[0].arg], _number(trace, frame, load)
    if number is None or not _is_harmless(symbol, number):
        return False
    changed = operators.binary(trace, symbol, tensor_method(trace, "clone", [owner], {}), Const(number))
    mask: Value = key
    for _ in range(owner.fake.dim() - key.fake.dim()):
        mask = tensor_method(trace, "unsqueeze", [mask, Const(-1)], {})
    picked = torch_call(trace, torch.where, [mask, changed, owner], {})
    tensor_method(trace, "copy_", [owner, picked], {})
    frame.popn(2)
    frame.index += 1 + len(_AFTER)
    return True


def _is_mask(mask: torch.Tensor, owner: torch.Tensor) -> bool:
    if mask.dtype is not torch.bool or not 0 < mask.dim() <= owner.dim():
        return False
    if owner.dtype is torch.bool:  # its memory may be the mask's, which eager refuses
        return False
    if owner.requires_grad and owner.is_leaf:  # eager raises
        return False
    if any(stride == 0 and size != 1 for stride, size in zip(owner.stride(), owner.shape, strict=True)):
        return False
    return tuple(mask.shape) == tuple(owner.shape[: mask.dim()])


def _number(trace: Trace, frame: Frame, load: Instruction) -> int | float | None:
    """What is loaded next, if it is a plain number."""
    if load.name == Opcode.LOAD_CONST:
        value: Value = from_python(load.argval)
    elif load.name in (Opcode.LOAD_FAST, Opcode.LOAD_FAST_CHECK) and load.argval in frame.locals:
        value = trace.force(frame.locals[load.argval])
    else:
        return None
    known = value.value if isinstance(value, Const) else None
    return known if type(known) in (bool, int, float) else None


def _is_harmless(symbol: str, number: int | float) -> bool:
    """Whether elements that the mask leaves out get no NaN into their gradients, and raise nothing."""
    return symbol in _SYMBOLS and math.isfinite(number) and not (symbol in _DIVIDE and number == 0)
