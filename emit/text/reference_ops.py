"""How PyTorch writes a body's operations, joined and padded tensors included; the dialect of the references.

``torch.cat([-q[..., half:], q[..., :half]], dim=-1)``, ``F.pad(x, ...)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch

from longhand.capture.graph import Role
from longhand.emit.text.expression import Operator, Precedence, Text, infix
from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Scalar, arguments, domains
from longhand.schedule.named_plan import BufferNamer, KernelNames, aten_name
from longhand.schedule.plan import Address, KernelPlan, Product, ScalarRef, conditions_of, limit_along

TORCH, FUNCTIONAL = "torch", "F"  # the modules that a reference names
OF_TORCH = frozenset({TORCH})


@dataclasses.dataclass(frozen=True)
class TorchFunction(Operator):
    """A call of one of torch's functions.

    Attributes:
        bare: The template without the module.
    """

    bare: str = ""

    @property
    def as_math(self) -> Operator:
        """The same in a formula, which is no code."""
        return Operator(self.bare)


def _function(name: str, n_arguments: int = 1, more: str = "") -> TorchFunction:
    arguments = ", ".join(f"{{{place}}}" for place in range(n_arguments))
    bare = f"{name}({arguments}{more})"
    return TorchFunction(f"torch.{bare}", needs=OF_TORCH, bare=bare)


_OPERATORS: dict[PointwiseOp, Operator] = {
    PointwiseOp.ADD: infix("+", Precedence.SUM),
    PointwiseOp.SUB: infix("-", Precedence.SUM),
    PointwiseOp.MUL: infix("*", Precedence.PRODUCT),
    PointwiseOp.DIV: infix("/", Precedence.PRODUCT),
    PointwiseOp.FLOOR_DIV: _function("div", 2, ', rounding_mode="floor"'),
    PointwiseOp.TRUNC_DIV: _function("div", 2, ', rounding_mode="trunc"'),
    PointwiseOp.REMAINDER: _function("remainder", 2),
    PointwiseOp.FMOD: _function("fmod", 2),
    PointwiseOp.NEG: Operator("-{0}", Precedence.UNARY, (Precedence.UNARY,)),
    PointwiseOp.COPYSIGN: _function("copysign", 2),
    PointwiseOp.NEXTAFTER: _function("nextafter", 2),
    PointwiseOp.RECIPROCAL: Operator("1 / {0}", Precedence.PRODUCT, (Precedence.UNARY,)),
    PointwiseOp.POW: _function("pow", 2),
    PointwiseOp.ATAN2: _function("atan2", 2),
    PointwiseOp.HYPOT: _function("hypot", 2),
    PointwiseOp.EQ: infix("==", Precedence.COMPARE),
    PointwiseOp.NE: infix("!=", Precedence.COMPARE),
    PointwiseOp.LT: infix("<", Precedence.COMPARE),
    PointwiseOp.LE: infix("<=", Precedence.COMPARE),
    PointwiseOp.GT: infix(">", Precedence.COMPARE),
    PointwiseOp.GE: infix(">=", Precedence.COMPARE),
    PointwiseOp.LOGICAL_AND: infix("&", Precedence.BIT_AND),
    PointwiseOp.LOGICAL_OR: infix("|", Precedence.BIT_OR),
    PointwiseOp.LOGICAL_XOR: infix("^", Precedence.BIT_XOR),
    PointwiseOp.LOGICAL_NOT: Operator("~{0}", Precedence.UNARY, (Precedence.UNARY,)),
    PointwiseOp.BITWISE_AND: infix("&", Precedence.BIT_AND),
    PointwiseOp.BITWISE_OR: infix("|", Precedence.BIT_OR),
    PointwiseOp.BITWISE_XOR: infix("^", Precedence.BIT_XOR),
    PointwiseOp.BITWISE_NOT: Operator("~{0}", Precedence.UNARY, (Precedence.UNARY,)),
    PointwiseOp.SHIFT_LEFT: infix("<<", Precedence.SHIFT),
    PointwiseOp.SHIFT_RIGHT: infix(">>", Precedence.SHIFT),
    PointwiseOp.WHERE: _function("where", 3),
    PointwiseOp.ISNAN: _function("isnan"),
    PointwiseOp.ISINF: _function("isinf"),
    PointwiseOp.SIGNBIT: _function("signbit"),
    PointwiseOp.ERF: _function("erf"),
    PointwiseOp.ERFC: _function("erfc"),
}
# On two numbers, Python's own arithmetic gives what torch's does.
_ARITHMETIC = frozenset({PointwiseOp.ADD, PointwiseOp.SUB, PointwiseOp.MUL, PointwiseOp.DIV})
# Which arguments may be no number, though another one is a tensor.
_TENSORS_ONLY: dict[PointwiseOp, tuple[int, ...]] = {
    PointwiseOp.ATAN2: (0, 1),
    PointwiseOp.HYPOT: (0, 1),
    PointwiseOp.NEXTAFTER: (0, 1),
    PointwiseOp.COPYSIGN: (0,),
    PointwiseOp.FMOD: (0,),
    PointwiseOp.WHERE: (0,),
}
# torch.maximum and its kin take no numbers; clamp does, with the same NaN rule.
_CLAMPS = {PointwiseOp.MAXIMUM: "min", PointwiseOp.MINIMUM: "max"}
_PAIRS = {
    PointwiseOp.MAXIMUM: "maximum",
    PointwiseOp.MINIMUM: "minimum",
    PointwiseOp.FMAX: "fmax",
    PointwiseOp.FMIN: "fmin",
}


def operation(value: Pointwise, given: list[Text], types: list[torch.dtype], is_number: list[bool]) -> Text:
    """The text of `value` on printed arguments.

    Args:
        value: The operation.
        given: Its arguments' texts.
        types: Their dtypes in the body.
        is_number: Which of them are Python numbers.
    """
    if value.op is PointwiseOp.CAST:
        return _cast(value, given[0], types[0], is_number[0])
    if value.op in _PAIRS:
        return _pair(value.op, given, types, is_number)
    given = list(given)
    operator = operator_of(value.op, len(given))
    wanted = _TENSORS_ONLY.get(value.op, ())
    if all(is_number) and not stays_number(value.op, is_number):
        wanted = (0, *wanted)
    for i, text in enumerate(given):
        if is_number[i] and i in wanted:
            given[i] = _tensor(text, types[i])
    return operator.apply(given)


def operator_of(op: PointwiseOp, n_arguments: int) -> Operator:
    """What writes an operation of so many tensors."""
    return _OPERATORS.get(op) or _function(_PAIRS.get(op, op.value), n_arguments)


def _tensor(number: Text, dtype: torch.dtype) -> Text:
    """A number where torch takes tensors only; it would make a double one of single precision."""
    type_ = ", dtype=torch.float64" if dtype is torch.float64 else ""
    return Text(f"torch.tensor({number.text}{type_})", needs=OF_TORCH | number.needs)


def stays_number(op: PointwiseOp, is_number: list[bool]) -> bool:
    """Whether an operation on these is printed as a Python number: a cast, or arithmetic, of nothing but numbers."""
    return all(is_number) and (op is PointwiseOp.CAST or op in _ARITHMETIC)


def _pair(op: PointwiseOp, given: list[Text], types: list[torch.dtype], is_number: list[bool]) -> Text:
    if any(is_number) and not all(is_number):
        number, tensor = (given[0], given[1]) if is_number[0] else (given[1], given[0])
        if op in _CLAMPS:
            needs = tensor.needs | number.needs
            return Text(f"{tensor.within(Precedence.ATOM)}.clamp({_CLAMPS[op]}={number.text})", needs=needs)
        return _function(_PAIRS[op], 2).apply([tensor, _tensor(number, types[0])])
    if all(is_number):
        given = [_tensor(text, dtype) for text, dtype in zip(given, types, strict=True)]
    return _function(_PAIRS[op], 2).apply(given)


def _cast(value: Pointwise, given: Text, source: torch.dtype, is_number: bool) -> Text:
    """Casts between floats are not printed, as the reference runs in the type it is given; decisive roundings are."""
    dtypes = [dtype for dtype in (value.narrow, value.dtype) if dtype is not None]
    is_of_floats = value.dtype.is_floating_point and source.is_floating_point
    if is_number or dtypes == [source] or (is_of_floats and value.narrow is None):
        return given
    methods = _METHODS if is_of_floats or value.narrow is None else {}
    casts = "".join(f".{methods.get(dtype, f'to({dtype})')}" for dtype in dtypes)
    needs = given.needs if methods.keys() >= {*dtypes} else OF_TORCH | given.needs
    return Text(f"{given.within(Precedence.ATOM)}{casts}", needs=needs)


_METHODS = {torch.bool: "bool()", torch.int64: "long()", torch.int32: "int()", torch.float32: "float()"}
_METHODS |= {torch.float16: "half()", torch.bfloat16: "bfloat16()"}
_JOINS = frozenset({"cat", "concat", "stack", "constant_pad_nd"})


@dataclasses.dataclass(frozen=True)
class Range:
    """Positions `start` to `end` of an axis: words of scalars, None for the axis's own ends."""

    axis: str
    start: int | None
    end: int | None


