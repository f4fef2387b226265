"""Fused nests compute what the unfused program computes, and the groups are those a person would choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from longhand.lower.ir import Axis, Index, Load, Nest, Pointwise, ReduceOp, Step, Store
from longhand.lower.ir import PointwiseOp as Op
from longhand.schedule.fusion.vertical import Fused, fuse
from longhand.schedule.plan import Verdict

Run = Callable[..., dict[str, torch.Tensor]]


def fused(program: Any, run: Run, *kept: str) -> Fused:
    """Fuses a program and compares what it leaves in the kept buffers (and inputs) with the unfused program's."""
    outcome = fuse(program.steps, program.buffers, frozenset(kept), lambda size: size)
    expected = run(program.steps, program.buffers, program.inputs)
    found = run(outcome.steps, program.buffers, program.inputs)
    for name in (*kept, *program.inputs):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
    return outcome


def nests(steps: Sequence[Step]) -> list[Nest]:
    return [step for step in steps if isinstance(step, Nest)]


def stored(nest: Nest) -> set[str]:
    return {value.buffer for value in nest.body if isinstance(value, Store)}


def loaded(nest: Nest) -> list[str]:
    return [value.buffer for value in nest.body if isinstance(value, Load)]


def softmax(b: Any, x: int) -> int:
    e = b.op(Op.EXP, b.op(Op.SUB, x, b.reduce(ReduceOp.MAX, x)))
    return b.op(Op.DIV, e, b.reduce(ReduceOp.SUM, e))


def layer_norm(b: Any, x: int, weight: int, bias: int) -> int:
    n = float(8)
    mean = b.op(Op.DIV, b.reduce(ReduceOp.SUM, x), n)
    centered = b.op(Op.SUB, x, mean)
    variance = b.op(Op.DIV, b.reduce(ReduceOp.SUM, b.op(Op.MUL, centered, centered)), n)
    rstd = b.op(Op.RSQRT, b.op(Op.ADD, variance, 1e-5))
    return b.op(Op.ADD, b.op(Op.MUL, b.op(Op.MUL, centered, rstd), weight), bias)


def full_reduce(program: Any, name: str, function: Callable[..., int], *args: Any) -> Any:
    """A nest that reduces the last dim and gives a result of full shape."""
    shape = torch.broadcast_shapes(*[arg.shape for arg in args])
    out = program.fresh(name, shape, args[0].dtype)
    program.steps.append(program._nest(shape, args, function, out, [len(shape) - 1]))
    return out


def add(b: Any, x: int, y: int) -> int:
    return b.op(Op.ADD, x, y)


def mul(b: Any, x: int, y: int) -> int:
    return b.op(Op.MUL, x, y)


def test_softmax_of_scaled_and_masked_scores_is_one_kernel(program: Any, run: Run) -> None:
    x, w = program.input("x", 16, 8), program.input("w", 16, 8)
    scaled = program.pointwise("scaled", lambda b, v: b.op(Op.MUL, v, 0.125), x)
    masked = program.pointwise("masked", add, scaled, w)
    full_reduce(program, "weights", softmax, masked)
    outcome = fused(program, run, "weights")
    assert [stored(n) for n in nests(outcome.steps)] == [{"weights"}]


def test_exp_over_its_sum_is_one_kernel(program: Any, run: Run) -> None:
    x = program.input("x", 4, 6, 8)
    e = program.pointwise("e", lambda b, v: b.op(Op.EXP, v), x)
    again = program.pointwise("again", lambda b, v: b.op(Op.EXP, v), x)
    total = program.reduce("total", lambda b, v: b.reduce(ReduceOp.SUM, v), [2], again)
    program.pointwise("weights", lambda b, a, s: b.op(Op.DIV, a, s), e, total)
    (only,) = nests(fused(program, run, "weights").steps)
    assert loaded(only) == ["x"] and stored(only) == {"weights"}


def test_residual_and_layer_norm_share_a_kernel_that_stores_both(program: Any, run: Run) -> None:
    x, r = program.input("x", 6, 8), program.input("r", 6, 8)
    weight, bias = program.input("weight", 8), program.input("bias", 8)
    h = program.pointwise("h", add, x, r)
    full_reduce(program, "normed", layer_norm, h, weight, bias)
    program.extern(
        "product",
        torch.ops.aten.mm.default,
        (6, 6),
        program.pointwise("n2", lambda b, v: v, h),
        h.seen(torch.t),
    )
    (only,) = [n for n in nests(fused(program, run, "h", "normed", "product").steps) if "normed" in stored(n)]
    assert {"h", "normed"} <= stored(only)


def test_tokens_meet_heads(program: Any, run: Run) -> None:
    """A producer over (tokens, features) and a consumer over (batch, head, seq, width), transposed, are one nest."""
    x, bias = program.input("x", 12, 8), program.input("bias", 8)
    q = program.pointwise("q", add, x, bias)
    heads = q.seen(lambda t: t.view(3, 4, 2, 4).transpose(1, 2))
    full_reduce(program, "p", softmax, heads)
    (only,) = nests(fused(program, run, "p").steps)
    assert stored(only) == {"p"}


