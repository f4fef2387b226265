"""What few readers can each compute is not stored for them, unless that would move more bytes."""

from __future__ import annotations

from typing import Any

import torch

from longhand.lower.ir import PointwiseOp as Op
from longhand.lower.ir import ReduceOp
from tests.schedule.test_fusion import (
    Run,
    add,
    full_reduce,
    fused,
    layer_norm,
    loaded,
    mul,
    nests,
    stored,
)

ROWS, COLS = 2048, 8  # so many that sums of columns are divided among programs


def column_sum(program: Any, name: str, x: Any) -> Any:
    return program.reduce(name, lambda b, v: b.reduce(ReduceOp.SUM, v), [0], x)


def norm_backward(program: Any, *, kept: bool = False) -> None:
    """A batch norm's gradient: what is normalized is summed with the gradient, and read again with the sums."""
    x, d_out = (
        program.input("x", ROWS, COLS, dtype=torch.bfloat16),
        program.input("d_out", ROWS, COLS, dtype=torch.bfloat16),
    )
    mean, rstd = program.input("mean", 1, COLS), program.input("rstd", 1, COLS)

    def normalize(b: Any, x: int, mean: int, rstd: int) -> int:
        return b.op(Op.MUL, b.op(Op.SUB, x, mean), rstd)

    normalized = program.pointwise("normalized", normalize, x, mean, rstd, dtype=torch.float32)
    product = program.pointwise("product", mul, normalized, d_out)
    through = column_sum(program, "through", product)
    program.pointwise(
        "d_x", lambda b, d, n, t: b.op(Op.SUB, d, b.op(Op.MUL, n, t)), d_out, normalized, through
    )


def test_what_is_normalized_is_stored_for_neither_reader(program: Any, run: Run) -> None:
    norm_backward(program)
    found = nests(fused(program, run, "through", "d_x").steps)
    assert [stored(nest) for nest in found] == [{"through"}, {"d_x"}]
    assert all("x" in loaded(nest) and "normalized" not in loaded(nest) for nest in found)


def test_what_the_caller_sees_is_stored(program: Any, run: Run) -> None:
    norm_backward(program)
    found = nests(fused(program, run, "normalized", "through", "d_x").steps)
    assert any("normalized" in stored(nest) for nest in found)


def of_many(program: Any, n_inputs: int) -> None:
    """A sum of so many tensors, summed down its columns and read again."""
    total, *others = (program.input(f"x{n}", ROWS, COLS) for n in range(n_inputs))
    for number, x in enumerate(others):
        total = program.pointwise(f"total{number}", add, total, x)
    through = column_sum(program, "through", total)
    program.pointwise("out", mul, total, through)


def test_few_bytes_are_read_again_and_many_are_stored(program: Any, run: Run) -> None:
    of_many(program, 2)
    found = nests(fused(program, run, "through", "out").steps)
    assert [stored(nest) for nest in found] == [{"through"}, {"out"}]


def test_three_tensors_are_added_up_once(program: Any, run: Run) -> None:
    of_many(program, 3)
    found = nests(fused(program, run, "through", "out").steps)
    assert any("total1" in stored(nest) for nest in found)


def test_what_a_library_reads_is_stored(program: Any, run: Run) -> None:
    x, y = program.input("x", ROWS, COLS), program.input("y", ROWS, COLS)
    total = program.pointwise("total", add, x, y)
    through = column_sum(program, "through", total)
    program.pointwise("out", mul, total, through)
    program.extern("product", torch.ops.aten.mm.default, (COLS, COLS), total.seen(torch.t), total)
    assert any(
        "total" in stored(nest) for nest in nests(fused(program, run, "through", "out", "product").steps)
    )


def test_rows_that_lie_as_columns_are_laid_out_once(program: Any, run: Run) -> None:
    """An image's patches as a sequence: if each norm that reads them fetched columns, each would make the sum anew."""
    patches, position = program.input("patches", 4, 8, 6), program.input("position", 6, 8)
    weight, bias = program.input("weight", 8), program.input("bias", 8)
    x = program.pointwise("x", add, patches.seen(lambda t: t.transpose(1, 2)), position)
    normed = full_reduce(program, "normed", layer_norm, x, weight, bias)
    program.extern(
        "mixed",
        torch.ops.aten.mm.default,
        (24, 24),
        normed.seen(lambda t: t.view(24, 8)),
        normed.seen(lambda t: t.view(24, 8).t()),
    )
    mixed = program.input("attended", 4, 6, 8)
    after = program.pointwise("after", add, x, mixed)
    full_reduce(program, "normed_after", layer_norm, after, weight, bias)
    found = nests(fused(program, run, "normed", "mixed", "after", "normed_after").steps)
    assert [nest for nest in found if "x" in stored(nest)]
    assert sum("patches" in loaded(nest) for nest in found) == 1


def activated_and_normalized(program: Any, *, heavy: bool = False) -> None:
    """A library reads what is activated; the sum of another product, what is normalized on the way to it."""
    x, d_out = (program.input(name, ROWS, COLS, dtype=torch.bfloat16) for name in ("x", "d_out"))
    scale = program.input("scale", 1, COLS)

    def normalize(b: Any, x: int, scale: int) -> int:
        product = b.op(Op.MUL, x, scale)
        return b.op(Op.EXP, product) if heavy else product

    normalized = program.pointwise("normalized", normalize, x, scale, dtype=torch.float32)
    activated = program.pointwise("activated", lambda b, v: b.op(Op.SIGMOID, v), normalized)
    weight = program.input("weight", COLS, COLS)
    mixed = program.extern("mixed", torch.ops.aten.mm.default, (ROWS, COLS), activated, weight)
    product = program.pointwise("product", mul, normalized, d_out)
    column_sum(program, "through", program.pointwise("summand", add, product, mixed))


def test_what_is_made_besides_is_computed_by_its_reader(program: Any, run: Run) -> None:
    activated_and_normalized(program)
    found = nests(fused(program, run, "mixed", "through").steps)
    assert [stored(nest) for nest in found] == [{"activated"}, {"through"}]
    assert all("x" in loaded(nest) for nest in found)


def test_what_the_caller_sees_besides_is_stored(program: Any, run: Run) -> None:
    activated_and_normalized(program)
    found = nests(fused(program, run, "normalized", "mixed", "through").steps)
    assert {"normalized", "activated"} in [stored(nest) for nest in found]


def test_what_is_expensive_is_made_besides(program: Any, run: Run) -> None:
    activated_and_normalized(program, heavy=True)
    found = nests(fused(program, run, "mixed", "through").steps)
    assert {"normalized", "activated"} in [stored(nest) for nest in found]
