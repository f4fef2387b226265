"""The PyTorch reference of a kernel, in the kernel's own space.

How it sees what the kernel is given stands in reference_views.py: so that the text holds for every caller. The result
is what each store must have written.

An operation that stayed whole up to lowering is put back into the one call that it was (`layer_norm`:
reference_calls.py; `cat`: reference_joins.py); the rest is printed value by value.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping

import torch

from longhand.emit.text.expression import Precedence, Text, number_operand, scale_text
from longhand.emit.text.reference_calls import OperationCall
from longhand.emit.text.reference_columns import ColumnRead, find_columns
from longhand.emit.text.reference_joins import JoinWriter
from longhand.emit.text.reference_ops import FUNCTIONAL, TORCH, find_joins, operation
from longhand.emit.text.reference_page import (
    FlatMemory,
    IndexWriter,
    ReferencePage,
    StridedView,
    ViewFinder,
    flat_pointers,
    is_slice,
    masked_places,
    number_text,
    prints_number,
    purpose,
    reduction,
    total_of_mean,
)
from longhand.emit.text.value_formula import find_groups
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.schedule.named_plan import BufferNamer, KernelNames, words_where_unnamed
from longhand.schedule.names.words import listed
from longhand.schedule.plan import KernelPlan

_LONGEST = 84


@dataclasses.dataclass(frozen=True)
class Reference:
    """The reference of one kernel.

    Attributes:
        source: The text of ``def reference(...)``.
        parameters: Its parameters in order.
        views: For a tensor parameter, how it is seen; None for flat memory. Parameters not here are numbers.
        results: For each result, in order, where the kernel writes it.
        uses_torch: Whether the text names ``torch``.
        uses_functional: Whether it names ``F``.
    """

    source: str
    parameters: tuple[str, ...]
    views: Mapping[str, StridedView | None]
    results: tuple[StridedView | FlatMemory, ...]
    uses_torch: bool
    uses_functional: bool


def write_reference(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> Reference:
    """The reference of a kernel, from its body and the operations that the body's values came from."""
    return _ReferenceWriter(plan, names, words).write()


