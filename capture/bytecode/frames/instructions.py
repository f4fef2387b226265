"""What the instructions for the stack, names, attributes, operators and jumps do to a frame."""

from __future__ import annotations

from collections.abc import Callable

from longhand.capture.bytecode.calls import calls
from longhand.capture.bytecode.containers.items import delete_item, get_item, set_item
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.frames.checked_branches import is_jump_taken
from longhand.capture.bytecode.frames.dispatch import Signal, Step, Steps
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.frames.masked_updates import updates_masked
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values import attributes, operators
from longhand.capture.bytecode.values.attribute_writes import put
from longhand.capture.bytecode.values.constants import from_python
from longhand.capture.bytecode.values.settled import is_settled
from longhand.capture.bytecode.values.sources import item, root
from longhand.capture.bytecode.values.tracked import (
    NULL,
    Cell,
    Const,
    Error,
    Iter,
    Null,
    Slice,
    Value,
)
from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.running import VERSION

__all__ = ["STEPS"]

STEPS = Steps()


# Stack, locals, cells, globals


@STEPS.of(
    Opcode.NOP, Opcode.RESUME, Opcode.PRECALL, Opcode.CACHE, Opcode.COPY_FREE_VARS, Opcode.SETUP_ANNOTATIONS
)
def _nothing(trace: Trace, frame: Frame, step: Instruction) -> None:
    return None


