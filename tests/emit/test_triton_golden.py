"""Printed Triton kernels as a whole, named as a person would; `pytest --update-golden` rewrites the expected texts."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import black
import pytest
import torch

from longhand.emit.text.reference import Reference
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.names.unit_names import KernelNames, Quote
from longhand.schedule.plan import KernelPlan, Tunable
from tests.emit.triton_units import plain_names
from tests.schedule import nests
from tests.schedule.nests import CUDA, NestMaker

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "triton"


@dataclasses.dataclass(frozen=True)
class Golden:
    """A kernel and its words; `values` in the order of the body's loads, operations and reductions with a line."""

    make: NestMaker
    title: str
    quote: Quote
    notes: tuple[str, ...]
    values: tuple[tuple[type | PointwiseOp | ReduceOp, str], ...]
    reference: str


def messages(edges: int, width: int, nodes: int) -> NestMaker:
    """What a graph network adds up: of each edge a row, times the edge's weight, where the edge leads."""
    make = NestMaker(edge=edges, col=width)
    make.buffer("totals", (nodes, width))
    target, weight = make.load("target", "edge", torch.int64), make.load("weight", "edge", torch.bfloat16)
    sent = make.load("sent", "edge col", torch.bfloat16)
    n_nodes = make.scalar(nodes, "n_nodes", torch.int64)
    is_node = make.op(
        PointwiseOp.LOGICAL_AND,
        make.op(PointwiseOp.GE, target, 0),
        make.op(PointwiseOp.LT, target, n_nodes),
    )
    node = make.op(PointwiseOp.WHERE, is_node, target, make.constant(0, torch.int64))
    value = make.op(PointwiseOp.WHERE, is_node, sent * weight, make.constant(math.nan))
    make.add(Store("totals", make.index(values=((node, width),), col=1), int(value), adds=True))
    return make


CASES = {
    "softmax": Golden(
        nests.softmax_with_bias(16384, 4096),
        "attention weights from scaled, biased scores.",
        Quote("Attention.forward", "weights = torch.softmax(scores * 0.125 + bias, dim=-1)"),
        ("Reads scores once and writes weights once; bias stays in cache.",),
        (
            (Load, "scores"),
            (Load, "bias"),
            (PointwiseOp.ADD, "shifted"),
            (ReduceOp.MAX, "row_max"),
            (PointwiseOp.EXP, "numerator"),
            (ReduceOp.SUM, "denominator"),
        ),
        "return torch.softmax(scores * 0.125 + bias, dim=-1)",
    ),
    "add_layer_norm": Golden(
        nests.add_layer_norm(8, 2048, 4096),
        "the residual sum, normalized.",
        Quote("Block.forward", "h = self.ln_2(x + attn)"),
        ("Reads x and attn once and writes h once; weight and bias stay in cache.",),
        (
            (Load, "x"),
            (Load, "attn"),
            (PointwiseOp.ADD, "residual"),
            (PointwiseOp.DIV, "mean"),
            (PointwiseOp.SUB, "centered"),
            (PointwiseOp.DIV, "variance"),
            (PointwiseOp.RSQRT, "rstd"),
            (Load, "weight"),
            (Load, "bias"),
        ),
        "return torch.nn.functional.layer_norm(x + attn, weight.shape, weight, bias, eps)",
    ),
    "cross_entropy": Golden(
        nests.cross_entropy(8192, 32768),
        "per-row loss from logits in one pass, with a running maximum and a running sum.",
        Quote("train_step", 'loss = F.cross_entropy(logits.float(), target, reduction="none")'),
        ("Reads logits once.",),
        (
            (Load, "logits"),
            (ReduceOp.MAX, "row_max"),
            (ReduceOp.SUM, "row_sum"),
            (Load, "target"),
            (Load, "target_logit"),
        ),
        'return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")',
    ),
    "column_sum": Golden(
        nests.column_sum(65536, 2048),
        "the sum of each column of 2 * x.",
        Quote("total", "out = (x * 2).sum(0)"),
        ("Reads x once.",),
        ((Load, "x"), (ReduceOp.SUM, "total")),
        "return (x * 2).sum(0)",
    ),
    "transpose_add": Golden(
        nests.transpose_add(8192, 8192),
        "x.t() + y, in square tiles so that both reads and the write are coalesced.",
        Quote("mix", "out = x.t().contiguous() + y"),
        ("Reads x and y once and writes out once.",),
        ((Load, "x"), (Load, "y")),
        "return x.t() + y",
    ),
    "messages": Golden(
        messages(131072, 256, 32768),
        "totals[target] += sent * weight.",
        Quote("Convolution.forward", "out = zeros.index_add(0, target, sent * weight)"),
        ("Reads target, weight and sent once, adds to totals.",),
        (
            (Load, "target"),
            (Load, "weight"),
            (Load, "sent"),
            (PointwiseOp.LOGICAL_AND, "is_node"),
            (PointwiseOp.WHERE, "node"),
            (PointwiseOp.WHERE, "message"),
        ),
        "return sent * weight",
    ),
}


def named(plan: KernelPlan, kernel: str, golden: Golden) -> KernelNames:
    values: dict[int, str] = {}
    wanted = list(golden.values)
    for position, value in enumerate(plan.body):
        what = value.op if isinstance(value, Pointwise | Reduce) else type(value)
        if wanted and what == wanted[0][0]:
            values[position] = wanted.pop(0)[1]
    assert not wanted, wanted
    pointers = {
        pointer.name: f"{golden.values[-1][1]}_partial" if pointer.scratch else pointer.name
        for pointer in plan.pointers
    }
    return dataclasses.replace(
        plain_names(plan, kernel),
        title=golden.title,
        quotes=(golden.quote,),
        notes=golden.notes,
        values=values,
        pointers=pointers,
    )


def text_of(kernel: str) -> str:
    golden = CASES[kernel]
    plan, _ = plan_kernel(golden.make.nest(), golden.make.buffers, CUDA)
    # Tunables are measured and change; these texts should not.
    values = {
        "ELEMENTS": 4096,
        "WARP_ELEMENTS": 1024,
        "ROWS": 32,
        "COLS": 1024,
        "TILE": 128,
        "SPLITS": 64,
        "PROGRAMS": 1024,
        "SUM_COLS": 16,
        "NUM_STAGES": 2,
    }
    tunables = tuple(Tunable(one.name, values.get(one.name, 8), one.comment) for one in plan.tunables)
    plan = dataclasses.replace(plan, tunables=tunables)
    arguments = ", ".join(dict.fromkeys(p.name for p in plan.pointers if p.access.value == "read"))
    eps = ", eps" if plan.scalars else ""
    reference = (
        f'def reference({arguments}{eps}):\n    """What {kernel}() must compute."""\n    {golden.reference}'
    )
    modules = ("torch." in golden.reference, "F." in golden.reference)
    return print_triton_kernel(plan, named(plan, kernel, golden), Reference(reference, (), {}, (), *modules))


@pytest.mark.parametrize("kernel", CASES)
def test_text(kernel: str, update_golden: bool) -> None:
    path = GOLDEN / f"{kernel}.py.txt"
    text = text_of(kernel)
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("kernel", CASES)
def test_text_is_as_black_leaves_it(kernel: str) -> None:
    text = text_of(kernel)
    assert text == black.format_str(text, mode=black.Mode(line_length=110))


def test_ruff_has_nothing_to_say(tmp_path: Path) -> None:
    for kernel in CASES:
        (tmp_path / f"{kernel}.py").write_text(text_of(kernel))
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--line-length",
        "110",
        "--select",
        "E,F,B,UP,RET",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
