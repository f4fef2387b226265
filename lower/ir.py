"""The loop program: what a captured graph becomes, and all that the scheduler sees.

A `Program` is an ordered list of steps over buffers. A step is a `Nest` (loops that we write ourselves), an `Extern`
(one call of a library) or a `Contraction` (sums of products, told in both ways). A nest is a set of named atomic `Axis`
and a body (`lower.body` and `lower.ops`, whose names are this module's too). Fusing two nests is putting their axes in
relation and concatenating their bodies. Tiles, passes and index arithmetic come later, in schedule/.

A matmul or a convolution is a `Contraction`: the call that a library makes of it, and beside it the same as loops, one
body in which two factors are loaded, multiplied and summed. What is done to the factors first (the prologue) and to the
sums afterwards (the epilogue) may join that body; the nests that it was are kept. So a template that computes all of it
in one kernel reads the body, everybody else takes the steps, and moving a nest in is undone by taking the steps again.

Views are never steps: they are folded into the index of the load that reads through them. A view that splits a
dimension splits the axis; what does not factor (a reshape of a transposed tensor, say) is a copy, as it is in eager.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sympy
import torch

from longhand.capture.graph import CapturedGraph, Literal
from longhand.lower.body import (
    BOUNDARIES,
    MOST_PLACES,
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
    arguments,
    compute_dtype,
    domains,
)
from longhand.lower.ops import PRIMITIVES, REDUCTIONS, Cost, PointwiseOp, ReduceOp
from longhand.lower.sizes import contiguous_strides, same

__all__ = [
    "BOUNDARIES",
    "MOST_PLACES",
    "PRIMITIVES",
    "REDUCTIONS",
    "Axis",
    "AxisSize",
    "Buffer",
    "BufferKind",
    "Constant",
    "Contraction",
    "Cost",
    "Derivation",
    "Derived",
    "Extern",
    "Index",
    "IndexExpression",
    "Layers",
    "Load",
    "Nest",
    "Pointwise",
    "PointwiseOp",
    "Program",
    "Reduce",
    "ReduceOp",
    "Scalar",
    "Size",
    "Step",
    "Store",
    "Value",
    "View",
    "ViewCall",
    "arguments",
    "compute_dtype",
    "domains",
    "in_parts",
    "memory_order",
]


class BufferKind(enum.Enum):
    """Who owns a buffer's memory."""

    INPUT = "input"  # a tensor argument of the call
    WEIGHT = "weight"  # a parameter or buffer of the module
    CONSTANT = "constant"  # a lifted constant
    INTERMEDIATE = "intermediate"  # made by a step (results of the call too)


class Derivation(enum.Enum):
    """What a buffer that lower added is to the value it was made for. The text is appended to that value's name."""

    CONTIGUOUS = "contiguous"  # the same, laid out in the order of its dimensions
    CHANNELS_LAST = "channels_last"  # the same, laid out otherwise
    COPY = "copy"  # the same, in memory of its own
    ON_CPU = "on_cpu"  # the same, on the host
    LOSSES = "losses"  # of each row, before a loss is reduced to one
    PIECE_MEANS = "piece_means"  # of pieces of the rows or images that a norm is of
    PIECE_SQUARES = "piece_squares"
    MEAN = "mean"  # of a row, and 1 / its deviation
    RSTD = "rstd"
    TOTALS = "totals"  # of what is added up, before they have the value's dtype
    SEEN = "seen"  # the memory of an argument, as ATen's own view of it
    RESULT = "result"  # a further result of a call, which no node takes

    @property
    def is_layout(self) -> bool:
        """Whether it is the same value, laid out anew for who reads it."""
        return self in (Derivation.CONTIGUOUS, Derivation.CHANNELS_LAST)

    @property
    def keeps_the_value(self) -> bool:
        """Whether it is the same value, laid out anew or not yet rounded."""
        return self.is_layout or self is Derivation.TOTALS

    @property
    def is_of_pieces(self) -> bool:
        """Whether it is a statistic of pieces."""
        return self in (Derivation.PIECE_MEANS, Derivation.PIECE_SQUARES)


