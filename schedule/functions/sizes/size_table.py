"""The sizes in which modules differ: the symbols for them, and what tells any other number of theirs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from longhand.lower.ir import Buffer, Extern, Size
from longhand.schedule.functions.alike_numbers import KEYWORDS, require
from longhand.schedule.functions.alike_steps import AlikeSteps, SizeSymbol
from longhand.schedule.functions.sizes.size_sums import (
    SMALLEST_TELLING,
    told_by_namesake,
    told_by_symbols,
)
from longhand.schedule.names.words import first_free, further_names, identifier, is_identifier

Column = tuple[int, ...]  # what a number is in each of the modules
Sites = Sequence[Any]  # what stands in one place of each
WordsOf = Callable[[str, int], Sequence[str | None]]  # of the dimensions of a buffer, or of a view

_MOST_ASKED = 24  # symbols that nothing tells, most of which are never printed
_DIMS = {  # what a dimension is called that has no word
    1: ("channels",),
    2: ("rows", "channels"),
    3: ("batch", "length", "channels"),
    4: ("batch", "channels", "height", "width"),
}
_CHANNELS_LAST = ("batch", "height", "width", "channels")


class SizeTable:
    """Symbols for the sizes in which modules differ.

    Args:
        alike: What the modules do.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of the first one's buffers.
        variables: What the function calls these.
        taken: Names that no symbol may have.

    Attributes:
        alike: As given.
        words_of: As given.
        taken: As given.
        symbols: The sizes.
        fixed: Dimensions with a word that are the same in all modules.
        of_dims: By a tensor that is given, or a weight, and a dimension of it: the symbol.
    """

    def __init__(
        self,
        alike: AlikeSteps,
        buffers: Mapping[str, Buffer],
        words_of: WordsOf,
        variables: Mapping[str, str],
        taken: Collection[str],
    ) -> None:
        self.alike, self.words_of, self.taken = alike, words_of, frozenset(taken)
        self._buffers, self._variables = buffers, variables
        self.symbols: list[SizeSymbol] = []
        self.fixed: list[SizeSymbol] = []
        self.of_dims: dict[tuple[str, int], SizeSymbol] = {}
        self._known: dict[tuple[Column, frozenset[str], bool], Size | None] = {}
        self._meant: dict[str, tuple[Size, ...]] = {}  # by word: what the first dimension of that word is
        self._kept: set[str] = set()
        self._words_met: dict[Column, list[str]] = {}  # what is called so somewhere in the first module
        self._collect()

    @property
    def weights(self) -> list[tuple[str, tuple[str, ...]]]:
        """The weights that all modules read: the path of each, and what it is in each."""
        names = [{path: name for name, path in site.weights.items()} for site in self.alike.sites]
        paths = [path for path in names[0] if all(path in of for of in names)]
        return [(path, tuple(of[path] for of in names)) for path in paths]

    def _collect(self) -> None:
        each = [(column, self._of_tensor(column)) for column in self.alike.inputs]
        for column, words in each:
            self._keep_for_others(column, words)
        for column, words in each:
            self._add_dims(column, words)
            self._fix_dims(column)
        for word, numbers in self.alike.numbers:
            is_size = all(type(number) is int and number > 1 for number in numbers)
            if is_size and word not in KEYWORDS and len(set(numbers)) > 1:  # one that a call inside is given
                self.symbols.append(SizeSymbol(word, tuple(map(int, numbers)), is_told=True))
        for path, column in self.weights:
            self._add_dims(column, [list(_of_weight(path, dim)) for dim in range(self.rank(column))][:2])
        self._meet_words()
        for sizes, words_met in self._words_met.items():
            for word in words_met:
                if self._exact(sizes, word, []) is None and len(self.symbols) < _MOST_ASKED:
                    self._new(sizes, [word], is_told=False)

    def own(self, column: Sequence[str]) -> list[Buffer]:
        """The buffers that are given for a parameter, or made in one place; none where the plan has none."""
        sites = zip(self.alike.sites, column, strict=True)
        names = [site.aliases.get(name, name) for site, name in sites]
        found = [self._buffers[name] for name in names if name in self._buffers]
        return found if len(found) == len(column) else []

    def rank(self, column: Sequence[str]) -> int:
        """How many dimensions these have; 0 where they have not as many."""
        ranks = {len(buffer.shape) for buffer in self.own(column)}
        return ranks.pop() if len(ranks) == 1 else 0

    def _of_tensor(self, column: Sequence[str]) -> list[list[str]]:
        """What each dimension of a tensor that the function is given may be called."""
        variable, rank = self._variables.get(column[0], ""), self.rank(column)
        nouns = _DIMS.get(rank, tuple(f"dim_{dim}" for dim in range(rank)))
        words = self.words_of(self.alike.sites[0].aliases.get(column[0], column[0]), rank) if rank else ()
        if rank == len(_CHANNELS_LAST) and ((words[1] and words[2]) or self._is_of_weight(column)):
            nouns = _CHANNELS_LAST
        return [
            [
                *([word] if word and type(word) is str and word.isidentifier() else []),
                *([f"{variable}_{noun}"] if is_identifier(variable) else []),
            ]
            for word, noun in zip(words, nouns, strict=True)
        ]

    def _is_of_weight(self, column: Sequence[str]) -> bool:
        """Whether the last dimension of a tensor is as long as a vector that each module holds: its channels."""
        last = [buffer.shape[-1] for buffer in self.own(column)]
        vectors = (self.own(names) for _, names in self.weights if self.rank(names) == 1)
        return len(set(last)) > 1 and any([one.shape[0] for one in own] == last for own in vectors)

    def _add_dims(self, column: Sequence[str], words: Sequence[Sequence[str]]) -> None:
        """Symbols for the dimensions of a tensor in which modules differ."""
        own = self.own(column)
        require(not own or len({len(buffer.shape) for buffer in own}) == 1)
        used: list[SizeSymbol] = []
        for dim, sizes in enumerate(zip(*(buffer.shape[: len(words)] for buffer in own), strict=True)):
            if not all(type(size) is int for size in sizes):
                require(len({str(size) for size in sizes}) == 1)
                continue
            if len(set(sizes)) == 1:
                continue
            symbol = self._exact(sizes, words[dim][0] if words[dim] else None, used)
            if symbol is None or symbol in used:
                is_of_table = not own[0].dtype.is_floating_point
                symbol = self._new(sizes, words[dim], is_told=True, source=column[0], is_of_table=is_of_table)
            used.append(symbol)
            self.of_dims[column[0], dim] = symbol

    def _keep_for_others(self, column: Sequence[str], words: Sequence[Sequence[str]]) -> None:
        """Words that a shape binds to what is the same in all modules are no symbol's."""
        require(len({len(buffer.shape) for buffer in self.own(column)}) <= 1)
        dims = zip(*(buffer.shape for buffer in self.own(column)), strict=True)
        for sizes, known in zip(dims, words, strict=False):
            if known and known[0] not in self._meant:
                self._meant[known[0]] = tuple(sizes)
                self._kept |= {known[0]} if len({str(size) for size in sizes}) == 1 else set()

    def _fix_dims(self, column: Sequence[str]) -> None:
        """Keeps dimensions that are the same in all modules, and that a shape binds to their words."""
        own, rank = self.own(column), self.rank(column)
        words = self.words_of(self.alike.sites[0].aliases.get(column[0], column[0]), rank) if rank else ()
        for sizes, word in zip(zip(*(buffer.shape for buffer in own), strict=True), words, strict=True):
            is_word = bool(word) and type(word) is str and word.isidentifier() and word not in self.taken
            is_new = all(word != one.word for one in (*self.fixed, *self.symbols))
            is_size = all(type(size) is int and size > 1 for size in sizes) and len(set(sizes)) == 1
            if word is not None and is_word and is_new and is_size and self._meant.get(word) == sizes:
                self.fixed.append(SizeSymbol(word, sizes, is_told=True))

    def _new(
        self,
        sizes: Column,
        words: Sequence[str],
        *,
        is_told: bool,
        source: str = "",
        is_of_table: bool = False,
    ) -> SizeSymbol:
        known = {one.word for one in (*self.symbols, *self.fixed)} | self.taken | self._kept
        head = words[0] if words else "size"
        further = itertools.chain(words, further_names(head))
        word = first_free(further, known)
        is_named = is_told or word in words
        symbol = SizeSymbol(
            word, sizes, is_told, source, is_of_table, is_named, meant=words[0] if words else ""
        )
        self.symbols.append(symbol)
        return symbol

    def _exact(
        self,
        sizes: Column,
        word: str | None,
        used: Sequence[SizeSymbol],
        near: Collection[str] | None = None,
    ) -> SizeSymbol | None:
        """The symbol that stands for a column: of several the one of that word, or the first that is not used yet.

        Where `near` is given: of that word, or one of these.
        """
        alike = [
            one
            for one in self.symbols
            if one.sizes == sizes
            and self._may_be(one, word)
            and (near is None or one.word in near or word in (one.word, one.meant))
        ]
        named = (one for one in alike if word in (one.word, one.meant))
        free = (one for one in alike if one not in used)
        again = (one for one in alike if one.is_told or not word)
        return next(itertools.chain(named, free, again), None)

    def _may_be(self, symbol: SizeSymbol, word: str | None) -> bool:
        """Whether a symbol may stand where a number has a word of its own, or none: small ones are alike by chance."""
        if word in (symbol.word, symbol.meant):
            return True
        is_small = min(symbol.sizes) < SMALLEST_TELLING
        if not word or not word.isidentifier():
            return not (is_small and symbol.is_of_table)
        return symbol.is_told and not is_small

    def told(
        self,
        sizes: Sites,
        word: str | None,
        used: list[SizeSymbol],
        near: frozenset[str],
        *,
        may_ask: bool = True,
        is_printed: bool = True,
    ) -> Size:
        """What a number of each module is over the symbols.

        Args:
            sizes: The number in each.
            word: What it is called in the first of them, if anything.
            used: The symbols that its neighbours are; it is added to them.
            near: The words of the symbols that may tell it: sizes of what stands in the same step.
            may_ask: Whether the function may be given it.
            is_printed: Whether anybody reads it.
        """
        if not all(type(size) is int for size in sizes):
            require(len({repr(size) for size in sizes}) == 1)
            first: Size = sizes[0]
            return first
        column: Column = tuple(sizes)
        if len(set(column)) == 1:
            used += [one for one in self.fixed if one.word == word and one.sizes == column]
            return column[0]
        symbol = self._exact(column, word, used, near)
        if (
            symbol is not None and not symbol.is_named
        ):  # a reader would ask what it is: others tell it, if they can
            told = told_by_namesake(column, symbol.meant, self.symbols)
            if told is None and min(column) >= SMALLEST_TELLING:
                told = self._put_together(column, near, used, are_named=True)
            if told is not None:
                return told
        if symbol is not None:
            require(symbol.is_named or not is_printed)
            used.append(symbol)
            return symbol.size
        for are_named in (True, False):
            told = self._put_together(column, near, used, are_named=are_named)
            if told is not None:
                return told
        n_asked = sum(not one.is_told for one in self.symbols)
        require(may_ask and n_asked < _MOST_ASKED)
        words = [word] if word and word.isidentifier() else self._words_met.get(column, [])
        require(bool(words) or not is_printed)
        asked = self._new(column, words, is_told=False)
        used.append(asked)
        return asked.size

    def _put_together(
        self, column: Column, near: frozenset[str], used: Sequence[SizeSymbol], *, are_named: bool
    ) -> Size | None:
        """What symbols tell a column that is none of them; `are_named`: of such alone as have a word.

        What is a dimension beside it, the batch, is no part of it.
        """
        fixed = [one for one in self.fixed if one.word in near and one not in used]
        key = column, near.intersection(one.word for one in (*self.symbols, *fixed)), are_named
        if key not in self._known:
            some = [one for one in self.symbols if one.word in near and (one.is_named or not are_named)]
            of_all = [dataclasses.replace(one, sources=self._sources(one)) for one in some]
            self._known[key] = told_by_symbols(column, of_all, fixed)
        return self._known[key]

    def _sources(self, symbol: SizeSymbol) -> frozenset[str]:
        """The tensors that are given and have it as a dimension."""
        return frozenset(name for (name, _), one in self.of_dims.items() if one.word == symbol.word)

    def _meet_words(self) -> None:
        """Keeps what views and new tensors call sizes that no dimension of what is given tells."""
        known = {one.sizes for one in self.symbols}
        for column, words in itertools.chain(self._words_of_views(), self._words_of_made()):
            for sizes, word in zip(column, words, strict=True):
                is_column = all(type(size) is int for size in sizes) and len(set(sizes)) > 1
                if is_column and sizes not in known and word and type(word) is str and word.isidentifier():
                    met = self._words_met.setdefault(tuple(sizes), [])
                    met += [word] if word not in met else []

    def _words_of_made(self) -> Iterator[tuple[Sequence[Sites], Sequence[str | None]]]:
        for column in self.alike.made:
            own, rank = self.own(column), self.rank(column)
            if own and rank:
                yield [*zip(*(one.shape for one in own), strict=True)], self.words_of(column[0], rank)

    def _words_of_views(self) -> Iterator[tuple[Sequence[Sites], Sequence[str | None]]]:
        each = [[step for step in site.steps if isinstance(step, Extern)] for site in self.alike.sites]
        for steps in zip(*each, strict=True):
            for views in zip(*(step.views() for step in steps), strict=True):
                for calls in zip(*(view.calls for view in views), strict=True):
                    sizes = [call.args[0] if call.args else () for call in calls]
                    are_lists = all(isinstance(one, tuple | list) for one in sizes)
                    if calls[0].origin and are_lists and len(set(map(len, sizes))) == 1:
                        columns = [*zip(*sizes, strict=True)]
                        yield columns, self.words_of(calls[0].origin, len(columns))


def _of_weight(path: str, dim: int) -> Iterator[str]:
    """What one dimension of a weight may be called: ``conv_channels`` of what comes out of it, ``conv_in`` before."""
    names = path.split(".") if path.split(".")[-1] not in ("weight", "bias") else path.split(".")[:-1]
    parts = [identifier(part) for part in names if not part.isdigit()]
    noun = {0: "channels", 1: "in"}.get(dim, "kernel")
    yield from (f"{part}_{noun}" for part in reversed(parts) if is_identifier(part))
