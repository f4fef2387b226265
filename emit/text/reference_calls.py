"""Operations that stayed whole up to lowering, put back into the one torch call that they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import fx

from longhand.capture.graph import Role
from longhand.emit.text.expression import Precedence, Text
from longhand.emit.text.reference_ops import FUNCTIONAL, TORCH
from longhand.lower.ir import (
    AxisSize,
    Constant,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    arguments,
    domains,
)
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, SizeOf


@dataclasses.dataclass(frozen=True)
class OperationCall:
    """The values of one operation, as one call.

    Attributes:
        inputs: Positions of what the call is given.
        write: The call's text, from the texts of `inputs`.
        memory: Pointers of which the call is given the flat memory.
        sizes: Words of sizes that the text names besides.
        module: The one whose function it is.
    """

    inputs: tuple[int, ...]
    write: Callable[[list[Text]], str]
    memory: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    module: str = TORCH


@dataclasses.dataclass(frozen=True)
class OperationValues:
    """The body values of one origin.

    Attributes:
        node: The origin.
        tensors: Positions used from outside that are neither numbers nor sizes, in order of first use.
        numbers: Positions of the Scalar and Constant values used, in order.
        reduces: Positions of its reductions.
        result: The one value that is used outside.
        gathers: Positions of its loads at computed places.
        names: The kernel's words.
    """

    node: fx.Node
    tensors: tuple[int, ...]
    numbers: tuple[int, ...]
    reduces: tuple[int, ...]
    result: int
    gathers: tuple[int, ...]
    names: KernelNames


def values_of(plan: KernelPlan, node: fx.Node, names: KernelNames) -> OperationValues | None:
    """The values of the kernel that a node of the captured graph has become; None where they are not whole."""
    body = plan.body
    inside = [
        position
        for position, value in enumerate(body)
        if isinstance(value, Pointwise | Reduce | Constant | Scalar | AxisSize | Load)
        and value.origin == node.name
        and (not isinstance(value, Load) or value.index.values)
    ]
    members = set(inside)
    used_outside = {
        argument
        for position, value in enumerate(body)
        if position not in members
        for argument in arguments(value)
        if argument in members and isinstance(body[argument], Pointwise | Reduce | Load)
    }
    if len(used_outside) != 1:
        return None
    given = [argument for position in inside for argument in arguments(body[position])]
    outside = list(dict.fromkeys(argument for argument in given if argument not in members))
    is_number = Constant | Scalar | AxisSize
    return OperationValues(
        node,
        tuple(p for p in outside if not isinstance(body[p], is_number)),
        tuple(dict.fromkeys(p for p in [*inside, *outside] if isinstance(body[p], Constant | Scalar))),
        tuple(p for p in inside if isinstance(body[p], Reduce)),
        used_outside.pop(),
        tuple(p for p in inside if isinstance(body[p], Load)),
        names,
    )


def _reduces_last(plan: KernelPlan, values: OperationValues) -> bool:
    """Whether its reductions all go over the innermost axis, and only that."""
    last = (plan.axes[-1].name,) if plan.axes else ()
    return bool(values.reduces) and all(
        isinstance(value := plan.body[position], Reduce) and value.axes == last for position in values.reduces
    )


def _unary(
    function: str, module: str = TORCH
) -> Callable[[KernelPlan, OperationValues], OperationCall | None]:
    """A call of one tensor."""

    def write(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
        if len(values.tensors) != 1 or values.reduces:
            return None
        return OperationCall(
            values.tensors, lambda texts: f"{module}.{function}({texts[0].text})", module=module
        )

    return write


def _gelu(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
    if len(values.tensors) != 1:
        return None
    extra = ', approximate="tanh"' if _argument(values.node, 1, "approximate", "none") == "tanh" else ""
    return OperationCall(values.tensors, lambda texts: f"F.gelu({texts[0].text}{extra})", module=FUNCTIONAL)


def _over_last(function: str) -> Callable[[KernelPlan, OperationValues], OperationCall | None]:
    """A call of one tensor over the innermost axis."""

    def write(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
        if len(values.tensors) != 1 or not _reduces_last(plan, values):
            return None
        return OperationCall(values.tensors, lambda texts: f"torch.{function}({texts[0].text}, -1)")

    return write


def _kept(function: str) -> Callable[[KernelPlan, OperationValues], OperationCall | None]:
    """A reduction over the innermost axis that keeps it, with size 1."""

    def write(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
        if len(values.tensors) != 1 or not _reduces_last(plan, values):
            return None
        return OperationCall(
            values.tensors, lambda texts: f"torch.{function}({texts[0].text}, -1, keepdim=True)"
        )

    return write


def _layer_norm(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
    return _norm(plan, values, ("weight", "bias"), "layer_norm", (2, 3))


def _rms_norm(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
    return _norm(plan, values, ("weight",), "rms_norm", (2,))


def _norm(
    plan: KernelPlan, values: OperationValues, affine: tuple[str, ...], function: str, places: tuple[int, ...]
) -> OperationCall | None:
    """A norm over the innermost axis: x, then weight and bias where the node has them, then eps."""
    if not _reduces_last(plan, values):
        return None
    body, where = plan.body, domains(plan.body)
    last = frozenset((plan.axes[-1].name,))
    given: list[int | None] = []
    for place, name in zip(places, affine, strict=True):
        node = _argument(values.node, place, name, None)
        if node is None:
            given.append(None)
            continue
        source = _source(node)
        match_ = [
            p
            for p in values.tensors
            if isinstance(value := body[p], Load) and value.buffer == source and where[p] == last
        ]
        if len(match_) != 1:
            return None
        given.append(match_[0])
    rest = [p for p in values.tensors if p not in given]
    if len(rest) != 1:
        return None
    eps = [p for p in values.numbers if getattr(body[p], "name", None) is Role.EPS]
    if len(eps) != 1:
        eps = [p for p in values.numbers if isinstance(body[p], Scalar)]
    if len(eps) != 1:
        return None
    present = [p for p in given if p is not None]
    inputs = (rest[0], *present, eps[0])

    def write(texts: list[Text]) -> str:
        x, number = texts[0], texts[-1].text
        tensors = iter(texts[1:-1])
        slots = [next(tensors).text if p is not None else "None" for p in given]
        shape = _last_size(x, slots)
        while slots and slots[-1] == "None":
            slots.pop()
        if len(slots) == len(affine):
            return f"F.{function}({x.text}, {', '.join([shape, *slots, number])})"
        return f"F.{function}({x.text}, {', '.join([shape, *slots])}, eps={number})"

    return OperationCall(inputs, write, module=FUNCTIONAL)


def _last_size(x: Text, slots: list[str]) -> str:
    """The normalized shape, from whatever is at hand: the weight's shape, else the last size of x."""
    weight = next((slot for slot in slots if slot != "None"), None)
    if weight is not None:
        return f"{weight}.shape"
    return f"{x.text}.shape[-1:]" if x.text.isidentifier() else f"({x.text}).shape[-1:]"


