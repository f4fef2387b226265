"""What each bytecode instruction of CPython 3.11 and 3.12 does to a frame of tracked values."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from longhand.capture.bytecode import attributes, calls, operators
from longhand.capture.bytecode.breaks import Raised, SkipFrame, Unsupported
from longhand.capture.bytecode.frames import Frame, Instruction
from longhand.capture.bytecode.kinds import is_instance
from longhand.capture.bytecode.sources import item, root
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values import (
    NULL,
    Cell,
    Const,
    Dict,
    Error,
    Func,
    Iter,
    Null,
    Range,
    Seq,
    SetOf,
    Slice,
    Value,
)

__all__ = ["HANDLERS", "Signal"]

Step = Callable[[Trace, Frame, Instruction], "Signal | None"]
HANDLERS: dict[str, Step] = {}


class Signal:
    """What an instruction may tell the frame's loop: it returns or yields `value`."""

    def __init__(self, value: Value, *, is_return: bool) -> None:
        self.value = value
        self.is_return = is_return


def _op(*names: str) -> Callable[[Any], Any]:
    def register(step: Any) -> Any:
        for name in names:
            HANDLERS[name] = step
        return step

    return register


# Stack, locals, cells, globals


@_op("NOP", "RESUME", "PRECALL", "CACHE", "COPY_FREE_VARS", "MAKE_CELL", "SETUP_ANNOTATIONS")
def _nothing(trace: Trace, frame: Frame, step: Instruction) -> None:
    return None