@dataclasses.dataclass(frozen=True)
class Join:
    """A value that is put together.

    Attributes:
        axis: The axis along which; of a pad the padded one.
        pieces: Positions of the pieces' values, in order; of a pad the one load.
        ranges: Where each piece lies.
        fill: Of a pad: what is around it; None for a cat.
    """

    axis: str
    pieces: tuple[int, ...]
    ranges: tuple[Range, ...]
    fill: float | int | bool | None = None


@dataclasses.dataclass(frozen=True)
class PieceLoad:
    """How a piece's load is seen.

    Attributes:
        range: What part of the axis it fills.
        slice: The subscript along the axis, of a tensor that is read as a whole too; None: a view of its own size.
    """

    range: Range
    slice: str | None


def find_joins(
    plan: KernelPlan, names: KernelNames, words: BufferNamer
) -> tuple[dict[int, Join], dict[int, PieceLoad]]:
    """The joins of a body by the position of their result, and how the loads of their pieces are seen."""
    joins: dict[int, tuple[Join, dict[int, PieceLoad]]] = {}
    picked = {
        other.args[2] for other in plan.body if isinstance(other, Pointwise) and other.op is PointwiseOp.WHERE
    }
    for position, value in enumerate(plan.body):
        node = words.nodes.get(getattr(value, "origin", ""))
        if node is None or aten_name(node) not in _JOINS:
            continue
        join = None
        if isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and position not in picked:
            join = _cat(plan, position)
        elif isinstance(value, Load) and value.mask is not None and aten_name(node) == "constant_pad_nd":
            join = _pad(plan, position, value)
        seen = _piece_loads(plan, names, join) if join is not None else None
        if join is not None and seen is not None:
            joins[position] = join, seen
    while mixed := _read_elsewhere(plan, joins):
        joins = {position: one for position, one in joins.items() if position not in mixed}
    loads = {position: load for _, seen in joins.values() for position, load in seen.items()}
    return {position: join for position, (join, _) in joins.items()}, loads


