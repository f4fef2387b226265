"""The PyTorch reference of a kernel, in the kernel's own space.

Every tensor that the kernel reads comes as (rows..., cols...), with size 1 where it does not vary and without
leading ones, so that broadcasting puts everything in place and the text holds for every caller. What has no such
view (gathered tables, reads behind a mask) comes as flat memory. The result is what each store must have written.

An operation that stayed whole up to lowering is put back into the one call that it was (`layer_norm`); the rest is
printed value by value.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Container, Mapping

from longhand.emit.buffer_words import BufferWords
from longhand.emit.expression import Precedence, Text
from longhand.emit.names import KernelNames
from longhand.emit.reference_calls import Group, find_groups
from longhand.emit.reference_ops import operation
from longhand.emit.view_calls import literal_text
from longhand.emit.words import RESERVED_IN_MODULE, Scope
from longhand.lower.ir import (
    Constant,
    Extent,
    Load,
    Pointwise,
    Position,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    arguments,
    domains,
)
from longhand.schedule.plan import Address, KernelPlan, ParameterRef, Product, SizeOf

_LONGEST = 84

_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.PROD: "prod",
    ReduceOp.MAX: "amax",
    ReduceOp.MIN: "amin",
    ReduceOp.ARGMAX: "argmax",
    ReduceOp.ARGMIN: "argmin",
    ReduceOp.ANY: "any",
    ReduceOp.ALL: "all",
}


@dataclasses.dataclass(frozen=True)
class StridedView:
    """How a tensor argument is seen in the kernel's space; Python expressions over the kernel's own arguments.

    Attributes:
        tensor: The pointer's word.
        shape: Sizes; empty for one element.
        stride: Strides in elements.
        offset: Elements from the tensor's first to the view's.
    """

    tensor: str
    shape: tuple[str, ...]
    stride: tuple[str, ...]
    offset: str = "0"


@dataclasses.dataclass(frozen=True)
class Reference:
    """The reference of one kernel.

    Attributes:
        source: The text of ``def reference(...)``.
        parameters: Its parameters in order.
        views: For a tensor parameter, how it is seen; None for flat memory. Parameters not here are numbers.
        results: For each result, in order, where the kernel writes it.
        uses_functional: Whether the text names ``F``.
    """

    source: str
    parameters: tuple[str, ...]
    views: Mapping[str, StridedView | None]
    results: tuple[StridedView, ...]
    uses_functional: bool


def write_reference(plan: KernelPlan, names: KernelNames, words: BufferWords) -> Reference:
    """The reference of a kernel, from its body and the operations that the body's values came from."""
    return _Writer(plan, names, words).write()


