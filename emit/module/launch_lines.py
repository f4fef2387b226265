"""The lines of model.py that launch kernels: tensors, sizes, strides and numbers, in the words of the function.

Tensors go by position. So do one or two numbers; more than that nobody can count, and they go by the names that the
kernel has for them. Either costs the same: nothing in C++, 0.1 us before a Triton launch that takes several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import fx

from longhand.emit.module.halves import half_of
from longhand.emit.module.tensor_lists import MadeList, TensorList, list_text
from longhand.emit.module.view_calls import argument
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.operation_names import aten_name
from longhand.emit.names.pointer_shapes import shape_words
from longhand.emit.names.unit_names import KernelNames, UnitNames
from longhand.emit.text.numbers import number
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Buffer, Size
from longhand.schedule.plan import Access, KernelPlan, Launch, UnitPlan

_MANY = 3  # numbers in a row


def number_words(plan: KernelPlan, names: KernelNames) -> tuple[str, ...]:
    """What a kernel's host function calls the numbers that follow its tensors, in order; lists tell their sizes."""
    sizes = [names.axes[axis.name].size for axis in plan.axes] if not plan.schedule.is_over_lists else []
    ints = [names.ints[parameter.name] for parameter in plan.ints] if not plan.schedule.is_over_lists else []
    return (*sizes, *ints, *(names.scalars[scalar.position] for scalar in plan.scalars))