def _read_elsewhere(
    plan: KernelPlan, joins: Mapping[int, tuple[Join, Mapping[int, PieceLoad]]]
) -> frozenset[int]:
    """The joins of a tensor that something else reads under a mask: it comes flat, and cannot be seen as rows, too."""
    seen = {position for _, loads in joins.values() for position in loads}
    flat = {
        value.buffer
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and value.mask is not None and position not in seen
    }
    joined = {
        position: {value.buffer for one in loads if isinstance(value := plan.body[one], Load)}
        for position, (_, loads) in joins.items()
    }
    return frozenset(position for position, buffers in joined.items() if buffers & flat)


def _cat(plan: KernelPlan, position: int) -> Join | None:
    """The pieces that a chain of ``where(at < limit, piece, rest)`` picks from."""
    pieces: list[int] = []
    ranges: list[Range] = []
    axis, start = "", None
    origin = getattr(plan.body[position], "origin", "")
    while True:
        value = plan.body[position]
        is_where = isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.origin == origin
        if not is_where:
            pieces.append(position)
            ranges.append(Range(axis, start, None))
            return Join(axis, tuple(pieces), tuple(ranges))
        assert isinstance(value, Pointwise)
        limit = limit_along(plan, value.args[0], PointwiseOp.LT)
        if limit is None or (axis and limit[0] != axis):
            return None
        axis = limit[0]
        pieces.append(value.args[1])
        ranges.append(Range(axis, start, limit[1]))
        start, position = limit[1], value.args[2]


def _pad(plan: KernelPlan, position: int, load: Load) -> Join | None:
    assert load.mask is not None
    start = end = None
    axes = set()
    for condition in conditions_of(plan, load.mask):
        low, high = limit_along(plan, condition, PointwiseOp.GE), limit_along(plan, condition, PointwiseOp.LT)
        if low is not None and start is None:
            axes.add(low[0])
            start = low[1]
        elif high is not None and end is None:
            axes.add(high[0])
            end = high[1]
        else:
            return None
    if len(axes) != 1:
        return None
    (axis,) = axes
    return Join(axis, (position,), (Range(axis, start, end),), load.other)