def test_transpose_and_add(program: Any, run: Run) -> None:
    x, y = program.input("x", 6, 8), program.input("y", 8, 6)
    xt = program.pointwise("xt", lambda b, v: v, x.seen(torch.t))
    program.pointwise("out", add, xt, y)
    assert len(nests(fused(program, run, "out").steps)) == 1


def test_column_sums_of_a_scaled_tensor(program: Any, run: Run) -> None:
    x = program.input("x", 16, 8)
    doubled = program.pointwise("doubled", lambda b, v: b.op(Op.MUL, v, 2.0), x)
    program.reduce("sums", lambda b, v: b.reduce(ReduceOp.SUM, v), [0], doubled)
    assert len(nests(fused(program, run, "sums").steps)) == 1


def test_row_and_column_sums_stay_apart(program: Any, run: Run) -> None:
    x = program.input("x", 16, 8)
    program.reduce("cols", lambda b, v: b.reduce(ReduceOp.SUM, v), [0], x)
    program.reduce("rows", lambda b, v: b.reduce(ReduceOp.SUM, v), [1], x)
    outcome = fused(program, run, "cols", "rows")
    assert len(nests(outcome.steps)) == 2
    assert [(r.verdict, "different axes" in r.reason) for r in outcome.refusals] == [
        (Verdict.NOT_LEGAL, True)
    ]


def test_sibling_reductions_over_the_same_rows_share_a_kernel(program: Any, run: Run) -> None:
    x = program.input("x", 16, 8)
    program.reduce("sums", lambda b, v: b.reduce(ReduceOp.SUM, v), [1], x)
    program.reduce("largest", lambda b, v: b.reduce(ReduceOp.MAX, v), [1], x)
    (only,) = nests(fused(program, run, "sums", "largest").steps)
    assert loaded(only) == ["x"]


def test_cross_entropy_of_cast_logits(program: Any, run: Run) -> None:
    logits = program.input("logits", 6, 8, dtype=torch.bfloat16)
    program.input("target", 6, value=torch.randint(0, 8, (6,)))
    floats = program.pointwise("floats", lambda b, v: v, logits, dtype=torch.float32)

    def losses(b: Any, x: int) -> int:
        top = b.reduce(ReduceOp.MAX, x)
        total = b.reduce(ReduceOp.SUM, b.op(Op.EXP, b.op(Op.SUB, x, top)))
        return b.op(Op.ADD, top, b.op(Op.LOG, total))

    program.reduce("lse", losses, [1], floats)
    out = program.fresh("loss", (6,), torch.float32)
    body = (
        Load("target", Index(0, (("row", 1),)), torch.int64),
        Load("floats", Index(0, (("row", 8),), ((0, 1),)), torch.float32),
        Load("lse", Index(0, (("row", 1),)), torch.float32),
    )
    body += (Pointwise(Op.SUB, (2, 1), torch.float32), Store(out.buffer, Index(0, (("row", 1),)), 3))
    program.steps.append(Nest((Axis("row", 6),), body))
    (only,) = nests(fused(program, run, "loss").steps)
    assert sorted(loaded(only)) == ["logits", "logits", "target"]


def test_silu_times_and_gelu_bias(program: Any, run: Run) -> None:
    a, b_, bias = program.input("a", 6, 8), program.input("b", 6, 8), program.input("bias", 8)
    s = program.pointwise("s", lambda b, v: b.op(Op.MUL, v, b.op(Op.SIGMOID, v)), a)
    y = program.pointwise("y", mul, s, b_)
    z = program.pointwise("z", add, y, bias)
    program.pointwise("out", lambda b, v: b.op(Op.MUL, v, b.op(Op.ERF, v)), z)
    assert len(nests(fused(program, run, "out").steps)) == 1


def test_diamond_is_one_kernel(program: Any, run: Run) -> None:
    x = program.input("x", 6, 8)
    a = program.pointwise("a", lambda b, v: b.op(Op.TANH, v), x)
    left = program.pointwise("left", lambda b, v: b.op(Op.EXP, v), a)
    right = program.pointwise("right", lambda b, v: b.op(Op.SIGMOID, v), a)
    program.pointwise("out", add, left, right)
    (only,) = nests(fused(program, run, "out").steps)
    assert stored(only) == {"out"}


def test_a_library_call_in_between_keeps_them_apart(program: Any, run: Run) -> None:
    x = program.input("x", 8, 8)
    a = program.pointwise("a", lambda b, v: b.op(Op.TANH, v), x)
    m = program.extern("m", torch.ops.aten.mm.default, (8, 8), a, a)
    program.pointwise("out", add, a, m)
    outcome = fused(program, run, "out")
    assert len(nests(outcome.steps)) == 2
    assert any("another step must read" in refusal.reason for refusal in outcome.refusals)