@_op("POP_TOP", "END_FOR_ONE")
def _pop_top(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.pop()


@_op("END_FOR")
def _end_for(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.popn(2)


@_op("END_SEND")
def _end_send(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@_op("PUSH_NULL")
def _push_null(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(NULL)


@_op("COPY")
def _copy(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.stack[-step.arg])


@_op("SWAP")
def _swap(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.stack[-1], frame.stack[-step.arg] = frame.stack[-step.arg], frame.stack[-1]


@_op("LOAD_CONST", "RETURN_CONST")
def _load_const(trace: Trace, frame: Frame, step: Instruction) -> Signal | None:
    value = operators.from_python(step.argval)
    if step.name == "RETURN_CONST":
        return Signal(value, is_return=True)
    frame.push(value)
    return None


@_op("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR")
def _load_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    name = step.argval
    if step.name == "LOAD_FAST_AND_CLEAR":
        frame.push(frame.locals.pop(name, NULL))
        return
    if name not in frame.locals:
        raise Raised(Error(UnboundLocalError, [Const(f"cannot access local variable '{name}'")]))
    value = trace.force(frame.locals[name])
    frame.locals[name] = value
    frame.push(value)


@_op("STORE_FAST")
def _store_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    if isinstance(value, Null):
        frame.locals.pop(step.argval, None)
    else:
        frame.locals[step.argval] = value


@_op("DELETE_FAST")
def _delete_fast(trace: Trace, frame: Frame, step: Instruction) -> None:
    if step.argval not in frame.locals:
        raise Unsupported("an unbound local is deleted")
    del frame.locals[step.argval]


@_op("LOAD_CLOSURE")
def _load_closure(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(frame.cells[step.argval])


@_op("LOAD_DEREF")
def _load_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.content is None:
        raise Raised(Error(NameError, [Const(f"cannot access free variable '{step.argval}'")]))
    cell.content = trace.force(cell.content)
    frame.push(cell.content)


@_op("STORE_DEREF")
def _store_deref(trace: Trace, frame: Frame, step: Instruction) -> None:
    cell = frame.cells[step.argval]
    if cell.source is not None:
        trace.changing(cell)
    cell.content = frame.pop()


@_op("LOAD_GLOBAL")
def _load_global(trace: Trace, frame: Frame, step: Instruction) -> None:
    if step.arg & 1:
        frame.push(NULL)
    frame.push(_global(trace, frame, step.argval))


def _global(trace: Trace, frame: Frame, name: str) -> Value:
    written = trace.globals_written.get(id(frame.globals), (frame.globals, {}))[1]
    if name in written:
        if written[name] is DELETED:
            raise Unsupported("a deleted global is read")
        return written[name]
    source = root(frame.globals_name, "G")
    if name in frame.globals:
        return trace.wrap(frame.globals[name], item(source, name))
    if name in frame.builtins:
        trace.guards.add(source, f"{name!r} not in {{}}", f"{name} is the built-in")
        return operators.from_python(frame.builtins[name])
    raise Raised(Error(NameError, [Const(f"name '{name}' is not defined")]))


@_op("STORE_GLOBAL")
def _store_global(trace: Trace, frame: Frame, step: Instruction) -> None:
    trace.globals_written.setdefault(id(frame.globals), (frame.globals, {}))[1][step.argval] = frame.pop()


# Attributes, items, operators


@_op("LOAD_ATTR")
def _load_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    if step.arg & 1 and _METHOD_BIT:
        frame.push(NULL)
    frame.push(value)


_METHOD_BIT = sys.version_info >= (3, 12)  # dis.opmap has LOAD_METHOD there too, as a pseudo-instruction


@_op("LOAD_METHOD")
def _load_method(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = attributes.get(trace, frame.pop(), step.argval)
    frame.push(NULL)
    frame.push(value)


@_op("LOAD_SUPER_ATTR")
def _load_super_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    function, kind, owner = frame.popn(3)
    given = [kind, owner] if step.arg & 2 else []
    value = attributes.get(trace, calls.call(trace, frame, function, given or [kind, owner], {}), step.argval)
    if step.arg & 1:
        frame.push(NULL)
    frame.push(value)


@_op("STORE_ATTR")
def _store_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner = frame.pop()
    attributes.put(trace, owner, step.argval, frame.pop())


@_op("DELETE_ATTR")
def _delete_attr(trace: Trace, frame: Frame, step: Instruction) -> None:
    attributes.put(trace, frame.pop(), step.argval, DELETED)


@_op("BINARY_SUBSCR")
def _binary_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    key = frame.pop()
    frame.push(operators.get_item(trace, frame.pop(), key))


@_op("BINARY_SLICE")
def _binary_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, start, stop = frame.popn(3)
    frame.push(operators.get_item(trace, owner, Slice((start, stop, Const(None)))))


@_op("STORE_SLICE")
def _store_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, start, stop = frame.popn(4)
    operators.set_item(trace, owner, Slice((start, stop, Const(None))), value)


@_op("STORE_SUBSCR")
def _store_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, owner, key = frame.popn(3)
    operators.set_item(trace, owner, key, value)


@_op("DELETE_SUBSCR")
def _delete_subscr(trace: Trace, frame: Frame, step: Instruction) -> None:
    owner, key = frame.popn(2)
    operators.delete_item(trace, owner, key)


@_op("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "UNARY_NOT")
def _unary(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(operators.unary(trace, step.name, frame.pop()))


@_op("BINARY_OP")
def _binary_op(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    symbol = operators.BINARY_NAMES[step.arg]
    frame.push(operators.binary(trace, symbol, left, right))


@_op("COMPARE_OP")
def _compare(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(operators.compare(trace, step.argval, left, right))


@_op("IS_OP")
def _is(trace: Trace, frame: Frame, step: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(Const(operators.is_same(trace, left, right) != bool(step.arg)))


@_op("CONTAINS_OP")
def _contains(trace: Trace, frame: Frame, step: Instruction) -> None:
    key, owner = frame.popn(2)
    frame.push(Const(operators.contains(trace, owner, key) != bool(step.arg)))


# Jumps and loops


@_op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(trace: Trace, frame: Frame, step: Instruction) -> None:
    assert step.target is not None
    frame.index = step.target


def _jump_when(test: Callable[[Trace, Value], bool], wanted: bool, keeps: bool) -> Step:
    def step_(trace: Trace, frame: Frame, step: Instruction) -> None:
        assert step.target is not None
        taken = test(trace, frame.stack[-1]) == wanted
        value = frame.pop()
        if taken:
            frame.index = step.target
            if keeps:
                frame.push(value)

    return step_


for _way in ("", "FORWARD_", "BACKWARD_"):
    HANDLERS[f"POP_JUMP_{_way}IF_FALSE"] = _jump_when(operators.truth, False, False)
    HANDLERS[f"POP_JUMP_{_way}IF_TRUE"] = _jump_when(operators.truth, True, False)
    HANDLERS[f"POP_JUMP_{_way}IF_NONE"] = _jump_when(operators.is_none, True, False)
    HANDLERS[f"POP_JUMP_{_way}IF_NOT_NONE"] = _jump_when(operators.is_none, False, False)
HANDLERS["JUMP_IF_FALSE_OR_POP"] = _jump_when(operators.truth, False, True)
HANDLERS["JUMP_IF_TRUE_OR_POP"] = _jump_when(operators.truth, True, True)


@_op("GET_ITER", "GET_YIELD_FROM_ITER")
def _get_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(calls.iterate(trace, frame.pop()))


@_op("FOR_ITER")
def _for_iter(trace: Trace, frame: Frame, step: Instruction) -> None:
    iterator = frame.stack[-1]
    assert step.target is not None
    value = calls.advance(trace, iterator)
    if value is None:
        frame.pop()
        frame.index = step.target + 1 if _METHOD_BIT else step.target
    else:
        frame.push(value)


@_op("SEND")
def _send(trace: Trace, frame: Frame, step: Instruction) -> None:
    assert step.target is not None
    frame.pop()
    iterator = frame.stack[-1]
    value = calls.advance(trace, iterator)
    if value is not None:
        frame.push(value)
        return
    ended = iterator.frame.returned if isinstance(iterator, Iter) and iterator.frame else Const(None)
    if not _METHOD_BIT:
        frame.pop()
    frame.push(ended)
    frame.index = step.target


@_op("RETURN_VALUE")
def _return_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=True)


@_op("RETURN_GENERATOR")
def _return_generator(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(None))


@_op("YIELD_VALUE")
def _yield_value(trace: Trace, frame: Frame, step: Instruction) -> Signal:
    return Signal(frame.pop(), is_return=False)


# Building


@_op("BUILD_TUPLE", "BUILD_LIST")
def _build(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Seq(tuple if step.name == "BUILD_TUPLE" else list, frame.popn(step.arg)))


@_op("LIST_TO_TUPLE")
def _list_to_tuple(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    assert isinstance(value, Seq)
    frame.push(Seq(tuple, list(value.items)))


@_op("BUILD_SET")
def _build_set(trace: Trace, frame: Frame, step: Instruction) -> None:
    keys = [operators.as_key(trace, value) for value in frame.popn(step.arg)]
    frame.push(SetOf(set, dict.fromkeys(keys)))


@_op("BUILD_MAP")
def _build_map(trace: Trace, frame: Frame, step: Instruction) -> None:
    flat = frame.popn(2 * step.arg)
    made = Dict(dict, {})
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        operators.store(trace, made, key, value)
    frame.push(made)


@_op("BUILD_CONST_KEY_MAP")
def _build_const_key_map(trace: Trace, frame: Frame, step: Instruction) -> None:
    keys = frame.pop()
    names = operators.as_python(trace, keys)
    frame.push(Dict(dict, dict(zip(names, frame.popn(step.arg), strict=True))))


@_op("BUILD_STRING")
def _build_string(trace: Trace, frame: Frame, step: Instruction) -> None:
    parts = [operators.as_python(trace, value) for value in frame.popn(step.arg)]
    frame.push(Const("".join(parts)))


@_op("FORMAT_VALUE")
def _format_value(trace: Trace, frame: Frame, step: Instruction) -> None:
    spec = operators.as_python(trace, frame.pop()) if step.arg & 4 else ""
    value = operators.as_python(trace, frame.pop())
    convert = (lambda x: x, str, repr, ascii)[step.arg & 3]
    frame.push(Const(format(convert(value), spec)))


@_op("BUILD_SLICE")
def _build_slice(trace: Trace, frame: Frame, step: Instruction) -> None:
    parts = frame.popn(step.arg)
    frame.push(Slice((parts[0], parts[1], parts[2] if step.arg == 3 else Const(None))))


@_op("LIST_APPEND")
def _list_append(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Seq)
    trace.changing(owner)
    owner.items.append(value)


@_op("SET_ADD")
def _set_add(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, SetOf)
    trace.changing(owner)
    owner.items[operators.as_key(trace, value)] = None


@_op("MAP_ADD")
def _map_add(trace: Trace, frame: Frame, step: Instruction) -> None:
    key, value = frame.popn(2)
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Dict)
    trace.changing(owner)
    operators.store(trace, owner, key, value)


@_op("LIST_EXTEND")
def _list_extend(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Seq)
    trace.changing(owner)
    owner.items.extend(calls.all_items(trace, value))


@_op("SET_UPDATE")
def _set_update(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    owner = frame.stack[-step.arg]
    assert isinstance(owner, SetOf)
    trace.changing(owner)
    for part in calls.all_items(trace, value):
        owner.items[operators.as_key(trace, part)] = None


@_op("DICT_MERGE", "DICT_UPDATE")
def _dict_update(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = operators.as_mapping(trace, frame.pop())
    owner = frame.stack[-step.arg]
    assert isinstance(owner, Dict)
    trace.changing(owner)
    if step.name == "DICT_MERGE" and set(owner.items) & set(value.items):
        raise Unsupported("a keyword argument is given twice")
    trace.guard_keys(value)
    owner.items.update(value.items)


@_op("UNPACK_SEQUENCE")
def _unpack(trace: Trace, frame: Frame, step: Instruction) -> None:
    items = calls.all_items(trace, frame.pop())
    if len(items) != step.arg:
        raise Unsupported("a sequence of another length is unpacked")
    frame.stack.extend(reversed(items))


@_op("UNPACK_EX")
def _unpack_ex(trace: Trace, frame: Frame, step: Instruction) -> None:
    before, after = step.arg & 0xFF, step.arg >> 8
    items = calls.all_items(trace, frame.pop())
    if len(items) < before + after:
        raise Unsupported("a sequence that is too short is unpacked")
    middle = items[before : len(items) - after]
    unpacked = [*items[:before], Seq(list, middle), *items[len(items) - after :]]
    frame.stack.extend(reversed(unpacked))


@_op("MATCH_SEQUENCE")
def _match_sequence(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = trace.force(frame.stack[-1])
    if not isinstance(value, Seq | Const | Dict | Range):
        raise Unsupported("a value is matched with a sequence")
    frame.push(Const(isinstance(value, Seq | Range)))


@_op("MATCH_MAPPING")
def _match_mapping(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = trace.force(frame.stack[-1])
    if not isinstance(value, Seq | Const | Dict):
        raise Unsupported("a value is matched with a mapping")
    frame.push(Const(isinstance(value, Dict)))


@_op("MATCH_KEYS")
def _match_keys(trace: Trace, frame: Frame, step: Instruction) -> None:
    keys = [operators.as_key(trace, key) for key in calls.all_items(trace, frame.stack[-1])]
    owner = frame.stack[-2]
    assert isinstance(owner, Dict)
    for key in keys:
        trace.guard_key(owner, key)
    found = all(key in owner.items for key in keys)
    frame.push(Seq(tuple, [trace.force(owner.items[key]) for key in keys]) if found else Const(None))


@_op("MATCH_CLASS")
def _match_class(trace: Trace, frame: Frame, step: Instruction) -> None:
    names = operators.as_python(trace, frame.pop())
    kind = operators.as_python(trace, frame.pop())
    subject = trace.force(frame.pop())
    if not is_instance(subject, kind):
        frame.push(Const(None))
        return
    if step.arg:
        if kind in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
            frame.push(Seq(tuple, [subject, *(attributes.get(trace, subject, name) for name in names)]))
            return
        names = (*getattr(kind, "__match_args__", ())[: step.arg], *names)
    if not all(attributes.has(trace, subject, name) for name in names):
        frame.push(Const(None))
        return
    frame.push(Seq(tuple, [attributes.get(trace, subject, name) for name in names]))


@_op("GET_LEN")
def _get_len(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(len(calls.all_items(trace, frame.stack[-1]))))


# Calls


@_op("KW_NAMES")
def _kw_names(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.keyword_names = step.argval if isinstance(step.argval, tuple) else frame.code.co_consts[step.arg]


@_op("CALL")
def _call(trace: Trace, frame: Frame, step: Instruction) -> None:
    args = frame.popn(step.arg)
    names, frame.keyword_names = frame.keyword_names, ()
    second = frame.pop()
    first = frame.pop()
    function = second if isinstance(first, Null) else first
    if not isinstance(first, Null):
        args = [second, *args]
    kwargs = dict(zip(names, args[len(args) - len(names) :], strict=True))
    frame.push(calls.call(trace, frame, function, args[: len(args) - len(names)], kwargs))


@_op("CALL_FUNCTION_EX")
def _call_function_ex(trace: Trace, frame: Frame, step: Instruction) -> None:
    kwargs: dict[str, Value] = {}
    if step.arg & 1:
        given = operators.as_mapping(trace, frame.pop())
        trace.guard_keys(given)
        kwargs = dict(given.items)
    args = calls.all_items(trace, frame.pop())
    function = frame.pop()
    if frame.stack and isinstance(frame.stack[-1], Null):
        frame.pop()
    frame.push(calls.call(trace, frame, function, args, kwargs))


@_op("MAKE_FUNCTION")
def _make_function(trace: Trace, frame: Frame, step: Instruction) -> None:
    code_value = frame.pop()
    assert isinstance(code_value, Const) and isinstance(code_value.value, CodeType)
    code = code_value.value
    closure = frame.pop() if step.arg & 8 else Seq(tuple, [])
    if step.arg & 4:
        frame.pop()
    keyword_defaults = frame.pop() if step.arg & 2 else Dict(dict, {})
    defaults = frame.pop() if step.arg & 1 else Seq(tuple, [])
    assert isinstance(closure, Seq) and isinstance(keyword_defaults, Dict) and isinstance(defaults, Seq)
    cells = [cell for cell in closure.items if isinstance(cell, Cell)]
    frame.push(
        Func(
            code,
            frame.globals,
            code.co_name,
            list(defaults.items),
            dict(keyword_defaults.items),
            cells,
        )
    )


@_op("CALL_INTRINSIC_1")
def _call_intrinsic(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    if step.arg == 3:  # StopIteration inside a generator
        raise Raised(value)
    if step.arg == 5:
        frame.push(operators.unary(trace, "UNARY_POSITIVE", value))
    elif step.arg == 6:
        frame.push(Seq(tuple, calls.all_items(trace, value)))
    else:
        raise Unsupported(f"{step.name} {step.arg}")


@_op("IMPORT_NAME")
def _import_name(trace: Trace, frame: Frame, step: Instruction) -> None:
    names, level = frame.pop(), frame.pop()
    known = sys.modules.get(step.argval)
    if operators.as_python(trace, level) or known is None:
        raise Unsupported(f"{step.argval} is imported")
    wanted = operators.as_python(trace, names)
    top = sys.modules[step.argval.split(".")[0]]
    frame.push(Const(known if wanted else top))


@_op("IMPORT_FROM")
def _import_from(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(attributes.get(trace, frame.stack[-1], step.argval))


# Exceptions and with blocks


@_op("RAISE_VARARGS")
def _raise(trace: Trace, frame: Frame, step: Instruction) -> None:
    if step.arg == 0:
        if isinstance(frame.current_error, Error):
            raise Raised(frame.current_error)
        raise Unsupported("a bare raise outside of except")
    if step.arg == 2:
        frame.pop()
    value = frame.pop()
    if isinstance(value, Const) and isinstance(value.value, type):
        value = calls.call(trace, frame, value, [], {})
    if not isinstance(value, Error):
        raise Unsupported("an exception from outside is raised")
    raise Raised(value)


@_op("RERAISE")
def _reraise(trace: Trace, frame: Frame, step: Instruction) -> None:
    raise Raised(frame.pop())


@_op("LOAD_ASSERTION_ERROR")
def _load_assertion_error(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(AssertionError))


@_op("PUSH_EXC_INFO")
def _push_exc_info(trace: Trace, frame: Frame, step: Instruction) -> None:
    error = frame.pop()
    frame.push(frame.current_error)
    frame.push(error)
    frame.current_error = error


@_op("POP_EXCEPT")
def _pop_except(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.current_error = frame.pop()


@_op("CHECK_EXC_MATCH")
def _check_exc_match(trace: Trace, frame: Frame, step: Instruction) -> None:
    kinds = operators.as_python(trace, frame.pop())
    error = frame.stack[-1]
    if not isinstance(error, Error):
        raise Unsupported("an exception from outside is handled")
    frame.push(Const(issubclass(error.kind, kinds)))


@_op("BEFORE_WITH")
def _before_with(trace: Trace, frame: Frame, step: Instruction) -> None:
    manager = frame.pop()
    enter = attributes.get(trace, manager, "__enter__")
    frame.push(attributes.get(trace, manager, "__exit__"))
    frame.push(calls.call(trace, frame, enter, [], {}))


@_op("WITH_EXCEPT_START")
def _with_except_start(trace: Trace, frame: Frame, step: Instruction) -> None:
    error = frame.stack[-1]
    if not isinstance(error, Error):
        raise SkipFrame("an exception from outside passes a with block")
    given = [Const(error.kind), error, Const(None)]
    frame.push(calls.call(trace, frame, frame.stack[-4], given, {}))


@_op("LOAD_BUILD_CLASS")
def _load_build_class(trace: Trace, frame: Frame, step: Instruction) -> None:
    raise Unsupported("a class is defined")
