"""Rows and cols, merged axes, addresses and arguments of hand-made nests."""

from __future__ import annotations

import pytest
import sympy
import torch

from longhand.errors import ScheduleError
from longhand.lower.ir import Axis, Index, Load, Nest, PointwiseOp, Reduce, ReduceOp, Store
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.kernels.schedules.elementwise import ELEMENTWISE
from longhand.schedule.kernels.schedules.rows_looped import ROWS_LOOPED
from longhand.schedule.kernels.schedules.rows_persistent import ROWS_PERSISTENT
from longhand.schedule.kernels.schedules.rows_split import ROWS_SPLIT
from longhand.schedule.kernels.schedules.transposed import TRANSPOSED
from longhand.schedule.kernels.space import refusal
from longhand.schedule.plan import KernelPlan, ParameterRef, SizeOf
from tests.schedule import nests
from tests.schedule.nests import CPU, CUDA, DEVICES, NestMaker, f32


def planned(make: NestMaker, options=CUDA) -> KernelPlan:
    return plan_kernel(make.nest(), make.buffers, options)[0]


def names(axes) -> list[str]:
    return [axis.name for axis in axes]


def test_contiguous_elementwise_has_one_col_and_no_rows() -> None:
    make = NestMaker(a=3, b=5, c=7)
    make.store("out", "a b c", make.load("x", "a b c") + make.load("s", ""))
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert (plan.schedule, names(plan.rows), len(plan.cols)) == (ELEMENTWISE, [], 1)
    assert launch.sizes == (105,)
    assert launch.bytes_moved == 4 * (105 + 105 + 1)


def test_broadcast_bias_makes_rows_and_cols() -> None:
    plan, launch = plan_kernel(nests.gelu_bias(5, 40).nest(), nests.gelu_bias(5, 40).buffers, CUDA)
    assert (names(plan.rows), names(plan.cols)) == (["batch_row"], ["col"])
    assert launch.sizes == (10, 40)
    assert plan.pointers[1].dims == ("col",)


def test_leading_dims_of_a_row_reduction_merge() -> None:
    make = nests.add_layer_norm(2, 3, 29)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    assert (names(plan.rows), names(plan.cols), launch.sizes) == (["batch_seq"], ["dim"], (6, 29))
    load = plan.addresses[0]
    assert load.axes == (("batch_seq", (SizeOf("dim"),)), ("dim", ()))
    assert plan.ints == () and launch.scalars == (1e-5,)


def test_position_blocks_merging_and_is_addressed_by_words() -> None:
    plan = planned(nests.masked_softmax(8, 8))
    assert names(plan.rows) == ["head", "row"]


def test_an_extent_of_one_axis_keeps_it_apart() -> None:
    make = NestMaker(a=3, b=5)
    x = make.load("x", "a b")
    make.store("out", "a b", x * make.axis_size("b"))
    assert len(planned(make).axes) == 2
    make = NestMaker(a=3, b=5)
    make.store("out", "a b", make.load("x", "a b") * make.axis_size("a", "b"))
    assert len(planned(make).axes) == 1


@pytest.mark.parametrize("first", ["x", "y"])
def test_reduced_axes_are_walked_where_most_neighbours_share_a_sector(first: str) -> None:
    """Groups of channels of images: one tensor has its pixels side by side, two have channels so."""
    make = NestMaker(batch=2, group=32, channel=4, pixel=512)
    layouts = {"x": "batch group channel pixel", "y": "batch pixel group channel"}
    read = {name: make.load(name, layouts[name]) for name in sorted(layouts, key=lambda name: name != first)}
    total = read["x"] + read["y"]
    mean = make.reduce(ReduceOp.SUM, total, "channel", "pixel")
    make.store("out", layouts["y"], total - mean)
    assert names(planned(make).cols) == ["pixel", "channel"]


def test_reduced_axes_that_all_lie_alike_are_walked_so() -> None:
    make = NestMaker(batch=2, group=32, channel=4, pixel=512)
    value = make.load("x", "batch channel group pixel")
    mean = make.reduce(ReduceOp.SUM, value, "channel", "pixel")
    make.store("out", "batch channel group pixel", value - mean)
    assert names(planned(make).cols) == ["channel", "pixel"]