@dataclasses.dataclass(frozen=True)
class Derived:
    """What a buffer is that no node of the captured graph is called after.

    Attributes:
        how: What it is.
        of: The node or buffer that it was made for.
        place: Of a further result: which.
    """

    how: Derivation
    of: str
    place: int | None = None


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A strided region of memory.

    Attributes:
        name: Unique in the program: the placeholder's or node's name in the captured graph.
        kind: Who owns it.
        dtype: The element type in memory.
        shape: Sizes.
        stride: Strides in elements. A nest only ever makes dense buffers: contiguous ones, or ones that are once
            their dimensions are put in another order (channels last).
        layout_is_known: False for results of a library whose strides depend on the backend it picks
            (scaled_dot_product_attention, say): no nest reads these, a `contiguous` extern comes between.
        derived: What it is where lower added it. Its name is a name and says nothing.
    """

    name: str
    kind: BufferKind
    dtype: torch.dtype
    shape: tuple[Size, ...]
    stride: tuple[Size, ...]
    layout_is_known: bool = True
    derived: Derived | None = None

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie side by side in the order of the dimensions."""
        plain = contiguous_strides(self.shape)
        steps = zip(self.shape, self.stride, plain, strict=True)
        return all(same(size, 1) or same(own, expected) for size, own, expected in steps)


@dataclasses.dataclass(frozen=True)
class Axis:
    """One atomic loop of a nest.

    Attributes:
        name: Unique in the nest; a word where one is known (``batch``, ``seq``, ``head``), else ``d0``, ``d1``, ...
            Only identity matters: emit/ chooses what is printed.
        size: Number of iterations; never 1 (such axes are dropped), may be 0 only if the whole nest is skipped.
    """

    name: str
    size: Size


@dataclasses.dataclass(frozen=True)
class Nest:
    """Loops over `axes` (outermost first) around a straight-line body."""

    axes: tuple[Axis, ...]
    body: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class ViewCall:
    """One step of a view as a person would write it: ``.transpose(1, 2)``, ``[:, -1]``.

    Attributes:
        target: The ATen overload, for instance torch.ops.aten.transpose.int.
        args: Its arguments after the tensor.
        origin: The node of the captured graph that holds the tensor after this call; empty if none does.
    """

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    origin: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class View:
    """A buffer seen through views: an argument of an extern, or a result of the call."""

    buffer: str
    shape: tuple[Size, ...]
    stride: tuple[Size, ...]
    offset: Size = 0
    calls: tuple[ViewCall, ...] = ()


@dataclasses.dataclass(frozen=True)
class Extern:
    """One library call.

    Attributes:
        target: The ATen (or custom) overload.
        args: Positional arguments: `View`, numbers, symbolic sizes, dtypes, None, and tuples of these.
        kwargs: Keyword arguments, likewise, sorted by name.
        outputs: The buffers that it makes, in the order of the op's results.
        mutates: Buffers that it writes into (custom ops only).
        reason: Why this is no kernel of ours: None where a library does it best (mm, convolution), else a sentence.
        origin: The node of the captured graph.
        memory_format: What the result is brought to, should the library make it otherwise; None: as it comes.
        measured: The buffers whose sizes, which only the data tell, it is given as numbers.
    """

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...]
    mutates: tuple[str, ...] = ()
    reason: str | None = None
    origin: str = ""
    memory_format: torch.memory_format | None = None
    measured: tuple[str, ...] = ()

    def views(self) -> Iterator[View]:
        """Every buffer argument, however deep in tuples it lies."""
        waiting: list[Any] = [*self.args, *(value for _, value in self.kwargs)]
        while waiting:
            argument = waiting.pop(0)
            if isinstance(argument, View):
                yield argument
            elif isinstance(argument, tuple | list):
                waiting[:0] = argument


