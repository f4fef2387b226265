"""The loop of one pass of a reduction: accumulators before it, statements inside, final values after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from longhand.emit.text.expression import Precedence, Text
from longhand.emit.triton.block import Block
from longhand.emit.triton.functions import masks_in, needed, paragraphs, share_addresses
from longhand.emit.triton.operators import combine_function, reduce_identity
from longhand.emit.triton.scope import FileScope, language_dtype
from longhand.emit.triton.space import Line, Space, StatementKind
from longhand.errors import ScheduleError
from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Store, arguments
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, OnlineSoftmax, Partial, Pass

ARG_OPS = (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
# Where a running maximum starts. Not at -inf: a lane that has seen nothing, or nothing but -inf, would make inf - inf.
_LOWEST = {
    "tl.float32": "LOWEST = tl.constexpr(-3.4028234663852886e38)  # of float32; unlike -inf, minus itself it is 0",
    "tl.float64": "LOWEST = tl.constexpr(-1.7976931348623157e308)  # of float64; unlike -inf, minus itself it is 0",
}


@dataclasses.dataclass(frozen=True)
class PassLoop:
    """One pass as the templates print it.

    Attributes:
        initial: Accumulators.
        shared: Addresses that several statements in the loop use.
        bases: Parts of addresses that do not change along the columns; what walks rows sets them in each step.
        body: The statements in the loop, in paragraphs.
        final: The reductions' values, and what is computed and stored after the loop, in paragraphs.
        masks: Which masks the statements in the loop name.
    """

    initial: list[str]
    shared: list[str]
    bases: list[str]
    body: list[list[str]]
    final: list[list[str]]
    masks: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Accumulator:
    """A reduction on its way: one variable (a maximum and a sum of exponentials: two; ARG*: value and index)."""

    reduction: int | OnlineSoftmax
    names: tuple[str, ...]


class LoopPrinter:
    """Prints the passes of one function, in order.

    Args:
        plan: The kernel.
        names: Its words.
        scope: Where further names come from.
        space: With a block of lanes along the reduced side.
        index: The variable that walks that side.
        leaves_partials: Whether the final values are those of chunks, to be combined by another function.
    """

    def __init__(
        self,
        plan: KernelPlan,
        names: KernelNames,
        scope: FileScope,
        space: Space,
        index: str,
        leaves_partials: bool = False,
    ) -> None:
        self.plan = plan
        self.names = names
        self.scope = scope
        self.space = space
        self.index = index
        self.leaves_partials = leaves_partials
        self.known: dict[int, str] = {}
        self.pairs: dict[int, tuple[str, str]] = {}  # ARG* whose value is wanted beside the index
        self.bases: dict[str, str] = {}
        self.functions: set[str] = set()
        self.constants: set[str] = set()

    def lines(self, positions: Iterable[int], *, is_loop: bool) -> tuple[list[Line], list[str], list[str]]:
        """Statements, with the shared addresses and bases that they use."""
        listed = list(positions)
        draft = self._block()
        draft.lines(listed)
        block = self._block()
        block.bases = self.bases
        lines = share_addresses(draft, block) if is_loop else []
        found = block.lines(listed)
        self.functions |= block.functions
        named = [(name, base) for base, name in self.bases.items()]
        shared = [f"{name} = {value}" for name, value in lines if (name, value) not in named]
        # Also those that an earlier loop has named: where rows are walked they change from one step to the next.
        return found, shared, needed(named, [*shared, *(line.text for line in found)]) if is_loop else []

    def loop(self, one: Pass) -> PassLoop:
        """A pass with its loop, its final values, and what follows from them."""
        if one.from_stage or one.stages:
            raise ScheduleError("A Triton kernel reads nothing back that another pass put aside.")
        accumulators = self._accumulators(one)
        body, shared, bases = self.lines([*one.compute, *one.stores], is_loop=True)
        updates = [line for accumulator in accumulators for line in self._update(accumulator)]
        body = [line for line in body if line.kind is not StatementKind.STORE] + [
            *(Line(StatementKind.COMPUTE, line) for line in updates),
            *(line for line in body if line.kind is StatementKind.STORE),
        ]
        initial = [line for accumulator in accumulators for line in self._initial(accumulator)]
        texts = [line.text for line in body]
        masks = masks_in(texts)
        final = [line for accumulator in accumulators for line in self.final(accumulator)]
        after, _, _ = self.lines(one.then, is_loop=False)
        groups = paragraphs([*(Line(StatementKind.COMPUTE, line) for line in final), *after])
        return PassLoop(initial, shared, bases, paragraphs(body), groups, masks)

    # Accumulators

    def _block(self) -> Block:
        return Block(self.plan, self.names, self.scope, self.space, self.known)

    def _accumulators(self, one: Pass) -> list[Accumulator]:
        plain = [r for r in one.reductions if isinstance(r, int)]
        found = []
        for place, reduction in enumerate(one.reductions):
            if isinstance(reduction, OnlineSoftmax):
                start: tuple[object, ...] = (self._reduce(reduction.max).dtype,)
                words: tuple[tuple[str, ...], ...] = (("running_max",), ("running_sum",))
            else:
                reduce, word = self._reduce(reduction), self.word(reduction)
                start = (reduce.op, reduce.dtype, self._element_dtype(reduction))
                if reduce.op in ARG_OPS:
                    words = ((f"{word}_best",), (f"{word}_index",))
                elif len(plain) == 1:
                    words = (("acc", f"{word}_acc"),)
                else:
                    words = ((f"{word}_acc",),)
            # Every loop starts its own: those at one place that start alike may share a name.
            names = tuple(self.scope.name(("accumulator", place, each[0], start), *each) for each in words)
            found.append(Accumulator(reduction, names))
        return found

    def word(self, position: int) -> str:
        """A word for a reduction: its name, or that of the first value with a name that it goes into."""
        below = {position}
        for at in range(position, len(self.plan.body)):
            if at == position or below & set(arguments(self.plan.body[at])):
                below.add(at)
                if at in self.names.values:
                    return self.names.values[at]
        return self._reduce(position).op.value

    def _reduce(self, position: int) -> Reduce:
        value = self.plan.body[position]
        assert isinstance(value, Reduce)
        return value

    def _element_dtype(self, position: int) -> str:
        argument = self.plan.body[self._reduce(position).arg]
        assert not isinstance(argument, Store)
        return language_dtype(argument.dtype)

    def _initial(self, accumulator: Accumulator) -> list[str]:
        width = self.space.width
        if isinstance(accumulator.reduction, OnlineSoftmax):
            dtype = language_dtype(self._reduce(accumulator.reduction.max).dtype)
            self.need_lowest(dtype)
            running_max, running_sum = accumulator.names
            return [
                f"{running_max} = tl.full({width}, LOWEST, {dtype})",
                f"{running_sum} = tl.zeros({width}, {dtype})",
            ]
        position = accumulator.reduction
        reduce = self._reduce(position)
        dtype = self._element_dtype(position)
        start = reduce_identity(self.plan.body, position)
        if reduce.op in ARG_OPS:
            value, index = accumulator.names
            return [f"{value} = tl.full({width}, {start}, {dtype})", f"{index} = tl.zeros({width}, tl.int64)"]
        if reduce.op is ReduceOp.SUM:
            return [f"{accumulator.names[0]} = tl.zeros({width}, {language_dtype(reduce.dtype)})"]
        return [f"{accumulator.names[0]} = tl.full({width}, {start}, {dtype})"]

    def need_lowest(self, dtype: str) -> None:
        """Asks for the constant that running maxima start from."""
        self.constants.add(_LOWEST[dtype])

    def _update(self, accumulator: Accumulator) -> list[str]:
        block = self._block()
        if isinstance(accumulator.reduction, OnlineSoftmax):
            lines = self._update_online(accumulator, accumulator.reduction, block)
        else:
            position = accumulator.reduction
            reduce = self._reduce(position)
            argument = block.guarded(position).text
            name = accumulator.names[0]
            match reduce.op:
                case ReduceOp.SUM:
                    lines = [f"{name} += {argument}"]
                case ReduceOp.PROD:
                    lines = [f"{name} *= {argument}"]
                case ReduceOp.ANY:
                    lines = [f"{name} |= {argument}"]
                case ReduceOp.ALL:
                    lines = [f"{name} &= {argument}"]
                case ReduceOp.ARGMAX | ReduceOp.ARGMIN:
                    function = combine_function(reduce.op)
                    self.functions.add(function)
                    value, index = accumulator.names
                    lines = [f"{value}, {index} = {function}({value}, {index}, {argument}, {self.index})"]
                case _:
                    lines = [f"{name} = {self._larger(position)}({name}, {argument})"]
        self.functions |= block.functions
        return lines

    def _update_online(self, accumulator: Accumulator, online: OnlineSoftmax, block: Block) -> list[str]:
        running_max, running_sum = accumulator.names
        x = block.guarded(online.max).text
        lines = []
        if not x.isidentifier():
            word = self.scope.name("element", "x", "element")
            lines.append(f"{word} = {x}")
            x = word
        new_max = self.scope.name("new maximum", "new_max")
        return [
            *lines,
            f"{new_max} = {self._larger(online.max)}({running_max}, {x})",
            f"{running_sum} = {running_sum} * tl.exp({running_max} - {new_max}) + tl.exp({x} - {new_max})",
            f"{running_max} = {new_max}",
        ]

    def _larger(self, position: int) -> str:
        """The function for two elements of a maximum or minimum: ours where NaN must show."""
        reduce = self._reduce(position)
        plain = not reduce.dtype.is_floating_point or position in self.plan.numerics.drops_nan
        if plain:
            return "tl.maximum" if reduce.op is ReduceOp.MAX else "tl.minimum"
        function = combine_function(reduce.op)
        self.functions.add(function)
        return function

    # Results

    def final(self, accumulator: Accumulator) -> list[str]:
        """The lines for a reduction's value once its loop is over; without a name it stays an expression."""
        block = self._block()
        if isinstance(accumulator.reduction, OnlineSoftmax):
            lines = self._final_online(accumulator.names, accumulator.reduction, block)
        else:
            position = accumulator.reduction
            if self._reduce(position).op not in ARG_OPS:
                lines = self._keep(position, block.reduce_lanes(position, accumulator.names[0]))
            else:
                value, index = accumulator.names
                text = block.reduce_lanes(position, value, index, is_pair=self.leaves_partials)
                if self.leaves_partials:
                    lines = [f"{value}, {index} = {text.text}"]
                    self.pairs[position] = (value, index)
                    self.known[position] = index
                else:
                    lines = self._keep(position, text)
        self.functions |= block.functions
        return lines

    def _keep(self, position: int, text: Text) -> list[str]:
        if position not in self.names.values:
            self.known[position] = text.within(Precedence.ATOM)
            return []
        self.known[position] = self.names.values[position]
        return [f"{self.names.values[position]} = {text.text}"]

    def _final_online(self, running: Sequence[str], online: OnlineSoftmax, block: Block) -> list[str]:
        running_max, running_sum = running
        names = self.names.values
        largest = names.get(online.max) or self.scope.name(("reduced", online.max), "row_max")
        total = names.get(online.sum) or self.scope.name(("reduced", online.sum), "row_sum")
        scaled = f"{running_sum} * tl.exp({running_max} - {largest})"
        self.known[online.max] = largest
        self.known[online.sum] = total
        lines = [
            f"{largest} = {block.reduce_lanes(online.max, running_max).text}",
            f"{total} = {block.reduce_lanes(online.sum, scaled).text}",
        ]
        if not self.leaves_partials and _is_exposed(self.plan, online):
            lines.append(f'{largest} = tl.where({total} == 0.0, float("-inf"), {largest})  # all of it -inf')
            lines.append(f'{total} = tl.where({total} == 0.0, float("nan"), {total})')
        return lines

    # Chunks

    def partial_names(self, one: Pass) -> list[tuple[Accumulator, list[Partial]]]:
        """The accumulators of a pass, each with the scratch tensors of its chunks' results."""
        found = []
        for accumulator in self._accumulators(one):
            reduction = accumulator.reduction
            online = isinstance(reduction, OnlineSoftmax)
            positions = (
                (reduction.max, reduction.sum) if isinstance(reduction, OnlineSoftmax) else (reduction,)
            )
            partials = [p for at in positions for p in self.plan.partials if p.position == at]
            if not online:
                partials.sort(key=lambda partial: partial.is_index)
            found.append((accumulator, partials))
        return found


def identity_of(plan: KernelPlan, partial: Partial, is_online_max: bool) -> str:
    """What a chunk that is not there would have left."""
    reduce = plan.body[partial.position]
    assert isinstance(reduce, Reduce)
    if is_online_max:
        return "LOWEST"
    return "0" if partial.is_index else reduce_identity(plan.body, partial.position)


def _is_exposed(plan: KernelPlan, online: OnlineSoftmax) -> bool:
    """Whether a row of nothing but -inf would show that its maximum here is LOWEST and its sum 0.

    Eager's are -inf and NaN. The exponentials divided by the sum, and the logarithm of the sum plus the maximum, come
    out alike either way, as NaN or as the -inf that logsumexp should be.
    """
    for value in plan.body:
        used = {online.max, online.sum} & set(arguments(value))
        if not used or (isinstance(value, Reduce) and not used - {online.sum}):
            continue
        if not isinstance(value, Pointwise):
            return True
        fine = (
            (PointwiseOp.ADD, PointwiseOp.SUB) if online.max in used else (PointwiseOp.DIV, PointwiseOp.LOG)
        )
        if value.op not in fine or (value.op is PointwiseOp.DIV and value.args[0] in used):
            return True
    return False
