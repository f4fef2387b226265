"""What tells a size: a tensor that has it (``conv.shape[1]``), or the axes of a launch (``head_dim // 2``)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from longhand.capture.graph import Role
from longhand.emit.text.python_code import (
    NO_CODE,
    Code,
    GroupedCode,
    InfixCode,
    ItemCode,
    LiteralCode,
    MethodCode,
    NameCode,
    ProductCode,
    PythonStatement,
    SizeText,
    SliceCode,
    dimension,
    whole_number,
)
from longhand.lower.ir import IndexExpression, Pointwise, PointwiseOp, Reduce, Scalar, Size
from longhand.schedule.named_plan import ProductWord, Words
from longhand.schedule.plan import KernelPlan, Launch

Shaped = tuple[str, Words, Sequence[Size]]  # a tensor: its expression, the words of its dimensions, its shape
_WIDEST = 90  # of a line that says what words stand for
_LARGEST_BARE = 9  # of a number that needs no word
_FIRST_OF_IMAGE = 2  # the dimension behind those of the batch and the channels


def known_product(
    word: ProductWord, size: int, written: Callable[[Size, str], SizeText], known: Mapping[str, Size]
) -> SizeText:
    """A size that is a product of others, which are known, or as long as the word says."""
    parts: list[Size | None] = [known.get(one) for one in word.of]
    if None in parts and word.sizes and math.prod(word.sizes) == size:
        told = zip(word.of, word.sizes, strict=True)
        parts = [None if written(part, one).is_number else part for one, part in told]
    numbers = [part for part in parts if isinstance(part, int)]
    is_known = len(numbers) == len(parts) and math.prod(numbers) == size
    if not is_known:
        return SizeText(whole_number(size), is_number=True)
    texts = [written(part, one) for one, part in zip(word.of, numbers, strict=True)]
    return SizeText(
        ProductCode(tuple(one.code for one in texts)), frozenset().union(*(one.words for one in texts))
    )


def is_bare(size: Code) -> bool:
    """Whether a size is a number that a reader would ask about."""
    return isinstance(size, LiteralCode) and size.literal.isdigit() and int(size.literal) > _LARGEST_BARE


def is_folded(size: Code) -> bool:
    """Whether a number stands where a size, a stride or an offset is: 0 and 1 are what they are."""
    return isinstance(size, LiteralCode) and size.literal.lstrip("-").isdigit() and abs(int(size.literal)) > 1


def with_the_rest(texts: Sequence[Code], sizes: Sequence[Size]) -> tuple[Code, ...]:
    """The sizes of a reshape: -1 for the only one that is but a large number, which is what words leave.

    Not where a size varies: where it is 0, nothing tells what -1 is.
    """
    bare = [place for place, text in enumerate(texts) if is_bare(text)]
    is_told = all(str(size).isdigit() and str(size) != "0" for size in sizes)
    is_told = is_told and not all(isinstance(text, LiteralCode) for text in texts)
    if len(bare) != 1 or len(texts) == 1 or not is_told:
        return tuple(texts) or (NO_CODE,)
    return tuple(whole_number(-1) if place in bare else text for place, text in enumerate(texts))


def is_name(size: Code) -> bool:
    """Whether a size is a variable."""
    return isinstance(size, NameCode) and size.name.isidentifier()


def is_product(size: Code) -> bool:
    """Whether a size is multiplied as it is; one that is read at a shape's end is not."""
    if isinstance(size, ProductCode):
        return all(map(is_product, size.factors))
    if isinstance(size, LiteralCode):
        return size.literal.isdigit()
    return size.is_factor and not _is_last_of_shape(size)


def is_path(text: str) -> bool:
    """Whether an expression is a variable or an attribute, and not a view that is made for one call."""
    return text.replace(".", "").isidentifier()