@dataclasses.dataclass(frozen=True)
class Contraction:
    """Sums of products over axes that the result does not have, and what happens to the factors and to the sums.

    It is told twice, and both tell the same. `body` is all of it as loops: values that make two factors, their product,
    its sum, values made of the sum, stores. `steps` are what a library and plain nests make of it.

    Attributes:
        axes: Of the body: those of the result, outermost first, then those that are summed over.
        body: With exactly one reduction, a sum, of a product.
        call: The library call that makes the sums. It has one output.
        before: Nests that make what the call reads. Nobody else reads it.
        after: Nests that take what the call makes, and nobody else does.
    """

    axes: tuple[Axis, ...]
    body: tuple[Value, ...]
    call: Extern
    before: tuple[Nest, ...] = ()
    after: tuple[Nest, ...] = ()

    @property
    def loops(self) -> Nest:
        """All of it as loops."""
        return Nest(self.axes, self.body)

    @property
    def steps(self) -> tuple[Nest | Extern, ...]:
        """All of it as a library call between nests."""
        return (*self.before, self.call, *self.after)

    @property
    def sum(self) -> int:
        """The position of the sum in the body."""
        (position,) = (place for place, value in enumerate(self.body) if isinstance(value, Reduce))
        return position

    @property
    def over(self) -> tuple[str, ...]:
        """The axes that products are summed over."""
        total = self.body[self.sum]
        assert isinstance(total, Reduce)
        return total.axes

    @property
    def factors(self) -> tuple[int, int]:
        """The positions of the two values that are multiplied. Of a plain contraction they are loads."""
        total = self.body[self.sum]
        assert isinstance(total, Reduce)
        left, right = arguments(self.body[total.arg])
        return left, right

    @property
    def prologue(self) -> tuple[int, ...]:
        """The positions of the values that the factors are made of, themselves included."""
        needed = set(self.factors)
        for position in range(self.sum, -1, -1):
            if position in needed:
                needed |= set(arguments(self.body[position]))
        return tuple(sorted(needed))

    @property
    def epilogue(self) -> tuple[int, ...]:
        """The positions of the values that come after the sum: a bias, what is done to it, the stores."""
        total = self.body[self.sum]
        assert isinstance(total, Reduce)
        known = {*self.prologue, total.arg, self.sum}
        return tuple(position for position in range(len(self.body)) if position not in known)


Step = Nest | Extern | Contraction


def in_parts(steps: Iterable[Step]) -> Iterator[Nest | Extern]:
    """The steps with each contraction as a library call between nests."""
    for step in steps:
        yield from step.steps if isinstance(step, Contraction) else (step,)


@dataclasses.dataclass(frozen=True)
class Layers:
    """A chain of equal layers: each takes what the one before makes, and only the first few are in the program.

    Attributes:
        names: For each layer, place by place, its nodes and the inputs that are its own.
        n_kept: How many of them the program holds. What comes after the last one reads in the program what the last
            kept one makes.
    """

    names: tuple[tuple[str, ...], ...]
    n_kept: int


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A captured graph as loops, library calls and contractions.

    Attributes:
        graph: Where it came from (names, provenance, signature).
        buffers: Every buffer by name.
        steps: In an order that respects the dependencies. Mutations of inputs are stores into INPUT or WEIGHT
            buffers; a step that reads the old value comes earlier in this order.
        results: For each of ``graph.outputs``.
        layers: Layers that buffers, steps and results leave out; the scheduler makes them from their equals.
        on_cpu: In a program for a GPU, the buffers that are on the CPU: no step is a loop over one of them.
    """

    graph: CapturedGraph
    buffers: Mapping[str, Buffer]
    steps: tuple[Step, ...]
    results: tuple[View | Literal, ...]
    layers: tuple[Layers, ...] = ()
    on_cpu: frozenset[str] = frozenset()


def memory_order(buffer: Buffer) -> list[int]:
    """The dimensions of a dense buffer from the outermost in memory to the innermost; of any other as they are.

    A dimension of size 1 keeps its place.
    """
    dims = list(range(len(buffer.shape)))
    waiting = [dim for dim in dims if buffer.shape[dim] != 1]
    inwards: list[int] = []
    expected: Size = 1
    while waiting:
        inner = next(
            (dim for dim in reversed(waiting) if sympy.expand(buffer.stride[dim] - expected) == 0), None
        )
        if inner is None:
            return dims
        waiting.remove(inner)
        inwards.append(inner)
        expected = expected * buffer.shape[inner]
    return [dim if buffer.shape[dim] == 1 else inwards.pop() for dim in dims]
