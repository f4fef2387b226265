"""The lines of a reference as they are written, and what is written onto them: places in flat memory, joins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.names.words import RESERVED_IN_MODULE, Scope
from longhand.emit.text.expression import Precedence, Text
from longhand.emit.text.reference_joins import Join, PieceLoad
from longhand.emit.text.reference_numbers import number_text
from longhand.emit.text.reference_views import StridedView, ViewFinder
from longhand.lower.ir import Load, arguments
from longhand.schedule.plan import Address, KernelPlan, ParameterRef, Product, ScalarRef, SizeOf


@dataclasses.dataclass
class Page:
    """A reference's text so far.

    Attributes:
        plan: The kernel.
        names: Its words.
        finder: How tensors are seen.
        views: By parameter, how it is seen; None for flat memory.
        scope: The names that are given.
        lines: Above what is returned.
        used_numbers: The parameters besides tensors that the text mentions.
        turned: Tensors that a line has brought into the kernel's space.
    """

    plan: KernelPlan
    names: KernelNames
    finder: ViewFinder
    views: Mapping[str, StridedView | None]
    scope: Scope = dataclasses.field(default_factory=lambda: Scope(RESERVED_IN_MODULE | {"reference"}))
    lines: list[str] = dataclasses.field(default_factory=list)
    used_numbers: set[str] = dataclasses.field(default_factory=set)
    turned: set[str] = dataclasses.field(default_factory=set)

    def number(self, word: str) -> str:
        """The word of a parameter that is a number, which is used then."""
        self.used_numbers.add(word)
        return word

    def in_space(self, word: str) -> str:
        """A tensor as the kernel's space sees it."""
        view = self.views[word]
        return word + (view.back if view is not None and word not in self.turned else "")


class IndexWriter:
    """Writes places in flat memory.

    Args:
        page: Where parts of them get lines.
        value: The text of a value.
    """

    def __init__(self, page: Page, value: Callable[[int], Text]) -> None:
        self.page, self.value = page, value
        self.steps: dict[str, Text] = {}

    def at(self, address: Address) -> Text:
        """Positions in flat memory, one for each point of the space; what the axes give has a line of its own."""
        terms: list[Text] = []
        along = [self._times(self._along(axis), product) for axis, product in address.axes]
        if along:
            text = " + ".join(term.within(Precedence.SUM) for term in along)
            terms.append(self._named_step(text, "at") if len(along) > 1 else along[0])
        for position, product in address.values:
            terms.append(self._times(self.value(position), product))
        for product in address.offset:
            self._note_numbers(product)
            terms.append(self.page.finder.product(product))
        if not terms:
            return Text("0")
        text = " + ".join(term.within(Precedence.SUM) for term in terms)
        return Text(text, Precedence.SUM if len(terms) > 1 else terms[0].precedence)

    def _along(self, axis: str) -> Text:
        """0, 1, 2, ... along an axis."""
        order = [one.name for one in self.page.plan.axes]
        size = self.page.number(self.page.names.axes[axis].size)
        trailing = len(order) - 1 - order.index(axis)
        tensor = next(iter(self.page.views), None)
        where = f", device={tensor}.device" if tensor else ""
        steps = f"torch.arange({size}{where})" + (f".view(-1{', 1' * trailing})" if trailing else "")
        return self._named_step(steps, self.page.names.axes[axis].index)

    def _named_step(self, text: str, word: str) -> Text:
        """A line for part of an index, once."""
        if text not in self.steps:
            name = self.page.scope.pick([word, *([f"{word}_index"] if word != "at" else ["place"])])
            self.page.lines.append(f"{name} = {text}")
            self.steps[text] = Text(name)
        return self.steps[text]

    def _times(self, text: Text, product: Product) -> Text:
        if not product:
            return text
        self._note_numbers(product)
        return Text(
            f"{text.within(Precedence.PRODUCT)} * {self.page.finder.product(product).text}",
            Precedence.PRODUCT,
        )

    def _note_numbers(self, product: Product) -> None:
        for factor in product:
            if isinstance(factor, SizeOf):
                self.page.number(self.page.names.axes[factor.axis].size)
            elif isinstance(factor, ParameterRef):
                self.page.number(self.page.names.ints[factor.name])
            elif isinstance(factor, ScalarRef):
                self.page.number(self.page.names.scalars[factor.position])


