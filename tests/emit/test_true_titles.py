"""The first line of a kernel's file is the formula of what the kernel computes: no sum where it adds nothing up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import fx

from longhand.emit.text.formula import sums_elsewhere
from longhand.emit.text.title_lines import in_words
from longhand.lower.ir import AxisSize, Constant, Index, Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.meanings.kernel_formulas import sums_of_one
from longhand.schedule.plan import KernelPlan

_F32 = torch.float32
_AT = Index(0, (("row", 1), ("col", 1)))
_X, _SUM = Load("x", _AT, _F32), Reduce(ReduceOp.SUM, 0, ("row",), _F32)


def _told(*body: Any, is_down_columns: bool = True) -> str | None:
    schedule = SimpleNamespace(is_down_columns=is_down_columns, is_row_wise=not is_down_columns)
    return sums_of_one(cast(KernelPlan, SimpleNamespace(body=body, schedule=schedule)))


def test_a_kernel_that_only_adds_up_is_called_so() -> None:
    store, size = Store("s", Index(0, (("col", 1),)), 1), AxisSize(("row",), _F32)
    assert _told(_X, _SUM, store) == "column_sum"
    assert _told(_X, _SUM, store, is_down_columns=False) == "row_sum"
    mean = Pointwise(PointwiseOp.DIV, (1, 3), _F32)
    assert _told(_X, _SUM, store, size, mean, Store("m", store.index, 4)) == "column_mean_and_sum"
    half = Pointwise(PointwiseOp.CAST, (1,), torch.float16)
    assert _told(_X, _SUM, half, Store("s", store.index, 2)) == "column_sum"


def test_a_kernel_that_does_more_is_not() -> None:
    product = Pointwise(PointwiseOp.MUL, (0, 1), _F32)
    summed = Reduce(ReduceOp.SUM, 2, ("row",), _F32)
    assert _told(_X, _X, product, summed, Store("s", _AT, 3)) is None
    assert _told(_X, Constant(2.0, _F32), product, summed, Store("s", _AT, 3)) is None
    assert _told(_X, Store("y", _AT, 0)) is None
    assert _told(_X, _SUM, Store("s", _AT, 1), Store("y", _AT, 0)) is None


def test_a_sum_of_equal_elements_is_none_in_the_kernel() -> None:
    """``d_bias = sum(d_x / 16)`` was said of ``d_x / 16 * 16``."""
    graph = fx.Graph()
    whole, single = graph.placeholder("whole"), graph.placeholder("single")
    whole.meta["val"], single.meta["val"] = torch.ones(1, 4, 16), torch.ones(1, 1, 4)
    for given in (whole, single):
        node = graph.call_function(torch.ops.aten.sum.dim_IntList, (given, [0, -1 if given is whole else 1]))
        node.meta["val"] = torch.ones(4)
    words = cast(BufferNamer, SimpleNamespace(nodes={node.name: node for node in graph.nodes}))

    def is_elsewhere(name: str, *body: Any) -> bool:
        return sums_elsewhere(cast(KernelPlan, SimpleNamespace(origins=(name,), body=body)), words)

    of_whole, of_single = (node.name for node in graph.nodes if node.op == "call_function")
    assert is_elsewhere(of_whole, _X, Store("s", _AT, 0)) and not is_elsewhere(of_whole, _X, _SUM)
    assert not is_elsewhere(of_single, _X, Store("s", _AT, 0))  # there is nothing to add up


def _made_from(*read: str) -> str:
    """What is said of a kernel that reads tensors, the last of them only by columns."""
    body = [*(Load(name, _AT, _F32) for name in read), Store("out", _AT, 0)]
    axes: list[tuple[str, ...]] = [*(("row", "col") for _ in read[1:]), ("col",), ("row", "col")]
    plan = SimpleNamespace(body=body, addresses=[SimpleNamespace(axes=one) for one in axes])
    pointers = {name: name for name in (*read, "out")}
    return in_words(cast(KernelPlan, plan), cast(KernelNames, SimpleNamespace(pointers=pointers)))


def test_what_something_is_made_from_is_told_whole() -> None:
    """Tables were left out, and of five tensors two: ``d_q_states from product``, which reads sin and cos, too."""
    assert _made_from("product", "sin", "cos") == "out from product, sin and cos"
    assert _made_from("a", "b", "c", "d") == "out from a, b, c and d"
    assert _made_from("a", "b", "c", "d", "e") == "out from a, b, c and 2 others"
