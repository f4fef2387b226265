"""The lines of model.py that launch kernels, and that make tensors for them to fill, in the function's words.

Tensors, sizes, strides and numbers; half of an axis, where two halves are joined, is ``head_dim // 2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from longhand.capture.graph import Role
from longhand.emit.module.offset_texts import (
    PieceSizes,
    before_pieces,
    blocks_before,
    end_of_filled,
    end_of_pieces,
    over_others,
    step_in_words,
)
from longhand.emit.module.paragraphs import LineKind, PythonLine
from longhand.emit.module.trees import MadeList, TensorList, list_code
from longhand.emit.module.view_calls import argument, as_float, is_reordered, reordered
from longhand.emit.text.expression import machine_epsilon_text, number
from longhand.emit.text.kernel_head import shape_names
from longhand.emit.text.python_code import (
    NO_CODE,
    CallCode,
    Code,
    EachCode,
    KeywordCode,
    LiteralCode,
    MethodCode,
    NameCode,
    ProductCode,
    PythonStatement,
    SeveralCode,
    dimension,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import averaged_of, half_of, is_bare, is_folded, is_path, rows_at_positions
from longhand.emit.text.walked_sizes import dims_of_fill, sizes_walked, steps_walked
from longhand.lower.ir import Buffer, Extern, Size, memory_order
from longhand.options import Device
from longhand.schedule.named_plan import (
    BufferNamer,
    KernelNames,
    ModelStep,
    UnitNames,
    constant_name,
    filled_with,
    is_plain_variable,
)
from longhand.schedule.names.words import singular
from longhand.schedule.plan import (
    Access,
    Allocate,
    KernelPlan,
    Launch,
    UnitPlan,
    dims_in_memory,
    tensor_shape,
)

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
        return self.write(step, later), None

    def write(self, step: Allocate, later: Sequence[ModelStep] = ()) -> PythonLine:
        """``residual = torch.empty_like(x)``"""
        buffer, variable = self.plan.buffers[step.buffer], self.variables[step.buffer]
        twin = self._like(step) or self._vector_like(step)
        on_cpu = self.plan.options.target.device is Device.CPU
        order = memory_order(buffer)
        is_plain = not is_reordered(order)
        if twin is not None and not on_cpu:
            return PythonLine.binding([variable], CallCode("torch.empty_like", (NameCode(twin),)))
        kind = LineKind.POOLED if on_cpu else LineKind.PLAIN
        if twin is not None and is_plain:
            return PythonLine.binding([variable], self._pooled(dimensions_of(twin), buffer.dtype), kind)
        dims = self._dims(step, later)
        if order == _CHANNELS_LAST and not on_cpu:
            layout = KeywordCode("memory_format", NameCode("torch.channels_last"))
            made: Code = CallCode("torch.empty", (*dims, *self._where(buffer), layout))
            return PythonLine.binding([variable], made)
        made = self._made(buffer, [dims[dim] for dim in order], self._sibling(step))
        return PythonLine.binding([variable], reordered(made, order), kind)

    def write_filled(self, step: Allocate, value: float) -> PythonLine:
        """``zeros = torch.zeros(batch, seq)``: a new tensor of one number, in the pool's memory on the CPU."""
        buffer, variable = self.plan.buffers[step.buffer], self.variables[step.buffer]
        is_zero, is_plain = value == 0, not is_reordered(memory_order(buffer))
        if self.plan.options.target.device is Device.CPU or not is_plain:
            line = self.write(Allocate(step.buffer, step.is_result))
            assert line.said is not None and line.said.value is not None
            name, given = ("zero_", ()) if is_zero else ("fill_", (LiteralCode(number(value)),))
            return PythonLine.binding([variable], MethodCode(line.said.value, name, given), line.kind)
        dims = self._dims(Allocate(step.buffer))
        if value in (0, 1):
            made = CallCode(
                "torch.zeros" if is_zero else "torch.ones", (*(dims or [NO_CODE]), *self._where(buffer))
            )
        else:
            shape, filled = SeveralCode(tuple(dims)), LiteralCode(number(value))
            made = CallCode("torch.full", (shape, filled, *self._where(buffer)))
        return PythonLine.binding([variable], made)

    def _where(self, buffer: Buffer) -> tuple[Code, ...]:
        """``dtype=torch.float32, device=x.device``"""
        dtype, device = NameCode(str(buffer.dtype)), NameCode(self.device)
        return KeywordCode("dtype", dtype), KeywordCode("device", device)

    @staticmethod
    def _pooled(shape: Code, dtype: torch.dtype) -> Code:
        """``empty(x.shape, torch.float32)``"""
        return CallCode("empty", (shape, NameCode(str(dtype))))

    def _dims(self, step: Allocate, later: Sequence[ModelStep] = ()) -> list[Code]:
        """The sizes of a new tensor's dimensions; where no word tells them as tensors do."""
        buffer = self.plan.buffers[step.buffer]
        siblings = [one for one in self._at_hand(step.beside) if len(one.shape) == len(buffer.shape)]
        told = []
        for place, size in enumerate(buffer.shape):
            alike = (one for one in siblings if size != 1 and str(one.shape[place]) == str(size))
            sibling = next((one for one in alike if self.variables[one.name] not in self.sizes.uneven), None)
            told.append(dimension(self.variables[sibling.name], place) if sibling is not None else None)
        dims = self.sizes.dims(buffer, told)
        folded = frozenset(place for place, dim in enumerate(dims) if is_folded(dim))
        read = folded and dims_of_fill(self.plan, step, later, self.variables, self.sizes, folded)
        return [read[place] if read and place in read else dim for place, dim in enumerate(dims)]

    def _made(self, buffer: Buffer, dims: Sequence[Code], sibling: str | None = None) -> Code:
        """``x.new_empty(batch, seq)``: sizes one by one, since a tuple of them costs PyTorch twice the time."""
        if self.plan.options.target.device is Device.CPU:
            return self._pooled(SeveralCode(tuple(dims)), buffer.dtype)
        if sibling is not None and dims:
            return MethodCode(NameCode(sibling), "new_empty", tuple(dims))
        return CallCode("torch.empty", (*(dims or [NO_CODE]), *self._where(buffer)))

    def write_list(self, one: MadeList) -> PythonLine:
        """``denominators = [empty(param.shape, torch.float32) for param in params]``"""
        on_cpu = self.plan.options.target.device is Device.CPU
        dtype = self.plan.buffers[one.nodes[0]].dtype
        if one.like is not None:
            source = list_code(one.like, self.variables, self.lists)
            name = source.name if isinstance(source, NameCode) and source.name.isidentifier() else ""
            word = singular(name) if name and singular(name) != name else "tensor"
            like = CallCode("torch.empty_like", (NameCode(word),))
            make = self._pooled(dimensions_of(word), dtype) if on_cpu else like
            return PythonLine.binding([one.name], EachCode(make, word, source))
        made: list[Code] = []
        for name in one.nodes:
            buffer = self.plan.buffers[name]
            order, dims = memory_order(buffer), self.sizes.dims(buffer)
            made.append(reordered(self._made(buffer, [dims[dim] for dim in order]), order))
        return PythonLine.binding([one.name], SeveralCode(tuple(made), "[]"))

    def _like(self, step: Allocate) -> str | None:
        """The word of the tensor that a new one is made like."""
        buffer = self.plan.buffers[step.buffer]
        alike = (other for other in self._at_hand(step.like) if not self._differs_in_words(buffer, other))
        return next((self.variables[other.name] for other in alike), None)

    def _vector_like(self, step: Allocate) -> str | None:
        """A weight that the gradient of one is made like, where no word, or a product, says how long both are.

        Of more dimensions the caller may have laid out a weight otherwise.
        """
        buffer = self.plan.buffers[step.buffer]
        size = self.sizes.dims(buffer)[0] if len(buffer.shape) == 1 else None
        if size is None or not (is_folded(size) or isinstance(size, ProductCode)):
            return None
        words = (self.variables.get(name, "") for name in step.like)
        return next((word for word in words if word and not is_plain_variable(word)), None)

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