class _Writer:
    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferWords) -> None:
        self.plan = plan
        self.names = names
        self.domains = domains(plan.body)
        self.groups: Mapping[int, Group] = find_groups(plan, names, words)
        self.uses = self._count_uses()
        self.flat = _flat_pointers(plan, self.uses) | {key for p in self.uses for key in self._memory(p)}
        self.views = self._read_views()
        self.used_numbers: set[str] = set()
        self.lines: list[str] = []
        self.done: dict[int, Text] = {}
        self.scope = Scope(RESERVED_IN_MODULE | {"reference"})
        for word in (*self._number_words(), *self.views):
            self.scope.take(word)
        self.stored = {
            value.value: names.pointers[value.buffer] for value in plan.body if isinstance(value, Store)
        }
        self.steps: dict[str, Text] = {}

    # What the reference is given.

    def _number_words(self) -> list[str]:
        names = self.names
        sizes = [names.axes[axis.name].size for axis in self.plan.axes]
        ints = [names.ints[parameter.name] for parameter in self.plan.ints]
        return [*sizes, *ints, *(names.scalars[scalar.position] for scalar in self.plan.scalars)]

    def _read_views(self) -> dict[str, StridedView | None]:
        """By parameter: the one view of each pointer that is read at one address; None where it comes flat."""
        found: dict[str, StridedView | None] = {}
        for position, value in enumerate(self.plan.body):
            if isinstance(value, Load) and position in self.uses:
                word = self.names.pointers[value.buffer]
                found[word] = None if value.buffer in self.flat else self._view(position, value.buffer)
            for key in self._memory(position):
                found[self.names.pointers[key]] = None
            if isinstance(value, Store) and value.mask is not None:
                found.setdefault(self.names.pointers[value.buffer], self._view(position, value.buffer))
        order = [self.names.pointers[pointer.name] for pointer in self.plan.pointers]
        return {word: found[word] for word in order if word in found}

    def _memory(self, position: int) -> tuple[str, ...]:
        group = self.groups.get(position)
        return group.memory if group is not None and position in self.uses else ()

    def _view(self, position: int, buffer: str, keep_rank: bool = False) -> StridedView:
        address = self.plan.addresses[position]
        steps = dict(address.axes)
        varying = [axis.name for axis in self.plan.axes]
        while not keep_rank and varying and varying[0] not in steps:
            varying.pop(0)
        shape = tuple(self.names.axes[axis].size if axis in steps else "1" for axis in varying)
        stride = tuple(self._product(steps[axis]).text if axis in steps else "0" for axis in varying)
        return StridedView(self.names.pointers[buffer], shape, stride, self._sum(address.offset))

    def _product(self, product: Product) -> Text:
        factors = []
        for factor in product:
            match factor:
                case SizeOf(axis=axis):
                    factors.append(self.names.axes[axis].size)
                case ParameterRef(name=name):
                    factors.append(self.names.ints[name])
                case int():
                    factors.append(str(factor))
        if not factors:
            return Text("1")
        return Text(" * ".join(factors), Precedence.PRODUCT if len(factors) > 1 else Precedence.ATOM)

    def _sum(self, products: tuple[Product, ...]) -> str:
        return " + ".join(self._product(product).text for product in products) or "0"

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
            inner = group.inputs if group else arguments(self.plan.body[position])
            for argument in inner:
                reach(argument)

        for value in self.plan.body:
            if isinstance(value, Store):
                reach(value.value)
                if value.mask is not None:
                    reach(value.mask)
        return uses

    def write(self) -> Reference:
        stores = [
            (position, value) for position, value in enumerate(self.plan.body) if isinstance(value, Store)
        ]
        results, texts = [], []
        for position, store in stores:
            results.append(self._view(position, store.buffer, keep_rank=True))
            text = self._value(store.value)
            if store.mask is not None:
                word = self.names.pointers[store.buffer]
                text = Text(f"torch.where({self._value(store.mask).text}, {text.text}, {word})")
            texts.append(text.text)
        returned = texts[0] if len(texts) == 1 else f"({', '.join(texts)})" if texts else "()"
        returned = returned[1:-1] if len(texts) > 1 else returned
        if self.lines and self.lines[-1].startswith(f"{returned} = "):
            returned = self.lines.pop().partition(" = ")[2]
        body = [*self.lines, f"return {returned}"]
        printed = "\n".join(body)
        numbers = [word for word in self._number_words() if word in self.used_numbers]
        parameters = tuple(self.views) + tuple(numbers)
        filled = _listed([self.names.pointers[store.buffer] for _, store in stores])
        source = "\n".join(
            [
                f"def reference({', '.join(parameters)}):",
                f'    """What {self.names.kernel}() must fill {filled} with."""',
                *(f"    {line}" for line in body),
            ]
        )
        return Reference(source, parameters, self.views, tuple(results), "F." in printed)

    def _value(self, position: int) -> Text:
        """The text of a value where it is used; values used twice, and long ones, get a line first."""
        if position in self.done:
            return self.done[position]
        text = self._expression(position)
        value = self.plan.body[position]
        is_leaf = isinstance(value, Constant | Scalar | Extent) or (
            isinstance(value, Load) and self.views.get(self.names.pointers[value.buffer]) is not None
        )
        if not is_leaf and (self.uses[position] > 1 or len(text.text) > _LONGEST):
            name = self.scope.pick(self._words(position))
            self.lines.append(f"{name} = {text.text}")
            text = Text(name)
        self.done[position] = text
        return text

    def _words(self, position: int) -> list[str]:
        value = self.plan.body[position]
        known = self.names.values.get(position)
        role = getattr(value, "name", None)
        noun = getattr(getattr(value, "op", None), "value", "value")
        stored = self.stored.get(position)
        words = (stored, known, role, noun, f"{noun}_value", f"{stored or noun}_result")
        return [word for word in words if word]

    def _expression(self, position: int) -> Text:
        group = self.groups.get(position)
        if group is not None:
            text = group.write([self._value(argument) for argument in group.inputs])
            self.used_numbers |= {word for word in self._number_words() if re.search(rf"\b{word}\b", text)}
            return Text(text)
        value = self.plan.body[position]
        match value:
            case Load():
                return self._load(position, value)
            case Constant(value=number):
                return _number(number)
            case Scalar():
                return self._scalar(position, value)
            case Extent(axes=axes):
                sizes = [self._number_word(self.names.axes[axis].size) for axis in axes]
                return Text(" * ".join(sizes), Precedence.PRODUCT if len(sizes) > 1 else Precedence.ATOM)
            case Position():
                return self._indices(self.plan.addresses[position])
            case Reduce():
                return self._reduce(position, value)
            case Pointwise():
                given = [self._value(argument) for argument in value.args]
                types = [self.plan.body[argument].dtype for argument in value.args]  # type: ignore[union-attr]
                is_number = [isinstance(self.plan.body[a], Constant | Scalar | Extent) for a in value.args]
                return operation(value, given, types, is_number)
        raise AssertionError(f"a store is no value: {value}")

    def _number_word(self, word: str) -> str:
        self.used_numbers.add(word)
        return word

    def _scalar(self, position: int, value: Scalar) -> Text:
        if position in self.names.scalars:
            return Text(self._number_word(self.names.scalars[position]))
        # Equal scalars are one parameter: the first of them.
        for parameter in self.plan.scalars:
            first = self.plan.body[parameter.position]
            if isinstance(first, Scalar) and (first.value, first.dtype) == (value.value, value.dtype):
                return Text(self._number_word(self.names.scalars[parameter.position]))
        return _number(float(value.value) if value.dtype.is_floating_point else int(value.value))

    def _load(self, position: int, value: Load) -> Text:
        word = self.names.pointers[value.buffer]
        if value.buffer not in self.flat:
            return Text(word)
        at = self._indices(self.plan.addresses[position])
        if value.mask is None:
            return Text(f"{word}[{at.text}]")
        mask = self._value(value.mask).text
        inside = f"{word}[torch.where({mask}, {at.text}, 0)]"
        return Text(f"torch.where({mask}, {inside}, {_number(value.other).text})")

    def _indices(self, address: Address) -> Text:
        """Positions in flat memory, one for each point of the space; what the axes give has a line of its own."""
        terms: list[Text] = []
        along = [self._times(self._along(axis), product) for axis, product in address.axes]
        if along:
            text = " + ".join(term.within(Precedence.SUM) for term in along)
            terms.append(self._named_step(text, "at") if len(along) > 1 else along[0])
        for position, product in address.values:
            terms.append(self._times(self._value(position), product))
        for product in address.offset:
            self._note_numbers(product)
            terms.append(self._product(product))
        if not terms:
            return Text("0")
        text = " + ".join(term.within(Precedence.SUM) for term in terms)
        return Text(text, Precedence.SUM if len(terms) > 1 else terms[0].precedence)

    def _along(self, axis: str) -> Text:
        """0, 1, 2, ... along an axis."""
        order = [one.name for one in self.plan.axes]
        size = self._number_word(self.names.axes[axis].size)
        trailing = len(order) - 1 - order.index(axis)
        tensor = next(iter(self.views), None)
        where = f", device={tensor}.device" if tensor else ""
        steps = f"torch.arange({size}{where})" + (f".view(-1{', 1' * trailing})" if trailing else "")
        return self._named_step(steps, self.names.axes[axis].index)

    def _named_step(self, text: str, word: str) -> Text:
        """A line for part of an index, once."""
        if text not in self.steps:
            name = self.scope.pick([word, f"{word}_at", f"{word}_index"])
            self.lines.append(f"{name} = {text}")
            self.steps[text] = Text(name)
        return self.steps[text]

    def _times(self, text: Text, product: Product) -> Text:
        if not product:
            return text
        self._note_numbers(product)
        return Text(f"{text.within(Precedence.PRODUCT)} * {self._product(product).text}", Precedence.PRODUCT)

    def _note_numbers(self, product: Product) -> None:
        for factor in product:
            if isinstance(factor, SizeOf):
                self.used_numbers.add(self.names.axes[factor.axis].size)
            elif isinstance(factor, ParameterRef):
                self.used_numbers.add(self.names.ints[factor.name])

    def _reduce(self, position: int, value: Reduce) -> Text:
        arg = self._value(value.arg)
        order = [axis.name for axis in self.plan.axes]
        dims = sorted(order.index(axis) - len(order) for axis in value.axes)
        text = arg.within(Precedence.ATOM)
        missing = set(value.axes) - self.domains[value.arg]
        if missing:
            sizes = [
                (
                    self._number_word(self.names.axes[axis].size)
                    if axis in self.domains[value.arg] | missing
                    else "1"
                )
                for axis in order
            ]
            text = f"torch.broadcast_to({arg.text}, ({', '.join(sizes)},))"
        where = str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"
        if (
            value.op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN, ReduceOp.PROD, ReduceOp.ANY, ReduceOp.ALL)
            and len(dims) > 1
        ):
            if dims != list(range(-len(dims), 0)):
                return self._over_several(value, text, dims)
            flat = f"{text}.flatten({dims[0]})"
            kept = ".unsqueeze(-1)" * (len(dims) - 1)
            return Text(f"{flat}.{_REDUCTIONS[value.op]}(-1, keepdim=True){kept}")
        return Text(f"{text}.{_REDUCTIONS[value.op]}({where}, keepdim=True)")

    @staticmethod
    def _over_several(value: Reduce, text: str, dims: list[int]) -> Text:
        """Reductions that torch does over one dimension at a time; never for positions, which do not compose."""
        if value.op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            raise AssertionError("positions are reduced over trailing axes only")
        return Text(text + "".join(f".{_REDUCTIONS[value.op]}({dim}, keepdim=True)" for dim in dims))


