"""What tells a size: a tensor that has it (``conv.shape[1]``), or the axes of a launch (``head_dim // 2``)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import Pointwise, PointwiseOp, Position, Reduce, Scalar, Size
from longhand.schedule.named_plan import Words
from longhand.schedule.plan import KernelPlan, Launch

Shaped = tuple[str, Words, Sequence[Size]]  # a tensor: its expression, the words of its dimensions, its shape
_LARGEST_BARE = 9  # of a number that needs no word


@dataclasses.dataclass(frozen=True)
class SizeText:
    """A size as it is written.

    Attributes:
        text: By itself.
        words: Those that it names.
        is_factor: Whether it stands in a product without parentheses.
        is_number: Whether it is one.
    """

    text: str
    words: frozenset[str] = frozenset()
    is_factor: bool = True
    is_number: bool = False


def is_bare(text: str) -> bool:
    """Whether a size is a number that a reader would ask about."""
    return text.isdigit() and int(text) > _LARGEST_BARE


def is_path(text: str) -> bool:
    """Whether an expression is a variable or an attribute, and not a view that is made for one call."""
    return text.replace(".", "").isidentifier()


def read_from(
    variable: str, n_dims: int, dims: Sequence[int], texts: Sequence[SizeText], every: bool
) -> list[SizeText]:
    """The sizes of some of a tensor's dimensions, numbers as the tensor tells them: ``conv.shape[1]``.

    Small numbers stay, unless they are of neighbouring dimensions (``conv.shape[2:].numel()`` pixels) or every number
    is to be read.
    """
    if len(texts) > 1 and all(text.is_number for text in texts):
        first, last = dims[0], dims[-1]
        if list(dims) == list(range(first, last + 1)) and (not first or last + 1 == n_dims):
            span = f"{first or ''}:{'' if last + 1 == n_dims else last + 1}"
            return [SizeText(f"{variable}.shape[{span}].numel()")]
    found = []
    for dim, text in zip(dims, texts, strict=True):
        if is_bare(text.text) or (every and text.is_number):
            text = SizeText(f"{variable}.shape[{-1 if dim + 1 == n_dims else dim}]")
        found.append(text)
    return found


def _given(plan: KernelPlan, launch: Launch, position: int) -> tuple[float | Size, dict[str, Size]]:
    """What a launch gives a scalar of the kernel's body, and how long it makes each axis."""
    scalars = zip(plan.scalars, launch.scalars, strict=True)
    number = next(number for one, number in scalars if one.position == position)
    return number, {axis.name: size for axis, size in zip(plan.axes, launch.sizes, strict=True)}


def half_of(plan: KernelPlan, launch: Launch, position: int, sizes: Mapping[str, str]) -> str | None:
    """The text for a scalar that lowering called a half, over the words of the axes; None for any other.

    What else is as large may be the same argument (the first of two rows, and the first of four), so the axis is one
    that the launch makes twice as long.

    Args:
        plan: The kernel.
        launch: Its call.
        position: The scalar in its body.
        sizes: By axis: the text of its size.
    """
    scalar = plan.body[position]
    if not isinstance(scalar, Scalar) or scalar.name is not Role.HALF:
        return None
    number, length = _given(plan, launch, position)
    for value in plan.body:
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LT and value.args[1] == position:
            address = plan.addresses.get(value.args[0])
            if (
                isinstance(plan.body[value.args[0]], Position)
                and address is not None
                and len(address.axes) == 1
                and not isinstance(number, float)
                and length[address.axes[0][0]] == 2 * number
            ):
                size = sizes.get(address.axes[0][0], "")
                return f"{size} // 2" if size.isidentifier() or size.endswith(".shape[-1]") else None
    return None


def averaged_of(plan: KernelPlan, launch: Launch, position: int, sizes: Mapping[str, str]) -> str | None:
    """The text for how many a mean is taken of, over the words of the axes that the kernel sums; None for any other.

    Args:
        plan: The kernel.
        launch: Its call.
        position: The scalar in its body.
        sizes: By axis: the text of its size.
    """
    scalar = plan.body[position]
    if not isinstance(scalar, Scalar) or scalar.name is not Role.N_AVERAGED:
        return None
    wanted, length = _given(plan, launch, position)
    for value in plan.body:
        axes = value.axes if isinstance(value, Reduce) else ()
        if axes and str(math.prod(length[axis] for axis in axes)) == str(wanted):
            words = [sizes[axis] for axis in axes]
            return " * ".join(words) if len(words) == 1 or all(map(str.isidentifier, words)) else None
    return None


def derived_from(symbol: str, tensors: Sequence[Shaped]) -> tuple[str, str] | None:
    """The tensor with a dimension that a symbol's value follows from, and how it does."""
    for path, _, shape in tensors:
        for dim, size in enumerate(shape):
            if isinstance(size, int) or [str(free) for free in size.free_symbols] != [symbol]:
                continue
            text = f"{path}.shape[{dim}]"
            (free,) = size.free_symbols
            scale = size.coeff(free)
            offset = size - scale * free
            if scale.is_Integer and scale > 0 and offset.is_Integer:
                text = f"({text} - {offset})" if offset != 0 else text
                return path, f"{text} // {scale}" if scale != 1 else text
    return None