def test_row_order_follows_the_output() -> None:
    make = nests.rotary(2, 5, 3, 4)
    plan = planned(make)
    assert names(plan.rows) == ["batch", "head", "seq"]
    shuffled = Nest((make.axes[2], make.axes[3], make.axes[0], make.axes[1]), make.nest().body)
    assert names(plan_kernel(shuffled, make.buffers, CUDA)[0].rows) == ["batch", "head", "seq"]


def test_a_slice_gets_one_stride_and_one_offset() -> None:
    make = nests.split_gate(7, 12)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert [(i.pointer, i.axis) for i in plan.ints] == [("both", "row"), ("both", None)]
    assert launch.ints == (24, 12)


def test_the_chain_goes_on_above_a_stride() -> None:
    """q of a fused qkv: (batch, seq, 3 * dim) read per head, where a bias keeps seq from merging with batch."""
    make = NestMaker(batch=2, seq=5, dim=8)
    make.buffer("qkv", (2, 5, 24))
    q = make.load("qkv", make.index(8, batch=5 * 24, seq=24, dim=1))
    make.store("out", "batch seq dim", q + make.load("rotation", "seq dim"))
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert launch.ints == (24, 8)
    stride = ParameterRef("qkv_seq_stride")
    assert dict(plan.addresses[0].axes) == {"batch": (SizeOf("seq"), stride), "seq": (stride,), "dim": ()}


def test_permuted_heads_need_no_arguments() -> None:
    make = NestMaker(b=2, h=3, s=5, d=8)
    make.buffer("x", (2, 5, 3, 8))
    x = make.load("x", make.index(b=5 * 3 * 8, s=3 * 8, h=8, d=1))
    make.store("out", "b h s d", x)
    plan = planned(make)
    assert (plan.ints, names(plan.rows), names(plan.cols)) == ((), ["b", "h", "s"], ["d"])
    assert dict(plan.addresses[0].axes)["s"] == (SizeOf("h"), SizeOf("d"))
    assert plan.pointers[0].dims == ("b", "s", "h", "d")


def test_flipped_axis_has_its_offset_in_words() -> None:
    plan, _ = plan_kernel(nests.flip_columns(4, 9).nest(), nests.flip_columns(4, 9).buffers, CUDA)
    assert plan.ints == ()
    address = plan.addresses[0]
    assert dict(address.axes)["col"] == (-1,)
    assert address.offset == ((SizeOf("col"),), (-1,))


def test_gathers_use_known_products() -> None:
    plan = planned(nests.embedding(6, 10))
    gather = next(i for i, v in enumerate(plan.body) if isinstance(v, Load) and v.buffer == "table")
    assert plan.addresses[gather].values == ((0, (SizeOf("col"),)),)
    assert next(p for p in plan.pointers if p.name == "table").dims is None
    cross_entropy = planned(nests.cross_entropy(6, 50))
    assert cross_entropy.ints == (), "the row stride of the gathered logit is known from the other load"


@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        (nests.softmax_with_bias(64, 4096), ROWS_PERSISTENT),
        (nests.softmax_with_bias(8192, 65536), ROWS_LOOPED),
        (nests.cross_entropy(8192, 32768), ROWS_LOOPED),
        (nests.column_sum(65536, 2048), COLUMNS),
        (nests.softmax_over_channels(2, 64, 1024), COLUMNS),
        (nests.full_sum(4096, 4096), ROWS_SPLIT),
        (nests.full_sum(16, 16), ROWS_PERSISTENT),
        (nests.transpose_add(8192, 8192), TRANSPOSED),
        (nests.transpose_add(8192, 3), ELEMENTWISE),
        (nests.rms_norm(16384, 4096), ROWS_PERSISTENT),
    ],
)
def test_schedules_on_the_gpu(make: NestMaker, schedule: KernelSchedule) -> None:
    assert planned(make).schedule is schedule


@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        (nests.softmax_with_bias(64, 4096), ROWS_LOOPED),
        (nests.cross_entropy(8192, 32768), ROWS_LOOPED),
        (nests.column_sum(65536, 2048), COLUMNS),
        (nests.full_sum(4096, 4096), ROWS_SPLIT),
        (nests.full_sum(16, 16), ROWS_LOOPED),
        (nests.transpose_add(512, 512), TRANSPOSED),
    ],
)
def test_schedules_on_the_cpu(make: NestMaker, schedule: KernelSchedule) -> None:
    assert planned(make, CPU).schedule is schedule


