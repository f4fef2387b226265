"""How a reference writes joins (cat, pad) and what their pieces are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.emit.text.expression import Precedence, Text
from longhand.emit.text.reference_ops import FUNCTIONAL, TORCH, Join, PieceLoad
from longhand.emit.text.reference_page import ReferencePage, is_slice, number_text
from longhand.lower.ir import Load, arguments


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
        page: ReferencePage,
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
        self.page.modules.add(TORCH)
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
        border = number_text(value.other)
        fill = "" if not join.fill and join.fill == 0 else f", value={border.text}"
        self.page.modules |= {FUNCTIONAL, *border.needs}
        return Text(f"F.pad({self.page.names.pointers[value.buffer]}, ({widths}){fill})")
