"""The one set of instructions that the interpreter knows, and what is said of them by kind.

They are those of CPython 3.12, and what its neighbours have beside them. Nobody else in capture writes a name down; a
version's own module says what it spells otherwise.
"""

from __future__ import annotations

import enum

__all__ = [
    "CALL_PARTS",
    "CELL_MAKERS",
    "CLASS_BODY",
    "HANDLER_ENDS",
    "JUMPS_AWAY",
    "LEAVES",
    "LOCAL_CHANGES",
    "LOCAL_READS",
    "LOCATIONS_ONLY",
    "NO_BREAKS",
    "Opcode",
    "popped_by_call",
]


class Opcode(enum.StrEnum):
    """An instruction; what `dis` names and this does not is refused by its name."""

    # Stack, locals, cells, globals.
    NOP = "NOP"
    RESUME = "RESUME"
    CACHE = "CACHE"
    EXTENDED_ARG = "EXTENDED_ARG"
    SETUP_ANNOTATIONS = "SETUP_ANNOTATIONS"
    POP_TOP = "POP_TOP"
    COPY = "COPY"
    SWAP = "SWAP"
    PUSH_NULL = "PUSH_NULL"
    LOAD_CONST = "LOAD_CONST"
    LOAD_SMALL_INT = "LOAD_SMALL_INT"
    LOAD_LOCALS = "LOAD_LOCALS"
    LOAD_NAME = "LOAD_NAME"
    STORE_NAME = "STORE_NAME"
    LOAD_FAST = "LOAD_FAST"
    LOAD_FAST_CHECK = "LOAD_FAST_CHECK"
    LOAD_FAST_AND_CLEAR = "LOAD_FAST_AND_CLEAR"
    STORE_FAST = "STORE_FAST"
    DELETE_FAST = "DELETE_FAST"
    MAKE_CELL = "MAKE_CELL"
    COPY_FREE_VARS = "COPY_FREE_VARS"
    LOAD_CLOSURE = "LOAD_CLOSURE"
    LOAD_DEREF = "LOAD_DEREF"
    STORE_DEREF = "STORE_DEREF"
    DELETE_DEREF = "DELETE_DEREF"
    LOAD_GLOBAL = "LOAD_GLOBAL"
    STORE_GLOBAL = "STORE_GLOBAL"

    # Attributes, items, operators.
    LOAD_ATTR = "LOAD_ATTR"
    LOAD_METHOD = "LOAD_METHOD"  # 3.11: as LOAD_ATTR with its lowest bit, later
    LOAD_SUPER_ATTR = "LOAD_SUPER_ATTR"
    STORE_ATTR = "STORE_ATTR"
    DELETE_ATTR = "DELETE_ATTR"
    BINARY_SUBSCR = "BINARY_SUBSCR"
    STORE_SUBSCR = "STORE_SUBSCR"
    DELETE_SUBSCR = "DELETE_SUBSCR"
    BINARY_SLICE = "BINARY_SLICE"
    STORE_SLICE = "STORE_SLICE"
    UNARY_NEGATIVE = "UNARY_NEGATIVE"
    UNARY_INVERT = "UNARY_INVERT"
    UNARY_POSITIVE = "UNARY_POSITIVE"
    UNARY_NOT = "UNARY_NOT"
    TO_BOOL = "TO_BOOL"
    BINARY_OP = "BINARY_OP"
    COMPARE_OP = "COMPARE_OP"
    IS_OP = "IS_OP"
    CONTAINS_OP = "CONTAINS_OP"

    # Containers and texts.
    BUILD_TUPLE = "BUILD_TUPLE"
    BUILD_LIST = "BUILD_LIST"
    BUILD_SET = "BUILD_SET"
    BUILD_MAP = "BUILD_MAP"
    BUILD_CONST_KEY_MAP = "BUILD_CONST_KEY_MAP"
    BUILD_SLICE = "BUILD_SLICE"
    BUILD_STRING = "BUILD_STRING"
    LIST_TO_TUPLE = "LIST_TO_TUPLE"
    LIST_APPEND = "LIST_APPEND"
    LIST_EXTEND = "LIST_EXTEND"
    SET_ADD = "SET_ADD"
    SET_UPDATE = "SET_UPDATE"
    MAP_ADD = "MAP_ADD"
    DICT_MERGE = "DICT_MERGE"
    DICT_UPDATE = "DICT_UPDATE"
    UNPACK_SEQUENCE = "UNPACK_SEQUENCE"
    UNPACK_EX = "UNPACK_EX"
    MATCH_SEQUENCE = "MATCH_SEQUENCE"
    MATCH_MAPPING = "MATCH_MAPPING"
    MATCH_KEYS = "MATCH_KEYS"
    MATCH_CLASS = "MATCH_CLASS"
    GET_LEN = "GET_LEN"
    FORMAT_VALUE = "FORMAT_VALUE"  # up to 3.12: both that follow, and CONVERT_VALUE
    CONVERT_VALUE = "CONVERT_VALUE"
    FORMAT_SIMPLE = "FORMAT_SIMPLE"
    FORMAT_WITH_SPEC = "FORMAT_WITH_SPEC"

    # Calls, functions, imports.
    KW_NAMES = "KW_NAMES"  # before CALL, up to 3.12
    PRECALL = "PRECALL"  # before CALL, in 3.11
    CALL = "CALL"
    CALL_KW = "CALL_KW"
    CALL_FUNCTION_EX = "CALL_FUNCTION_EX"
    CALL_INTRINSIC_1 = "CALL_INTRINSIC_1"
    MAKE_FUNCTION = "MAKE_FUNCTION"
    SET_FUNCTION_ATTRIBUTE = "SET_FUNCTION_ATTRIBUTE"
    LOAD_BUILD_CLASS = "LOAD_BUILD_CLASS"
    IMPORT_NAME = "IMPORT_NAME"
    IMPORT_FROM = "IMPORT_FROM"

    # Jumps, loops, generators.
    JUMP_FORWARD = "JUMP_FORWARD"
    JUMP_BACKWARD = "JUMP_BACKWARD"
    JUMP_BACKWARD_NO_INTERRUPT = "JUMP_BACKWARD_NO_INTERRUPT"
    POP_JUMP_IF_FALSE = "POP_JUMP_IF_FALSE"
    POP_JUMP_IF_TRUE = "POP_JUMP_IF_TRUE"
    POP_JUMP_IF_NONE = "POP_JUMP_IF_NONE"
    POP_JUMP_IF_NOT_NONE = "POP_JUMP_IF_NOT_NONE"
    JUMP_IF_FALSE_OR_POP = "JUMP_IF_FALSE_OR_POP"
    JUMP_IF_TRUE_OR_POP = "JUMP_IF_TRUE_OR_POP"
    GET_ITER = "GET_ITER"
    GET_YIELD_FROM_ITER = "GET_YIELD_FROM_ITER"
    FOR_ITER = "FOR_ITER"
    END_FOR = "END_FOR"
    END_FOR_ONE = "END_FOR_ONE"  # 3.13's END_FOR: takes one value, not two
    SEND = "SEND"
    END_SEND = "END_SEND"
    RETURN_VALUE = "RETURN_VALUE"
    RETURN_CONST = "RETURN_CONST"
    RETURN_GENERATOR = "RETURN_GENERATOR"
    YIELD_VALUE = "YIELD_VALUE"

    # Exceptions and managers.
    RAISE_VARARGS = "RAISE_VARARGS"
    RERAISE = "RERAISE"
    LOAD_ASSERTION_ERROR = "LOAD_ASSERTION_ERROR"
    PUSH_EXC_INFO = "PUSH_EXC_INFO"
    POP_EXCEPT = "POP_EXCEPT"
    CHECK_EXC_MATCH = "CHECK_EXC_MATCH"
    CHECK_EG_MATCH = "CHECK_EG_MATCH"
    CLEANUP_THROW = "CLEANUP_THROW"
    BEFORE_WITH = "BEFORE_WITH"
    WITH_EXCEPT_START = "WITH_EXCEPT_START"


