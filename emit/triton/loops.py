"""The loop of one pass of a reduction: accumulators before it, statements inside, final values after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from longhand.emit.text.expression import Precedence, Text, compose, word
from longhand.emit.triton.block import Block
from longhand.emit.triton.functions import bind, masks_in, needed, paragraphs, share_addresses
from longhand.emit.triton.operators import combine_function, reduce_identity
from longhand.emit.triton.scope import FileScope, language_dtype
from longhand.emit.triton.space import Line, Space, StatementKind
from longhand.errors import ScheduleError
from longhand.lower.ir import Reduce, ReduceOp, Store, arguments
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, OnlineSoftmax, Partial, Pass, shows_in_infinite_rows

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

    initial: list[Text]
    shared: list[Text]
    bases: list[Text]
    body: list[list[Text]]
    final: list[list[Text]]
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
        index: Text,
        leaves_partials: bool = False,
    ) -> None:
        self.plan = plan
        self.names = names
        self.scope = scope
        self.space = space
        self.index = index
        self.leaves_partials = leaves_partials
        self.known: dict[int, Text] = {}
        self.pairs: dict[int, tuple[Text, Text]] = {}  # ARG* whose value is wanted beside the index
        self.bases: dict[Text, str] = {}
        self.constants: set[str] = set()

    def lines(self, positions: Iterable[int], *, is_loop: bool) -> tuple[list[Line], list[Text], list[Text]]:
        """Statements, with the shared addresses and bases that they use."""
        listed = list(positions)
        draft = self._block()
        draft.lines(listed)
        block = self._block()
        block.bases = self.bases
        lines = share_addresses(draft, block) if is_loop else []
        statements = block.lines(listed)
        named = [(name, base) for base, name in self.bases.items()]
        shared = [bind(*line) for line in lines if line not in named]
        # Also those that an earlier loop has named: where rows are walked they change from one step to the next.
        return (
            statements,
            shared,
            needed(named, [*shared, *(line.text for line in statements)]) if is_loop else [],
        )

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
        accumulators = []
        for place, reduction in enumerate(one.reductions):
            if isinstance(reduction, OnlineSoftmax):
                start: tuple[object, ...] = (self._reduce(reduction.max).dtype,)
                words: tuple[tuple[str, ...], ...] = (("running_max",), ("running_sum",))
            else:
                reduce, result = self._reduce(reduction), self._word_of(reduction)
                start = (reduce.op, reduce.dtype, self._element_dtype(reduction))
                if reduce.op in ARG_OPS:
                    words = ((f"{result}_best",), (f"{result}_index",))
                elif len(plain) == 1:
                    words = (("acc", f"{result}_acc"),)
                else:
                    words = ((f"{result}_acc",),)
            # Every loop starts its own: those at one place that start alike may share a name.
            names = tuple(self.scope.name(("accumulator", place, each[0], start), *each) for each in words)
            accumulators.append(Accumulator(reduction, names))
        return accumulators

    def _word_of(self, position: int) -> str:
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

    def _initial(self, accumulator: Accumulator) -> list[Text]:
        width = self.space.width
        if isinstance(accumulator.reduction, OnlineSoftmax):
            dtype = language_dtype(self._reduce(accumulator.reduction.max).dtype)
            self.need_lowest(dtype)
            running_max, running_sum = accumulator.names
            return [
                Text(f"{running_max} = tl.full({width}, LOWEST, {dtype})"),
                Text(f"{running_sum} = tl.zeros({width}, {dtype})"),
            ]
        position = accumulator.reduction
        reduce = self._reduce(position)
        dtype = self._element_dtype(position)
        start = reduce_identity(self.plan.body, position)
        if reduce.op in ARG_OPS:
            value, index = accumulator.names
            return [
                Text(f"{value} = tl.full({width}, {start}, {dtype})"),
                Text(f"{index} = tl.zeros({width}, tl.int64)"),
            ]
        if reduce.op is ReduceOp.SUM:
            return [Text(f"{accumulator.names[0]} = tl.zeros({width}, {language_dtype(reduce.dtype)})")]
        return [Text(f"{accumulator.names[0]} = tl.full({width}, {start}, {dtype})")]

    def need_lowest(self, dtype: str) -> None:
        """Asks for the constant that running maxima start from."""
        self.constants.add(_LOWEST[dtype])

    def _update(self, accumulator: Accumulator) -> list[Text]:
        block = self._block()
        if isinstance(accumulator.reduction, OnlineSoftmax):
            return self._update_online(accumulator, accumulator.reduction, block)
        position = accumulator.reduction
        reduce = self._reduce(position)
        argument = block.guarded(position)
        name = word(accumulator.names[0])
        match reduce.op:
            case ReduceOp.SUM:
                return [compose("{} += {}", name, argument)]
            case ReduceOp.PROD:
                return [compose("{} *= {}", name, argument)]
            case ReduceOp.ANY:
                return [compose("{} |= {}", name, argument)]
            case ReduceOp.ALL:
                return [compose("{} &= {}", name, argument)]
            case ReduceOp.ARGMAX | ReduceOp.ARGMIN:
                index = word(accumulator.names[1])
                pair = compose("{}, {}", name, index)
                function = combine_function(reduce.op)
                return [compose("{} = {}({}, {}, {})", pair, function, pair, argument, self.index)]
        return [compose("{} = {}({}, {})", name, self._larger(position), name, argument)]

    def _update_online(self, accumulator: Accumulator, online: OnlineSoftmax, block: Block) -> list[Text]:
        running_max, running_sum = map(word, accumulator.names)
        x = block.guarded(online.max)
        lines = []
        if not x.text.isidentifier():
            element = self.scope.name("element", "x", "element")
            lines.append(bind(element, x))
            x = word(element)
        names = ("new_max", f"new_{accumulator.names[0]}")  # of one loop that makes two
        new_max = word(self.scope.name(("new maximum", online.max), *names))
        larger = self._larger(online.max)
        rescaled = compose("{} * tl.exp({} - {})", running_sum, running_max, new_max)
        return [
            *lines,
            compose("{} = {}({}, {})", new_max, larger, running_max, x),
            compose("{} = {} + tl.exp({} - {})", running_sum, rescaled, x, new_max),
            compose("{} = {}", running_max, new_max),
        ]

    def _larger(self, position: int) -> Text:
        """The function for two elements of a maximum or minimum: ours where NaN must show."""
        reduce = self._reduce(position)
        plain = not reduce.dtype.is_floating_point or position in self.plan.numerics.drops_nan
        if plain:
            return Text("tl.maximum" if reduce.op is ReduceOp.MAX else "tl.minimum")
        return combine_function(reduce.op)

    # Results

    def final(self, accumulator: Accumulator) -> list[Text]:
        """The lines for a reduction's value once its loop is over; without a name it stays an expression."""
        block = self._block()
        if isinstance(accumulator.reduction, OnlineSoftmax):
            return self._final_online(accumulator.names, accumulator.reduction, block)
        position = accumulator.reduction
        if self._reduce(position).op not in ARG_OPS:
            return self._keep(position, block.reduce_lanes(position, word(accumulator.names[0])))
        value, index = map(word, accumulator.names)
        text = block.reduce_lanes(position, value, index, is_pair=self.leaves_partials)
        if not self.leaves_partials:
            return self._keep(position, text)
        self.pairs[position] = (value, index)
        self.known[position] = index
        return [compose("{}, {} = {}", value, index, text)]

    def _keep(self, position: int, text: Text) -> list[Text]:
        if position not in self.names.values:
            self.known[position] = text.operand(Precedence.ATOM)
            return []
        self.known[position] = word(self.names.values[position])
        return [bind(self.names.values[position], text)]

    def _final_online(self, running: Sequence[str], online: OnlineSoftmax, block: Block) -> list[Text]:
        running_max, running_sum = map(word, running)
        names = self.names.values
        largest = word(names.get(online.max) or self.scope.name(("reduced", online.max), "row_max"))
        total = word(names.get(online.sum) or self.scope.name(("reduced", online.sum), "row_sum"))
        scaled = compose("{} * tl.exp({} - {})", running_sum, running_max, largest)
        self.known[online.max] = largest
        self.known[online.sum] = total
        lines = [
            compose("{} = {}", largest, block.reduce_lanes(online.max, running_max)),
            compose("{} = {}", total, block.reduce_lanes(online.sum, scaled)),
        ]
        if not self.leaves_partials and shows_in_infinite_rows(self.plan.body, online):
            nothing = compose("{} == 0.0", total)
            lowest = compose('tl.where({}, float("-inf"), {})', nothing, largest)
            lines.append(compose("{} = {}  # all of it -inf", largest, lowest))
            lines.append(compose('{} = tl.where({}, float("nan"), {})', total, nothing, total))
        return lines

    # Chunks

    def partial_names(self, one: Pass) -> list[tuple[Accumulator, list[Partial]]]:
        """The accumulators of a pass, each with the scratch tensors of its chunks' results."""
        pairs = []
        for accumulator in self._accumulators(one):
            reduction = accumulator.reduction
            online = isinstance(reduction, OnlineSoftmax)
            positions = (
                (reduction.max, reduction.sum) if isinstance(reduction, OnlineSoftmax) else (reduction,)
            )
            partials = [p for at in positions for p in self.plan.partials if p.position == at]
            if not online:
                partials.sort(key=lambda partial: partial.is_index)
            pairs.append((accumulator, partials))
        return pairs


def identity_of(plan: KernelPlan, partial: Partial, is_online_max: bool) -> str:
    """What a chunk that is not there would have left."""
    reduce = plan.body[partial.position]
    assert isinstance(reduce, Reduce)
    if is_online_max:
        return "LOWEST"
    return "0" if partial.is_index else reduce_identity(plan.body, partial.position)