def with_single(dims: Sequence[int], order: Sequence[int], shape: Sequence[Size]) -> list[int]:
    """The last dimensions of an image, with those of one place before them: a deeper image's are no others.

    Args:
        dims: Which they are.
        order: In which all of its dimensions lie in memory.
        shape: Its.
    """
    n_dims = len(order)
    if len(dims) < 2 or [*order] != [*range(n_dims)] or [*dims] != [*range(dims[0], n_dims)]:
        return [*dims]
    first = dims[0]
    while first > _FIRST_OF_IMAGE and str(shape[first - 1]) == "1":
        first -= 1
    return [*range(first, n_dims)]


def read_from(
    variable: str, n_dims: int, dims: Sequence[int], texts: Sequence[SizeText], every: bool
) -> list[SizeText]:
    """The sizes of some of a tensor's dimensions, numbers as the tensor tells them: ``conv.shape[1]``.

    Small numbers stay, unless they are of neighbouring dimensions (``conv.shape[2:].numel()`` pixels) or every number
    is to be read.
    """
    if len(dims) != len(texts):  # some are of one element
        is_span = all(text.is_number for text in texts) and list(dims) == list(range(dims[0], dims[-1] + 1))
        is_span = is_span and (not dims[0] or dims[-1] + 1 == n_dims)
        return [SizeText(_span(variable, n_dims, dims[0], dims[-1]))] if is_span else list(texts)
    read_texts, place = list[SizeText](), 0
    while place < len(dims):
        end = _end_of_run(n_dims, dims, texts, place)
        dim, text = dims[place], texts[place]
        if end > place + 1:
            text = SizeText(_span(variable, n_dims, dim, dims[end - 1]))
        elif is_bare(text.code) or (every and text.is_number):
            text = SizeText(dimension(variable, -1 if dim + 1 == n_dims else dim))
        read_texts.append(text)
        place = end
    return read_texts


def _end_of_run(n_dims: int, dims: Sequence[int], texts: Sequence[SizeText], begin: int) -> int:
    """Where the neighbours among a tensor's first or last dimensions end that are numbers, from one of them on."""
    end = begin + 1
    while (
        end < len(dims) and dims[end] == dims[end - 1] + 1 and texts[begin].is_number and texts[end].is_number
    ):
        end += 1
    return end if not dims[begin] or dims[end - 1] + 1 == n_dims else begin + 1


def _span(variable: str, n_dims: int, first: int, last: int) -> Code:
    """``conv.shape[2:].numel()``"""
    span = SliceCode(
        whole_number(first) if first else None, None if last + 1 == n_dims else whole_number(last + 1)
    )
    return MethodCode(ItemCode(MethodCode(NameCode(variable), "shape"), (span,)), "numel", ())


def _given(plan: KernelPlan, launch: Launch, position: int) -> tuple[float | Size, dict[str, Size]]:
    """What a launch gives a scalar of the kernel's body, and how long it makes each axis."""
    scalars = zip(plan.scalars, launch.scalars, strict=True)
    number = next(number for one, number in scalars if one.position == position)
    return number, {axis.name: size for axis, size in zip(plan.axes, launch.sizes, strict=True)}


def half_of(plan: KernelPlan, launch: Launch, position: int, sizes: Mapping[str, Code]) -> Code | None:
    """What tells a scalar that lowering called a half, over the words of the axes; None for any other.

    What else is as large may be the same argument (the first of two rows, and the first of four), so the axis is one
    that the launch makes twice as long.

    Args:
        plan: The kernel.
        launch: Its call.
        position: The scalar in its body.
        sizes: By axis: what tells its size.
    """
    scalar = plan.body[position]
    if not isinstance(scalar, Scalar) or scalar.name is not Role.HALF:
        return None
    number, length = _given(plan, launch, position)
    for value in plan.body:
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LT and value.args[1] == position:
            address = plan.addresses.get(value.args[0])
            if (
                isinstance(plan.body[value.args[0]], IndexExpression)
                and address is not None
                and len(address.axes) == 1
                and not isinstance(number, float)
                and length[address.axes[0][0]] == 2 * number
            ):
                size = sizes.get(address.axes[0][0])
                is_told = size is not None and (is_name(size) or isinstance(size, ItemCode))
                return InfixCode(size, "//", whole_number(2)) if size is not None and is_told else None
    return None


