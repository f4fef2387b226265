"""Sizes as Python expressions over the words that model.py binds: ``batch * seq`` rather than 4096."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence, Set

import sympy

from longhand.emit.text.python_code import (
    Code,
    InfixCode,
    LiteralCode,
    MethodCode,
    NameCode,
    PythonStatement,
    SizeText,
    dimension,
    formula,
    multiplied,
    named_size,
    told_size,
    whole_number,
)
from longhand.emit.text.told_sizes import (
    BoundSizes,
    Shaped,
    derived_from,
    is_bare,
    is_path,
    known_product,
    leading_axes,
    read_from,
    with_single,
)
from longhand.lower.ir import Buffer, Size, memory_order
from longhand.schedule.named_plan import (
    N_PARTS,
    DimNamer,
    PaddedWord,
    ProductWord,
    ToldSize,
    Words,
    apart,
    grouped,
    grouped_before_last,
)


class SizeWriter:
    """Writes sizes.

    Args:
        words: Words for dimensions.
        values: What each word that is bound stands for.
        symbols: The word for each symbolic size, by the symbol's name.
        binding: For each tensor whose shape binds words: the expression and the word of each dimension.
        derived: Words of symbols that are no dimension by themselves: whose dimension tells it, and how.
        taken: Names that no size may have.
        untold: Words of symbols that follow from nothing at hand: a function that uses them must be given them.

    Attributes:
        symbols: As given.
        used: The words that were.
        constant: The constant of the file that a word for a number is; empty where the function binds it itself.
        reads_shapes: Whether all numbers are read from tensors that tell them: the function is one for several sizes.
        uneven: Tensors of which only the last dimensions that have words are the same in all calls.
    """

    def __init__(
        self,
        words: DimNamer,
        values: Mapping[str, Size],
        symbols: Mapping[str, str],
        binding: Sequence[tuple[str, Words]] = (),
        derived: Mapping[str, tuple[str, Code]] | None = None,
        taken: Set[str] | None = None,
        untold: Mapping[str, str] | None = None,
    ) -> None:
        self.reads_shapes = self._is_reading = False
        self.uneven: frozenset[str] = frozenset()
        self._has_symbols = False  # for sizes of several modules
        self.constant: Callable[[str, int], str] = lambda word, size: ""
        self._untold = dict(untold or {})
        self._taken = taken  # None: only what a shape binds has a word
        self._stated: dict[str, int] = {}  # words that no shape binds
        self._derived = dict(derived or {})
        self._binding = tuple(binding)
        self._words = words
        self._values = values
        self._symbols = self.symbols = symbols
        self.used: set[str] = set()

    @property
    def values(self) -> Mapping[str, Size]:
        """What each bound word stands for."""
        return self._values

    @property
    def needed(self) -> tuple[str, ...]:
        """The symbols that were used and that nothing at hand tells."""
        return tuple(sorted(symbol for symbol, word in self._untold.items() if word in self.used))

    def word_of(self, symbol: str) -> str:
        """The word of a symbol, which is used."""
        self.used.add(self._symbols[symbol])
        return self._symbols[symbol]

    def for_tensors(
        self,
        tensors: Sequence[Shaped],
        taken: set[str],
        reads_shapes: bool = False,
        symbols: Sequence[str] = (),
        given: Sequence[str] = (),
    ) -> SizeWriter:
        """A writer for a function that is given these tensors, of one size or of several, and these of the symbols."""
        known = {**self._symbols, **{word: word for word in symbols}}
        made = bind_sizes(self._words, known, tensors, taken, frozenset(given))
        made.reads_shapes = reads_shapes
        made._has_symbols = len(symbols) > len(given)
        return made

    def words_at(self, node: str, n_dims: int) -> Words:
        """Words for the dimensions of a value of the captured graph, a view for instance."""
        return self._words.of(node, n_dims)

    def words_of(self, buffer: Buffer) -> Words:
        """Words for a buffer's dimensions."""
        return self._words.of(buffer.name, len(buffer.shape))

    def bound(self) -> BoundSizes:
        """The words that were used: ``batch, seq, dim = x.shape``."""
        lines = []
        for path, words in self._binding:
            wanted = [(dim, word) for dim, word in enumerate(words) if word in self.used]
            if path in self.uneven:
                n = len(words)
                lines += [PythonStatement((str(word),), dimension(path, dim - n)) for dim, word in wanted]
            elif len(wanted) == 1 and len(words) > 1:
                lines.append(PythonStatement((str(wanted[0][1]),), dimension(path, wanted[0][0])))
            elif wanted:
                named = tuple(word if word is not None and word in self.used else "_" for word in words)
                shape = MethodCode(NameCode(path), "shape")
                lines.append(PythonStatement(named, shape, unpacks=len(named) == 1))
        derived = ((word, code) for word, (_, code) in self._derived.items() if word in self.used)
        lines += [PythonStatement((word,), code) for word, code in derived]
        stated = {word: size for word, size in self._stated.items() if word in self.used}
        known = {*stated, *self._values}
        padded = {word: word.of for word in stated if isinstance(word, PaddedWord) and word.of in known}
        plain = {word: size for word, size in stated.items() if word not in padded}
        of_padding = [
            PythonStatement((word,), whole_number(stated[word]), remark=f"{of} and the padding")
            for word, of in sorted(padded.items())
        ]
        return BoundSizes(tuple(lines), plain, tuple(of_padding))

    @property
    def tensors_asked(self) -> frozenset[str]:
        """The tensors whose shapes `bound` asks for."""
        binding = {path for path, words in self._binding if any(word in self.used for word in words)}
        return frozenset(binding | {path for word, (path, _) in self._derived.items() if word in self.used})

    def dims(self, buffer: Buffer, told: Sequence[Code | None] = ()) -> list[Code]:
        """The sizes of a buffer's dimensions; `told` are expressions for some of them, which come before numbers."""
        words = self._words.of(buffer.name, len(buffer.shape))
        codes = []
        for place, (size, word) in enumerate(zip(buffer.shape, words, strict=True)):
            instead = told[place] if told else None
            self._is_reading = self.reads_shapes and instead is not None
            text = self.written(size, word)
            codes.append(instead if instead is not None and text.is_number else self.use(text))
        self._is_reading = False
        return codes

    def text(self, size: Size, word: str | None = None) -> Code:
        """A size; `word` is preferred if it stands for it."""
        return self.use(self.written(size, word))

    def written(self, size: Size, word: str | None) -> SizeText:
        """A size that may not be printed in the end: its words are not used by that, but by `use`."""
        if word is not None and word in self._values and str(self._values[word]) == str(size):
            return named_size(word)
        if not isinstance(size, int):
            return self._symbolic(size)
        if isinstance(word, ProductWord):
            return known_product(word, size, self.written, {**self._stated, **self._values})
        if (
            word is not None
            and size > 1
            and self._may_state(word)
            and self._stated.setdefault(word, size) == size
        ):
            return named_size(self.constant(word, size) or word)
        if isinstance(size, ToldSize):
            for _, one, base in size.terms:
                if self._may_state(one, is_told=True):
                    self._stated.setdefault(one, base)
            if all(self.stands_for(one, base) for _, one, base in size.terms):
                return told_size([(times, one) for times, one, _ in size.terms], size.plus)
        return SizeText(whole_number(size), is_number=True)

    def stands_for(self, word: str, size: int) -> bool:
        """Whether a word is already bound, and to this size."""
        return self._stated.get(word, self._values.get(word)) == size

    def _may_state(self, word: str, is_told: bool = False) -> bool:
        """Whether a word may be bound to a number; while shapes are read only one that tells others, too.

        Of parts that nobody named the number says as much, as in the user's own ``view(batch, seq, 3, -1)``.
        """
        is_asked = self._taken is not None and word != N_PARTS and (is_told or not self._is_reading)
        return is_asked and word not in (self._taken or ()) and word not in self._values

    def stride(self, stride: Size, buffer: Buffer) -> Code:
        """The distance between two positions of one of a buffer's dimensions: the product of the sizes inside it."""
        words = self.words_of(buffer)
        for place in range(1, len(buffer.shape)):
            if str(buffer.stride[place - 1]) != str(stride):
                continue
            inner = list(zip(buffer.shape, words, strict=True))[place:]
            texts = [self.written(size, word) for size, word in inner if str(size) != "1"]
            is_product = str(math.prod(size for size, _ in inner)) == str(stride)
            if is_product and not any(text.is_number for text in texts):
                return self.use(multiplied(texts))
        return self.text(stride)

    def axes(
        self,
        sizes: Mapping[str, Size],
        tensors: Sequence[tuple[str, Buffer, Sequence[str]]],
        made: Set[str] = frozenset(),
    ) -> dict[str, Code]:
        """What tells the size of each of a kernel's axes, from the dimensions of the tensors that it is given.

        Args:
            sizes: The axes' sizes.
            tensors: (expression, buffer, axes that make up its dimensions), the most telling first.
            made: Expressions of tensors that are made of these sizes, which tell nothing where another does.
        """
        self._is_reading = self.reads_shapes
        telling: dict[str, Code] = {}
        literal: dict[str, SizeText] = {}  # which is printed where nothing tells the axis by words
        # First what is not made of them, tells it by one dimension, and has many.
        ranks: dict[str, tuple[bool, float, int, int]] = {}
        for variable, buffer, axes in [one for one in tensors if one[0] not in self.uneven]:
            order, words = memory_order(buffer), self.words_of(buffer)
            shape, words = apart([(buffer.shape[dim], words[dim]) for dim in order], self._values)
            groups = grouped(shape, words, [sizes[axis] for axis in axes])
            if groups is None:
                padded = self._of_padded(axes, sizes, shape, words)
                literal, ranks = padded | literal, dict.fromkeys(padded, (False, -math.inf, 0, 0)) | ranks
                groups = grouped_before_last(shape, words, [sizes[axis] for axis in axes])
            if groups is None:
                for axis, size, word in leading_axes(axes, sizes, shape, words):
                    if axis not in telling and not (text := self.written(size, word)).is_number:
                        telling[axis] = self.use(text)
                continue
            places = places_of_many = [dim for dim in order if str(buffer.shape[dim]) != "1"]
            is_plain = len(shape) == len(order)
            for axis, group in zip(axes, groups, strict=True):
                texts = [self.written(size, word) for size, word in group]
                is_last = group is groups[-1] and len(group) == 1 and group[0][0] == buffer.shape[order[-1]]
                dims, places = [order[-1]] if is_last else places[: len(group)], places[len(group) :]
                if axis in telling or not texts:
                    continue
                is_whole = len(axes) == 1 and len(texts) > (1 if any(text.is_number for text in texts) else 2)
                if is_whole and is_path(variable):
                    telling[axis] = MethodCode(NameCode(variable), "numel", ())
                elif not any(text.is_number for text in texts):
                    telling[axis] = self.use(multiplied(texts) if len(texts) > 1 else texts[0])
                elif (is_plain or is_last) and is_path(variable):
                    if self.reads_shapes and len(dims) == len(texts):
                        dims = with_single(dims, order, buffer.shape)
                    read = read_from(variable, len(order), dims, texts, self.reads_shapes)
                    rank = (variable in made, len(read), -len(places_of_many), variable.count("."))
                    if rank < ranks.get(axis, (True, len(read), 1, 0)):
                        literal[axis], ranks[axis] = multiplied(read), rank
                else:
                    literal.setdefault(axis, multiplied(texts))
        for axis in [one for one in literal if isinstance(sizes[one], ToldSize)]:
            if is_bare(literal[axis].code):
                literal[axis] = self.written(sizes[axis], None)
        left = {axis: size for axis, size in sizes.items() if axis not in telling}
        rest = {axis: self.use(literal.get(axis) or self.written(size, None)) for axis, size in left.items()}
        self._is_reading = False
        return rest | telling

    def _of_padded(
        self,
        axes: Sequence[str],
        sizes: Mapping[str, Size],
        shape: Sequence[Size],
        words: Words,
    ) -> dict[str, SizeText]:
        """The text for axes that walk a padded tensor up to its padding, or the padding alone."""
        last, known, size = shape[-1], words[-1], sizes[axes[-1]]
        if not isinstance(known, PaddedWord):
            return {}
        plain = known.of
        value = self._stated.get(plain, self._values.get(plain))
        if not isinstance(value, int) or not isinstance(last, int):
            return {}
        groups = grouped(shape[:-1], words[:-1], [sizes[axis] for axis in axes[:-1]])
        if groups is None:
            return {}
        if str(size) not in (str(value), str(last - value)):
            return {}
        text = self.written(value, plain)
        if str(size) != str(value):
            whole = self.written(last, known)
            text = SizeText(InfixCode(whole.code, "-", text.code), whole.words | text.words)
        heads = {
            axis: multiplied([self.written(size, word) for size, word in group])
            for axis, group in zip(axes[:-1], groups, strict=True)
            if group
        }
        return heads | {axes[-1]: text}

    def before_padding(self, size: Size, buffer: Buffer) -> Code | None:
        """The word for where a buffer's padding begins."""
        for word in self.words_of(buffer):
            if isinstance(word, PaddedWord) and isinstance(size, int) and self.stands_for(word.of, size):
                return self.text(size, word.of)
        return None

    def use(self, text: SizeText) -> Code:
        """What a size is that is printed."""
        self.used |= text.words
        return text.code

    def _symbolic(self, size: sympy.Expr) -> SizeText:
        symbols = sorted(map(str, size.free_symbols))
        words = frozenset(self._symbols[symbol] for symbol in symbols if symbol in self._symbols)
        is_number = bool(size.is_Integer)
        if size.is_Symbol:
            return SizeText(NameCode(self._symbols.get(str(size), str(size))), words)
        code = LiteralCode(str(size)) if is_number else formula(size, self._symbols, self._has_symbols)
        return SizeText(code, words, is_number)


