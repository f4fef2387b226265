"""What of a reference is a Python number, and how numbers are written there."""

from __future__ import annotations

from collections.abc import Set

from longhand.emit.module.view_calls import literal_text
from longhand.emit.text.expression import Text
from longhand.emit.text.numbers import number_operand
from longhand.emit.text.reference_ops import stays_number
from longhand.lower.ir import Constant, Extent, Pointwise, Position, Scalar
from longhand.schedule.plan import KernelPlan

_SPECIAL = {
    'float("nan")': "torch.nan",
    'float("inf")': "torch.inf",
    'float("-inf")': "-torch.inf",
    "-3.4028234663852886e38": "torch.finfo(torch.float32).min",
}


def number_text(number: float | int | bool) -> Text:
    """A literal, or torch's name for it."""
    text = literal_text(number)
    return number_operand(_SPECIAL.get(text, text))


def prints_number(plan: KernelPlan, position: int, called: Set[int]) -> bool:
    """Whether a value's text is a Python number, not a tensor: a place that no axis moves is one, too.

    Args:
        plan: The kernel.
        position: Of the value in its body.
        called: The values that are printed as one call of torch.
    """
    if position in called:
        return False
    match plan.body[position]:
        case Constant() | Scalar() | Extent():
            return True
        case Position():
            address = plan.addresses[position]
            return not address.axes and not address.values
        case Pointwise(op=op, args=args):
            return stays_number(op, [prints_number(plan, argument, called) for argument in args])
    return False
