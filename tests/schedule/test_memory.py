"""Memory is taken over only where nothing is lost, and dropped where that lowers the peak."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.lower.ir import Buffer, BufferKind, Extern, View
from longhand.schedule.memory.alias_legality import may_alias
from longhand.schedule.memory.assignment import release_buffers
from longhand.schedule.plan import Access, KernelPlan, Launch, Release, Reuse, touched
from longhand.schedule.targets import CPP
from tests.schedule.test_scheduler import launches, planned, rand


def kernel_of(function: Any, *args: torch.Tensor, target: str = "cpu") -> tuple[KernelPlan, Launch]:
    plan = planned(function, *args, target=target)
    (launch,) = launches(plan)
    return plan.kernels[launch.kernel], launch


def pointers(kernel: KernelPlan) -> tuple[str, str]:
    """The first pointer that is read and the first that is written."""
    read = next(pointer.name for pointer in kernel.pointers if pointer.access is Access.READ)
    return read, next(pointer.name for pointer in kernel.pointers if pointer.access is Access.WRITE)


def test_elementwise_may_overwrite() -> None:
    kernel, _ = kernel_of(lambda x: x.exp(), rand(4, 8))
    assert may_alias(kernel, *pointers(kernel), CPP)


def test_a_transposed_read_is_not_overwritten() -> None:
    kernel, _ = kernel_of(lambda x: x.t().contiguous() * 2, rand(32, 32))
    assert not may_alias(kernel, *pointers(kernel), CPP)


def test_what_a_later_pass_reads_again_is_not_overwritten() -> None:
    kernel, _ = kernel_of(lambda x: torch.softmax(x, -1), rand(4, 8))
    read, written = pointers(kernel)
    assert may_alias(kernel, read, written, CPP)
    # Suppose that the first pass put something into the output row and the next one loaded x once more.
    store = next(p for p, value in enumerate(kernel.body) if getattr(value, "buffer", "") == written)
    early = dataclasses.replace(kernel.passes[0], stores=(store,))
    again = dataclasses.replace(kernel.passes[0])
    assert not may_alias(dataclasses.replace(kernel, passes=(early, again)), read, written, CPP)


def test_inputs_and_results_are_never_overwritten() -> None:
    plan = planned(lambda x, y: (torch.mm(x, y), torch.mm(x, y).exp(), y.exp()), rand(8, 8), rand(8, 8))
    assert not [step for step in plan.steps if isinstance(step, Reuse)]


def test_what_is_needed_later_is_not_overwritten() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = torch.mm(x, y)
        return torch.mm(scores.exp(), y) + scores

    plan = planned(function, rand(8, 8), rand(8, 8))
    first = next(step for step in plan.steps if isinstance(step, Launch))
    assert not [step for step in plan.steps if isinstance(step, Reuse) and step.buffer in first.buffers]


def test_a_chain_of_products_releases_only_large_and_long_gone_buffers() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = F.gelu(torch.mm(x, w))
        return torch.mm(x, w)

    large = planned(function, 0.1 * rand(4096, 256), 0.1 * rand(256, 256))
    small = planned(function, 0.1 * rand(8, 8), 0.1 * rand(8, 8))
    assert [step for step in large.steps if isinstance(step, Release)]
    assert not [step for step in small.steps if isinstance(step, Release)]


def test_what_the_forward_pass_saved_goes_when_it_was_read() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, w)
        for _ in range(3):
            y = torch.mm(y, w)
        return torch.mm(y, w)

    plan = planned(function, rand(16384, 256), rand(256, 256))
    kept = frozenset(view.buffer for view in plan.results if isinstance(view, View))
    bare = [step for step in plan.steps if not isinstance(step, Release)]
    alone = release_buffers(bare, plan.buffers, kept, {})
    handed = release_buffers(bare, plan.buffers, kept, {}, frozenset(["arg0_1"]))
    assert not any("arg0_1" in step.buffers for step in alone if isinstance(step, Release))
    (place,) = [n for n, step in enumerate(handed) if isinstance(step, Release) and "arg0_1" in step.buffers]
    assert not any("arg0_1" in touched(step) for step in handed[place + 1 :])


def _chain_with_an_idle_tensor(n_long: int) -> list[tuple[str, ...]]:
    """What is released where of n + 2 tensors one is read by the second call alone, the others by the last one."""
    shape, stride = (2048, 2048), (2048, 1)
    names = ["idle", *(f"long_{place}" for place in range(n_long)), "total"]
    buffers = {name: Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, stride) for name in names}

    def call(made: str, *read: str) -> Extern:
        seen = tuple(View(name, shape, stride) for name in read)
        return Extern(torch.ops.aten.cat.default, (seen,), (), (made,))

    steps = [call("idle"), *(call(name, "idle") for name in names[1:2]), *map(call, names[2:-1])]
    steps.append(call("total", *names[1:-1]))
    released = release_buffers(steps, buffers, frozenset(["total"]), {})
    return [step.buffers for step in released if isinstance(step, Release)]


def test_what_lies_idle_is_dropped_where_it_counts() -> None:
    assert _chain_with_an_idle_tensor(10) == [("idle",)]
    assert _chain_with_an_idle_tensor(40) == []  # a fortieth of the peak


def test_what_is_handed_on_takes_its_part_of_the_peak() -> None:
    shape, stride = (2048, 2048), (2048, 1)
    names = ("totals", "d_h", "d_x")
    buffers = {name: Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, stride) for name in names}

    def call(made: str, *read: str) -> Extern:
        seen = tuple(View(name, shape, stride) for name in read)
        return Extern(torch.ops.aten.cat.default, (seen,), (), (made,))

    # While the last is made, which stays, two are alive if the first went, and three if not.
    steps = [call("totals"), call("d_h", "totals"), call("d_x", "d_h")]
    released = release_buffers(steps, buffers, frozenset(["d_x"]), {})
    assert [step.buffers for step in released if isinstance(step, Release)] == [("totals",)]


def test_products_are_added_where_their_total_lies() -> None:
    def sums(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = torch.mm(x, y)
        for factor in (x, y, x):
            total = torch.addmm(total, factor, y)
        read = torch.mm(y, y)
        shared = torch.addmm(read, x, x)
        return total, shared, read.exp(), torch.addmm(x, y, y)

    plan = planned(sums, 0.1 * rand(8, 8), 0.1 * rand(8, 8))
    calls = [step for step in plan.steps if isinstance(step, Extern)]
    in_place = [step for step in calls if step.target is torch.ops.aten.addmm_.default]
    # All of the first sum are one buffer; what is read elsewhere, or the caller's, stays as it is.
    assert len(in_place) == 3 and len({step.mutates for step in in_place}) == 1
    assert sum(step.target is torch.ops.aten.addmm.default for step in calls) == 2


class Layer(nn.Module):
    """A value of its own that is called as one of the model's."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        return self.down(hidden.tanh() * x)


class BesideLayers(nn.Module):
    """A wide value before calls of one function."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 2048), nn.Linear(2048, 64)
        self.a, self.b, self.c = Layer(), Layer(), Layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.wide(x)
        x = self.narrow(hidden.softmax(-1))
        return self.c(self.b(self.a(x)).softmax(-1)).softmax(0)


def test_what_a_call_has_for_itself_binds_no_name_here(tmp_path: Path) -> None:
    """The model's own names are dropped before the calls, all that the memory has."""
    longhand.generate(BesideLayers().eval(), (torch.rand(8192, 64),), out=tmp_path / "unit", run=False)
    text = (tmp_path / "unit" / "model.py").read_text()
    called = text.partition("    def forward(self, x):")[2].partition("layer_tanh(")[0]
    assert "layer_tanh(self.c" in text
    assert "del hidden, weights" in called