def n_parts_before(sizes: SizeWriter, part: str) -> int | None:
    """How many parts come before a value of the captured graph that is one of several as long ones."""
    return sizes._words.parts.get(part)


def with_words_of_others(sizes: SizeWriter, twins: Mapping[str, str]) -> SizeWriter:
    """A writer like another, where dimensions of buffers have the words of others: `twins`, by name."""
    made = copy.copy(sizes)
    made._words = sizes._words.seen_as(twins)
    return made


def bind_sizes(
    words: DimNamer,
    symbols: Mapping[str, str],
    tensors: Sequence[Shaped],
    taken: set[str],
    given: frozenset[str] = frozenset(),
    may_state: bool = True,
) -> SizeWriter:
    """A writer whose words come from the shapes of `tensors` (expression, words, shape), each word from the first.

    Args:
        words: Words for dimensions.
        symbols: The word for each symbolic size, by the symbol's name.
        tensors: What is at hand.
        taken: Words that stand for something else.
        given: Symbols that are arguments of the call: their words are variables already.
        may_state: Whether a word that no shape binds may be bound to its number.
    """
    values: dict[str, Size] = {}
    binding: list[tuple[str, Words]] = []
    for path, known, shape in tensors:
        fresh = tuple(
            word if word and word.isidentifier() and word not in values and word not in taken else None
            for word in known
        )
        values |= {word: size for word, size in zip(fresh, shape, strict=True) if word is not None}
        binding.append((path, fresh))
    words_of = dict(symbols)
    derived: dict[str, tuple[str, Code]] = {}
    untold: dict[str, str] = {}
    for symbol, word in symbols.items():
        if symbol in given or str(values.get(word)) == symbol:
            continue
        derivation = derived_from(symbol, tensors)
        if derivation is None and word in values:
            continue  # a size that is fixed by now
        while word in values or word in taken or word in derived or word in untold.values():
            word = f"{word}_size"
        words_of[symbol] = word
        if derivation is None:
            untold[symbol] = word
        else:
            derived[word] = derivation
    unusable = taken | set(words_of.values()) if may_state else None
    return SizeWriter(words, values, words_of, binding, derived, unusable, untold)
