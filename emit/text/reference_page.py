"""The lines of a reference: how it sees what its kernel is given, and how places in flat memory are written there.

Each tensor is seen as the kernel's comment says it lies in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence, Set

from longhand.emit.text.axis_orders import axis_order_call
from longhand.emit.text.expression import Precedence, Text, literal_text, number_operand
from longhand.emit.text.numbers_of_pi import pi_text
from longhand.emit.text.reference_ops import (
    OF_TORCH,
    TORCH,
    PieceLoad,
    goes_back,
    stays_number,
)
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
)
from longhand.schedule.named_plan import KernelNames, fills_padding
from longhand.schedule.names.words import RESERVED_IN_MODULE, Scope
from longhand.schedule.plan import Address, KernelPlan, ParameterRef, Product, ScalarRef, SizeOf


@dataclasses.dataclass(frozen=True)
class StridedView:
    """How a tensor argument is seen; Python expressions over the kernel's own arguments.

    Attributes:
        tensor: The pointer's word.
        shape: Sizes; empty for one element.
        stride: Strides in elements.
        offset: Elements from the tensor's first to the view's.
        back: What brings it into the kernel's space: ``.t()``; empty where it is there.
    """

    tensor: str
    shape: tuple[str, ...]
    stride: tuple[str, ...]
    offset: str = "0"
    back: str = ""


@dataclasses.dataclass(frozen=True)
class FlatMemory:
    """All of a tensor's memory: what a kernel adds to at positions that are data."""

    tensor: str


class ViewFinder:
    """Finds the views of one kernel's tensors."""

    def __init__(self, plan: KernelPlan, names: KernelNames, pieces: Mapping[int, PieceLoad]) -> None:
        self.plan = plan
        self.names = names
        self.pieces = pieces

    def product(self, product: Product) -> Text:
        """A product of sizes and strides."""
        factors = [self._factor(factor) for factor in product]
        if not factors:
            return Text("1")
        return Text(" * ".join(factors), Precedence.PRODUCT if len(factors) > 1 else Precedence.ATOM)

    def _factor(self, factor: object) -> str:
        match factor:
            case SizeOf(axis=axis):
                return self.names.axes[axis].size
            case ParameterRef(name=name):
                return self.names.ints[name]
            case ScalarRef(position=position):
                return self.names.scalars[position]
        return str(factor)

    def written(self, position: int, buffer: str) -> StridedView:
        """Where a store's results lie, in the kernel's space with all its axes."""
        return self._in_space(position, buffer, [axis.name for axis in self.plan.axes])

    def read(self, position: int, buffer: str) -> StridedView:
        """How a load's tensor is seen."""
        if position in self.pieces and self.pieces[position].slice is None:
            return self._piece(position, buffer)
        address = self.plan.addresses[position]
        steps = dict(address.axes)
        varying = [axis.name for axis in self.plan.axes]
        while varying and varying[0] not in steps:
            varying.pop(0)
        order = self._memory_order(buffer, steps)
        if order is None or len(order) != len(varying) or order == varying:
            return self._in_space(position, buffer, varying)
        view = self._in_space(position, buffer, order)
        return dataclasses.replace(view, back=axis_order_call(order, varying))

    def _memory_order(self, buffer: str, steps: Mapping[str, Product]) -> list[str] | None:
        pointer = next(pointer for pointer in self.plan.pointers if pointer.name == buffer)
        return list(pointer.dims) if pointer.dims is not None and set(pointer.dims) == set(steps) else None

    def _in_space(self, position: int, buffer: str, order: list[str]) -> StridedView:
        address = self.plan.addresses[position]
        steps = dict(address.axes)
        shape = tuple(self.names.axes[axis].size if axis in steps else "1" for axis in order)
        stride = tuple(self.product(steps[axis]).text if axis in steps else "0" for axis in order)
        return StridedView(self.names.pointers[buffer], shape, stride, self._offset(address))

    def _offset(self, address: Address) -> str:
        return " + ".join(self.product(product).text for product in address.offset) or "0"

    def _piece(self, position: int, buffer: str) -> StridedView:
        """The tensor that fills part of an axis, at its own size."""
        view = self._in_space(position, buffer, [axis.name for axis in self.plan.axes])
        where = self.pieces[position].range
        place = [axis.name for axis in self.plan.axes].index(where.axis)
        start = self.names.scalars[where.start] if where.start is not None else None
        end = self.names.scalars[where.end] if where.end is not None else self.names.axes[where.axis].size
        address = self.plan.addresses[position]
        step = dict(address.axes).get(where.axis)
        shape = list(view.shape)
        shape[place] = end if start is None else f"{end} - {start}"
        offset = view.offset
        if where.start is not None and step is not None:
            begins = "0" if step == () and address.offset == ((-1, ScalarRef(where.start)),) else None
            offset = begins or " + ".join(
                [*([offset] if offset != "0" else []), f"{start} * {self.product(step).text}"]
            )
        return dataclasses.replace(view, shape=tuple(shape), offset=offset)