def dimensions_of(tensor: str) -> Code:
    """``x.shape``"""
    return MethodCode(NameCode(tensor), "shape")


def number_names_of(plan: KernelPlan, names: KernelNames) -> tuple[str, ...]:
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
        words: BufferNamer,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        lists: Sequence[TensorList | MadeList],
        numbers: Mapping[tuple[Launch, int], str],
    ) -> None:
        self.numbers = {place: NameCode(word) for place, word in numbers.items()}
        numbers_of = (value for kernel in plan.kernels.values() for value in kernel.body)
        has_pieces = any(getattr(value, "name", None) is Role.PIECE_SIZE for value in numbers_of)
        self._pieces = PieceSizes() if has_pieces else None
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
            or end_of_pieces(kernel, scalar.position, value, self.words, self.sizes)
            or end_of_filled(kernel, scalar.position, value, self.words, self.sizes)
            or self._dimension(step, scalar.position, value)
            or self._scalar(value, self.names.kernels[step.kernel].scalars[scalar.position])
            for place, (scalar, value) in enumerate(zip(kernel.scalars, step.scalars, strict=True))
        ]
        if self.plan.options.target.device is not Device.CPU:  # Triton takes a number's type from the number
            pairs = zip(kernel.scalars, scalars, strict=True)
            scalars = [as_float(text) if one.varies else text for one, text in pairs]
        if any(isinstance(value, int) and value < 0 for value in step.ints):
            ints = before_pieces(kernel, step, ints, scalars, by_axis)
        if any(map(is_folded, ints)):
            ints = steps_walked(self.plan, step, ints, self.variables)
        if self._pieces is not None:
            self._pieces.keep(kernel, step, by_axis)
        tensors = [self.variables[name] for name in step.buffers]
        given = [*map(NameCode, tensors), *self._numbers(step, [*sizes, *ints, *scalars])]
        return self._call(step, given)

    def _call(self, step: Launch, given: Sequence[Code]) -> PythonLine:
        call = CallCode(f"kernels.{self.names.kernels[step.kernel].kernel}", tuple(given))
        return PythonLine.of(PythonStatement((), call), LineKind.LAUNCH)

    def _numbers(self, step: Launch, texts: Sequence[Code]) -> list[Code]:
        """Sizes, strides and scalars, each by its keyword."""
        words = number_names_of(self.plan.kernels[step.kernel], self.names.kernels[step.kernel])
        return [KeywordCode(word, text) for word, text in zip(words, texts, strict=True)]

    def _ints(self, step: Launch, texts: Mapping[str, Code]) -> list[Code]:
        """Strides by the words of the sizes that they are products of; `texts` has the axes' sizes."""
        kernel = self.plan.kernels[step.kernel]
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        buffers = dict(zip(passed, step.buffers, strict=True))
        sizes = dict(zip(texts, step.sizes, strict=True))
        ints: list[Code] = []
        for parameter, value in zip(kernel.ints, step.ints, strict=True):
            if parameter.pointer not in buffers:
                ints.append(self.sizes.text(value))
                continue
            is_offset, name = parameter.axis is None, buffers[parameter.pointer]
            text = step_in_words(
                value, self.plan.buffers[name], self.variables[name], self.sizes, is_offset, self.words
            )
            blocks = (
                blocks_before(kernel, parameter.pointer, value, sizes, texts, is_offset, self.sizes)
                if is_bare(text)
                else None
            )
            ints.append(text if blocks is None else blocks)
        return over_others(kernel, step, ints, texts) if ints else ints

    def _launch_of_lists(self, step: Launch) -> PythonLine:
        """``kernels.adamw(params, grads, exp_avgs, exp_avg_sqs, eps)``: lists tell their own sizes."""
        kernel = self.plan.kernels[step.kernel]
        given: list[Code] = []
        for place, pointer in enumerate(kernel.pointers):
            tensors = [group.buffers[place] for group in step.groups]
            is_list = pointer.many
            given.append(
                list_code(tensors, self.variables, self.lists)
                if is_list
                else NameCode(self.variables[tensors[0]])
            )
        scalars = [
            self.numbers.get((step, place))
            or self._scalar(value, self.names.kernels[step.kernel].scalars[scalar.position])
            for place, (scalar, value) in enumerate(zip(kernel.scalars, step.scalars, strict=True))
        ]
        given += self._numbers(step, scalars)
        return self._call(step, given)

    def _axis_sizes(self, step: Launch) -> list[Code]:
        """The sizes of the kernel's axes, from what the launch writes, else from what it reads."""
        kernel = self.plan.kernels[step.kernel]
        names = [axis.name for axis in kernel.axes]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        sizes: dict[str, Size] = dict(zip(names, step.sizes, strict=True))
        given, made = [], set[str]()
        for pointer, buffer in zip(passed, step.buffers, strict=True):
            made |= {self.variables[buffer]} if pointer.access is Access.WRITE else set()
            dims = pointer.dims and dims_in_memory(kernel, pointer, step.sizes, step.ints)
            if dims is None and pointer.access is not Access.READ:  # written at rows that are data
                shape = tensor_shape(kernel, pointer) or ()
                sizes |= rows_at_positions(kernel, step, shape)
                dims = tuple(map(str, shape))
            if dims:
                given.append((self.variables[buffer], self.plan.buffers[buffer], dims))
        texts = self.sizes.axes(sizes, given[::-1], made)
        if any(map(is_folded, texts.values())):
            texts |= sizes_walked(self.plan, step, texts, self.variables, self.sizes)
        return [texts[name] for name in names]

    def _dimension(self, step: Launch, position: int, value: float | Size) -> Code | None:
        """What tells a scalar that is the size of a tensor's dimension: where a table or what is padded ends."""
        kernel, names = self.plan.kernels[step.kernel], self.names.kernels[step.kernel]
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        for pointer, name in zip(passed, step.buffers, strict=True):
            buffer, words = self.plan.buffers[name], shape_names(kernel, names, pointer) or ()
            known = zip(buffer.shape, self.sizes.words_of(buffer), strict=True)
            dims = [(size, word) for size, word in known if str(size) != "1"]
            if names.scalars[position] not in words or len(words) != len(dims):
                continue
            size, word = dims[words.index(names.scalars[position])]
            if not isinstance(value, float) and str(size) == str(value):
                text, shape = self.sizes.text(value, word), [str(size) for size in buffer.shape]
                if is_bare(text) and is_path(self.variables[name]) and shape.count(str(value)) == 1:
                    return dimension(self.variables[name], shape.index(str(value)))
                return text
        return None

    def _scalar(self, value: float | Size, word: str) -> Code:
        if isinstance(value, float) and (text := machine_epsilon_text(value)) is not None:
            return NameCode(text)
        if isinstance(value, float) and self.names.numbers.get(word) == value:
            return NameCode(constant_name(word))
        return argument(value, self.sizes)
