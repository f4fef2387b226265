"""What a compilation tells about its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import sympy
import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private
from longhand.emit.unit.threeway import MergeReport
from longhand.lower.ir import Buffer, Extern, Size, View
from longhand.schedule.plan import Launch, TrainingPlan, UnitPlan, flat_steps
from longhand.telling.clock import Timings

# What nobody asks a generated kernel to do: products, convolutions, attention. By the op's name, or how it begins.
_HEAVY = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "linear",
    "matmul",
    "einsum",
    "bilinear",
)
_HEAVY_PREFIXES = ("conv", "scaled_dot_product", "_scaled_dot_product")


@dataclasses.dataclass(frozen=True)
class LibraryCall:
    """A call that a library answers, not a kernel of ours.

    Attributes:
        target: ``aten.mm.default``.
        reason: Why it is no kernel; None where a library does it best.
        count: How often it is called.
    """

    target: str
    reason: str | None
    count: int


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """What was generated.

    Attributes:
        out: The unit's folder.
        name: The class or function that it exports.
        files: Paths in it, without those that longhand keeps for itself (.base).
        n_kernels: Kernel files.
        n_launches: Their launches in one call.
        library_calls: What is left to libraries.
        n_refused: Fusions considered and not done.
        kernel_bytes: What the kernels read and write in one call.
        library_bytes: The same of library calls, leaving out products, convolutions and attention.
        timings: Seconds by stage.
        merge: What became of each file that was there before.
        report: In training: what is saved for the backward pass and what is computed again.
        in_torch: Kernels that are PyTorch calls, since they do not compile or are wrong: a bug of ours each.
        trial: What came of running the unit once, in words; empty if nobody asked for it.
    """

    out: Path
    name: str
    files: tuple[str, ...]
    n_kernels: int
    n_launches: int
    library_calls: tuple[LibraryCall, ...]
    n_refused: int
    kernel_bytes: int
    library_bytes: int
    timings: Timings
    merge: MergeReport
    report: str = ""
    in_torch: tuple[str, ...] = ()
    trial: str = ""

    def __repr__(self) -> str:
        return f"<Summary {self}>"

    def __str__(self) -> str:
        n_calls = sum(call.count for call in self.library_calls)
        launches = f"launched {counted(self.n_launches, 'time')}" if self.n_launches != 1 else "launched once"
        kernels = counted(self.n_kernels, "kernel")
        return f"{self.out}: {self.name}, {kernels} {launches}, {counted(n_calls, 'library call')}"

    @property
    def fallbacks(self) -> tuple[LibraryCall, ...]:
        """Calls to a library that longhand has no lowering for."""
        return tuple(call for call in self.library_calls if call.reason)


def counted(count: int, word: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {word}{'s' * (count != 1)}"


def summarize(
    plan: UnitPlan,
    out: Path,
    files: tuple[str, ...],
    timings: Timings,
    merge: MergeReport,
    training: TrainingPlan | None = None,
    in_torch: Iterable[str] = (),
    trial: str = "",
) -> Summary:
    """The summary of a plan that was written, its backward pass included."""
    plans = [plan] if training is None else [plan, training.backward]
    placed = [(one, step) for one in plans for step in flat_steps(one.steps)]
    steps = [step for _, step in placed]
    examples = plan.program.graph.examples
    calls: dict[tuple[str, str | None], int] = {}
    for step in steps:
        if isinstance(step, Extern):
            key = (str(step.target), step.reason)
            calls[key] = calls.get(key, 0) + 1
    return Summary(
        out=out,
        name=plan.program.graph.name,
        files=tuple(sorted(path for path in files if not path.startswith(".base/"))),
        n_kernels=len({key for one in plans for key in one.kernels}),
        n_launches=sum(isinstance(step, Launch) for step in steps),
        library_calls=tuple(LibraryCall(target, reason, count) for (target, reason), count in calls.items()),
        n_refused=sum(len(one.refusals) for one in plans),
        kernel_bytes=sum(concrete(step.bytes_moved, examples) for step in steps if isinstance(step, Launch)),
        library_bytes=sum(
            _extern_bytes(step, one, examples)
            for one, step in placed
            if isinstance(step, Extern) and not _is_heavy(str(step.target))
        ),
        timings=timings,
        merge=merge,
        report=training.graphs.report if training is not None else "",
        in_torch=tuple(in_torch),
        trial=trial,
    )


def _is_heavy(target: str) -> bool:
    """Whether ``aten.conv2d.default`` and the like is a product, a convolution or attention."""
    name = target.split(".")[1] if "." in target else target
    return name in _HEAVY or name.startswith(_HEAVY_PREFIXES)


def _extern_bytes(step: Extern, plan: UnitPlan, examples: dict[sympy.Symbol, int]) -> int:
    """What a library call reads and writes, each element once."""
    if finds_it_contiguous(step, plan.buffers, examples):
        return 0
    total = 0
    for leaf in pytree.tree_leaves(
        (step.args, dict(step.kwargs)), is_leaf=lambda leaf: isinstance(leaf, View)
    ):
        if isinstance(leaf, View):
            total += _elements(leaf, examples) * plan.buffers[leaf.buffer].dtype.itemsize
    for name in filter(None, step.outputs):  # nobody reads those without a name
        total += _elements(plan.buffers[name], examples) * plan.buffers[name].dtype.itemsize
    return total


def finds_it_contiguous(
    step: Extern, buffers: Mapping[str, Buffer], examples: Mapping[sympy.Symbol, int]
) -> bool:
    """Whether the call is a `contiguous` that copies nothing where a library lays its result out as at capture.

    Nothing but the library knows how it does, so the call is written; the gradients of attention, heads side by side
    again, are contiguous as they come.
    """
    if (
        step.target is not torch.ops.aten.contiguous.default
        or step.kwargs
        or not isinstance(step.args[0], View)
    ):
        return False
    view = step.args[0]
    buffer = buffers[view.buffer]
    sizes, strides = ([concrete(size, examples) for size in part] for part in (buffer.shape, buffer.stride))
    given = seen = torch.empty_strided(sizes, strides, dtype=buffer.dtype, device="meta")
    for call in view.calls:
        args = pytree.tree_map_only(sympy.Expr, lambda size: concrete(size, examples), call.args)
        seen = call.target(seen, *args)
    is_view = torch_private.storage_key(seen) == torch_private.storage_key(given)
    return is_view and seen.is_contiguous()


def _elements(tensor: View | Buffer, examples: dict[sympy.Symbol, int]) -> int:
    count = 1
    for size in tensor.shape:
        count *= concrete(size, examples)
    return count


def concrete(size: Size, examples: Mapping[sympy.Symbol, int]) -> int:
    """A size, with the values that symbols had at capture."""
    return size if isinstance(size, int) else int(size.subs(examples))
