"""``class`` statements: a class that the call defines is made again after the graph, if anybody still has it.

Capture does not look into such a class: who calls it, or asks for what it holds, ends the graph. torch.masked defines
one in every call, for tensors that almost nobody gives it. Making the class later is the same as making it now where
its body does nothing but define functions and give names to constants.
"""

from __future__ import annotations

import builtins
import dis
import types

import torch

from longhand.capture.bytecode.calls.rules import Rules
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import ClassDefinition, Const, Func, Value
from longhand.capture.bytecode.versions.opcodes import CLASS_BODY, Opcode

__all__ = ["RULES"]

RULES = Rules()

_DECORATORS = ("staticmethod", "classmethod", "property")
_KINDS = (type, type(torch.autograd.Function))


@RULES.of(builtins.__build_class__)
def _build_class(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    body, name, *bases = map(trace.force, args)
    kinds = [base.value for base in bases if isinstance(base, Const) and isinstance(base.value, type)]
    if kwargs or len(kinds) < len(bases) or not isinstance(body, Func) or not isinstance(name, Const):
        raise Unsupported("a class is defined")
    if not trace.may_delay:
        raise Unsupported("a class is defined, and used")
    trace.has_delayed = True
    if not _only_defines(body) or not all(map(_is_plain, kinds)):
        raise Unsupported("a class is defined whose body runs code")
    return ClassDefinition(body, str(name.value), bases)


def _only_defines(body: Func) -> bool:
    """Whether nothing can tell when the body runs."""
    read = {step.argval for step in dis.get_instructions(body.code) if step.opname == Opcode.LOAD_NAME}
    return (
        all(step.opname in CLASS_BODY for step in dis.get_instructions(body.code))
        and read <= {"__name__", *_DECORATORS}
        and not any(name in body.globals for name in _DECORATORS)
    )


def _is_plain(kind: type) -> bool:
    """Whether a class does nothing of its own when another one derives from it."""
    own = [vars(base).get("__init_subclass__") for base in kind.__mro__ if base is not object]
    return type(kind) in _KINDS and not any(isinstance(one, types.FunctionType | classmethod) for one in own)
