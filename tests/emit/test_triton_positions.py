"""Positions beyond 2**31: each schedule's first and last programs touch the first and the last element, and none else.

The kernels run in Triton's interpreter without memory (positions_worker.py), so that sizes cost nothing.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from longhand.lower.ir import ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_plan import IndexWidths
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.kernels.schedules.elementwise import ELEMENTWISE
from longhand.schedule.kernels.schedules.rows_and_columns import ROWS_AND_COLUMNS
from longhand.schedule.kernels.schedules.rows_looped import ROWS_LOOPED
from longhand.schedule.kernels.schedules.rows_persistent import ROWS_PERSISTENT
from longhand.schedule.kernels.schedules.rows_split import ROWS_SPLIT
from longhand.schedule.kernels.schedules.transposed import TRANSPOSED
from tests.emit.positions_worker import Job
from tests.emit.triton_units import printed, write_unit
from tests.schedule.nests import CUDA, NestMaker

i8, bf16 = torch.int8, torch.bfloat16
Ends = dict[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel at a size.

    Attributes:
        make: Makes the nest.
        style: How it is expected to be walked.
        elements: Of each tensor.
        tunables: In place of the file's, so that loops are short.
    """

    make: Callable[[], NestMaker]
    schedule: KernelSchedule
    elements: Mapping[str, int]
    tunables: Mapping[str, int] = dataclasses.field(default_factory=dict)


def copy(dims: str, **axes: int) -> Callable[[], NestMaker]:
    """One tensor, copied."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        nest.store("out", dims, nest.load("x", dims, i8), i8)
        return nest

    return make


def broadcast(**axes: int) -> Callable[[], NestMaker]:
    """A value for each row, added to all of it."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        nest.store("out", "row col", nest.load("x", "row col", bf16) + nest.load("by_row", "row", bf16), bf16)
        return nest

    return make


def flipped(**axes: int) -> Callable[[], NestMaker]:
    """All axes walked backwards."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        total, steps = 1, {}
        for axis in reversed(axes):
            steps[axis] = -total
            total *= axes[axis]
        nest.buffer("x", tuple(axes.values()), i8)
        nest.store("out", " ".join(axes), nest.load("x", nest.index(total - 1, **steps), i8), i8)
        return nest

    return make


def flipped_rows(**axes: int) -> Callable[[], NestMaker]:
    """Rows in reverse order."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        rows, cols = axes["row"], axes["col"]
        nest.buffer("x", (rows, cols), i8)
        x = nest.load("x", nest.index((rows - 1) * cols, row=-cols, col=1), i8)
        nest.store("out", "row col", x, i8)
        return nest

    return make


def sliced(gap: int, **axes: int) -> Callable[[], NestMaker]:
    """The first columns of a wider tensor."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        width = axes["col"] + gap
        nest.buffer("x", (axes["row"], width), i8)
        nest.store("out", "row col", nest.load("x", nest.index(row=width, col=1), i8), i8)
        return nest

    return make


def transpose(**axes: int) -> Callable[[], NestMaker]:
    """The last two axes exchanged."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        *batch, row, col = axes
        nest.store("out", " ".join([*batch, row, col]), nest.load("x", " ".join([*batch, col, row]), i8), i8)
        return nest

    return make


def reduction(op: ReduceOp, over: str, kept: str, back: bool = False, **axes: int) -> Callable[[], NestMaker]:
    """A reduction; with `back`, taken from each element again."""

    def make() -> NestMaker:
        nest = NestMaker(**axes)
        x = nest.load("x", " ".join(axes), bf16)
        found = nest.reduce(op, x, *over.split())
        if back:
            nest.store("out", " ".join(axes), x - found, bf16)
        else:
            nest.store("out", kept, found, torch.int64 if op is ReduceOp.ARGMAX else bf16)
        return nest

    return make


def both(rows: int, cols: int) -> Callable[[], NestMaker]:
    """Rows with their sums taken off, and the sums of the columns."""

    def make() -> NestMaker:
        nest = NestMaker(row=rows, col=cols)
        x = nest.load("x", "row col", bf16)
        centered = x - nest.reduce(ReduceOp.SUM, x, "col")
        nest.store("out", "row col", centered, bf16)
        nest.store("sums", "col", nest.reduce(ReduceOp.SUM, centered, "row"), bf16)
        return nest

    return make


