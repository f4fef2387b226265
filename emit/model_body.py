"""The statements of model.py: steps of the plan as paragraphs of Python, each under the user's own statement."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from torch import fx

from longhand.emit.buffer_flow import buffers_made, buffers_read
from longhand.emit.buffer_words import BufferWords
from longhand.emit.carried_words import Words
from longhand.emit.halves import half_of
from longhand.emit.library_calls import LibraryWriter
from longhand.emit.loops import Choice, FirstCall, Loop, ModelStep, plain_steps
from longhand.emit.named_views import NamedView, named_views, view_key
from longhand.emit.names import Quote, UnitNames
from longhand.emit.op_words import aten_name
from longhand.emit.pointer_shapes import shape_words
from longhand.emit.sizes import SizeWriter
from longhand.emit.tensor_lists import MadeList, TensorList, list_text
from longhand.emit.trained_call import SAVED
from longhand.emit.view_calls import argument, number, write_view
from longhand.emit.words import singular
from longhand.lower.ir import Buffer, Extern, Size, memory_order
from longhand.options import Device
from longhand.schedule.plan import (
    Access,
    Allocate,
    KernelPlan,
    Launch,
    PlanStep,
    Release,
    Reuse,
    Style,
    UnitPlan,
)

_WIDEST = 98
_MOST_QUOTES = 3
_CHANNELS_LAST = [0, 2, 3, 1]


@dataclasses.dataclass
class Paragraph:
    """Statements that came from the same words of the user's.

    Attributes:
        quotes: What the user wrote.
        lines: What runs.
    """

    quotes: tuple[Quote, ...]
    lines: list[str]


@dataclasses.dataclass
class Needs:
    """What the statements name and model.py must import."""

    functional: bool = False
    kernels: bool = False
    empty: bool = False
    channels_last: bool = False

    def merge(self, other: Needs) -> None:
        """Adds what another function names."""
        self.functional |= other.functional
        self.kernels |= other.kernels
        self.empty |= other.empty
        self.channels_last |= other.channels_last


class BodyWriter:
    """Prints the steps of one function.

    Args:
        plan: The unit's plan.
        names: Its words.
        words: The captured graph's.
        variables: The variable of each buffer inside this function.
        sizes: Writes sizes with the words that this function binds.
        device: A Python expression for the device of new tensors on CUDA: ``x.device``.
        lists: The arguments that kernels take as lists, and the lists that they make.
        position: In a layer that asks which one it is: the attribute that holds that.
    """

    def __init__(
        self,
        plan: UnitPlan,
        names: UnitNames,
        words: BufferWords,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        device: str,
        lists: Sequence[TensorList | MadeList] = (),
        position: str = "",
    ) -> None:
        self.position = position
        self.plan = plan
        self.names = names
        self.words = words
        self.variables = variables
        self.sizes = sizes
        self.device = device
        self.lists = lists
        self.made_lists = {name: one for one in lists if isinstance(one, MadeList) for name in one.nodes}
        self.library = LibraryWriter(variables, sizes, plan.buffers)
        self.needs = Needs()
        self.seen_as: dict[str, list[str]] = {}  # by buffer: the variables that hold views of it

    def write(self, steps: Sequence[ModelStep], loop_lines: Mapping[int, list[str]]) -> list[Paragraph]:
        """The paragraphs of `steps`.

        Args:
            steps: In order.
            loop_lines: For the place of each Loop among `steps`: its lines.
        """
        paragraphs: list[Paragraph] = []
        waiting: list[str] = []
        for place, step in enumerate(steps):
            if isinstance(step, Loop | FirstCall):
                lines = waiting + loop_lines[place]
                if place and isinstance(step, Loop) and isinstance(steps[place - 1], FirstCall):
                    paragraphs[-1].lines += lines
                else:
                    self._append(paragraphs, (), lines)
                waiting = []
            elif isinstance(step, Choice):
                self._append(paragraphs, self._quotes_of_choice(step), waiting + self._choice(step))
                waiting = []
            elif isinstance(step, Allocate) and step.buffer in self.made_lists:
                one = self.made_lists[step.buffer]
                waiting += [self._allocate_list(one)] if step.buffer == one.nodes[0] else []
            elif isinstance(step, Allocate):
                waiting.append(self._allocate(step, _next_launch(steps, place)))
            elif isinstance(step, Reuse):
                waiting += self._reuse(step)
            elif isinstance(step, Release):
                self._release(step, steps, place, paragraphs)
            else:
                why = self._remarks(step) if isinstance(step, Launch) else []
                lines = self._launch(step) if isinstance(step, Launch) else self._extern(step)
                self._append(paragraphs, self._quotes(step), why + waiting + lines)
                waiting = []
        if waiting:
            self._append(paragraphs, (), waiting)
        return _joined_quotes(paragraphs)

    @staticmethod
    def _append(paragraphs: list[Paragraph], quotes: tuple[Quote, ...], lines: list[str]) -> None:
        if paragraphs and quotes and paragraphs[-1].quotes == quotes:
            paragraphs[-1].lines += lines
        else:
            paragraphs.append(Paragraph(quotes, list(lines)))

    def _quotes(self, step: Launch | Extern) -> tuple[Quote, ...]:
        origins = step.origins if isinstance(step, Launch) else (step.origin,)
        found: dict[Quote, None] = {}
        for origin in origins:
            where = self.words.provenance(origin)
            if where.statement:
                found[Quote(where.qualname, where.statement)] = None
        return _fewest(found)

    def _quotes_of_choice(self, choice: Choice) -> tuple[Quote, ...]:
        calls = [step for step in choice.steps if isinstance(step, Launch | Extern)]
        return _fewest([quote for step in calls for quote in self._quotes(step)])

    def _choice(self, choice: Choice) -> list[str]:
        """``if self.layer == 3:`` and what that layer does, ``else:`` and what the others do."""
        lines: list[str] = []
        for positions, steps in choice.cases:
            inner = self._plain_lines(steps)
            if not inner and len(choice.cases) == 1:
                test = _is_one_of(self.position, positions).replace("==", "!=").replace(" in ", " not in ")
                return [f"if {test}:", *_indented(self._plain_lines(choice.otherwise))]
            word = "elif" if lines else "if"
            lines += [f"{word} {_is_one_of(self.position, positions)}:", *_indented(inner or ["pass"])]
        otherwise = self._plain_lines(choice.otherwise)
        return [*lines, "else:", *_indented(otherwise)] if otherwise else lines

    def _plain_lines(self, steps: Sequence[PlanStep]) -> list[str]:
        """The lines of steps, without the user's statements."""
        return [line for paragraph in self.write(steps, {}) for line in paragraph.lines]

    def _buffer(self, name: str) -> Buffer:
        return self.plan.buffers[name]

    def _allocate(self, step: Allocate, launch: Launch | None) -> str:
        buffer = self._buffer(step.buffer)
        variable = self._bind(step.buffer)
        twin = self._twin(buffer, launch)
        on_cpu = self.plan.options.target.device is Device.CPU
        self.needs.empty |= on_cpu
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

    def _allocate_list(self, one: MadeList) -> str:
        """``denominators = [empty(param.shape, torch.float32) for param in params]``"""
        on_cpu = self.plan.options.target.device is Device.CPU
        self.needs.empty |= on_cpu
        dtype = self._buffer(one.nodes[0]).dtype
        if one.like is not None:
            source = list_text(one.like, self.variables, self.lists)
            word = singular(source) if source.isidentifier() and singular(source) != source else "tensor"
            make = f"empty({word}.shape, {dtype})" if on_cpu else f"torch.empty_like({word})"
            return f"{one.name} = [{make} for {word} in {source}]"
        made = []
        for name in one.nodes:
            buffer = self._buffer(name)
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
            other = self._buffer(name)
            is_alike = (
                name != buffer.name
                and other.dtype == buffer.dtype
                and _same(other.shape, buffer.shape)
                and _same(other.stride, buffer.stride)
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

    def _reuse(self, step: Reuse) -> list[str]:
        new, old = self._bind(step.buffer), self.variables[step.of]
        buffer, other = self._buffer(step.buffer), self._buffer(step.of)
        is_alike = _same(buffer.shape, other.shape) and _same(buffer.stride, other.stride)
        view = "" if is_alike else f".view({', '.join(self.sizes.dims(buffer))})"
        if new == old and not view:
            return []
        why = (
            f"in place: nothing reads {old} afterwards"
            if step.in_place
            else f"takes over the memory of {old}"
        )
        if new == old:
            why = "the same memory"
        return [f"{new} = {old}{view}  # {why}"]

    def _release(
        self, step: Release, steps: Sequence[ModelStep], place: int, paragraphs: list[Paragraph]
    ) -> None:
        names = [self.variables[b] for b in step.buffers if self.variables.get(b, "").isidentifier()]
        names += [variable for b in step.buffers for variable in self.seen_as.get(b, [])]
        still = _rebound_or_alive(self, names, steps, place)
        dropped = [name for name in dict.fromkeys(names) if name not in still]
        if dropped and paragraphs:
            paragraphs[-1].lines.append(f"del {', '.join(dropped)}")

    def _launch(self, step: Launch) -> list[str]:
        self.needs.kernels = True
        if self.plan.kernels[step.kernel].style is Style.FOREACH:
            return [self._launch_of_lists(step)]
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
        given = [*(self.variables[name] for name in step.buffers), *sizes, *ints, *scalars]
        tensors = [self.variables[name] for name in step.buffers]
        remark = "  # in place" if len(set(tensors)) < len(tensors) and self._is_in_place(step) else ""
        return [f"kernels.{self.names.kernels[step.kernel].kernel}({', '.join(given)}){remark}"]

    def _remarks(self, step: Launch) -> list[str]:
        """Why longhand added an operation that the user did not write, as comments."""
        why = dict.fromkeys(self.words.provenance(origin).remark for origin in step.origins)
        return [
            line
            for text in why
            if text
            for line in textwrap.wrap(f"# {text}", _WIDEST, subsequent_indent="# ")
        ]

    def _ints(self, step: Launch) -> list[str]:
        """Strides by the words of the sizes that they are products of."""
        kernel = self.plan.kernels[step.kernel]
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        buffers = dict(zip(passed, step.buffers, strict=True))
        return [
            (
                self._int(value, self._buffer(buffers[parameter.pointer]), parameter.axis is None)
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
        given += [self._scalar(value) for value in step.scalars]
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
            (self.variables[buffer], self._buffer(buffer), pointer.dims)
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
            buffer, words = self._buffer(name), shape_words(kernel, names, pointer) or ()
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

    def _extern(self, step: Extern) -> list[str]:
        lines = self._view_lines(step)
        call = self.library.write(step)
        self.needs.functional |= call.needs_functional
        self.needs.channels_last |= call.needs_channels_last
        lines += [f"# {step.reason}"] if step.reason else []
        outputs = [self._bind(name) if name in self.variables else "_" for name in step.outputs]
        target = f"{', '.join(outputs)} = " if outputs else ""
        return [*lines, f"{target}{call.text}"]

    def _bind(self, buffer: str) -> str:
        """The variable of a buffer that begins; what it held before is gone."""
        variable = self.variables[buffer]
        for held in self.seen_as.values():
            if variable in held:
                held.remove(variable)
        return variable

    def _view_lines(self, step: Extern) -> list[str]:
        """``q, k, v = qkv.split(256, dim=-1)``: the views that the user named, before the call that reads them."""
        self.library.views = {}
        lines = []
        for line in named_views(step, self.words):
            view, buffer = line.view, self._buffer(line.view.buffer)
            source = self.library.views.get(line.source) or self.variables[view.buffer]
            words = self._words_of_heads(line) if line.unbind is not None else ()
            text = write_view(view, source, self.sizes, buffer, line.n_before, words)
            if line.split is not None:
                text += self._split(line.keys[0], *line.split)
            if line.unbind is not None:
                text += f".unbind({line.unbind})"
            targets = [self._bind(view_key(step, key)) for key in line.keys]
            self.library.views |= dict(zip(line.keys, targets, strict=True))
            self.seen_as.setdefault(view.buffer, []).extend(targets)
            lines.append(f"{', '.join(targets)} = {text}")
        return lines

    def _words_of_heads(self, line: NamedView) -> Words:
        """The words of a view of all heads at once: those of one part's, and none for which part it is."""
        assert line.unbind is not None
        words = self.sizes.words_at(line.heads, len(line.view.calls[-2].args[0]) - 1)
        return (*words[: line.unbind], None, *words[line.unbind :])

    def _split(self, part_of: str, parts: tuple[Size, ...], dim: int) -> str:
        word = self.sizes.words_at(part_of, self.words.nodes[part_of].meta["val"].ndim)[dim]
        texts = [self.sizes.text(part, word) for part in parts]
        each = texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
        return f".split({each}, dim={dim})"


def _fewest(quotes: Iterable[Quote]) -> tuple[Quote, ...]:
    """Each quote once, and not too many."""
    found = tuple(dict.fromkeys(quotes))
    return found if len(found) <= _MOST_QUOTES else (*found[: _MOST_QUOTES - 1], found[-1])


def _is_one_of(word: str, positions: Sequence[int]) -> str:
    """``self.layer == 3``, ``self.layer in (1, 4)``, ``self.layer in range(4, 9)``"""
    first, last = positions[0], positions[-1]
    if first == last:
        return f"self.{word} == {first}"
    if len(positions) > 2 and list(positions) == list(range(first, last + 1)):
        return f"self.{word} in range({first}, {last + 1})"
    return f"self.{word} in ({', '.join(map(str, positions))})"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _reordered(order: Sequence[int]) -> str:
    """The call that brings dimensions back from the order in which they lie in memory."""
    moved = [dim for dim, place in enumerate(order) if dim != place]
    if not moved:
        return ""
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(str(order.index(dim)) for dim in range(len(order)))})"


def _same(one: Iterable[Size], other: Iterable[Size]) -> bool:
    return [str(size) for size in one] == [str(size) for size in other]


def _next_launch(steps: Sequence[ModelStep], place: int) -> Launch | None:
    return next((step for step in steps[place + 1 :] if isinstance(step, Launch)), None)


def _rebound_or_alive(
    writer: BodyWriter, names: Iterable[str], steps: Sequence[ModelStep], place: int
) -> set[str]:
    """Names that the very next statements bind anew, or that stand for another buffer that is still read."""
    later_read: set[str] = set()
    first_bound: dict[str, int] = {}
    for number_, step in enumerate(steps[place + 1 :]):
        for plain in plain_steps(step):
            for buffer in buffers_read(plain):
                variable = writer.variables.get(buffer, "")
                if variable not in first_bound:
                    later_read.add(variable)
            for buffer in buffers_made(plain):
                first_bound.setdefault(writer.variables.get(buffer, ""), number_)
    return {name for name in names if name in later_read or first_bound.get(name, 99) <= 2}


def _joined_quotes(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Neighbouring one-line paragraphs of one function become one, their statements on one line."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.quotes
            and paragraph.quotes
            and len(paragraph.lines) == 1
            and all(
                "kernels." not in line and not line.startswith("#")
                for line in [*last.lines, *paragraph.lines]
            )
            and len({quote.qualname for quote in (*last.quotes, *paragraph.quotes)}) == 1
            and len(quote_lines((*last.quotes, *paragraph.quotes), _WIDEST)) == 1
        ):
            last.quotes = tuple(dict.fromkeys((*last.quotes, *paragraph.quotes)))
            last.lines += paragraph.lines
        else:
            joined.append(paragraph)
    return joined


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit."""
    lines: list[str] = []
    for quote in quotes:
        head = f"{quote.qualname}    "
        text = quote.statement
        is_over = lines and lines[-1].startswith(f"{head}return ")
        if lines and not is_over and lines[-1].startswith(head) and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
    return _wrapped(lines, width)


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Long statements go on in a second line, further in."""
    return [
        piece
        for line in lines
        for piece in textwrap.wrap(
            line, width, subsequent_indent=" " * 8, drop_whitespace=True, break_long_words=False
        )
    ]