def test_slice_of_a_producer_is_computed_where_it_is_read(program: Any, run: Run) -> None:
    x = program.input("x", 6, 8)
    a = program.pointwise("a", lambda b, v: b.op(Op.MUL, v, 3.0), x)
    program.pointwise("out", lambda b, v: b.op(Op.ADD, v, 1.0), a.seen(lambda t: t[1:5, 2:7]))
    (only,) = nests(fused(program, run, "out").steps)
    assert loaded(only) == ["x"]


def test_concatenation_in_parts(program: Any, run: Run) -> None:
    x, y = program.input("x", 6, 4), program.input("y", 6, 5)
    both = program.fresh("both", (6, 9), torch.float32)
    program.into(both.seen(lambda t: t[:, :4]), lambda b, v: b.op(Op.EXP, v), x)
    program.into(both.seen(lambda t: t[:, 4:]), lambda b, v: b.op(Op.NEG, v), y)
    full_reduce(program, "out", softmax, both)
    fused(program, run, "out")


def test_mutated_input_is_read_before_it_is_written(program: Any, run: Run) -> None:
    state, x = program.input("state", 8), program.input("x", 16, 8)
    total = program.reduce("total", lambda b, v: b.reduce(ReduceOp.SUM, v), [0], x)
    program.pointwise("out", add, x, state)
    program.into(
        state, lambda b, s, t: b.op(Op.ADD, b.op(Op.MUL, s, 0.9), t), state, total.seen(lambda t: t[0])
    )
    fused(program, run, "out")


def test_shifted_mutation_is_not_fused_with_its_reader(program: Any, run: Run) -> None:
    state = program.input("state", 8)
    old = program.pointwise("old", lambda b, v: b.op(Op.MUL, v, 2.0), state.seen(lambda t: t[1:]))
    program.into(state.seen(lambda t: t[:7]), lambda b, v: v, old)
    program.pointwise("after", lambda b, v: b.op(Op.ADD, v, 1.0), state)
    fused(program, run, "after")


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(program: Any, run: Run, seed: int) -> None:
    """Random pointwise operations, reductions and views over a few tensors; some results kept."""
    generator = torch.Generator().manual_seed(seed)

    def pick(n: int) -> int:
        return int(torch.randint(0, n, (1,), generator=generator))

    shapes = [(4, 6), (4, 6), (6, 4), (2, 2, 6), (6,), (4, 1)]
    pool = [program.input(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    views = [
        lambda t: t,
        lambda t: t,
        lambda t: t.transpose(-1, -2) if t.dim() > 1 else t,
        lambda t: t[..., 1:] if t.shape[-1] > 1 else t,
        lambda t: t.reshape(-1, t.shape[-1]) if t.is_contiguous() else t,
        lambda t: t.view(2, -1, t.shape[-1]) if t.dim() == 2 and t.shape[0] == 4 and t.is_contiguous() else t,
        lambda t: t[:1],
        lambda t: t.unsqueeze(0).expand(2, *t.shape),
    ]
    unary = [Op.TANH, Op.SIGMOID, Op.NEG]
    for step in range(8):
        x = pool[max(0, len(pool) - 1 - pick(5))].seen(views[pick(len(views))])
        if (x.shape and 0 in x.shape) or len(x.shape) > 4:
            continue
        kind = pick(5)
        if kind < 2:
            fitting = [t for t in pool if _broadcasts(x.shape, t.shape)]
            other = fitting[pick(len(fitting))] if fitting else x
            op = [Op.ADD, Op.MUL, Op.SUB][pick(3)]
            pool.append(program.pointwise(f"t{step}", lambda b, u, v, op=op: b.op(op, u, v), x, other))
        elif kind == 2:
            op = unary[pick(3)]
            pool.append(program.pointwise(f"t{step}", lambda b, u, op=op: b.op(op, u), x))
        elif kind == 3:
            pool.append(
                program.reduce(f"t{step}", lambda b, u: b.reduce(ReduceOp.SUM, u), [pick(len(x.shape))], x)
            )
        else:
            pool.append(full_reduce(program, f"t{step}", softmax, x))
    made = [t.buffer for t in pool[len(shapes) :]]
    kept = {made[-1], *(name for name in made if pick(4) == 0)} if made else set()
    fused(program, run, *kept)


def _broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    try:
        torch.broadcast_shapes(left, right)
    except RuntimeError:
        return False
    return True


def test_a_copy_rides_along_with_what_reads_the_same(program: Any, run: Run) -> None:
    """Of many tensors that one nest reads, another only copies one: the first has it in a register."""
    xs = [program.input(f"x{number}", 6, 8) for number in range(9)]
    total = program.pointwise("total", add, xs[0], xs[1])
    for number, x in enumerate(xs[2:]):
        total = program.pointwise(f"total_{number}", add, total, x)
    program.pointwise("copied", lambda b, v: v, xs[4])
    (only,) = nests(fused(program, run, total.buffer, "copied").steps)
    assert stored(only) == {total.buffer, "copied"}