def flat_pointers(
    plan: KernelPlan, used: Container[int], pieces: Mapping[int, PieceLoad], columns: Container[int]
) -> frozenset[str]:
    """Pointers that no single strided view shows: gathered, masked, or read at several addresses, but for `columns`."""
    seen: dict[str, Address] = {}
    flat: set[str] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or position not in used or position in pieces or position in columns:
            continue
        address = plan.addresses[position]
        if (
            address.values
            or value.mask is not None
            or goes_back(address)
            or seen.get(value.buffer, address) != address
        ):
            flat.add(value.buffer)
        seen[value.buffer] = address
    return frozenset(flat)


_SPECIAL = {
    'float("nan")': "torch.nan",
    'float("inf")': "torch.inf",
    'float("-inf")': "-torch.inf",
    "-3.4028234663852886e38": "torch.finfo(torch.float32).min",
}


def number_text(number: float | int | bool) -> Text:
    """A literal, or torch's name for it."""
    of_pi = pi_text(number)
    if of_pi is not None:
        return dataclasses.replace(number_operand(of_pi), needs=OF_TORCH)
    text = literal_text(number)
    if text not in _SPECIAL:
        return number_operand(text)
    return dataclasses.replace(number_operand(_SPECIAL[text]), needs=OF_TORCH)


def prints_number(plan: KernelPlan, position: int, called: Set[int]) -> bool:
    """Whether a value's text is a Python number, not a tensor: a place that no axis moves is one, too.

    Args:
        plan: The kernel.
        position: Of the value in its body.
        called: The values that are printed as one call of torch.
    """
    known: dict[int, bool] = {}  # many values may be computed from one

    def of(at: int) -> bool:
        if at not in known:
            known[at] = at not in called and is_number(at)
        return known[at]

    def is_number(at: int) -> bool:
        match plan.body[at]:
            case Constant() | Scalar() | AxisSize():
                return True
            case IndexExpression():
                address = plan.addresses[at]
                return not address.axes and not address.values
            case Pointwise(op=op, args=args):
                return stays_number(op, [of(argument) for argument in args])
        return False

    return of(position)


@dataclasses.dataclass
class ReferencePage:
    """A reference's text so far.

    Attributes:
        plan: The kernel.
        names: Its words.
        finder: How tensors are seen.
        views: By parameter, how it is seen; None for flat memory.
        scope: The names that are given.
        lines: Above what is returned: (name, what it is).
        used_numbers: The parameters besides tensors that the text mentions.
        turned: Tensors that a line has brought into the kernel's space.
        modules: Those that the text names: ``torch``, ``F``.
    """

    plan: KernelPlan
    names: KernelNames
    finder: ViewFinder
    views: Mapping[str, StridedView | None]
    scope: Scope = dataclasses.field(default_factory=lambda: Scope(RESERVED_IN_MODULE | {"reference"}))
    lines: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    used_numbers: set[str] = dataclasses.field(default_factory=set)
    turned: set[str] = dataclasses.field(default_factory=set)
    modules: set[str] = dataclasses.field(default_factory=set)

    def number(self, word: str) -> str:
        """The word of a parameter that is a number, which is used then."""
        self.used_numbers.add(word)
        return word

    def in_space(self, word: str) -> str:
        """A tensor as the kernel's space sees it."""
        view = self.views[word]
        return word + (view.back if view is not None and word not in self.turned else "")


