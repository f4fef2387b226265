"""What the forward of a torch.autograd.Function is called with: interpreted like user code.

Where its Function was not captured autograd itself calls forward, with a context of its own, as a frame of its own:
what forward saves there is an attribute that is set on the context after the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.bytecode.calls.rules import Rules
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Const, Obj, Seq, Tensor, Value

__all__ = ["RULES", "ForwardContext"]

RULES = Rules()


@RULES.of(torch.autograd.function.FunctionCtx.save_for_backward)
def _save_for_backward(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``self.to_save = tensors``, which is all that it does; autograd takes them once forward has returned."""
    context, *given = map(trace.force, args)
    saved = all(isinstance(one, Tensor) or (isinstance(one, Const) and one.value is None) for one in given)
    if kwargs or not saved or not isinstance(context, Obj) or not _is_autograds(trace, context):
        raise Unsupported(
            "save_for_backward is called on what autograd did not make, or with what is no tensor"
        )
    trace.attributes.setdefault(context, {})["to_save"] = Seq(tuple, given)
    return Const(None)


def _is_autograds(trace: Trace, context: Obj) -> bool:
    kind = type(context.value)
    own = [trace.classes.lookup(kind, name) for name in ("save_for_backward", "__setattr__")]
    return isinstance(context.value, torch.autograd.function.BackwardCFunction) and own == [
        torch.autograd.function.FunctionCtx.save_for_backward,
        object.__setattr__,
    ]


class ForwardContext:
    """Keeps what forward tells autograd, and what it leaves for backward."""

    saved_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    dirty: tuple[Any, ...] = ()
    materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """For forward-mode derivatives, which nobody asks for."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value
