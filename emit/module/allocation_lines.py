"""The lines of model.py that make tensors for kernels to fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from longhand.emit.module.tensor_lists import MadeList, TensorList, list_text
from longhand.emit.module.trained_call import SAVED
from longhand.emit.names.words import singular
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Buffer, Size, memory_order
from longhand.options import Device
from longhand.schedule.plan import Access, Allocate, Launch, UnitPlan

_CHANNELS_LAST = [0, 2, 3, 1]


class AllocationWriter:
    """Prints allocations in one function.

    Args:
        plan: The unit's plan.
        variables: The variable of each buffer inside this function.
        sizes: Writes sizes with the words that this function binds.
        device: A Python expression for the device of new tensors on CUDA: ``x.device``.
        lists: The arguments that kernels take as lists, and the lists that are made for them.
    """

    def __init__(
        self,
        plan: UnitPlan,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        device: str,
        lists: Sequence[TensorList | MadeList],
    ) -> None:
        self.plan = plan
        self.variables = variables
        self.sizes = sizes
        self.device = device
        self.lists = lists

    def write(self, step: Allocate, launch: Launch | None) -> str:
        """``residual = torch.empty_like(x)``; `launch` is the one that the tensor is made for."""
        buffer, variable = self.plan.buffers[step.buffer], self.variables[step.buffer]
        twin = self._twin(buffer, launch)
        on_cpu = self.plan.options.target.device is Device.CPU
        order = memory_order(buffer)
        is_plain = not _reordered(order)
        if twin is not None and not on_cpu:
            return f"{variable} = torch.empty_like({twin})"
        if twin is not None and is_plain:
            return f"{variable} = empty({twin}.shape, {buffer.dtype})"
        dims = self.sizes.dims(buffer)
        rest = f"dtype={buffer.dtype}, device={self.device}"
        if order == _CHANNELS_LAST and not on_cpu:
            return f"{variable} = torch.empty(({', '.join(dims)}), {rest}, memory_format=torch.channels_last)"
        shape = f"({', '.join(dims[dim] for dim in order)}{',' * (len(dims) == 1)})"
        made = f"empty({shape}, {buffer.dtype})" if on_cpu else f"torch.empty({shape}, {rest})"
        return f"{variable} = {made}{_reordered(order)}"

    def write_list(self, one: MadeList) -> str:
        """``denominators = [empty(param.shape, torch.float32) for param in params]``"""
        on_cpu = self.plan.options.target.device is Device.CPU
        dtype = self.plan.buffers[one.nodes[0]].dtype
        if one.like is not None:
            source = list_text(one.like, self.variables, self.lists)
            word = singular(source) if source.isidentifier() and singular(source) != source else "tensor"
            make = f"empty({word}.shape, {dtype})" if on_cpu else f"torch.empty_like({word})"
            return f"{one.name} = [{make} for {word} in {source}]"
        made = []
        for name in one.nodes:
            buffer = self.plan.buffers[name]
            order, dims = memory_order(buffer), self.sizes.dims(buffer)
            shape = f"({', '.join(dims[dim] for dim in order)}{',' * (len(dims) == 1)})"
            rest = f"dtype={buffer.dtype}, device={self.device}"
            text = f"empty({shape}, {buffer.dtype})" if on_cpu else f"torch.empty({shape}, {rest})"
            made.append(f"{text}{_reordered(order)}")
        return f"{one.name} = [{', '.join(made)}]"

    def _twin(self, buffer: Buffer, launch: Launch | None) -> str | None:
        """A tensor at hand with the same shape, dtype and layout: something that the launch reads."""
        if launch is None:
            return None
        for name in launch.buffers:
            other = self.plan.buffers[name]
            is_alike = (
                name != buffer.name
                and other.dtype == buffer.dtype
                and same_sizes(other.shape, buffer.shape)
                and same_sizes(other.stride, buffer.stride)
                and other.layout_is_known
                and not self._differs_in_words(buffer, other)
            )
            variable = self.variables[name]
            is_plain = variable.removeprefix(f"{SAVED}.").isidentifier()
            if is_alike and is_plain and self._reads(launch, name):
                return variable
        return None

    def _differs_in_words(self, buffer: Buffer, other: Buffer) -> bool:
        """Whether two shapes are the same by chance: of a square matrix and its transpose."""
        words = zip(self.sizes.words_of(buffer), self.sizes.words_of(other), strict=True)
        return any(one and two and one != two for one, two in words)

    def _reads(self, launch: Launch, name: str) -> bool:
        kernel = self.plan.kernels[launch.kernel]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        return any(
            pointer.access is not Access.WRITE
            for pointer, given in zip(passed, launch.buffers, strict=True)
            if given == name
        )


def _reordered(order: Sequence[int]) -> str:
    """The call that brings dimensions back from the order in which they lie in memory."""
    moved = [dim for dim, place in enumerate(order) if dim != place]
    if not moved:
        return ""
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(str(order.index(dim)) for dim in range(len(order)))})"


def same_sizes(one: Iterable[Size], other: Iterable[Size]) -> bool:
    """Whether two shapes (or strides) are equal, symbols included."""
    return [str(size) for size in one] == [str(size) for size in other]
