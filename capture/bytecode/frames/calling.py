"""What the instructions for calls, imports, exceptions and with blocks do to a frame."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from types import CodeType

from longhand.capture.bytecode.calls import calls
from longhand.capture.bytecode.entry.breaks import Raised, SkipFrame, Unsupported
from longhand.capture.bytecode.frames.dispatch import Steps
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes, operators
from longhand.capture.bytecode.values.constants import as_mapping, as_python
from longhand.capture.bytecode.values.tracked import (
    Cell,
    Const,
    Dict,
    Error,
    Func,
    Null,
    Seq,
    Value,
)
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["STEPS"]

STEPS = Steps()


# Calls


@STEPS.of(Opcode.KW_NAMES)
def _kw_names(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.keyword_names = step.argval if isinstance(step.argval, tuple) else frame.code.co_consts[step.arg]


@STEPS.of(Opcode.CALL)
def _call(trace: Trace, frame: Frame, step: Instruction) -> None:
    names, frame.keyword_names = frame.keyword_names, ()
    _call_with(trace, frame, step.arg, names)


@STEPS.of(Opcode.CALL_KW)
def _call_kw(trace: Trace, frame: Frame, step: Instruction) -> None:
    names = as_python(trace, frame.pop())
    _call_with(trace, frame, step.arg, names)


def _call_with(trace: Trace, frame: Frame, count: int, names: tuple[str, ...]) -> None:
    args = frame.popn(count)
    first, second = frame.popn(2)
    function = second if isinstance(first, Null) else first
    if not isinstance(first, Null) and not isinstance(second, Null):
        args = [second, *args]
    kwargs = dict(zip(names, args[len(args) - len(names) :], strict=True))
    frame.push(calls.call(trace, frame, function, args[: len(args) - len(names)], kwargs))


@STEPS.of(Opcode.CALL_FUNCTION_EX)
def _call_function_ex(trace: Trace, frame: Frame, step: Instruction) -> None:
    kwargs: dict[str, Value] = {}
    if step.arg & 1:
        given = as_mapping(trace, frame.pop())
        trace.guard_keys(given)
        if not all(isinstance(key, str) for key in given.items):
            raise Unsupported("a keyword that is no string")
        kwargs = dict(given.items)
    args = calls.all_items(trace, frame.pop())
    function = next(value for value in reversed(frame.popn(2)) if not isinstance(value, Null))
    frame.push(calls.call(trace, frame, function, args, kwargs))


@STEPS.of(Opcode.MAKE_FUNCTION)
def _make_function(trace: Trace, frame: Frame, step: Instruction) -> None:
    code_value = frame.pop()
    assert isinstance(code_value, Const) and isinstance(code_value.value, CodeType)
    code = code_value.value
    made = Func(code, frame.globals, code.co_name, [], {}, [])
    for flag in (8, 4, 2, 1):
        if step.arg & flag:
            _equip(trace, made, flag, frame.pop())
    frame.push(made)


@STEPS.of(Opcode.SET_FUNCTION_ATTRIBUTE)
def _set_function_attribute(trace: Trace, frame: Frame, step: Instruction) -> None:
    value, function = frame.popn(2)
    assert isinstance(function, Func)
    _equip(trace, function, step.arg, value)
    frame.push(function)


def _equip(trace: Trace, function: Func, what: int, value: Value) -> None:
    """Gives a new function what CPython's flag names: defaults, keyword-only defaults, annotations or cells."""
    if what == 2:
        assert isinstance(value, Dict)
        function.keyword_defaults = dict(value.items)
        return
    assert isinstance(value, Seq)
    if what == 1:
        function.defaults = list(value.items)
    elif what == 8:
        function.closure = [cell for cell in value.items if isinstance(cell, Cell)]
    else:  # names and values, in turn
        words = [as_python(trace, word) for word in value.items[::2]]
        function.special["__annotations__"] = Dict(dict, dict(zip(words, value.items[1::2], strict=True)))


