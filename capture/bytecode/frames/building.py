"""What the instructions that build, unpack and match containers do to a frame."""

from __future__ import annotations

from longhand.capture.bytecode.calls import calls
from longhand.capture.bytecode.containers import sets
from longhand.capture.bytecode.containers.items import store
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.frames.dispatch import Steps
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.constants import as_key, as_mapping, as_python
from longhand.capture.bytecode.values.kinds import is_instance
from longhand.capture.bytecode.values.tracked import (
    Const,
    Dict,
    IntRange,
    Seq,
    SetOf,
    Slice,
    Value,
)
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["STEPS"]

STEPS = Steps()


@STEPS.of(Opcode.BUILD_TUPLE, Opcode.BUILD_LIST)
def _build(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Seq(tuple if step.name == Opcode.BUILD_TUPLE else list, frame.popn(step.arg)))


@STEPS.of(Opcode.LIST_TO_TUPLE)
def _list_to_tuple(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    assert isinstance(value, Seq)
    frame.push(Seq(tuple, list(value.items)))


@STEPS.of(Opcode.BUILD_SET)
def _build_set(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(sets.made_of(trace, set, frame.popn(step.arg)))


@STEPS.of(Opcode.BUILD_MAP)
def _build_map(trace: Trace, frame: Frame, step: Instruction) -> None:
    flat = frame.popn(2 * step.arg)
    made = Dict(dict, {})
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        store(trace, made, key, value)
    frame.push(made)


@STEPS.of(Opcode.BUILD_CONST_KEY_MAP)
def _build_const_key_map(trace: Trace, frame: Frame, step: Instruction) -> None:
    keys = frame.pop()
    names = as_python(trace, keys)
    frame.push(Dict(dict, dict(zip(names, frame.popn(step.arg), strict=True))))


@STEPS.of(Opcode.BUILD_SLICE)
def _build_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    parts = frame.popn(step.arg)
    frame.push(Slice((parts[0], parts[1], parts[2] if step.arg == 3 else Const(None))))


@STEPS.of(Opcode.LIST_APPEND)
def _list_append(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Seq)
    trace.changing(owner)
    owner.items.append(value)


@STEPS.of(Opcode.SET_ADD)
def _set_add(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, SetOf)
    sets.add(trace, owner, as_key(trace, value))


@STEPS.of(Opcode.MAP_ADD)
def _map_add(trace: Trace, frame: Frame, step: Instruction) -> None:
    key, value = frame.popn(2)
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Dict)
    trace.changing(owner)
    store(trace, owner, key, value)


@STEPS.of(Opcode.LIST_EXTEND)
def _list_extend(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Seq)
    trace.changing(owner)
    owner.items.extend(calls.all_items(trace, value))


@STEPS.of(Opcode.SET_UPDATE)
def _set_update(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, SetOf)
    sets.update(trace, owner, value)


@STEPS.of(Opcode.DICT_MERGE, Opcode.DICT_UPDATE)
def _dict_update(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = as_mapping(trace, frame.pop())
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Dict)
    trace.changing(owner)
    if step.name == Opcode.DICT_MERGE and set(owner.items) & set(value.items):
        raise Unsupported("a keyword argument is given twice")
    trace.guard_keys(value)
    owner.merge(value)


@STEPS.of(Opcode.UNPACK_SEQUENCE)
def _unpack(trace: Trace, frame: Frame, step: Instruction) -> None:
    items = calls.all_items(trace, frame.pop())
    if len(items) != step.arg:
        raise Unsupported("a sequence of another length is unpacked")
    frame.stack.extend(reversed(items))


@STEPS.of(Opcode.UNPACK_EX)
def _unpack_ex(trace: Trace, frame: Frame, step: Instruction) -> None:
    before, after = step.arg & 0xFF, step.arg >> 8
    items = calls.all_items(trace, frame.pop())
    if len(items) < before + after:
        raise Unsupported("a sequence that is too short is unpacked")
    middle = items[before : len(items) - after]
    unpacked = [*items[:before], Seq(list, middle), *items[len(items) - after :]]
    frame.stack.extend(reversed(unpacked))


@STEPS.of(Opcode.MATCH_SEQUENCE)
def _match_sequence(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = trace.force(frame.stack[-1])
    if not isinstance(value, Seq | Const | Dict | IntRange):
        raise Unsupported("a value is matched with a sequence")
    frame.push(Const(isinstance(value, Seq | IntRange)))


@STEPS.of(Opcode.MATCH_MAPPING)
def _match_mapping(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = trace.force(frame.stack[-1])
    if not isinstance(value, Seq | Const | Dict):
        raise Unsupported("a value is matched with a mapping")
    frame.push(Const(isinstance(value, Dict)))


@STEPS.of(Opcode.MATCH_KEYS)
def _match_keys(trace: Trace, frame: Frame, step: Instruction) -> None:
    keys = [as_key(trace, key) for key in calls.all_items(trace, frame.stack[-1])]
    owner = frame.stack[-2]
    assert isinstance(owner, Dict)
    for key in keys:
        trace.guard_key(owner, key)
    has_all = all(key in owner.items for key in keys)
    frame.push(Seq(tuple, [trace.force(owner.items[key]) for key in keys]) if has_all else Const(None))


@STEPS.of(Opcode.MATCH_CLASS)
def _match_class(trace: Trace, frame: Frame, step: Instruction) -> None:
    names = as_python(trace, frame.pop())
    kind = as_python(trace, frame.pop())
    subject = trace.force(frame.pop())
    if not is_instance(subject, kind):
        frame.push(Const(None))
        return
    if step.arg:
        if kind in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
            frame.push(Seq(tuple, [subject, *(attributes.get(trace, subject, name) for name in names)]))
            return
        names = (*getattr(kind, "__match_args__", ())[: step.arg], *names)
    parts: list[Value] = []
    for name in names:
        part = attributes.find(trace, subject, name)
        if part is None:
            frame.push(Const(None))
            return
        parts.append(part)
    frame.push(Seq(tuple, parts))


@STEPS.of(Opcode.GET_LEN)
def _get_len(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(len(calls.all_items(trace, frame.stack[-1]))))