def _piece_loads(plan: KernelPlan, names: KernelNames, join: Join) -> dict[int, PieceLoad] | None:
    """How each masked load below the pieces is seen; None if some cannot be."""
    seen: dict[int, PieceLoad] = {}
    varying = domains(plan.body)
    counts: dict[str, int] = {}
    for value in plan.body:
        if isinstance(value, Load):
            counts[value.buffer] = counts.get(value.buffer, 0) + 1
    for piece, where in zip(join.pieces, join.ranges, strict=True):
        inside = list(_loads_of_piece(plan, piece))
        if not inside or any(load is None for load in inside):
            return None
        for position in inside:
            assert position is not None
            load = plan.body[position]
            assert isinstance(load, Load) and load.mask is not None
            if varying[load.mask] - {where.axis}:
                return None  # behind more than the piece's own range
            whole = _whole(plan, load.buffer)
            if counts[load.buffer] > 1 and _fills_each_half(plan, load.buffer, join):
                seen[position] = PieceLoad(where, None)
                continue
            cut = _slice(plan, names, plan.addresses[position], whole, where) if whole is not None else None
            if cut is None and (counts[load.buffer] > 1 or goes_back(plan.addresses[position])):
                return None
            seen[position] = PieceLoad(where, cut)
    return seen


def _fills_each_half(plan: KernelPlan, buffer: str, join: Join) -> bool:
    """Whether both halves alone read a tensor, and the same elements of it: a table of angles, as wide as one."""
    limit = join.ranges[0].end
    scalar = plan.body[limit] if limit is not None else None
    is_halved = len(join.pieces) == 2 and isinstance(scalar, Scalar) and scalar.name is Role.HALF
    if limit is None or not is_halved:
        return False
    begins: list[tuple[Product, ...]] = [(), ((-1, ScalarRef(limit)),)]
    fitting = {
        position
        for piece, begin in zip(join.pieces, begins, strict=True)
        for position in _loads_of_piece(plan, piece)
        if position is not None
        and plan.addresses[position].offset == begin
        and dict(plan.addresses[position].axes).get(join.axis) == ()
    }
    reading = {
        position
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and value.buffer == buffer
    }
    return reading <= fitting and len({plan.addresses[position].axes for position in reading}) == 1


def _loads_of_piece(plan: KernelPlan, position: int) -> Iterator[int | None]:
    """The masked loads that a piece is computed from; None for anything else that it reads."""
    value = plan.body[position]
    if isinstance(value, Load):
        yield position if value.mask is not None and not plan.addresses[position].values else None
    elif isinstance(value, Pointwise):
        for argument in arguments(value):
            yield from _loads_of_piece(plan, argument)
    elif not isinstance(value, Scalar | Constant):
        yield None


def _whole(plan: KernelPlan, buffer: str) -> Address | None:
    """The one address at which a pointer is read without a mask; of two halves that are read apart, their row's."""
    loads = [
        (value.mask is None, plan.addresses[position])
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and value.buffer == buffer
    ]
    rows = {repr(address): address for is_plain, address in loads if is_plain}
    if not rows and len(loads) > 1:
        rows = {repr(row): row for _, address in loads for row in [dataclasses.replace(address, offset=())]}
    return next(iter(rows.values())) if len(rows) == 1 else None


def goes_back(address: Address) -> bool:
    """Whether some axis walks backwards (a flip), which as_strided does not do."""
    return any(isinstance(factor, int) and factor < 0 for _, product in address.axes for factor in product)


def _slice(
    plan: KernelPlan, names: KernelNames, address: Address, whole: Address, where: Range
) -> str | None:
    """The half that a piece reads of a tensor whose halves are joined."""
    if address.axes != whole.axes or whole.offset or dict(address.axes).get(where.axis) != ():
        return None
    limit = where.end if where.start is None else where.start
    scalar = plan.body[limit] if limit is not None else None
    if limit is None or not isinstance(scalar, Scalar) or scalar.name is not Role.HALF:
        return None
    word = names.scalars[limit]
    if address.offset == ():
        return f":{word}" if where.start is None else f"{word}:"
    if where.start is None and address.offset == ((ScalarRef(limit),),):
        return f"{word}:"
    if where.end is None and address.offset == ((-1, ScalarRef(limit)),):
        return f":{word}"
    return None