class JoinWriter:
    """Writes joins (cat, pad) and what their pieces are.

    Args:
        page: The text.
        pieces: By position, the loads that are pieces of a join.
        domains: The axes that each value varies over.
        value: The text of a value.
    """

    def __init__(
        self,
        page: Page,
        pieces: Mapping[int, PieceLoad],
        domains: Sequence[frozenset[str]],
        value: Callable[[int], Text],
    ) -> None:
        self.page, self.pieces, self.domains, self.value = page, pieces, domains, value

    def piece(self, position: int, word: str) -> Text:
        """What a piece of a cat is computed from: a slice along the axis, or all of a tensor."""
        piece = self.pieces[position]
        if piece.slice is None:
            return Text(word)
        for limit in (piece.range.start, piece.range.end):
            if limit is not None:
                self.page.number(self.page.names.scalars[limit])
        n_after = len(self.page.plan.axes) - 1 - self._place(piece.range.axis)
        return Text(f"{self.page.in_space(word)}[..., {piece.slice}{', :' * n_after}]")

    def _place(self, axis: str) -> int:
        return [one.name for one in self.page.plan.axes].index(axis)

    def cat(self, join: Join) -> Text:
        """The pieces, each expanded along what only others vary along."""
        varying = [self.domains[piece] for piece in join.pieces]
        wanted = frozenset[str]().union(*varying) | {join.axis}
        lengths = [self._n_dims(piece) for piece in join.pieces]
        parts = []
        for piece, own, n_dims in zip(join.pieces, varying, lengths, strict=True):
            text = self.value(piece)
            if own | {join.axis} != wanted or n_dims < max(lengths):
                axes = [axis.name for axis in self.page.plan.axes][-max(lengths) :]
                sizes = [self._expanded(axis, own | {join.axis}, wanted) for axis in axes]
                text = Text(f"{text.within(Precedence.ATOM)}.expand({', '.join(sizes)})")
            parts.append(text.text)
        return Text(
            f"torch.cat([{', '.join(parts)}], dim={self._place(join.axis) - len(self.page.plan.axes)})"
        )

    def _expanded(self, axis: str, own: frozenset[str], wanted: frozenset[str]) -> str:
        if axis in own:
            return "-1"
        return self.page.number(self.page.names.axes[axis].size) if axis in wanted else "1"

    def _n_dims(self, position: int) -> int:
        """How many dimensions the text of a cat's piece has."""
        value = self.page.plan.body[position]
        if isinstance(value, Load) and is_slice(self.pieces, position):
            view = self.page.views[self.page.names.pointers[value.buffer]]
            return len(view.shape) if view is not None else len(self.page.plan.axes)
        if isinstance(value, Load):
            return len(self.page.plan.axes)
        return max((self._n_dims(argument) for argument in arguments(value)), default=0)

    def pad(self, join: Join, value: Load) -> Text:
        """A tensor with a border."""
        (where,) = join.ranges
        size = self.page.number(self.page.names.axes[join.axis].size)
        before = "0" if where.start is None else self.page.number(self.page.names.scalars[where.start])
        after = (
            "0" if where.end is None else f"{size} - {self.page.number(self.page.names.scalars[where.end])}"
        )
        n_after = len(self.page.plan.axes) - 1 - self._place(join.axis)
        widths = ", ".join(["0, 0"] * n_after + [f"{before}, {after}"])
        fill = "" if not join.fill and join.fill == 0 else f", value={number_text(value.other).text}"
        return Text(f"F.pad({self.page.names.pointers[value.buffer]}, ({widths}){fill})")


def is_slice(pieces: Mapping[int, PieceLoad], position: int) -> bool:
    """Whether a value is a slice of a tensor."""
    return position in pieces and pieces[position].slice is not None