@STEPS.of(Opcode.CALL_INTRINSIC_1)
def _call_intrinsic(trace: Trace, frame: Frame, step: Instruction) -> None:
    value = frame.pop()
    if step.arg == 3:  # StopIteration inside a generator
        raise Raised(value)
    if step.arg == 5:
        frame.push(operators.unary(trace, Opcode.UNARY_POSITIVE, value))
    elif step.arg == 6:
        frame.push(Seq(tuple, calls.all_items(trace, value)))
    else:
        raise Unsupported(f"{step.name} {step.arg}")


@STEPS.of(Opcode.IMPORT_NAME)
def _import_name(trace: Trace, frame: Frame, step: Instruction) -> None:
    wanted, level = as_python(trace, frame.pop()), as_python(trace, frame.pop())
    name = step.argval
    if level:
        name = importlib.util.resolve_name("." * level + name, frame.globals.get("__package__"))
    try:
        # As eager would; a second time it is there already.
        known = sys.modules.get(name) or importlib.import_module(name)
        for part in wanted or ():
            if part != "*" and not hasattr(known, part) and hasattr(known, "__path__"):
                importlib.import_module(f"{name}.{part}")
    except ImportError as error:
        facts: dict[str, Value] = {key: Const(getattr(error, key)) for key in ("msg", "name", "path")}
        args: list[Value] = [Const(part) for part in error.args]
        raise Raised(Error(type(error), args, is_exact=True, attributes=facts)) from None
    frame.push(Const(known if wanted or level else sys.modules[name.split(".")[0]]))


@STEPS.of(Opcode.IMPORT_FROM)
def _import_from(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(attributes.get(trace, frame.stack[-1], step.argval))


# Exceptions and with blocks


@STEPS.of(Opcode.RAISE_VARARGS)
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


@STEPS.of(Opcode.RERAISE)
def _reraise(trace: Trace, frame: Frame, step: Instruction) -> None:
    raise Raised(frame.pop())


@STEPS.of(Opcode.LOAD_ASSERTION_ERROR)
def _load_assertion_error(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(AssertionError))


@STEPS.of(Opcode.PUSH_EXC_INFO)
def _push_exc_info(trace: Trace, frame: Frame, step: Instruction) -> None:
    error = frame.pop()
    frame.push(frame.current_error)
    frame.push(error)
    frame.current_error = error


@STEPS.of(Opcode.POP_EXCEPT)
def _pop_except(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.current_error = frame.pop()


@STEPS.of(Opcode.CHECK_EXC_MATCH)
def _check_exc_match(trace: Trace, frame: Frame, step: Instruction) -> None:
    kinds = as_python(trace, frame.pop())
    error = frame.stack[-1]
    if not isinstance(error, Error):
        raise Unsupported("an exception from outside is handled")
    frame.push(Const(issubclass(error.kind, kinds)))


@STEPS.of(Opcode.BEFORE_WITH)
def _before_with(trace: Trace, frame: Frame, step: Instruction) -> None:
    manager = frame.pop()
    manager = trace.force(manager)
    enter = attributes.get_special(trace, manager, "__enter__")
    frame.push(attributes.get_special(trace, manager, "__exit__"))
    frame.push(calls.call(trace, frame, enter, [], {}))


@STEPS.of(Opcode.WITH_EXCEPT_START)
def _with_except_start(trace: Trace, frame: Frame, step: Instruction) -> None:
    error = frame.stack[-1]
    if not isinstance(error, Error):
        raise SkipFrame("an exception from outside passes a with block")
    given = [Const(error.kind), error, Const(None)]
    frame.push(calls.call(trace, frame, frame.stack[-4], given, {}))


@STEPS.of(Opcode.LOAD_BUILD_CLASS)
def _load_build_class(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(Const(builtins.__build_class__))
