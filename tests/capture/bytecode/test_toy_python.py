"""A version of Python is a value in a list: this one is written, told of and captured here, in one file.

docs/adding_a_python_version.md tells it as a story. There is no interpreter of that version: code of the Python that
runs is read as the toy's compiler would have written it. It spells an operator otherwise, and pairs of loads are one.
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


def as_the_toy_lists_it(code):
    """What `dis` of the toy's Python would list for a function."""
    found = []
    for step in _listed(code):
        if step.opname == "BINARY_OP":
            step = step._replace(opname="OPERATE")
        last = found[-1] if found else None
        if (
            last is not None
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


def test_its_instructions_are_captured_as_all_others(toy):
    toy(TOY)
    names = [step.opname for step in dis.get_instructions(adds)]
    assert "OPERATE" in names and "BINARY_OP" not in names
    if "LOAD_FAST_LOAD_FAST" not in VERSION.parts:  # 3.13 pairs them itself
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
