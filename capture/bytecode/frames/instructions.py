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
from longhand.capture.bytecode.versions.running import VERSION

__all__ = ["STEPS"]

STEPS = Steps()


# Stack, locals, cells, globals


@STEPS.of("NOP", "RESUME", "PRECALL", "CACHE", "COPY_FREE_VARS", "SETUP_ANNOTATIONS")
def _nothing(trace: Trace, frame: Frame, step: Instruction) -> None:
    return None


@STEPS.of("POP_TOP", "END_FOR_ONE")
def _pop_top(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.pop()


@STEPS.of("END_FOR")
def _end_for(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.popn(2)


@STEPS.of("END_SEND")
def _end_send(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@STEPS.of("PUSH_NULL")
def _push_null(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(NULL)


@STEPS.of("COPY")
def _copy(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.stack[-step.arg])


@STEPS.of("SWAP")
def _swap(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.stack[-1], frame.stack[-step.arg] = frame.stack[-step.arg], frame.stack[-1]


@STEPS.of("LOAD_CONST", "RETURN_CONST")
def _load_const(trace: Trace, frame: Frame, step: Instruction) -> Signal | None:
    value = from_python(step.argval)
    if step.name == "RETURN_CONST":
        return Signal(value, is_return=True)
    frame.push(value)
    return None


@STEPS.of("LOAD_FAST", "LOAD_FAST_CHECK")
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


@STEPS.of("STORE_FAST")
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


@STEPS.of("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(trace: Trace, frame: Frame, step: Instruction) -> None:
    name = step.argval
    if name in frame.code.co_cellvars and name in frame.cells:
        frame.push(frame.cells.pop(name))
    else:
        frame.push(frame.locals.pop(name, NULL))


@STEPS.of("MAKE_CELL")
def _make_cell(trace: Trace, frame: Frame, step: Instruction) -> None:
    """The cells of the function itself are there from the start: this one is a comprehension's."""
    if frame.start >= frame.decoded.n_first:
        frame.cells[step.argval] = Cell(frame.locals.pop(step.argval, None), step.argval)


@STEPS.of("DELETE_FAST")
def _delete_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    if step.argval not in frame.locals:
        raise _unbound(step.argval)
    del frame.locals[step.argval]


@STEPS.of("LOAD_CLOSURE")
def _load_closure(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.cells[step.argval])


@STEPS.of("LOAD_DEREF")
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


@STEPS.of("DELETE_DEREF")
def _delete_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.content is None:
        raise _unbound_cell(frame, step.argval)
    trace.changing(cell)
    cell.content = None


@STEPS.of("STORE_DEREF")
def _store_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.source is not None:
        trace.changing(cell)
    cell.content = frame.pop()


@STEPS.of("LOAD_GLOBAL")
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


@STEPS.of("STORE_GLOBAL")
def _store_global(trace: Trace, frame: Frame, step: Instruction) -> None:
    trace.globals_written.setdefault(id(frame.globals), (frame.globals, {}))[1][step.argval] = frame.pop()


# Attributes, items, operators


@STEPS.of("LOAD_ATTR")
def _load_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    frame.push_callable(value, with_null=VERSION.has_method_bit and bool(step.arg & 1))


@STEPS.of("LOAD_METHOD")
def _load_method(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    frame.push_callable(value, with_null=True)


@STEPS.of("LOAD_SUPER_ATTR")
def _load_super_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    function, kind, owner = frame.popn(3)
    given = [kind, owner] if step.arg & 2 else []
    value = attributes.get(trace, calls.call(trace, frame, function, given or [kind, owner], {}), step.argval)
    frame.push_callable(value, with_null=bool(step.arg & 1))


@STEPS.of("STORE_ATTR")
def _store_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner = frame.pop()
    put(trace, owner, step.argval, frame.pop())


@STEPS.of("DELETE_ATTR")
def _delete_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    put(trace, frame.pop(), step.argval, DELETED)


@STEPS.of("BINARY_SUBSCR")
def _binary_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, key = frame.popn(2)
    if not updates_masked(trace, frame, owner, key):
        frame.push(get_item(trace, owner, key))


@STEPS.of("BINARY_SLICE")
def _binary_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, start, stop = frame.popn(3)
    frame.push(get_item(trace, owner, Slice((start, stop, Const(None)))))


@STEPS.of("STORE_SLICE")
def _store_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, start, stop = frame.popn(4)
    set_item(trace, owner, Slice((start, stop, Const(None))), value)


@STEPS.of("STORE_SUBSCR")
def _store_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, key = frame.popn(3)
    set_item(trace, owner, key, value)


@STEPS.of("DELETE_SUBSCR")
def _delete_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, key = frame.popn(2)
    delete_item(trace, owner, key)


@STEPS.of("TO_BOOL")
def _to_bool(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(operators.truth(trace, frame.pop())))


@STEPS.of("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "UNARY_NOT")
def _unary(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(operators.unary(trace, step.name, frame.pop()))


@STEPS.of("BINARY_OP")
def _binary_op(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    symbol = operators.BINARY_NAMES[step.arg]
    frame.push(operators.binary(trace, symbol, left, right))


@STEPS.of("COMPARE_OP")
def _compare(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(operators.compare(trace, step.argval, left, right))


@STEPS.of("IS_OP")
def _is(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(Const(operators.is_same(trace, left, right) != bool(step.arg)))


@STEPS.of("CONTAINS_OP")
def _contains(trace: Trace, frame: Frame, step: Instruction) -> None:
    key, owner = frame.popn(2)
    frame.push(Const(operators.contains(trace, owner, key) != bool(step.arg)))


# Jumps and loops


@STEPS.of("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
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


for _way in ("", "FORWARD_", "BACKWARD_"):
    STEPS[f"POP_JUMP_{_way}IF_FALSE"] = _jump_when(operators.truth, False, False)
    STEPS[f"POP_JUMP_{_way}IF_TRUE"] = _jump_when(operators.truth, True, False)
    STEPS[f"POP_JUMP_{_way}IF_NONE"] = _jump_when(operators.is_none, True, False)
    STEPS[f"POP_JUMP_{_way}IF_NOT_NONE"] = _jump_when(operators.is_none, False, False)
STEPS["JUMP_IF_FALSE_OR_POP"] = _jump_when(operators.truth, False, True)
STEPS["JUMP_IF_TRUE_OR_POP"] = _jump_when(operators.truth, True, True)


@STEPS.of("GET_ITER", "GET_YIELD_FROM_ITER")
def _get_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(calls.iterate(trace, frame.pop()))


@STEPS.of("FOR_ITER")
def _for_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    iterator = frame.stack[-1]
    assert step.target is not None
    frame.loops[frame.start] = len(frame.stack)
    value = calls.advance(trace, iterator)
    if value is None:
        frame.pop()
        frame.index = step.target + len(VERSION.loop_end)
    else:
        frame.push(value)


@STEPS.of("SEND")
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


@STEPS.of("RETURN_VALUE")
def _return_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=True)


@STEPS.of("RETURN_GENERATOR")
def _return_generator(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(None))


@STEPS.of("YIELD_VALUE")
def _yield_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=False)