class LaunchWriter:
    """Prints launches in one function.

    Args:
        plan: The unit's plan.
        names: Its words.
        words: The captured graph's.
        variables: The variable of each buffer inside this function.
        sizes: Writes sizes with the words that this function binds.
        lists: The arguments that kernels take as lists, and the lists that are made for them.
    """

    def __init__(
        self,
        plan: UnitPlan,
        names: UnitNames,
        words: BufferWords,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        lists: Sequence[TensorList | MadeList],
    ) -> None:
        self.plan = plan
        self.names = names
        self.words = words
        self.variables = variables
        self.sizes = sizes
        self.lists = lists

    def write(self, step: Launch) -> str:
        """``kernels.add_layer_norm(x, attn, weight, bias, residual, n_rows=batch * seq, n_cols=dim, eps=1e-5)``"""
        if self.plan.kernels[step.kernel].schedule.is_over_lists:
            return self._launch_of_lists(step)
        sizes = self._axis_sizes(step)
        ints = self._ints(step)
        by_axis = dict(zip((axis.name for axis in self.plan.kernels[step.kernel].axes), sizes, strict=True))
        scalars = [
            half_of(self.plan.kernels[step.kernel], step, scalar.position, by_axis)
            or self._boundary(self.plan.kernels[step.kernel], scalar.position, value)
            or self._dimension(step, scalar.position, value)
            or self._scalar(value)
            for scalar, value in zip(self.plan.kernels[step.kernel].scalars, step.scalars, strict=True)
        ]
        tensors = [self.variables[name] for name in step.buffers]
        given = [*tensors, *self._numbers(step, [*sizes, *ints, *scalars])]
        remark = "  # in place" if len(set(tensors)) < len(tensors) and self._is_in_place(step) else ""
        return f"kernels.{self.names.kernels[step.kernel].kernel}({', '.join(given)}){remark}"

    def _numbers(self, step: Launch, texts: Sequence[str]) -> list[str]:
        """Sizes, strides and scalars, by keyword where there are many."""
        words = number_words(self.plan.kernels[step.kernel], self.names.kernels[step.kernel])
        if len(texts) < _MANY:
            return list(texts)
        return [f"{word}={text}" for word, text in zip(words, texts, strict=True)]

    def _ints(self, step: Launch) -> list[str]:
        """Strides by the words of the sizes that they are products of."""
        kernel = self.plan.kernels[step.kernel]
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        buffers = dict(zip(passed, step.buffers, strict=True))
        return [
            (
                self._int(value, self.plan.buffers[buffers[parameter.pointer]], parameter.axis is None)
                if parameter.pointer in buffers
                else self.sizes.text(value)
            )
            for parameter, value in zip(kernel.ints, step.ints, strict=True)
        ]

    def _int(self, value: Size, buffer: Buffer, is_offset: bool) -> str:
        if not is_offset:
            return self.sizes.stride(value, buffer)
        return self.sizes.before_padding(value, buffer) or self.sizes.text(value)

    def _boundary(self, kernel: KernelPlan, position: int, value: float | Size) -> str | None:
        """Where one of the pieces of a ``cat`` ends, if the pieces before have one word: ``2 * dim``."""
        node = self.words.nodes.get(getattr(kernel.body[position], "origin", ""))
        if node is None or aten_name(node) != "cat" or not isinstance(value, int):
            return None
        pieces, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
        assert isinstance(pieces, list | tuple) and isinstance(dim, int)
        end, words = 0, []
        for piece in pieces:
            assert isinstance(piece, fx.Node)
            shape = piece.meta["val"].shape
            if end >= value or not isinstance(shape[dim], int):
                break
            end += shape[dim]
            words.append(self.sizes.text(shape[dim], self.sizes.words_at(piece.name, len(shape))[dim]))
        if end != value or len(set(words)) != 1 or words[0].isdigit():
            return None
        return words[0] if len(words) == 1 else f"{len(words)} * {words[0]}"

    def _launch_of_lists(self, step: Launch) -> str:
        """``kernels.adamw(params, grads, exp_avgs, exp_avg_sqs, eps)``: lists tell their own sizes."""
        kernel = self.plan.kernels[step.kernel]
        given = []
        for place, pointer in enumerate(kernel.pointers):
            tensors = [group.buffers[place] for group in step.groups]
            is_list = pointer.many
            given.append(
                list_text(tensors, self.variables, self.lists) if is_list else self.variables[tensors[0]]
            )
        given += self._numbers(step, [self._scalar(value) for value in step.scalars])
        return f"kernels.{self.names.kernels[step.kernel].kernel}({', '.join(given)})"

    def _is_in_place(self, step: Launch) -> bool:
        """Whether two buffers of the launch share a variable because one takes over the other's memory."""
        kernel = self.plan.kernels[step.kernel]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        written = [
            buffer
            for pointer, buffer in zip(passed, step.buffers, strict=True)
            if pointer.access is not Access.READ
        ]
        return any(
            self.variables[one] == self.variables[other] and one != other
            for one in written
            for other in step.buffers
        )

    def _axis_sizes(self, step: Launch) -> list[str]:
        """The sizes of the kernel's axes, from what the launch writes, else from what it reads."""
        kernel = self.plan.kernels[step.kernel]
        names = [axis.name for axis in kernel.axes]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        given = [
            (self.variables[buffer], self.plan.buffers[buffer], pointer.dims)
            for pointer, buffer in zip(passed, step.buffers, strict=True)
            if pointer.dims
        ]
        texts = self.sizes.axes(dict(zip(names, step.sizes, strict=True)), given[::-1])
        return [texts[name] for name in names]

    def _dimension(self, step: Launch, position: int, value: float | Size) -> str | None:
        """The text for a scalar that is the size of a tensor's dimension: where a table or what is padded ends."""
        kernel, names = self.plan.kernels[step.kernel], self.names.kernels[step.kernel]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        for pointer, name in zip(passed, step.buffers, strict=True):
            buffer, words = self.plan.buffers[name], shape_words(kernel, names, pointer) or ()
            known = zip(buffer.shape, self.sizes.words_of(buffer), strict=True)
            dims = [(size, word) for size, word in known if str(size) != "1"]
            if names.scalars[position] not in words or len(words) != len(dims):
                continue
            size, word = dims[words.index(names.scalars[position])]
            if not isinstance(value, float) and str(size) == str(value):
                return self.sizes.text(value, word)
        return None

    def _scalar(self, value: float | Size) -> str:
        return number(value) if isinstance(value, float) else argument(value, self.sizes)
