"""The lines of model.py that launch kernels, and that make tensors for them to fill, in the function's words.

Tensors, sizes, strides and numbers; half of an axis, where two halves are joined, is ``head_dim // 2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torch import fx

from longhand.capture.graph import Role
from longhand.emit.module.offset_texts import (
    PieceSizes,
    before_pieces,
    blocks_before,
    over_others,
    step_over_parts,
)
from longhand.emit.module.paragraphs import LineKind, PythonLine
from longhand.emit.module.trees import MadeList, TensorList, list_text
from longhand.emit.module.view_calls import argument
from longhand.emit.text.expression import number
from longhand.emit.text.kernel_head import shape_words
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import averaged_of, half_of, is_bare, is_path
from longhand.lower.ir import Buffer, Extern, Size, memory_order
from longhand.options import Device
from longhand.schedule.named_plan import (
    BufferWords,
    KernelNames,
    ModelStep,
    UnitNames,
    aten_name,
    filled_with,
    is_plain_variable,
)
from longhand.schedule.names.words import singular
from longhand.schedule.plan import Access, Allocate, KernelPlan, Launch, UnitPlan

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

    def begin(self, step: Allocate, later: Sequence[ModelStep]) -> tuple[PythonLine, Extern | None]:
        """A new tensor; and the call behind it that fills it with one number, which its line then does."""
        fill = later[0] if later else None
        value = filled_with(fill, self.plan.buffers[step.buffer])
        if isinstance(fill, Extern) and value is not None:
            return self.write_filled(step, value), fill
        return self.write(step), None

    def write(self, step: Allocate) -> PythonLine:
        """``residual = torch.empty_like(x)``"""
        buffer, variable = self.plan.buffers[step.buffer], self.variables[step.buffer]
        twin = self._like(step)
        on_cpu = self.plan.options.target.device is Device.CPU
        order = memory_order(buffer)
        is_plain = not _reordered(order)
        if twin is not None and not on_cpu:
            return PythonLine.assignment(variable, f"torch.empty_like({twin})")
        if twin is not None and is_plain:
            pooled = f"empty({twin}.shape, {buffer.dtype})"
            return PythonLine.assignment(variable, pooled, LineKind.POOLED)
        dims = self._dims(step)
        if order == _CHANNELS_LAST and not on_cpu:
            rest = f"dtype={buffer.dtype}, device={self.device}, memory_format=torch.channels_last"
            return PythonLine.assignment(variable, f"torch.empty({', '.join(dims)}, {rest})")
        made = self._made(buffer, [dims[dim] for dim in order], self._sibling(step))
        kind = LineKind.POOLED if on_cpu else LineKind.PLAIN
        return PythonLine.assignment(variable, f"{made}{_reordered(order)}", kind)

    def write_filled(self, step: Allocate, value: float) -> PythonLine:
        """``zeros = torch.zeros(batch, seq)``: a new tensor of one number, in the pool's memory on the CPU."""
        buffer, variable = self.plan.buffers[step.buffer], self.variables[step.buffer]
        is_zero, is_plain = value == 0, not _reordered(memory_order(buffer))
        if self.plan.options.target.device is Device.CPU or not is_plain:
            made = self.write(Allocate(step.buffer, step.is_result))
            filled = f"{made.value}.zero_()" if is_zero else f"{made.value}.fill_({number(value)})"
            return PythonLine.assignment(variable, filled, made.kind)
        dims = ", ".join(self._dims(Allocate(step.buffer))) or "()"
        rest = f"dtype={buffer.dtype}, device={self.device}"
        if value in (0, 1):
            return PythonLine.assignment(variable, f"torch.{'zeros' if is_zero else 'ones'}({dims}, {rest})")
        shape = dims if not buffer.shape else f"({dims}{',' * (len(buffer.shape) == 1)})"
        return PythonLine.assignment(variable, f"torch.full({shape}, {number(value)}, {rest})")

    def _dims(self, step: Allocate) -> list[str]:
        """The sizes of a new tensor's dimensions; where a function is one for several sizes as tensors tell them."""
        buffer = self.plan.buffers[step.buffer]
        if not self.sizes.reads_shapes:
            known = zip(buffer.shape, self.sizes.words_of(buffer), strict=True)
            return self.sizes.dims(buffer, [self._of_word(step, *one) for one in known], words_first=True)
        siblings = [one for one in self._at_hand(step.beside) if len(one.shape) == len(buffer.shape)]
        told = []
        for place, size in enumerate(buffer.shape):
            alike = (one for one in siblings if size != 1 and str(one.shape[place]) == str(size))
            sibling = next(alike, None)
            told.append(f"{self.variables[sibling.name]}.shape[{place}]" if sibling is not None else None)
        return self.sizes.dims(buffer, told)

    def _of_word(self, step: Allocate, size: Size, word: str | None) -> str | None:
        """``means.shape[0]``: a size by a tensor at hand that has it under the same word, which means another here."""
        for one in self._at_hand(step.beside) if word and size != 1 else ():
            known = list(zip(map(str, one.shape), self.sizes.words_of(one), strict=True))
            if (str(size), word) in known:
                return f"{self.variables[one.name]}.shape[{known.index((str(size), word))}]"
        return None

    def _made(self, buffer: Buffer, dims: Sequence[str], sibling: str | None = None) -> str:
        """``x.new_empty(batch, seq)``: sizes one by one, since a tuple of them costs PyTorch twice the time."""
        if self.plan.options.target.device is Device.CPU:
            return f"empty(({', '.join(dims)}{',' * (len(dims) == 1)}), {buffer.dtype})"
        if sibling is not None and dims:
            return f"{sibling}.new_empty({', '.join(dims)})"
        return f"torch.empty({', '.join(dims) or '()'}, dtype={buffer.dtype}, device={self.device})"

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
            made.append(f"{self._made(buffer, [dims[dim] for dim in order])}{_reordered(order)}")
        return f"{one.name} = [{', '.join(made)}]"

    def _like(self, step: Allocate) -> str | None:
        """The word of the tensor that a new one is made like."""
        buffer = self.plan.buffers[step.buffer]
        alike = (other for other in self._at_hand(step.like) if not self._differs_in_words(buffer, other))
        return next((self.variables[other.name] for other in alike), None)

    def _sibling(self, step: Allocate) -> str | None:
        """A tensor at hand with the same dtype, on the same device: a number may be on another."""
        return next((self.variables[one.name] for one in self._at_hand(step.beside) if one.shape), None)

    def _at_hand(self, names: Iterable[str]) -> Iterator[Buffer]:
        """Those buffers that have a plain variable here."""
        for name in names:
            if is_plain_variable(self.variables.get(name, "")):
                yield self.plan.buffers[name]

    def _differs_in_words(self, buffer: Buffer, other: Buffer) -> bool:
        """Whether two shapes are the same by chance: of a square matrix and its transpose."""
        words = zip(self.sizes.words_of(buffer), self.sizes.words_of(other), strict=True)
        return any(one and two and one != two for one, two in words)


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
        numbers: Words for scalars of launches, by place, that the function is given.
    """

    def __init__(
        self,
        plan: UnitPlan,
        names: UnitNames,
        words: BufferWords,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        lists: Sequence[TensorList | MadeList],
        numbers: Mapping[tuple[Launch, int], str],
    ) -> None:
        self.numbers = numbers
        bodies = [kernel.body for kernel in plan.kernels.values()]
        are_pieces = any(getattr(one, "name", None) is Role.PIECE_SIZE for body in bodies for one in body)
        self._pieces = PieceSizes() if are_pieces else None
        self.plan = plan
        self.names = names
        self.words = words
        self.variables = variables
        self.sizes = sizes
        self.lists = lists

    def write(self, step: Launch) -> PythonLine:
        """``kernels.add_layer_norm(x, attn, weight, bias, residual, n_rows=batch * seq, n_cols=dim, eps=1e-5)``"""
        kernel = self.plan.kernels[step.kernel]
        if kernel.schedule.is_over_lists:
            return self._launch_of_lists(step)
        sizes = self._axis_sizes(step)
        by_axis = dict(zip((axis.name for axis in kernel.axes), sizes, strict=True))
        ints = self._ints(step, by_axis)
        scalars = [
            self.numbers.get((step, place))
            or half_of(kernel, step, scalar.position, by_axis)
            or averaged_of(kernel, step, scalar.position, by_axis)
            or (self._pieces and self._pieces.told(kernel, step, scalar.position, value))
            or self._boundary(kernel, scalar.position, value)
            or self._dimension(step, scalar.position, value)
            or self._scalar(value)
            for place, (scalar, value) in enumerate(zip(kernel.scalars, step.scalars, strict=True))
        ]
        if any(isinstance(value, int) and value < 0 for value in step.ints):
            ints = before_pieces(kernel, step, ints, scalars, by_axis)
        if self._pieces is not None:
            self._pieces.keep(kernel, step, by_axis)
        tensors = [self.variables[name] for name in step.buffers]
        given = [*tensors, *self._numbers(step, [*sizes, *ints, *scalars])]
        remark = "  # in place" if len(set(tensors)) < len(tensors) and self._is_in_place(step) else ""
        return self._call(step, given, remark)

    def _call(self, step: Launch, given: Sequence[str], remark: str = "") -> PythonLine:
        kernel = self.names.kernels[step.kernel].kernel
        return PythonLine(f"kernels.{kernel}({', '.join(given)}){remark}", LineKind.LAUNCH)

    def _numbers(self, step: Launch, texts: Sequence[str]) -> list[str]:
        """Sizes, strides and scalars, by keyword where there are many."""
        words = number_words(self.plan.kernels[step.kernel], self.names.kernels[step.kernel])
        if len(texts) < _MANY:
            return list(texts)
        return [f"{word}={text}" for word, text in zip(words, texts, strict=True)]

    def _ints(self, step: Launch, texts: Mapping[str, str]) -> list[str]:
        """Strides by the words of the sizes that they are products of; `texts` has the axes' sizes."""
        kernel = self.plan.kernels[step.kernel]
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        buffers = dict(zip(passed, step.buffers, strict=True))
        sizes = dict(zip(texts, step.sizes, strict=True))
        found: list[str] = []
        for parameter, value in zip(kernel.ints, step.ints, strict=True):
            if parameter.pointer not in buffers:
                found.append(self.sizes.text(value))
                continue
            is_offset, name = parameter.axis is None, buffers[parameter.pointer]
            text = self._int(value, name, is_offset)
            blocks = blocks_before(kernel, parameter.pointer, value, sizes, texts, is_offset)
            found.append(blocks if blocks is not None and is_bare(text) else text)
        return over_others(kernel, step, found, texts) if found else found

    def _int(self, value: Size, name: str, is_offset: bool) -> str:
        buffer = self.plan.buffers[name]
        text = (self.sizes.before_padding(value, buffer) if is_offset else None) or (
            self.sizes.text(value) if is_offset else self.sizes.stride(value, buffer)
        )
        if not is_bare(text) or not is_path(self.variables[name]):
            return text
        doubled = [str(int(text) * 2) == str(size) for size in buffer.shape]
        if is_offset:
            return f"{self.variables[name]}.shape[{doubled.index(True)}] // 2" if any(doubled) else text
        if (parts := step_over_parts(value, buffer, self.sizes)) is not None:
            return parts
        steps = [str(stride) for stride in buffer.stride]
        is_plain = steps.count(text) == 1 and buffer.layout_is_known
        return f"{self.variables[name]}.stride({steps.index(text)})" if is_plain else text

    def _boundary(self, kernel: KernelPlan, position: int, value: float | Size) -> str | None:
        """Where one of the pieces of a ``cat`` ends, if the pieces before have one word: ``2 * dim``."""
        node = self.words.nodes.get(getattr(kernel.body[position], "origin", ""))
        if node is None or aten_name(node) != "cat" or not isinstance(value, int):
            return None
        pieces, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
        assert isinstance(pieces, list | tuple) and isinstance(dim, int)
        end, sizes = 0, []
        for piece in pieces:
            assert isinstance(piece, fx.Node)
            shape = piece.meta["val"].shape
            if end >= value or not isinstance(shape[dim], int):
                break
            end += shape[dim]
            sizes.append(self.sizes.written(shape[dim], self.sizes.words_at(piece.name, len(shape))[dim]))
        if end != value or len({size.text for size in sizes}) != 1 or sizes[0].is_number:
            return None
        word = self.sizes.use(sizes[0])
        return word if len(sizes) == 1 else f"{len(sizes)} * {word}"

    def _launch_of_lists(self, step: Launch) -> PythonLine:
        """``kernels.adamw(params, grads, exp_avgs, exp_avg_sqs, eps)``: lists tell their own sizes."""
        kernel = self.plan.kernels[step.kernel]
        given = []
        for place, pointer in enumerate(kernel.pointers):
            tensors = [group.buffers[place] for group in step.groups]
            is_list = pointer.many
            given.append(
                list_text(tensors, self.variables, self.lists) if is_list else self.variables[tensors[0]]
            )
        scalars = [
            self.numbers.get((step, place)) or self._scalar(value) for place, value in enumerate(step.scalars)
        ]
        given += self._numbers(step, scalars)
        return self._call(step, given)

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
                text, shape = self.sizes.text(value, word), [str(size) for size in buffer.shape]
                is_told = is_bare(text) and is_path(self.variables[name]) and shape.count(text) == 1
                return f"{self.variables[name]}.shape[{shape.index(text)}]" if is_told else text
        return None

    def _scalar(self, value: float | Size) -> str:
        return number(value) if isinstance(value, float) else argument(value, self.sizes)
