"""Code that starts in the middle of a function gives what the whole function gives. Needs no torch."""

import contextlib
import dis
import gc
import sys
import types
import weakref

import pytest

from longhand.capture.bytecode.entry import resume
from longhand.capture.bytecode.entry.loops import loop_around
from longhand.capture.bytecode.entry.resume import (
    ResumePoint,
    continuation,
    live_locals,
    parameters,
    step_code,
)
from longhand.capture.bytecode.frames.frame import decode
from longhand.capture.bytecode.versions.running import VERSION


def straight(a, b):
    c = a + b
    d = [c, a]
    d.append(len(d))
    e = {"k": d, "z": 1}
    f = f"{c:>4}{a!r}"
    return c, d, e, f


def branches(a, b):
    if a > b:
        c = a
    elif a == b:
        c = 0
    else:
        c = b * 2
    d = c if (c and a) or b else -1
    return [d]


def loops(a, b):
    n = 0
    total = 0
    while n < 5:
        n += 1
        if n == 2:
            continue
        total += n * a
        if total > 100:
            break
    else:
        total = -total
    result = [total + i for i in range(3) if i != b]
    return total, n, result


def tries(a, b):
    log = []
    try:
        log.append("try")
        value = {"x": a}["x"]
        log.append(value / b)
    except ZeroDivisionError as error:
        log.append(str(error))
    finally:
        log.append("finally")
    try:
        raise KeyError(a)
    except (ValueError, KeyError) as error:
        last = error.args
    return log, last


def cells(a, b):
    total = a

    def add(k):
        nonlocal total
        total += k * b
        return total

    first = add(1)
    b = 3
    second = add(2)
    return first, second, total, (lambda: a + total)()


def keywords(a, b):
    c = dict(a=a, b=b)  # noqa: C408
    d = sorted([3, a, b], key=lambda v: -v, reverse=True)
    e = max(*d, default=None) if len(d) < 0 else max(d)
    return c, d, e


class Base:
    def method(self, a, b):
        return a * b


class Derived(Base):
    def method(self, a, b):
        c = a + 1
        d = super().method(c, b)
        return d + c


def of_class(a, b):
    return Derived().method(a, b)


FUNCTIONS = [straight, branches, loops, tries, cells, keywords]


def snapshots(function, args):
    """(line, locals) at each line that CPython reaches, and the function's result."""
    seen = []

    def trace(frame, event, _):
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            seen.append((frame.f_lineno, dict(frame.f_locals), frame.f_lasti))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function(*args)
    finally:
        sys.settrace(previous)
    return seen, result


def empty_stack_lines(code):
    """Lines whose first instruction finds nothing on the stack, outside of handlers."""
    first = {}
    lines = dict(dis.findlinestarts(code))
    position = 0
    for step in dis.get_instructions(code):
        if step.opname not in ("CACHE", "EXTENDED_ARG"):
            if step.offset in lines:
                first.setdefault(lines[step.offset], position)
            position += len(VERSION.split(step.opname, step.arg or 0, step.argval))
    protected = {row.target for row in decode(code).handlers}
    return {line: index for line, index in first.items() if index not in protected}


def pushes_null(step):
    return step.name == "LOAD_GLOBAL" and step.arg & 1


def run_from(function, index, values, build):
    code = function.__code__
    live = live_locals(code, index)
    boxes = {n: types.CellType(values[n]) if n in values else types.CellType() for n in code.co_cellvars}
    given = {**values, **boxes}
    names = tuple(sorted(name for name in given if name in live and name not in code.co_freevars))
    position = ResumePoint(code, index, (), names)
    made = types.FunctionType(
        build(position), function.__globals__, function.__name__, None, function.__closure__
    )
    return made(*(given[name] for name in parameters(position)))


@pytest.mark.parametrize("build", [continuation, step_code])
@pytest.mark.parametrize("args", [(4, 2), (2, 2), (1, 0)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_rest_of_a_function(function, args, build):
    seen, result = snapshots(function, args)
    lines = empty_stack_lines(function.__code__)
    steps = decode(function.__code__).instructions
    n_tried = 0
    for line, values, _ in seen:
        index = lines.get(line)
        if index is None or steps[index].name in (
            "RESUME",
            "MAKE_CELL",
            "COPY_FREE_VARS",
            "PUSH_EXC_INFO",
            "CHECK_EXC_MATCH",
        ):
            continue
        if "error" in values or any(isinstance(value, list) for value in values.values()) or "add" in values:
            continue  # what the first run changed later is no snapshot
        if build is step_code and (steps[index].name.startswith("JUMP") or pushes_null(steps[index])):
            continue  # refused: such instructions never break
        assert run_from(function, index, values, build) == result, (line, values)
        n_tried += 1
    assert n_tried >= 1 or (function is keywords and build is step_code)


def test_super_finds_its_instance():
    function = Derived.method
    code = function.__code__
    index = next(
        i for i, step in enumerate(decode(code).instructions) if step.line == code.co_firstlineno + 2
    )
    values = {"self": Derived(), "a": 4, "b": 2, "c": 5}
    assert parameters(ResumePoint(code, index, (), ("a", "b", "c", "self")))[0] == "self"
    assert run_from(function, index, values, continuation) == Derived().method(4, 2)


def test_a_call_inside_a_with_block_is_left_properly():
    log = []

    @contextlib.contextmanager
    def manager():
        log.append("in")
        yield
        log.append("out")

    def function(a):
        with manager():
            b = len([a])
        return b + 0

    steps = decode(function.__code__).instructions
    index = next(i for i, step in enumerate(steps) if step.name == "CALL" and step.arg == 1)
    entered = manager()
    entered.__enter__()
    nulls = (False, True, False, False) if VERSION.null_is_first else (False, False, True, False)
    position = ResumePoint(function.__code__, index, nulls, ())
    made = types.FunctionType(step_code(position), globals(), "function", None, function.__closure__)
    assert made(entered.__exit__, len, [1, 2]) == 2
    assert log == ["in", "out"]


def test_code_that_nobody_has_is_forgotten() -> None:
    """Programs that make functions for ever fill no memory: caches end, and origins live as their continuations do."""
    first, began = None, len(resume._ORIGINS)
    for number in range(3000):
        names: dict[str, types.FunctionType] = {}
        exec(f"def made(a):\n    for b in a:\n        b = {number}\n    return b", names)
        code = names["made"].__code__
        head = next(i for i, step in enumerate(decode(code).instructions) if step.name == "FOR_ITER")
        position = ResumePoint(code, head + 1, (False, False), ("a",))
        assert loop_around(position, code, {head: 2}) is not None
        first = first or weakref.ref(code)
    gc.collect()
    assert first is not None and first() is None
    kept = continuation(position)
    assert resume.is_continuation(kept) and len(resume._ORIGINS) == began + 1
    continuation.cache_clear()
    assert resume.is_continuation(kept)
    del kept
    assert len(resume._ORIGINS) <= began