class IndexWriter:
    """Writes places in flat memory.

    Args:
        page: Where parts of them get lines.
        value: The text of a value.
    """

    def __init__(self, page: ReferencePage, value: Callable[[int], Text]) -> None:
        self.page, self.value = page, value
        self.steps: dict[str, Text] = {}

    def at(self, address: Address) -> Text:
        """Positions in flat memory, one for each point of the space; what the axes give has a line of its own."""
        terms: list[Text] = []
        along = [self._times(self._along(axis), product) for axis, product in address.axes]
        if along:
            text = " + ".join(term.within(Precedence.SUM) for term in along)
            terms.append(self._named_step(text, "at", "place") if len(along) > 1 else along[0])
        for position, product in address.values:
            terms.append(self._times(self.value(position), product))
        for product in address.offset:
            self._note_numbers(product)
            terms.append(self.page.finder.product(product))
        if not terms:
            return Text("0")
        text = " + ".join(term.within(Precedence.SUM) for term in terms)
        return Text(text, Precedence.SUM if len(terms) > 1 else terms[0].precedence)

    def inside(self, address: Address, mask: str, word: str) -> Text:
        """The same, and 0 where a tensor is not read: a line of its own."""
        self.page.modules.add(TORCH)
        return self._named_step(f"torch.where({mask}, {self.at(address).text}, 0)", "place", f"{word}_place")

    def _along(self, axis: str) -> Text:
        """0, 1, 2, ... along an axis."""
        order = [one.name for one in self.page.plan.axes]
        size = self.page.number(self.page.names.axes[axis].size)
        trailing = len(order) - 1 - order.index(axis)
        tensor = next(iter(self.page.views), None)
        where = f", device={tensor}.device" if tensor else ""
        self.page.modules.add(TORCH)
        steps = f"torch.arange({size}{where})" + (f".view(-1{', 1' * trailing})" if trailing else "")
        return self._named_step(steps, self.page.names.axes[axis].index)

    def _named_step(self, text: str, word: str, other: str = "") -> Text:
        """A line for part of an index, once."""
        if text not in self.steps:
            name = self.page.scope.pick([word, other or f"{word}_index"])
            self.page.lines.append((name, text))
            self.steps[text] = Text(name)
        return self.steps[text]

    def _times(self, text: Text, product: Product) -> Text:
        if not product:
            return text
        self._note_numbers(product)
        return Text(
            f"{text.within(Precedence.PRODUCT)} * {self.page.finder.product(product).text}",
            Precedence.PRODUCT,
        )

    def _note_numbers(self, product: Product) -> None:
        for factor in product:
            if isinstance(factor, SizeOf):
                self.page.number(self.page.names.axes[factor.axis].size)
            elif isinstance(factor, ParameterRef):
                self.page.number(self.page.names.ints[factor.name])
            elif isinstance(factor, ScalarRef):
                self.page.number(self.page.names.scalars[factor.position])


_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.PROD: "prod",
    ReduceOp.MAX: "amax",
    ReduceOp.MIN: "amin",
    ReduceOp.ARGMAX: "argmax",
    ReduceOp.ARGMIN: "argmin",
    ReduceOp.ANY: "any",
    ReduceOp.ALL: "all",
}
_ONE_DIM_AT_A_TIME = frozenset({ReduceOp.ARGMAX, ReduceOp.ARGMIN, ReduceOp.PROD, ReduceOp.ANY, ReduceOp.ALL})


def reduction(op: ReduceOp, text: str, dims: list[int], method: str = "") -> Text:
    """A reduction over dimensions (negative, in order) that keeps them with size 1; by its own method or another."""
    method = method or _REDUCTIONS[op]
    where = str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"
    if op not in _ONE_DIM_AT_A_TIME or len(dims) == 1:
        return Text(f"{text}.{method}({where}, keepdim=True)")
    if dims == list(range(-len(dims), 0)):
        kept = ".unsqueeze(-1)" * (len(dims) - 1)
        return Text(f"{text}.flatten({dims[0]}).{method}(-1, keepdim=True){kept}")
    if op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        raise AssertionError("positions are reduced over trailing axes only")
    return Text(text + "".join(f".{method}({dim}, keepdim=True)" for dim in dims))


def total_of_mean(value: Pointwise, body: Sequence[Value]) -> Reduce | None:
    """The sum that a value is the mean of, where it is one."""
    if value.op is not PointwiseOp.DIV:
        return None
    total, count = (body[argument] for argument in value.args)
    is_sum = isinstance(total, Reduce) and total.op is ReduceOp.SUM
    is_count = isinstance(count, AxisSize) and isinstance(total, Reduce) and count.axes == total.axes
    return total if is_sum and is_count and isinstance(total, Reduce) else None


def is_slice(pieces: Mapping[int, PieceLoad], position: int) -> bool:
    """Whether a value is a slice of a tensor."""
    return position in pieces and pieces[position].slice is not None


def masked_places(plan: KernelPlan) -> frozenset[int]:
    """What is read under a mask and where data say, or says where something else is: it has a line of its own."""
    accesses = [(at, one) for at, one in enumerate(plan.body) if isinstance(one, Load | Store)]
    placed = {place for _, access in accesses for place, _ in access.index.values}
    return frozenset(
        at
        for at, one in accesses
        if isinstance(one, Load) and one.mask is not None and (at in placed or one.index.values)
    )


_WIDEST_PURPOSE = 98


def purpose(plan: KernelPlan, kernel: str, filled: str, again: str = "") -> str:
    """The reference's docstring, on one line; `again` says along what all results are the same."""
    filled = f"the padding of {filled}" if fills_padding(plan) else filled
    words = f"What {kernel}() must fill {filled} with{again}."
    return words if len(words) <= _WIDEST_PURPOSE else f"What {kernel}() must fill its results with."