LOCATIONS_ONLY = frozenset({Opcode.EXTENDED_ARG, Opcode.CACHE})  # parts of others, no instructions
CELL_MAKERS = frozenset({Opcode.MAKE_CELL, Opcode.COPY_FREE_VARS})  # at the start of a function
CALL_PARTS = frozenset({Opcode.KW_NAMES, Opcode.PRECALL})  # of the call behind them
LOCAL_READS = frozenset(
    {Opcode.LOAD_FAST, Opcode.LOAD_FAST_CHECK, Opcode.LOAD_FAST_AND_CLEAR, Opcode.DELETE_FAST}
)
# After which there are other locals than before.
LOCAL_CHANGES = frozenset(
    {Opcode.STORE_FAST, Opcode.DELETE_FAST, Opcode.LOAD_FAST_AND_CLEAR, Opcode.MAKE_CELL}
)
_ENDS = {Opcode.RETURN_VALUE, Opcode.RETURN_CONST, Opcode.RERAISE}
_JUMPS = {Opcode.JUMP_FORWARD, Opcode.JUMP_BACKWARD, Opcode.JUMP_BACKWARD_NO_INTERRUPT}
BRANCHES = frozenset(
    {
        *(Opcode.POP_JUMP_IF_FALSE, Opcode.POP_JUMP_IF_TRUE),
        *(Opcode.POP_JUMP_IF_NONE, Opcode.POP_JUMP_IF_NOT_NONE),
    }
)
JUMPS_BACK = BRANCHES | {Opcode.JUMP_BACKWARD}  # the ends of loops' turns
JUMPS_AWAY = frozenset({*_ENDS, *_JUMPS, Opcode.RAISE_VARARGS})  # the next one is not reached
LEAVES = frozenset({*_ENDS, Opcode.YIELD_VALUE, Opcode.FOR_ITER, Opcode.SEND})  # no straight way goes on
NO_BREAKS = frozenset({*_JUMPS, Opcode.SEND})  # jumps that no continuation takes the place of
HANDLER_ENDS = frozenset({Opcode.CHECK_EXC_MATCH, Opcode.CHECK_EG_MATCH, Opcode.POP_EXCEPT, Opcode.RERAISE})
# What a class body has that does nothing but define.
CLASS_BODY = frozenset(
    {
        *(Opcode.RESUME, Opcode.NOP, Opcode.CACHE, Opcode.EXTENDED_ARG, Opcode.PUSH_NULL, Opcode.PRECALL),
        *(Opcode.CALL, Opcode.MAKE_CELL, Opcode.COPY_FREE_VARS, Opcode.LOAD_NAME, Opcode.STORE_NAME),
        *(Opcode.LOAD_CONST, Opcode.LOAD_SMALL_INT, Opcode.LOAD_CLOSURE, Opcode.LOAD_FAST, Opcode.COPY),
        *(Opcode.BUILD_TUPLE, Opcode.MAKE_FUNCTION, Opcode.SET_FUNCTION_ATTRIBUTE, Opcode.RETURN_VALUE),
        *(Opcode.RETURN_CONST, Opcode.POP_TOP, Opcode.LOAD_LOCALS, Opcode.STORE_DEREF),
    }
)


def popped_by_call(name: str, arg: int) -> int | None:
    """How many slots of the stack a call takes, its NULL among them; None for what is no call."""
    match name:
        case Opcode.CALL:
            return arg + 2
        case Opcode.CALL_KW:
            return arg + 3
        case Opcode.CALL_FUNCTION_EX:
            return 3 + (arg & 1)
    return None