@STEPS.of(Opcode.POP_TOP, Opcode.END_FOR_ONE)
def _pop_top(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.pop()


@STEPS.of(Opcode.END_FOR)
def _end_for(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.popn(2)


@STEPS.of(Opcode.END_SEND)
def _end_send(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@STEPS.of(Opcode.PUSH_NULL)
def _push_null(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(NULL)


@STEPS.of(Opcode.COPY)
def _copy(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.stack[-step.arg])


@STEPS.of(Opcode.SWAP)
def _swap(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.stack[-1], frame.stack[-step.arg] = frame.stack[-step.arg], frame.stack[-1]


@STEPS.of(Opcode.LOAD_CONST, Opcode.RETURN_CONST)
def _load_const(trace: Trace, frame: Frame, step: Instruction) -> Signal | None:
    value = from_python(step.argval)
    if step.name == Opcode.RETURN_CONST:
        return Signal(value, is_return=True)
    frame.push(value)
    return None


@STEPS.of(Opcode.LOAD_FAST, Opcode.LOAD_FAST_CHECK)
def _load_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    name = step.argval
    if name not in frame.locals:
        if name in frame.cells:  # from 3.13 on; before, LOAD_CLOSURE
            frame.push(frame.cells[name])
            return
        raise _unbound(name)
    value = trace.force(frame.locals[name])
    frame.locals[name] = value
    frame.push(value)


def _unbound(name: str) -> Raised:
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    return Raised(Error(UnboundLocalError, [Const(text)], is_exact=True))


@STEPS.of(Opcode.STORE_FAST)
def _store_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    _put_local(frame, step.argval, frame.pop())


def _put_local(frame: Frame, name: str, value: Value) -> None:
    """A local's place: what a comprehension puts back there may be a cell, or nothing."""
    frame.locals.pop(name, None)
    if name in frame.code.co_cellvars:
        frame.cells.pop(name, None)
    if isinstance(value, Cell):
        frame.cells[name] = value
    elif not isinstance(value, Null):
        frame.locals[name] = value


@STEPS.of(Opcode.LOAD_FAST_AND_CLEAR)
def _load_fast_and_clear(trace: Trace, frame: Frame, step: Instruction) -> None:
    name = step.argval
    if name in frame.code.co_cellvars and name in frame.cells:
        frame.push(frame.cells.pop(name))
    else:
        frame.push(frame.locals.pop(name, NULL))


@STEPS.of(Opcode.MAKE_CELL)
def _make_cell(trace: Trace, frame: Frame, step: Instruction) -> None:
    """The cells of the function itself are there from the start: this one is a comprehension's."""
    if frame.start >= frame.decoded.n_first:
        frame.cells[step.argval] = Cell(frame.locals.pop(step.argval, None), step.argval)


@STEPS.of(Opcode.DELETE_FAST)
def _delete_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    if step.argval not in frame.locals:
        raise _unbound(step.argval)
    del frame.locals[step.argval]


@STEPS.of(Opcode.LOAD_CLOSURE)
def _load_closure(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.cells[step.argval])


@STEPS.of(Opcode.LOAD_DEREF)
def _load_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.content is None:
        raise _unbound_cell(frame, step.argval)
    cell.content = trace.force(cell.content)
    if cell.real is not None and isinstance(cell.content, Const):
        trace.refuse_deferred(cell.content.value, step.argval)
    frame.push(cell.content)


def _unbound_cell(frame: Frame, name: str) -> Raised:
    if name in frame.code.co_cellvars:
        return _unbound(name)
    text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
    return Raised(Error(NameError, [Const(text)], is_exact=True))


@STEPS.of(Opcode.DELETE_DEREF)
def _delete_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.content is None:
        raise _unbound_cell(frame, step.argval)
    trace.changing(cell)
    cell.content = None


@STEPS.of(Opcode.STORE_DEREF)
def _store_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.source is not None:
        trace.changing(cell)
    cell.content = frame.pop()


@STEPS.of(Opcode.LOAD_GLOBAL)
def _load_global(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push_callable(_global(trace, frame, step.argval), with_null=bool(step.arg & 1))


def _global(trace: Trace, frame: Frame, name: str) -> Value:
    written = trace.globals_written.get(id(frame.globals), (frame.globals, {}))[1]
    if name in written:
        if written[name] is DELETED:
            raise Unsupported("a deleted global is read")
        trace.n_changed_seen += 1
        return written[name]
    source = root(frame.globals_name, "G")
    if name in frame.globals:
        fixed = trace.is_deferred and is_settled(frame.globals, name)
        return (trace.wrap_fixed if fixed else trace.wrap)(frame.globals[name], item(source, name))
    if name in frame.builtins:
        trace.guards.add(source, f"{name!r} not in {{}}", f"{name} is the built-in")
        return from_python(frame.builtins[name])
    raise Raised(Error(NameError, [Const(f"name '{name}' is not defined")], is_exact=True))


@STEPS.of(Opcode.STORE_GLOBAL)
def _store_global(trace: Trace, frame: Frame, step: Instruction) -> None:
    trace.globals_written.setdefault(id(frame.globals), (frame.globals, {}))[1][step.argval] = frame.pop()


# Attributes, items, operators


@STEPS.of(Opcode.LOAD_ATTR)
def _load_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    frame.push_callable(value, with_null=VERSION.has_method_bit and bool(step.arg & 1))


@STEPS.of(Opcode.LOAD_METHOD)
def _load_method(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    frame.push_callable(value, with_null=True)


@STEPS.of(Opcode.LOAD_SUPER_ATTR)
def _load_super_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    function, kind, owner = frame.popn(3)
    given = [kind, owner] if step.arg & 2 else []
    value = attributes.get(trace, calls.call(trace, frame, function, given or [kind, owner], {}), step.argval)
    frame.push_callable(value, with_null=bool(step.arg & 1))


@STEPS.of(Opcode.STORE_ATTR)
def _store_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner = frame.pop()
    put(trace, owner, step.argval, frame.pop())


@STEPS.of(Opcode.DELETE_ATTR)
def _delete_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    put(trace, frame.pop(), step.argval, DELETED)


@STEPS.of(Opcode.BINARY_SUBSCR)
def _binary_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, key = frame.popn(2)
    if not updates_masked(trace, frame, owner, key):
        frame.push(get_item(trace, owner, key))


@STEPS.of(Opcode.BINARY_SLICE)
def _binary_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, start, stop = frame.popn(3)
    frame.push(get_item(trace, owner, Slice((start, stop, Const(None)))))


@STEPS.of(Opcode.STORE_SLICE)
def _store_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, start, stop = frame.popn(4)
    set_item(trace, owner, Slice((start, stop, Const(None))), value)


@STEPS.of(Opcode.STORE_SUBSCR)
def _store_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, key = frame.popn(3)
    set_item(trace, owner, key, value)


@STEPS.of(Opcode.DELETE_SUBSCR)
def _delete_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, key = frame.popn(2)
    delete_item(trace, owner, key)


@STEPS.of(Opcode.TO_BOOL)
def _to_bool(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(operators.truth(trace, frame.pop())))


@STEPS.of(Opcode.UNARY_NEGATIVE, Opcode.UNARY_INVERT, Opcode.UNARY_POSITIVE, Opcode.UNARY_NOT)
def _unary(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(operators.unary(trace, step.name, frame.pop()))


@STEPS.of(Opcode.BINARY_OP)
def _binary_op(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    symbol = operators.BINARY_NAMES[step.arg]
    frame.push(operators.binary(trace, symbol, left, right))


@STEPS.of(Opcode.COMPARE_OP)
def _compare(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(operators.compare(trace, step.argval, left, right))


@STEPS.of(Opcode.IS_OP)
def _is(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(Const(operators.is_same(trace, left, right) != bool(step.arg)))


@STEPS.of(Opcode.CONTAINS_OP)
def _contains(trace: Trace, frame: Frame, step: Instruction) -> None:
    key, owner = frame.popn(2)
    frame.push(Const(operators.contains(trace, owner, key) != bool(step.arg)))


# Jumps and loops


@STEPS.of(Opcode.JUMP_FORWARD, Opcode.JUMP_BACKWARD, Opcode.JUMP_BACKWARD_NO_INTERRUPT)
def _jump(trace: Trace, frame: Frame, step: Instruction) -> None:
    assert step.target is not None
    frame.index = step.target


def _jump_when(test: Callable[[Trace, Value], bool], wanted: bool, keeps: bool) -> Step:
    def step_(trace: Trace, frame: Frame, step: Instruction) -> None:
        assert step.target is not None
        value = trace.force(frame.stack[-1])
        known = None if keeps else is_jump_taken(trace, frame, step, value, wanted)
        taken = test(trace, value) == wanted if test is not operators.truth or known is None else known
        value = frame.pop()
        if taken:
            frame.index = step.target
            if keeps:
                frame.push(value)

    return step_


STEPS[Opcode.POP_JUMP_IF_FALSE] = _jump_when(operators.truth, False, False)
STEPS[Opcode.POP_JUMP_IF_TRUE] = _jump_when(operators.truth, True, False)
STEPS[Opcode.POP_JUMP_IF_NONE] = _jump_when(operators.is_none, True, False)
STEPS[Opcode.POP_JUMP_IF_NOT_NONE] = _jump_when(operators.is_none, False, False)
STEPS[Opcode.JUMP_IF_FALSE_OR_POP] = _jump_when(operators.truth, False, True)
STEPS[Opcode.JUMP_IF_TRUE_OR_POP] = _jump_when(operators.truth, True, True)


@STEPS.of(Opcode.GET_ITER, Opcode.GET_YIELD_FROM_ITER)
def _get_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(calls.iterate(trace, frame.pop()))


@STEPS.of(Opcode.FOR_ITER)
def _for_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    iterator = frame.stack[-1]
    assert step.target is not None
    value = calls.advance(trace, iterator)
    if value is None:
        frame.pop()
        frame.index = step.target + len(VERSION.loop_end)
    else:
        frame.push(value)


@STEPS.of(Opcode.SEND)
def _send(trace: Trace, frame: Frame, step: Instruction) -> None:
    assert step.target is not None
    frame.pop()
    iterator = frame.stack[-1]
    value = calls.advance(trace, iterator)
    if value is not None:
        frame.push(value)
        return
    ended = iterator.frame.returned if isinstance(iterator, Iter) and iterator.frame else Const(None)
    if not VERSION.send_keeps_iterator:
        frame.pop()
    frame.push(ended)
    frame.index = step.target


@STEPS.of(Opcode.RETURN_VALUE)
def _return_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=True)


@STEPS.of(Opcode.RETURN_GENERATOR)
def _return_generator(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(None))


@STEPS.of(Opcode.YIELD_VALUE)
def _yield_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=False)