BIG = 2**31
SQUARE = 46340**2  # just below 2**31
CASES: dict[str, Case] = {
    "flat": Case(copy("n", n=BIG + 5000), ELEMENTWISE, {"x": BIG + 5000, "out": BIG + 5000}),
    "flat just below": Case(copy("n", n=BIG - 100), ELEMENTWISE, {"x": BIG - 100, "out": BIG - 100}),
    "flat, 2**32": Case(copy("n", n=2 * BIG + 1), ELEMENTWISE, {"x": 2 * BIG + 1, "out": 2 * BIG + 1}),
    "many rows": Case(
        broadcast(row=2**22 + 1, col=1024), ELEMENTWISE, {"x": 2**32 + 1024, "by_row": 2**22 + 1}
    ),
    "more rows than 2**31": Case(
        sliced(3, row=BIG + 7, col=2), ELEMENTWISE, {"x": 5 * (BIG + 7) - 3, "out": 2 * (BIG + 7)}
    ),
    "a grid over 65535": Case(
        broadcast(row=3, col=2**30 + 1), ELEMENTWISE, {"x": 3 * (2**30 + 1), "by_row": 3}
    ),
    "slices": Case(
        sliced(70000, row=46341, col=46341), ELEMENTWISE, {"x": 46340 * 116341 + 46341, "out": 46341**2}
    ),
    "flip": Case(flipped(n=BIG + 10), ELEMENTWISE, {"x": BIG + 10, "out": BIG + 10}),
    "flip of rows": Case(
        flipped_rows(row=70001, col=50000), ELEMENTWISE, {"x": 70001 * 50000, "out": 70001 * 50000}
    ),
    "transpose": Case(
        transpose(row=50001, col=60001), TRANSPOSED, {"x": 50001 * 60001, "out": 50001 * 60001}
    ),
    "batch of transposes": Case(
        transpose(batch=70001, row=200, col=300), TRANSPOSED, {"x": 70001 * 60000, "out": 70001 * 60000}
    ),
    "short rows": Case(
        reduction(ReduceOp.SUM, "col", "row", back=True, row=2**22 + 3, col=1000),
        ROWS_PERSISTENT,
        {"x": (2**22 + 3) * 1000, "out": (2**22 + 3) * 1000},
    ),
    "long rows": Case(
        reduction(ReduceOp.SUM, "col", "row", back=True, row=60001, col=60000),
        ROWS_LOOPED,
        {"x": 60001 * 60000, "out": 60001 * 60000},
        {"COLS": 16384},
    ),
    "very long rows": Case(
        reduction(ReduceOp.SUM, "col", "row", back=True, row=4000, col=2**20 + 1),
        ROWS_LOOPED,
        {"x": 4000 * (2**20 + 1), "out": 4000 * (2**20 + 1)},
        {"COLS": 2**17},
    ),
    "a sum of all": Case(reduction(ReduceOp.SUM, "n", "", n=SQUARE), ROWS_SPLIT, {"x": SQUARE, "out": 1}),
    "a sum of more": Case(
        reduction(ReduceOp.SUM, "n", "", n=BIG + 77),
        ROWS_SPLIT,
        {"x": BIG + 77, "out": 1},
    ),
    "sums of long rows": Case(
        reduction(ReduceOp.SUM, "col", "row", row=200, col=2**24 + 5),
        ROWS_SPLIT,
        {"x": 200 * (2**24 + 5), "out": 200},
        {"COLS": 2**17},
    ),
    "columns": Case(
        reduction(ReduceOp.SUM, "row", "col", row=200, col=2**24 + 5),
        COLUMNS,
        {"x": 200 * (2**24 + 5), "out": 2**24 + 5},
    ),
    "a batch of columns": Case(
        reduction(ReduceOp.SUM, "row", "batch col", batch=2**20 + 1, row=50, col=96),
        COLUMNS,
        {"x": (2**20 + 1) * 50 * 96, "out": (2**20 + 1) * 96},
    ),
    "columns in chunks": Case(
        reduction(ReduceOp.SUM, "row", "col", row=40960, col=60000),  # so that the last chunk is not empty
        COLUMNS,
        {"x": 40960 * 60000, "out": 60000},
    ),
    "rows and columns": Case(
        both(2**22, 1000),
        ROWS_AND_COLUMNS,
        {"x": 2**22 * 1000, "out": 2**22 * 1000, "sums": 1000},
        {"ELEMENTS": 2**20},
    ),
}


def _run(folder: Path, cases: Mapping[str, Case], narrow: bool = False) -> dict[str, Ends]:
    """Which elements the first and last programs of each case touch."""
    jobs, texts = [], {}
    for number, case in enumerate(cases.values()):
        nest = case.make()
        plan, launch = plan_kernel(nest.nest(), nest.buffers, CUDA)
        assert plan.schedule is case.schedule
        name = f"kernel_{number}"
        texts[name] = printed(name, dataclasses.replace(plan, widths=IndexWidths()) if narrow else plan)
        dtypes = {pointer.name: pointer.dtype for pointer in plan.pointers}
        jobs.append(
            Job(
                folder / "kernels" / f"{name}.py",
                [(buffer, dtypes[buffer]) for buffer in launch.buffers],
                [*launch.sizes, *launch.ints, *launch.scalars],
                dict(case.tunables),
            )
        )
    write_unit(folder, texts)
    (folder / "jobs.pickle").write_bytes(pickle.dumps(jobs))
    root = Path(__file__).resolve().parent.parent.parent
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1", PYTHONPATH=str(root))
    command = [sys.executable, "-m", "tests.emit.positions_worker", str(folder)]
    subprocess.run(command, check=True, env=environment, timeout=600, cwd=root)
    found: list[Ends] = pickle.loads((folder / "touched.pickle").read_bytes())
    return dict(zip(cases, found, strict=True))


@pytest.fixture(scope="module")
def touched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ends]:
    return _run(tmp_path_factory.mktemp("positions") / "unit", CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_first_and_last_programs_touch_the_ends(name: str, touched: dict[str, Ends]) -> None:
    ends = touched[name]
    for tensor, elements in CASES[name].elements.items():
        assert ends[tensor] == (0, elements - 1), f"{tensor} of {elements} elements"


@pytest.mark.slow
def test_in_32_bits_they_would_not(tmp_path: Path) -> None:
    """What the other test sees if nothing is widened: it can fail for every schedule."""
    # Blocks of a power of two end at 2**31: there the margin is not needed, only cheaper than a proof.
    cases = {name: case for name, case in CASES.items() if name != "flat just below"}
    seen = _run(tmp_path / "unit", cases, narrow=True)
    right = [
        name
        for name, ends in seen.items()
        if all(ends.get(tensor) == (0, n - 1) for tensor, n in cases[name].elements.items())
    ]
    assert not right, "these need no 64 bits"