def _is_last_of_shape(size: Code) -> bool:
    """``x.shape[-1]``"""
    return isinstance(size, ItemCode) and size.places == (whole_number(-1),)


def averaged_of(plan: KernelPlan, launch: Launch, position: int, sizes: Mapping[str, Code]) -> Code | None:
    """What tells how many a mean is taken of, over the words of the axes that the kernel sums; None for any other.

    Args:
        plan: The kernel.
        launch: Its call.
        position: The scalar in its body.
        sizes: By axis: what tells its size.
    """
    scalar = plan.body[position]
    if not isinstance(scalar, Scalar) or scalar.name is not Role.N_AVERAGED:
        return None
    wanted, length = _given(plan, launch, position)
    for value in plan.body:
        axes = value.axes if isinstance(value, Reduce) else ()
        if axes and str(math.prod(length[axis] for axis in axes)) == str(wanted):
            told = [sizes[axis] for axis in axes]
            if len(told) == 1:
                return told[0]
            return ProductCode(tuple(told)) if all(map(is_name, told)) else None
    # A derivative is given what was summed; the axis that it walks again is as long.
    alike = [axis for axis, size in length.items() if str(size) == str(wanted)]
    return sizes[alike[0]] if len(alike) == 1 and not isinstance(sizes[alike[0]], LiteralCode) else None


def derived_from(symbol: str, tensors: Sequence[Shaped]) -> tuple[str, Code] | None:
    """The tensor with a dimension that a symbol's value follows from, and how it does."""
    for path, _, shape in tensors:
        for dim, size in enumerate(shape):
            if isinstance(size, int) or [str(free) for free in size.free_symbols] != [symbol]:
                continue
            told: Code = dimension(path, dim)
            (free,) = size.free_symbols
            scale = size.coeff(free)
            offset = size - scale * free
            if scale.is_Integer and scale > 0 and offset.is_Integer:
                if offset != 0:
                    told = GroupedCode(InfixCode(told, "-", LiteralCode(str(offset))))
                return path, InfixCode(told, "//", LiteralCode(str(scale))) if scale != 1 else told
    return None


def rows_at_positions(kernel: KernelPlan, step: Launch, shape: Sequence[str | int]) -> dict[str, Size]:
    """By the text of its position: how many rows there are, of the scalars in a shape, which say that."""
    given = zip(kernel.scalars, step.scalars, strict=True)
    return {
        str(one.position): value
        for one, value in given
        if one.position in shape and not isinstance(value, float)
    }


def leading_axes(
    axes: Sequence[str], sizes: Mapping[str, Size], shape: Sequence[Size], words: Words
) -> Iterator[tuple[str, Size, str]]:
    """(axis, size, word) of a tensor's first dimensions, as far as each is one axis.

    Args:
        axes: Those that make up its dimensions, in order.
        sizes: Theirs.
        shape: The dimensions.
        words: Theirs.
    """
    for axis, size, word in zip(axes, shape, words, strict=False):
        if str(sizes[axis]) != str(size):
            return
        if word is not None:
            yield axis, size, word


@dataclasses.dataclass(frozen=True)
class BoundSizes:
    """The words that a function binds: to what shapes tell, what others stand for, and what padded ones do."""

    told: tuple[PythonStatement, ...]
    stated: Mapping[str, int | str]
    padding: tuple[PythonStatement, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """``dim, vocab_size = 64, 99``, and the other lines around it."""
        lines, words = [str(line) for line in self.told], list(self.stated)
        while words:
            some = (words[:n] for n in range(len(words), 0, -1))
            few = next(one for one in some if len(one) == 1 or len(self._line(one)) <= _WIDEST)
            lines.append(self._line(few))
            words = words[len(few) :]
        return (*lines, *map(str, self.padding))

    def _line(self, words: Sequence[str]) -> str:
        return f"{', '.join(words)} = {', '.join(str(self.stated[word]) for word in words)}"


def same_sizes(one: Iterable[Size], other: Iterable[Size]) -> bool:
    """Whether two shapes (or strides) are equal, symbols included."""
    return [str(size) for size in one] == [str(size) for size in other]
