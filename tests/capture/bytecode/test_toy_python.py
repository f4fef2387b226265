"""A version of Python is a value in a list: this one is written, told of and captured here, in one file.

docs/adding_a_python_version.md tells it as a story. There is no interpreter of that version: code of the Python that
runs is read as the toy's compiler would have written it. It spells an operator otherwise, and pairs of loads are one
(from 3.13 on they are one in Python's own code, and in none that capture assembles).
"""

import dataclasses
import dis

import pytest

from longhand.capture.bytecode.entry import resume
from longhand.capture.bytecode.frames import frame, instructions
from longhand.capture.bytecode.versions.running import VERSION
from tests.capture.bytecode.opcode_programs import WHOLE, X
from tests.capture.bytecode.running import check

TOY = dataclasses.replace(
    VERSION,
    number=(3, 99),
    renamed={**VERSION.renamed, "OPERATE": "BINARY_OP"},
    parts={**VERSION.parts, "LOAD_TWO": ("LOAD_FAST", "LOAD_FAST")},
)
_listed = dis.get_instructions
_PAIRS_LOADS = "LOAD_FAST_LOAD_FAST" not in VERSION.parts


def as_the_toy_lists_it(code):
    """What `dis` of the toy's Python would list for a function."""
    found = []
    for step in _listed(code):
        if step.opname == "BINARY_OP":
            step = step._replace(opname="OPERATE")
        last = found[-1] if found else None
        if (
            _PAIRS_LOADS
            and last is not None
            and step.opname == last.opname == "LOAD_FAST"
            and not step.is_jump_target
            and max(step.arg, last.arg) < 16
        ):
            both = {"arg": last.arg << 4 | step.arg, "argval": (last.argval, step.argval)}
            found[-1] = last._replace(opname="LOAD_TWO", **both)
        else:
            found.append(step)
    return found


@pytest.fixture
def toy(monkeypatch):
    """A process of that Python."""
    monkeypatch.setattr(dis, "get_instructions", as_the_toy_lists_it)
    frame.decode.cache_clear()
    yield lambda version: [
        monkeypatch.setattr(module, "VERSION", version) for module in (frame, instructions, resume)
    ]
    frame.decode.cache_clear()


def adds(x, n):
    return x + n * x


def breaks(x, n):
    y = x + n
    print(end="")  # CPython's own, and the rest is captured as a function of its own
    return y * n + x


def holds_one(x, n):
    return x + len([print(end=""), n])


def test_its_instructions_are_captured_as_all_others(toy):
    toy(TOY)
    names = [step.opname for step in dis.get_instructions(adds)]
    assert "OPERATE" in names and "BINARY_OP" not in names
    if _PAIRS_LOADS:
        assert "LOAD_TWO" in [step.opname for step in dis.get_instructions(breaks)]
    for program in (adds, *WHOLE):
        captured = check(program, (X, 3))
        assert captured.count("break") == captured.count("skip") == 0, captured.events


def test_what_comes_after_a_break_is_captured_too(toy):
    toy(TOY)
    check(breaks, (X, 3))


def test_without_its_module_the_instruction_is_refused_by_name(toy):
    toy(VERSION)
    captured = check(adds, (X, 3))
    first = captured.events[0].text
    assert "the instruction OPERATE" in first or "the instruction LOAD_TWO" in first


def test_a_rest_that_is_listed_otherwise_than_its_function_runs_in_cpython(monkeypatch):
    """Where it goes on would be another place: that was a segmentation fault, of the toy alone."""
    seen = []

    def listed(code):
        steps = decode(code)
        if code.co_varnames[:1] == ("stack0_",):
            seen.append(code)
            return dataclasses.replace(steps, instructions=steps.instructions[1:])
        return steps

    decode = resume.decode
    resume.continuation.cache_clear()
    monkeypatch.setattr(resume, "decode", listed)
    captured = check(holds_one, (X, 3))
    assert seen and "cannot be rebuilt" in captured.events[-1].text, captured.events
    resume.continuation.cache_clear()
