"""How PyTorch writes a body's operations; the dialect of the references."""

from __future__ import annotations

import torch

from longhand.emit.text.expression import Operator, Precedence, Text, call, infix
from longhand.lower.ir import Pointwise, PointwiseOp, ReduceOp

_ATOM = (Precedence.ATOM,)

_OPERATORS: dict[PointwiseOp, Operator] = {
    PointwiseOp.ADD: infix("+", Precedence.SUM),
    PointwiseOp.SUB: infix("-", Precedence.SUM),
    PointwiseOp.MUL: infix("*", Precedence.PRODUCT),
    PointwiseOp.DIV: infix("/", Precedence.PRODUCT),
    PointwiseOp.FLOOR_DIV: Operator('torch.div({0}, {1}, rounding_mode="floor")'),
    PointwiseOp.TRUNC_DIV: Operator('torch.div({0}, {1}, rounding_mode="trunc")'),
    PointwiseOp.REMAINDER: call("torch.remainder", 2),
    PointwiseOp.FMOD: call("torch.fmod", 2),
    PointwiseOp.FMA: Operator(
        "{0} * {1} + {2}", Precedence.SUM, (Precedence.PRODUCT, Precedence.UNARY, Precedence.PRODUCT)
    ),
    PointwiseOp.NEG: Operator("-{0}", Precedence.UNARY, (Precedence.UNARY,)),
    PointwiseOp.COPYSIGN: call("torch.copysign", 2),
    PointwiseOp.NEXTAFTER: call("torch.nextafter", 2),
    PointwiseOp.RECIPROCAL: Operator("1 / {0}", Precedence.PRODUCT, (Precedence.UNARY,)),
    PointwiseOp.POW: call("torch.pow", 2),
    PointwiseOp.ATAN2: call("torch.atan2", 2),
    PointwiseOp.HYPOT: call("torch.hypot", 2),
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
    PointwiseOp.WHERE: call("torch.where", 3),
    PointwiseOp.ISNAN: call("torch.isnan"),
    PointwiseOp.ISINF: call("torch.isinf"),
    PointwiseOp.SIGNBIT: call("torch.signbit"),
    PointwiseOp.ERF: call("torch.erf"),
    PointwiseOp.ERFC: call("torch.erfc"),
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
    PointwiseOp.MAXIMUM: "torch.maximum",
    PointwiseOp.MINIMUM: "torch.minimum",
    PointwiseOp.FMAX: "torch.fmax",
    PointwiseOp.FMIN: "torch.fmin",
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
    operator = _OPERATORS.get(value.op) or call(f"torch.{value.op.value}", len(given))
    wanted = _TENSORS_ONLY.get(value.op, ())
    if all(is_number) and not stays_number(value.op, is_number):
        wanted = (0, *wanted)
    for i, text in enumerate(given):
        if is_number[i] and i in wanted:
            given[i] = _tensor(text, types[i])
    return operator.apply(given)


def _tensor(number: Text, dtype: torch.dtype) -> Text:
    """A number where torch takes tensors only; it would make a double one of single precision."""
    return Text(f"torch.tensor({number.text}{', dtype=torch.float64' if dtype is torch.float64 else ''})")


def stays_number(op: PointwiseOp, is_number: list[bool]) -> bool:
    """Whether an operation on these is printed as a Python number: a cast, or arithmetic, of nothing but numbers."""
    return all(is_number) and (op is PointwiseOp.CAST or op in _ARITHMETIC)


def _pair(op: PointwiseOp, given: list[Text], types: list[torch.dtype], is_number: list[bool]) -> Text:
    if any(is_number) and not all(is_number):
        number, tensor = (given[0], given[1]) if is_number[0] else (given[1], given[0])
        if op in _CLAMPS:
            return Text(f"{tensor.within(Precedence.ATOM)}.clamp({_CLAMPS[op]}={number.text})")
        return Text(f"{_PAIRS[op]}({tensor.text}, {_tensor(number, types[0]).text})")
    if all(is_number):
        given = [_tensor(text, dtype) for text, dtype in zip(given, types, strict=True)]
    return call(_PAIRS[op], 2).apply(given)


def _cast(value: Pointwise, given: Text, source: torch.dtype, is_number: bool) -> Text:
    """Casts between floating-point types are not printed: the reference runs in the type it is given."""
    if is_number or (value.dtype.is_floating_point and source.is_floating_point):
        return given
    text = given.within(Precedence.ATOM)
    if value.narrow is not None:
        return Text(f"{text}.to({value.narrow}).to({value.dtype})")
    if value.dtype == source:
        return given
    method = {torch.bool: "bool()", torch.int64: "long()", torch.int32: "int()", torch.float32: "float()"}
    return Text(f"{text}.{method.get(value.dtype, f'to({value.dtype})')}")


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


def reduction(op: ReduceOp, text: str, dims: list[int]) -> Text:
    """A reduction over dimensions (negative, in order) that keeps them with size 1."""
    method = _REDUCTIONS[op]
    where = str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"
    if op not in _ONE_DIM_AT_A_TIME or len(dims) == 1:
        return Text(f"{text}.{method}({where}, keepdim=True)")
    if dims == list(range(-len(dims), 0)):
        kept = ".unsqueeze(-1)" * (len(dims) - 1)
        return Text(f"{text}.flatten({dims[0]}).{method}(-1, keepdim=True){kept}")
    if op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        raise AssertionError("positions are reduced over trailing axes only")
    return Text(text + "".join(f".{method}({dim}, keepdim=True)" for dim in dims))
