"""Calls of a graph that may raise, depending on data, and what must be as before when the code runs again in CPython.

Capture runs a graph as a whole. Where one of its calls raises, the user's own code may handle that: CPython runs the
call again, from its start, as long as the graph wrote into no input. So what may raise inside a ``try`` and what
writes into an input are never in one graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.values.tracked import Method, New, Obj

if TYPE_CHECKING:
    from longhand.capture.bytecode.frames.frame import Frame
    from longhand.capture.bytecode.trace import Trace

__all__ = [
    "check_order",
    "draws",
    "may_be_caught",
    "mutates",
    "random_state",
    "refuse_order",
    "restore_random_state",
]

_MAY_RAISE = re.compile(
    r"embedding(_bag)?|index_\w+|gather|scatter\w*|take(_along_dim)?|put_?|one_hot|cross_entropy|nll_loss\w*"
    r"|multi\w*_loss|ctc_loss|binary_cross_entropy|multinomial|bernoulli_?|normal_?|poisson|binomial|bincount|histc"
    r"|repeat_interleave|cholesky\w*|inverse|inv\w*|solve\w*|lstsq|l[du]l?_\w+|eig\w*|svd\w*|qr|det|slogdet|logdet"
    r"|matrix_power|pinv|linalg_\w+|(nan)?quantile|_assert_\w+|masked_scatter_?"
)
_BY_TENSOR = frozenset(["getitem", "setitem", "__getitem__", "__setitem__"])
_DIVISIONS = frozenset(
    ["floordiv", "floor_divide", "floor_divide_", "remainder", "remainder_", "mod", "fmod", "div"]
)
_DRAWS = re.compile(
    r"(alpha_|feature_|feature_alpha_)?dropout[123]?d?_?|rand(n|int|perm)?(_like)?|bernoulli_?|normal_?|multinomial"
    r"|poisson|binomial|uniform_|exponential_|cauchy_|geometric_|log_normal_|random_|rrelu_?|gumbel_softmax"
    r"|scaled_dot_product_attention|multi_head_attention_forward|native_dropout|rnn_\w+|lstm|gru|fractional_\w+"
)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def mutates(node: fx.Node) -> bool:
    """Whether a call writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    name = _name(node.target)
    is_operator = getattr(node.target, "__module__", "") == "_operator" and name.startswith("i")
    return is_operator or name in ("setitem", "__setitem__") or (name.endswith("_") and name[-2:] != "__")


def draws(node: fx.Node) -> bool:
    """Whether a call may take random numbers."""
    is_custom = isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return node.op.startswith("call") and (is_custom or bool(_DRAWS.fullmatch(_name(node.target))))


def _may_raise(target: Any, fakes: Iterable[Any]) -> bool:
    name = _name(target)
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket) or _MAY_RAISE.fullmatch(name):
        return True
    if name in _BY_TENSOR:
        return any(isinstance(part, torch.Tensor) for fake in list(fakes)[1:2] for part in _parts(fake))
    if name in _DIVISIONS:
        return any(isinstance(fake, torch.Tensor) and not fake.is_floating_point() for fake in fakes)
    return False


def _parts(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, tuple | list) else (index,)


def _handles(frame: Frame) -> bool:
    """Whether an exception at a frame's instruction meets code of the user's own."""
    rows, at = frame.decoded.instructions, frame.start
    while (row := frame.decoded.handler_of(at)) is not None:
        if (
            rows[row.target].name != "PUSH_EXC_INFO"
        ):  # CPython's own: of a generator, of an inlined comprehension
            return False
        if rows[row.target + 1].name != "WITH_EXCEPT_START":
            return True
        if not _is_of_torch(frame, row.depth):
            return True
        at = row.target
    return False


def check_order(trace: Trace, target: Any, fakes: list[Any]) -> None:
    """Refuses a call that would bring a write into an input, and what may raise inside a try, into one graph.

    Raises:
        Unsupported: So that CPython runs this call.
    """
    if _may_raise(target, fakes):
        if trace.assumed and any(isinstance(fake, torch.Tensor) and fake.is_cuda for fake in fakes):
            reason = f"{_name(target)} may fail on the GPU where a check of values before it does"
            raise Unsupported(reason, "Check it once, outside of what is compiled.")
        if any(_handles(frame) for frame in trace.stack):
            trace.may_raise = trace.may_raise or f"{_name(target)} may raise, in a try block"
    refuse_order(trace)


def refuse_order(trace: Trace) -> None:
    """Refuses what may have to run again in CPython, and a write into an input, in one graph.

    Raises:
        Unsupported: So that CPython runs this step.
    """
    if trace.may_raise and trace.written():
        reason = f"{trace.may_raise}, and an input is written to"
        raise Unsupported(reason, "Write into the input before it, or make a new tensor.")


def may_be_caught(frame: Frame) -> bool:
    """Whether an exception at a frame's instruction may end in the frame: in an ``except`` block, or a manager's exit.

    A ``finally`` block ends in the exception again, and so do the managers of torch.
    """
    rows, at = frame.decoded.instructions, frame.start
    seen: set[int] = set()
    while (row := frame.decoded.handler_of(at)) is not None and row.target not in seen:
        seen.add(row.target)
        at = row.target
        if rows[at].name != "PUSH_EXC_INFO":  # CPython's own
            continue
        if rows[at + 1].name == "WITH_EXCEPT_START":
            if not _is_of_torch(frame, row.depth):
                return True
            continue
        ends = (rows[index].name for index in range(at + 1, len(rows)) if rows[index].name in _ENDS)
        if next(ends, "") != "RERAISE":
            return True
    return False


_ENDS = ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT", "RERAISE")


def _is_of_torch(frame: Frame, depth: int) -> bool:
    """Whether torch made the context manager whose exit lies at a depth of the stack."""
    leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
    owner = leave.owner if isinstance(leave, Method) else None
    kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
    return kind is not None and kind.__module__.startswith("torch.")


def random_state(devices: tuple[torch.device, ...]) -> list[tuple[torch.Generator, torch.Tensor]]:
    """The default generators of some devices as they are now."""
    generators = [
        torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
        for device in devices
    ]
    return [(generator, generator.get_state()) for generator in generators]


def restore_random_state(state: list[tuple[torch.Generator, torch.Tensor]]) -> None:
    """Makes random_state() come true again."""
    for generator, known in state:
        generator.set_state(known)