class _ReferenceWriter:
    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferNamer) -> None:
        self.plan = plan
        self.names = names
        self.domains = domains(plan.body)
        self.groups: Mapping[int, OperationCall] = find_groups(plan, names, words)
        self.joins, self.pieces = find_joins(plan, names, words)
        self.finder = ViewFinder(plan, names, self.pieces)
        self.columns = self._find_columns()
        self.uses = self._count_uses()
        self.flat = flat_pointers(plan, self.uses, self.pieces, self.columns) | {
            key for p in self.uses for key in self._memory(p)
        }
        self.views = self._read_views()
        self.places = masked_places(plan) - self.groups.keys()
        self.done: dict[int, Text] = {}
        self.page = ReferencePage(plan, names, self.finder, self.views)
        for word in (*self._number_words(), *self.views):
            self.page.scope.take(word)
        self.indices = IndexWriter(self.page, self._value)
        self.stored = {
            value.value: names.pointers[value.buffer]
            for value in plan.body
            if isinstance(value, Store) and not value.is_at_positions
        }

    @functools.cached_property
    def joiner(self) -> JoinWriter:
        """What writes joins, where there are any."""
        return JoinWriter(self.page, self.pieces, self.domains, self._value)

    # What the reference is given.

    def _find_columns(self) -> Mapping[int, ColumnRead]:
        """Loads of pointers that are read at several places, or at one that is computed."""
        loads = {p: value.buffer for p, value in enumerate(self.plan.body) if isinstance(value, Load)}
        is_computed = any(self.plan.addresses[p].values for p in loads)
        is_needed = is_computed or len(set(loads.values())) < len(loads)
        return find_columns(self.plan, self.finder, loads, self.pieces) if is_needed else {}

    def _number_words(self) -> list[str]:
        names = self.names
        sizes = [names.axes[axis.name].size for axis in self.plan.axes]
        ints = [names.ints[parameter.name] for parameter in self.plan.ints]
        return [*sizes, *ints, *(names.scalars[scalar.position] for scalar in self.plan.scalars)]

    def _read_views(self) -> dict[str, StridedView | None]:
        """By parameter: the one view of each pointer that is read at one address; None where it comes flat."""
        views: dict[str, StridedView | None] = {}
        for position, value in enumerate(self.plan.body):
            if isinstance(value, Load) and position in self.uses:
                word = self.names.pointers[value.buffer]
                view = None if value.buffer in self.flat else self._view(position, value.buffer)
                if not is_slice(self.pieces, position):
                    views[word] = views.get(word, view) if position in self.pieces else view
                elif view is not None:  # a half: the whole row is seen
                    views.setdefault(word, dataclasses.replace(view, offset="0"))
            for key in self._memory(position):
                views[self.names.pointers[key]] = None
            if isinstance(value, Store) and value.is_at_positions:
                views[self.names.pointers[value.buffer]] = None
            elif isinstance(value, Store) and value.mask is not None:
                views.setdefault(
                    self.names.pointers[value.buffer], self.finder.written(position, value.buffer)
                )
        order = [self.names.pointers[pointer.name] for pointer in self.plan.pointers]
        return {word: views[word] for word in order if word in views}

    def _view(self, position: int, buffer: str) -> StridedView:
        column = self.columns.get(position)
        return self.finder.read(position, buffer) if column is None else column.view

    def _memory(self, position: int) -> tuple[str, ...]:
        group = self.groups.get(position)
        return group.memory if group is not None and position in self.uses else ()

    # What it computes.

    def _count_uses(self) -> Counter[int]:
        """How often each value is used once groups stand for their values; stores count."""
        uses: Counter[int] = Counter()
        reached: set[int] = set()

        def reach(position: int) -> None:
            uses[position] += 1
            if position in reached:
                return
            reached.add(position)
            group = self.groups.get(position)
            inner = group.inputs if group else self._inner(position)
            for argument in inner:
                reach(argument)

        for value in self.plan.body:
            if isinstance(value, Store):
                reach(value.value)
                if value.mask is not None:
                    reach(value.mask)
                for place, _ in value.index.values:
                    reach(place)
        return uses

    def _inner(self, position: int) -> tuple[int, ...]:
        """What a value is printed from."""
        if position in self.joins and self.joins[position].fill is None:
            return self.joins[position].pieces
        if position in self.pieces or position in self.columns:
            return ()
        value = self.plan.body[position]
        inner = arguments(value)
        if isinstance(value, Load) and value.mask is not None:
            return (*inner, value.mask)  # where it reads, and what stands elsewhere
        return inner[:1] if is_square(value) else inner

    def write(self) -> Reference:
        stores = [
            (position, value) for position, value in enumerate(self.plan.body) if isinstance(value, Store)
        ]
        self._turn_once()
        results: list[StridedView | FlatMemory] = []
        texts = []
        for position, store in stores:
            if store.is_at_positions:
                results.append(FlatMemory(self.names.pointers[store.buffer]))
                texts.append(self._placed(position, store))
                continue
            results.append(self.finder.written(position, store.buffer))
            text = self._value(store.value)
            if store.mask is not None:
                word = self.names.pointers[store.buffer]
                text = Text(f"torch.where({self._value(store.mask).text}, {text.text}, {word})")
                self.page.modules.add(TORCH)
            texts.append(text.text)
        returned = ", ".join(texts) or "()"
        if self.page.lines and self.page.lines[-1][0] == returned:
            _, returned = self.page.lines.pop()
        body = [*(f"{name} = {text}" for name, text in self.page.lines), f"return {returned}"]
        numbers = [word for word in self._number_words() if word in self.page.used_numbers]
        parameters = tuple(self.views) + tuple(numbers)
        filled = listed(dict.fromkeys(self.names.pointers[store.buffer] for _, store in stores)) or "nothing"
        source = "\n".join(
            [
                f"def reference({', '.join(parameters)}):",
                f'    """{purpose(self.plan, self.names.kernel, filled, self._repeated(returned))}"""',
                *(f"    {line}" for line in body),
            ]
        )
        modules = self.page.modules
        return Reference(
            source, parameters, self.views, tuple(results), TORCH in modules, FUNCTIONAL in modules
        )

    def _repeated(self, returned: str) -> str:
        """``, the same for each repeat``, where all that is done is to write what is read several times."""
        dims = {self.names.pointers[pointer.name]: pointer.dims for pointer in self.plan.pointers}
        read = dims.get(returned)
        if read is None:
            return ""
        words = [self.names.axes[axis.name].index for axis in self.plan.axes if axis.name not in read]
        return f", the same for each {listed(words)}" if words else ""

    def _placed(self, position: int, store: Store) -> str:
        """``totals.index_put((at,), rows.to(totals.dtype), accumulate=True)``, of the memory of the totals."""
        word = self.names.pointers[store.buffer]
        added = self._value(store.value)
        if store.mask is not None:
            added = Text(f"torch.where({self._value(store.mask).text}, {added.text}, 0.0)")
            self.page.modules.add(TORCH)
        at = self.indices.at(self.plan.addresses[position])
        is_number = store.mask is None and prints_number(self.plan, store.value, {*self.groups, *self.joins})
        value = f"{added.within(Precedence.ATOM)}.to({word}.dtype)"
        if is_number:
            value = f"{word}.new_tensor({added.text})"
        accumulate = ", accumulate=True" if store.adds else ""
        return f"{word}.index_put(({at.text},), {value}{accumulate})"

    def _turn_once(self) -> None:
        """Brings what is read several times into the kernel's space on a line of its own: ``q = q.transpose(1, 2)``."""
        reads: Counter[str] = Counter()
        for position, n_uses in self.uses.items():
            value = self.plan.body[position]
            if isinstance(value, Load):
                reads[self.names.pointers[value.buffer]] += n_uses
        for word, view in self.views.items():
            if view is not None and view.back and reads[word] > 1:
                self.page.lines.append((word, f"{word}{view.back}"))
                self.page.turned.add(word)

    def _value(self, position: int) -> Text:
        """The text of a value where it is used; values used twice, and long ones, get a line first."""
        if position in self.done:
            return self.done[position]
        text = self._expression(position)
        self.page.modules |= text.needs
        value = self.plan.body[position]
        is_leaf = (
            isinstance(value, Constant | Scalar | AxisSize)
            or (isinstance(value, Load) and position not in self.columns and self._is_seen(value))
            or text.text.isidentifier()  # a second name for ``row`` would say nothing
        )
        is_named = position in self.names.values and (position in self.joins or position in self.places)
        if not is_leaf and (is_named or self.uses[position] > 1 or len(text.text) > _LONGEST):
            name = self.page.scope.pick(self._words(position))
            self.page.lines.append((name, text.text))
            text = Text(name)
        self.done[position] = text
        return text

    def _is_seen(self, value: Load) -> bool:
        return self.views.get(self.names.pointers[value.buffer]) is not None

    def _words(self, position: int) -> list[str]:
        value = self.plan.body[position]
        known = self.names.values.get(position)
        role = getattr(value, "name", None)
        stored = self.stored.get(position)
        new = f"new_{stored}" if stored in self.views else None
        words = words_where_unnamed(position, self.plan, functools.partial(_word_of, self))
        return [word for word in (stored, known, new, role, *words) if word]

    def _expression(self, position: int) -> Text:
        group = self.groups.get(position)
        if group is not None:
            text = group.write([self._value(argument) for argument in group.inputs])
            self.page.used_numbers.update(group.sizes)
            self.page.modules |= {group.module} if group.module else set()
            return Text(text)
        join = self.joins.get(position)
        if join is not None and join.fill is None:
            return self.joiner.cat(join)
        value = self.plan.body[position]
        match value:
            case Load():
                return self._load(position, value) if join is None else self.joiner.pad(join, value)
            case Constant(value=number):
                scale = scale_text(self.names.constants.get(position, ""), number)
                return number_operand(scale) if scale else number_text(number)
            case Scalar():
                return self._scalar(position, value)
            case AxisSize(axes=axes):
                sizes = [self.page.number(self.names.axes[axis].size) for axis in axes]
                return Text(" * ".join(sizes), Precedence.PRODUCT if len(sizes) > 1 else Precedence.ATOM)
            case IndexExpression():
                return self.indices.at(self.plan.addresses[position])
            case Reduce():
                return self._reduce(value)
            case Pointwise():
                averaged = total_of_mean(value, self.plan.body)
                if averaged is not None and self.uses[value.args[0]] == 1:
                    return self._reduce(averaged, "mean")
                given = [self._value(argument) for argument in value.args]
                if is_square(value) and given[0].precedence is not Precedence.ATOM:
                    return Text(f"{given[0].within(Precedence.ATOM)}.square()")
                types = [self.plan.body[argument].dtype for argument in value.args]  # type: ignore[union-attr]
                is_number = [prints_number(self.plan, a, {*self.groups, *self.joins}) for a in value.args]
                return operation(value, given, types, is_number)
        raise AssertionError(f"a store is no value: {value}")

    def _reduce(self, value: Reduce, method: str = "") -> Text:
        arg = self._value(value.arg)
        order = [axis.name for axis in self.plan.axes]
        varying = self.domains[value.arg] | set(value.axes)
        text = arg.within(Precedence.ATOM)
        if varying != self.domains[value.arg]:
            sizes = [
                self.page.number(self.names.axes[axis].size) if axis in varying else "1" for axis in order
            ]
            text = f"torch.broadcast_to({arg.text}, ({', '.join(sizes)},))"
            self.page.modules.add(TORCH)
        return reduction(
            value.op, text, sorted(order.index(axis) - len(order) for axis in value.axes), method
        )

    def _scalar(self, position: int, value: Scalar) -> Text:
        if position in self.names.scalars:
            return Text(self.page.number(self.names.scalars[position]))
        # Equal scalars are one parameter: the first of them.
        for parameter in self.plan.scalars:
            first = self.plan.body[parameter.position]
            if isinstance(first, Scalar) and (first.value, first.dtype) == (value.value, value.dtype):
                return Text(self.page.number(self.names.scalars[parameter.position]))
        return number_text(float(value.value) if value.dtype.is_floating_point else int(value.value))

    def _load(self, position: int, value: Load) -> Text:
        word = self.names.pointers[value.buffer]
        if position in self.pieces:
            return self.joiner.piece(position, word)
        if value.buffer not in self.flat:
            column = self.columns.get(position)
            self.page.used_numbers.update(column.numbers if column is not None else ())
            return Text(self.page.in_space(word) if column is None else column.text.format(word))
        address = self.plan.addresses[position]
        if value.mask is None:
            return Text(f"{word}[{self.indices.at(address).text}]")
        mask = self._value(value.mask).text
        inside = f"{word}[{self.indices.inside(address, mask, word).text}]"
        # 0 would make whole numbers of booleans, which choose nothing.
        other = bool(value.other) if value.dtype is torch.bool else value.other
        return Text(f"torch.where({mask}, {inside}, {number_text(other).text})")


def is_square(value: Value) -> bool:
    """Whether a value is another one times itself."""
    return isinstance(value, Pointwise) and value.op is PointwiseOp.MUL and len(set(arguments(value))) == 1


def _word_of(writer: _ReferenceWriter, position: int) -> str | None:
    """The word of a value that has one: its line's, or that of the tensor that it is read from."""
    value, text = writer.plan.body[position], writer.done.get(position)
    if text is not None and text.text.isidentifier():
        return text.text
    if isinstance(value, Load):
        return writer.names.pointers[value.buffer]
    return writer.names.values.get(position)