def _flat_pointers(plan: KernelPlan, used: Container[int]) -> frozenset[str]:
    """Pointers that no single strided view shows: gathered, masked, or read at several addresses."""
    seen: dict[str, Address] = {}
    flat: set[str] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or position not in used:
            continue
        address = plan.addresses[position]
        if (
            address.values
            or value.mask is not None
            or _goes_back(address)
            or seen.get(value.buffer, address) != address
        ):
            flat.add(value.buffer)
        seen[value.buffer] = address
    return frozenset(flat)


def _goes_back(address: Address) -> bool:
    """Whether some axis walks backwards (a flip), which as_strided does not do."""
    return any(isinstance(factor, int) and factor < 0 for _, product in address.axes for factor in product)


def _number(number: float | int | bool) -> Text:
    text = literal_text(number)
    special = {'float("nan")': "torch.nan", 'float("inf")': "torch.inf", 'float("-inf")': "-torch.inf"}
    text = special.get(text, text)
    return Text(text, Precedence.UNARY if text.startswith("-") else Precedence.ATOM)


def _listed(words: list[str]) -> str:
    unique = list(dict.fromkeys(words))
    return (
        unique[0]
        if len(unique) == 1
        else f"{', '.join(unique[:-1])} and {unique[-1]}" if unique else "nothing"
    )
