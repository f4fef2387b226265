"""Each opcode of the Python that runs: a program that has it gives what CPython gives, captured or after a break; what
no function can have is named, with the reason."""

import ast
import dis
import sys
import types
from pathlib import Path

import pytest

from longhand.capture.bytecode.frames import interpreter
from longhand.capture.bytecode.frames.frame import decode
from longhand.capture.bytecode.versions import opcodes
from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.running import KNOWN, VERSION
from tests.capture.bytecode.opcode_programs import ENTERED, PROGRAMS, WHOLE, X, loops
from tests.capture.bytecode.running import check

CAPTURE = Path(__file__).resolve().parents[3] / "capture"
BY_KIND = opcodes.LOCATIONS_ONLY | opcodes.CLASS_BODY | opcodes.HANDLER_ENDS
# What CPython's compiler puts into no function of a user's.
ELSEWHERE = {
    "CACHE": "room beside an instruction",
    "DELETE_NAME": "modules and class bodies",
    "ENTER_EXECUTOR": "put there by CPython's own compiler to machine code",
    "EXIT_INIT_CHECK": "in a stub of CPython's own",
    "IMPORT_STAR": "modules",
    "INTERPRETER_EXIT": "in a stub of CPython's own",
    "PRINT_EXPR": "the interactive prompt",
    "RESERVED": "no instruction",
    "SETUP_ANNOTATIONS": "modules and class bodies",
}


def codes_of(code):
    """The code and those inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def opcodes_of(code):
    return {step.opname for step in dis.get_instructions(code)}


def opcodes_in(program):
    functions = [program, *ENTERED.get(program, ())]
    return {name for one in functions for code in codes_of(one.__code__) for name in opcodes_of(code)}


HAVE = {program: opcodes_in(program) for program in PROGRAMS}
NAMES = sorted(
    name for name, code in dis.opmap.items() if code < 256 and not name.startswith("INSTRUMENTED_")
)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELSEWHERE])
def test_an_opcode_does_what_cpython_does(name):
    programs = [program for program in PROGRAMS if name in HAVE[program]]
    assert programs, f"no program has {name}"
    check(min(programs, key=lambda program: len(HAVE[program])), (X, 3))


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_ordinary_programs_are_captured_whole(program):
    captured = check(program, (X, 3))
    assert captured.count("break") == captured.count("skip") == 0, captured.events


def test_what_is_said_to_be_elsewhere_is():
    assert not {name for name in ELSEWHERE for program in PROGRAMS if name in opcodes_of(program.__code__)}


def test_what_is_decoded_is_run_or_refused_by_name():
    """An instruction that is not in the tables is refused with its name: nothing is taken for something else."""
    split = {
        part[0]
        for name in NAMES
        for part in VERSION.split(name, 0, ("a", "b"))
        if name not in ELSEWHERE and name not in ("EXTENDED_ARG",)
    }
    refused = split - set(interpreter._STEPS)
    assert refused <= REFUSED, refused - REFUSED
    assert not split & set(VERSION.parts) and "LOAD_FAST_LOAD_FAST" not in interpreter._STEPS


REFUSED = {
    # Coroutines and what only they have run in CPython.
    "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE",
    # So do groups of exceptions, class bodies, and a generator that is closed from outside while it delegates.
    "CALL_INTRINSIC_2", "CHECK_EG_MATCH", "CLEANUP_THROW", "PREP_RERAISE_STAR",
    "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_LOCALS", "LOAD_NAME", "STORE_NAME",
    "DELETE_GLOBAL",
}  # fmt: skip


def test_a_jump_goes_to_its_target_after_splitting():
    steps = decode(loops.__code__).instructions
    for step in steps:
        if step.name == "FOR_ITER":
            names = [steps[step.target + place].name for place in range(len(VERSION.loop_end))]
            assert names == [VERSION.renamed.get(name, name) for name in VERSION.loop_end]


def test_the_running_python_is_known():
    assert KNOWN[sys.version_info[:2]] is VERSION


def test_names_of_instructions_stand_in_versions_alone():
    """All else asks for a member of Opcode, or for a kind."""
    names = {*Opcode, *NAMES}
    found = {
        str(path.relative_to(CAPTURE)): node.value
        for path in sorted(CAPTURE.rglob("*.py"))
        if path.parent.name != "versions"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert not found


def test_each_member_is_a_step_or_is_asked_for_by_another_module():
    asked = {
        node.attr
        for path in sorted(CAPTURE.rglob("*.py"))
        if path.name != "opcodes.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Opcode"
    }
    assert {*Opcode} - interpreter._STEPS.keys() - {Opcode[name] for name in asked} <= BY_KIND