def test_column_reduction_keeps_outer_results_as_a_batch() -> None:
    make = NestMaker(batch=3, seq=50, dim=16)
    make.store("out", "batch dim", make.reduce(ReduceOp.SUM, make.load("x", "batch seq dim"), "seq"))
    plan = planned(make)
    assert (plan.schedule, names(plan.rows), names(plan.cols)) == (COLUMNS, ["seq"], ["batch", "dim"])


def test_argmax_over_two_axes_keeps_their_order() -> None:
    make = NestMaker(n=3, a=4, b=5)
    make.buffer("x", (4, 3, 5))
    x = make.load("x", make.index(a=15, n=5, b=1))
    make.store("out", "n", make.reduce(ReduceOp.ARGMAX, x, "b", "a"), torch.int64)
    plan = planned(make)
    assert names(plan.cols) == ["b", "a"]


def test_what_is_no_single_kernel_is_refused() -> None:
    make = NestMaker(a=3, b=5)
    x = make.load("x", "a b")
    make.store("rows", "a", make.reduce(ReduceOp.SUM, x, "b"))
    make.store("all", "", make.reduce(ReduceOp.SUM, x, "a", "b"))
    assert refusal(make.nest()) == "its reductions are over different axes"
    with pytest.raises(ScheduleError, match="different axes"):
        planned(make)
    body = (Load("x", Index(axes=(("a", 1),)), f32), Store("out", Index(axes=(("a", 1),)), 0))
    assert "a store covers neither" in str(refusal(Nest((Axis("a", 3), Axis("b", 5)), body)))


def test_symbolic_sizes_plan_like_numbers() -> None:
    batch, seq = (
        sympy.Symbol("s0", positive=True, integer=True),
        sympy.Symbol("s1", positive=True, integer=True),
    )
    make = nests.add_layer_norm(batch, seq, 64)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    static, _ = plan_kernel(*_both(nests.add_layer_norm(2, 3, 64)), CPU)
    assert launch.sizes == (batch * seq, 64)
    assert plan.key == static.key
    assert launch.bytes_moved == 3 * 4 * 64 * batch * seq + 2 * 4 * 64
    assert all(planned(make).widths.counts[:1]), "a symbolic size has no bound"


def test_symbolic_columns_and_slices() -> None:
    seq = sympy.Symbol("s0", positive=True, integer=True)
    make = nests.masked_softmax(seq, seq)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert launch.sizes == (3, seq, seq) and plan.ints == ()
    make = nests.split_gate(seq, 2 * seq)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert launch.ints == (4 * seq, 2 * seq)


@pytest.mark.parametrize("options", DEVICES)
def test_a_single_element(options) -> None:
    make = NestMaker()
    make.store("out", "", make.load("x", "") + 1.0)
    plan, launch = plan_kernel(make.nest(), make.buffers, options)
    assert (plan.schedule, plan.axes, launch.sizes) == (ELEMENTWISE, (), ())


def test_equal_scalars_are_one_argument_and_dead_values_go() -> None:
    make = NestMaker(row=4, col=8)
    x = make.load("x", "row col")
    make.load("unused", "row col")
    y = (x + make.scalar(1e-5, "eps")) * make.scalar(1e-5, "eps") + make.scalar(2.0, "scale")
    make.store("out", "row col", y)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    assert launch.scalars == (1e-5, 2.0)
    assert [p.name for p in plan.pointers] == ["x", "out"]


def test_axes_in_the_body_are_the_plan_s() -> None:
    plan = planned(nests.full_sum(9, 11))
    reduce = next(value for value in plan.body if isinstance(value, Reduce))
    assert reduce.axes == (plan.cols[0].name,)


def _both(make: NestMaker):
    return make.nest(), make.buffers


def test_small_numbers_of_a_position_are_math_and_large_ones_arguments() -> None:
    def shifted(diagonal: int) -> NestMaker:
        make = NestMaker(row=64, col=64)
        below = make.op(PointwiseOp.LE, make.position(col=1), make.position(diagonal, row=1))
        zero = make.constant(0.0)
        make.store("out", "row col", make.op(PointwiseOp.WHERE, below, make.load("x", "row col"), zero))
        return make

    plan, launch = plan_kernel(*_both(shifted(-1)), CUDA)
    assert launch.ints == () and plan.addresses[1].offset == ((-1,),)
    plan, launch = plan_kernel(*_both(shifted(20)), CUDA)
    assert launch.ints == (20,) and plan.ints[0].pointer is None