def _argument(node: fx.Node, place: int, name: str, default: Any) -> Any:
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[place] if len(node.args) > place else default


def _source(node: Any) -> str:
    return node.name if isinstance(node, fx.Node) else ""


def _embedding(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
    """Rows of a table: ``table.view(-1, n_cols)[tokens]``."""
    if len(values.gathers) != 1 or values.reduces or len(plan.cols) != 1:
        return None
    load = plan.body[values.gathers[0]]
    address = plan.addresses[values.gathers[0]]
    last = plan.axes[-1].name
    is_row = address.axes == ((last, ()),) and len(address.values) == 1 and not address.offset
    if not isinstance(load, Load) or not is_row or address.values[0][1] != (SizeOf(last),):
        return None
    index = address.values[0][0]
    varying = domains(plan.body)[index]
    if values.result != values.gathers[0] or last in varying or not varying:
        return None
    table, size = values.names.pointers[load.buffer], values.names.axes[last].size
    return OperationCall(
        (index,),
        lambda texts: f"{table}.view(-1, {size})[{texts[0].within(Precedence.ATOM)}.squeeze(-1)]",
        (load.buffer,),
        (size,),
        module="",
    )


def _cross_entropy(plan: KernelPlan, values: OperationValues) -> OperationCall | None:
    """The loss of each row."""
    node = values.node
    if _argument(node, 2, "weight", None) is not None or _argument(node, 5, "label_smoothing", 0.0):
        return None
    if _argument(node, 3, "reduction", 1) != 0 or not _reduces_last(plan, values) or len(plan.cols) != 1:
        return None
    where, last = domains(plan.body), plan.axes[-1].name
    logits = [p for p in values.tensors if last in where[p]]
    labels = [p for p in values.tensors if last not in where[p] and not plan.body[p].dtype.is_floating_point]  # type: ignore[union-attr]
    if len(logits) != 1 or len(labels) != 1 or len(values.tensors) != 2 or len(plan.rows) != 1:
        return None
    ignored = _argument(node, 4, "ignore_index", -100)
    extra = "" if ignored == -100 else f", ignore_index={ignored}"
    return OperationCall(
        (logits[0], labels[0]),
        lambda texts: (
            f"F.cross_entropy({texts[0].text}, {texts[1].within(Precedence.ATOM)}.squeeze(-1){extra}, "
            'reduction="none").unsqueeze(-1)'
        ),
        module=FUNCTIONAL,
    )


# By operation: the call that its values are, if they are one.
CALLS: dict[str, Callable[[KernelPlan, OperationValues], OperationCall | None]] = {
    "gelu": _gelu,
    "embedding": _embedding,
    "cross_entropy_loss": _cross_entropy,
    "silu": _unary("silu", FUNCTIONAL),
    "relu": _unary("relu"),
    "sigmoid": _unary("sigmoid"),
    "tanh": _unary("tanh"),
    "softplus": _unary("softplus", FUNCTIONAL),
    "mish": _unary("mish", FUNCTIONAL),
    "hardswish": _unary("hardswish", FUNCTIONAL),
    "hardsigmoid": _unary("hardsigmoid", FUNCTIONAL),
    "log_sigmoid": _unary("logsigmoid", FUNCTIONAL),
    "log_sigmoid_forward": _unary("logsigmoid", FUNCTIONAL),
    "selu": _unary("selu", FUNCTIONAL),
    "_softmax": _over_last("softmax"),
    "softmax": _over_last("softmax"),
    "_log_softmax": _over_last("log_softmax"),
    "log_softmax": _over_last("log_softmax"),
    "logsumexp": _kept("logsumexp"),
    "mean": _kept("mean"),
    "layer_norm": _layer_norm,
    "native_layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "_fused_rms_norm": _rms_norm,
}
