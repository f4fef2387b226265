"""Where in a tensor a value is read, beside the others that are: the first of a pair, or ahead of its own place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from longhand.lower.ir import Load, Pointwise, Reduce, Value
from longhand.schedule.plan import Address, KernelPlan


def patterns_of_place(value: Load, plan: KernelPlan) -> Iterator[str]:
    """``first_{}``, ``{}_ahead``: what to make of the tensor's word; none where that tells enough, or nothing does."""
    loads = {
        position: other
        for position, other in enumerate(plan.body)
        if isinstance(other, Load) and other.buffer == value.buffer
    }
    own = next(place for place, other in enumerate(loads.values()) if other == value)
    is_plain = all(other.mask is None and not other.index.values for other in loads.values())
    signs = [_sign_of_offset(plan.addresses[position]) for position in loads]
    if len(loads) == 2 and is_plain:
        yield ("first_{}", "second_{}")[1 - own if signs == [1, 0] else own]
    if None in signs:
        return
    if sorted(sign for sign in signs if sign) == [-1, 1]:
        yield from {1: ["{}_ahead"], -1: ["{}_behind"]}.get(signs[own] or 0, [])
        return
    # The two of a pair, beside the one that stands where the result does.
    col = plan.cols[-1].name if plan.cols else ""
    fixed = [col not in dict(plan.addresses[position].axes) for position in loads]
    of_pair = [sign for sign, is_fixed in zip(signs, fixed, strict=True) if is_fixed]
    if fixed[own] and of_pair in ([0, 1], [1, 0]):
        yield ("first_{}", "second_{}")[signs[own] or 0]


def _sign_of_offset(address: Address) -> int | None:
    """1 where an address is that of an element further on by one argument, -1 before it, 0 its own; None otherwise."""
    if address.values or address.reversed or len(address.offset) > 1:
        return None
    numbers = [factor for product in address.offset for factor in product if isinstance(factor, int)]
    if any(abs(number) != 1 for number in numbers):
        return None
    return math.prod(numbers) if address.offset else 0


def ends_operation(position: int, body: Sequence[Value]) -> bool:
    """Whether no later value of a kernel comes of the same operation."""
    origin = getattr(body[position], "origin", "")
    later = (value for value in body[position + 1 :] if isinstance(value, Pointwise | Reduce))
    return bool(origin) and not any(value.origin == origin for value in later)
