"""View chains as a person writes them: ``q.view(batch, seq, 12, 64).transpose(1, 2)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch

from longhand.capture.graph import DataSize
from longhand.emit.module.paragraphs import PythonLine
from longhand.emit.text.expression import literal_text
from longhand.emit.text.python_code import (
    NO_CODE,
    CallCode,
    Code,
    GroupedCode,
    InfixCode,
    ItemCode,
    KeywordCode,
    LiteralCode,
    MethodCode,
    NameCode,
    ProductCode,
    SeveralCode,
    SizeText,
    SliceCode,
    dimension,
    whole_number,
)
from longhand.emit.text.sizes import SizeWriter, n_parts_before
from longhand.emit.text.told_sizes import with_the_rest
from longhand.lower.ir import Buffer, Extern, Size, View, ViewCall
from longhand.schedule.named_plan import (
    EXPANSIONS,
    RESHAPES,
    NamedView,
    PaddedWord,
    SeenShape,
    ToldSize,
    Words,
    after_call,
    reshaped,
    straightened,
    view_name,
    without_detours,
    without_minus_one,
)

_FULL_SLICE_END = 2**62
_FUNCTIONS = frozenset({"view_as_real", "view_as_complex"})  # of torch, no methods of tensors


def write_view(
    view: View,
    variable: str,
    sizes: SizeWriter,
    buffer: Buffer | None = None,
    n_before: int = 0,
    words: Words = (),
) -> Code:
    """A buffer through its views.

    Args:
        view: The buffer's name and the calls on it.
        variable: What holds the buffer.
        sizes: Writes sizes.
        buffer: The buffer, so that its dimensions keep their words through the views.
        n_before: How many of the calls `variable` has behind it already.
        words: Words for the sizes of a reshape that is no value of the captured graph.
    """
    code: Code = NameCode(variable)
    seen = SeenShape((), ()) if buffer is None else SeenShape(buffer.shape, sizes.words_of(buffer))
    for call in view.calls[:n_before]:
        seen = after_call(call, seen)
    calls = without_detours(straightened(view.calls[n_before:], seen), seen.shape)
    while calls:
        places, n_used = _subscript(calls, sizes, seen)
        if n_used:
            code = ItemCode(code, places) if places else code
        elif view_name(calls[0]) in _FUNCTIONS:
            code = CallCode(f"torch.{view_name(calls[0])}", (code,))
        else:
            code = _call(code, calls[0], sizes, seen, words)
        for call in calls[: max(n_used, 1)]:
            seen = after_call(call, seen)
        calls = calls[max(n_used, 1) :]
    return code


def _call(of: Code, call: ViewCall, sizes: SizeWriter, seen: SeenShape, given: Words) -> Code:
    name, args = view_name(call), call.args
    if name in RESHAPES:
        known = (
            reshaped(seen.shape, seen.words, without_minus_one(tuple(args[0]), seen.shape))
            if seen.shape
            else (None,) * len(args[0])
        )
        is_given = not call.origin and len(given) == len(args[0])
        own = given if is_given else sizes.words_at(call.origin, len(args[0]))
        words = tuple(word or other for word, other in zip(own, known, strict=True))
        texts = [
            whole_number(-1) if str(size) == "-1" else sizes.text(size, word)
            for size, word in zip(args[0], words, strict=True)
        ]
        return MethodCode(of, RESHAPES[name], with_the_rest(texts, args[0]))
    if name in ("alias", "detach", "lift_fresh", "lift_fresh_copy"):
        return of
    if len(seen.shape) == 2 and (name == "t" or (name == "transpose" and (args[0] - args[1]) % 2)):
        return MethodCode(of, "T")
    if name in EXPANSIONS and seen.shape:
        return MethodCode(of, "expand", _expanded(call, sizes, seen))
    writer = _METHODS.get(name)
    if writer is not None:
        return writer(of, args, sizes)
    if not callable(getattr(torch.Tensor, name, None) or str):  # real, imag
        return MethodCode(of, name)
    return MethodCode(of, name.strip("_"), tuple(argument(value, sizes) for value in args))


def _expanded(call: ViewCall, sizes: SizeWriter, seen: SeenShape) -> tuple[Code, ...]:
    """The sizes of an expand: -1 for those that stay."""
    shape = tuple(call.args[0])
    old = (*(1 for _ in shape[len(seen.shape) :]), *seen.shape)
    words = sizes.words_at(call.origin, len(shape))
    n_new = len(shape) - len(seen.shape)
    return tuple(
        whole_number(-1) if dim >= n_new and str(size) in ("-1", str(was)) else sizes.text(size, word)
        for dim, (size, was, word) in enumerate(zip(shape, old, words, strict=True))
    )


def as_float(number: Code) -> Code:
    """The text of a size, or of what is made of sizes, as a float."""
    return CallCode("float", (number.of if isinstance(number, GroupedCode) else number,))


def argument(value: Any, sizes: SizeWriter) -> Code:
    """An argument of a call that is no tensor; symbolic sizes by their words."""
    if isinstance(value, list | tuple):
        return SeveralCode(tuple(argument(item, sizes) for item in value))
    if isinstance(value, sympy.Expr | ToldSize):
        return sizes.text(value)
    return LiteralCode(literal_text(value))


_Method = Callable[[Code, tuple[Any, ...], SizeWriter], Code]


def _on_dims(name: str) -> _Method:
    def write(of: Code, args: tuple[Any, ...], sizes: SizeWriter) -> Code:
        flat = [item for value in args for item in (value if isinstance(value, list | tuple) else [value])]
        return MethodCode(of, name, tuple(LiteralCode(str(item)) for item in flat) or (NO_CODE,))

    return write


def _on_sizes(name: str) -> _Method:
    def write(of: Code, args: tuple[Any, ...], sizes: SizeWriter) -> Code:
        return MethodCode(of, name, tuple(sizes.text(value) for value in args[0]) or (NO_CODE,))

    return write


def _squeezed(of: Code, args: tuple[Any, ...], sizes: SizeWriter) -> Code:
    if not args:
        return MethodCode(of, "squeeze", ())
    for dim in sorted(_as_tuple(args[0]), reverse=True):
        of = MethodCode(of, "squeeze", (whole_number(dim),))
    return of


_METHODS: dict[str, _Method] = {
    "expand": _on_sizes("expand"),
    "broadcast_to": _on_sizes("expand"),
    "transpose": _on_dims("transpose"),
    "permute": _on_dims("permute"),
    "unsqueeze": _on_dims("unsqueeze"),
    "squeeze": _squeezed,
    "t": lambda of, args, sizes: MethodCode(of, "t", ()),
    "view_dtype": lambda of, args, sizes: MethodCode(of, "view", (LiteralCode(literal_text(args[0])),)),
}


def _as_tuple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _subscript(calls: list[ViewCall], sizes: SizeWriter, seen: SeenShape) -> tuple[tuple[Code, ...], int]:
    """A run of slices and selects on rising dimensions as one subscript: ``[:, -1, :2]``; how many calls it took."""
    entries: list[Code] = []
    taken = 0
    n_selected = 0
    for call in calls:
        name = view_name(call)
        if name not in ("slice", "select") or not call.args or int(call.args[0]) < 0:
            break
        dim = int(call.args[0]) + n_selected
        if dim < len(entries):
            break
        entries += [SliceCode()] * (dim - len(entries))
        if name == "select":
            entries.append(_place(call.args[1], sizes))
            n_selected += 1
        else:
            word = seen.words[dim] if dim < len(seen.words) else None
            size = seen.shape[dim] if dim < len(seen.shape) else None
            left = sizes.words_at(call.origin, len(seen.shape) - n_selected)
            is_told = call.origin and int(call.args[0]) < len(left)
            after = left[int(call.args[0])] if is_told else None
            part = _part(call, sizes, word, size, after)
            entries.append(_slice(call.args, sizes, word, size, after) if part is None else part)
        taken += 1
    while entries and entries[-1] == SliceCode():
        entries.pop()
    return tuple(entries), taken


def _place(value: Size, sizes: SizeWriter) -> Code:
    return sizes.text(value)


def _part(
    call: ViewCall, sizes: SizeWriter, word: str | None, size: Size | None, left: str | None
) -> SliceCode | None:
    """``dim : 2 * dim``, of one of several equal parts of a dimension, if words tell how long these are."""
    start, end, step = (*call.args[1:], None, None, None)[:3]
    n_before = n_parts_before(sizes, call.origin)
    if not n_before or step not in (None, 1) or not isinstance(start, int) or not isinstance(size, int):
        return None
    length = start // n_before
    if not length or length * n_before != start or size % length:
        return None
    if end != start + length and (end != _FULL_SLICE_END or start + length != size):
        return None
    text = sizes.written(length, left)
    if text.is_number:  # the whole may have a word
        whole = sizes.written(size, word)
        if whole.is_number:
            return None
        text = SizeText(InfixCode(whole.code, "//", whole_number(size // length)), whole.words)
    code = sizes.use(text)
    each = code if code.is_factor else GroupedCode(code)
    begin, stop = (
        code if times == 1 else ProductCode((whole_number(times), each)) for times in (n_before, n_before + 1)
    )
    return SliceCode(begin, None if start + length == size else stop)


def _slice(
    args: tuple[Any, ...], sizes: SizeWriter, word: str | None, size: Size | None, left: str | None
) -> SliceCode:
    """``:vocab_size``; `word` and `size` are the dimension's before, ``padded_vocab_size``; `left` its word after."""
    start, end, step = (*args[1:], None, None, None)[:3]
    unpadded = word.of if isinstance(word, PaddedWord) else None
    begin = None if start in (0, None) else _place(start, sizes)
    if unpadded is not None and isinstance(end, int) and sizes.stands_for(unpadded, end):
        stop: Code | None = sizes.text(end, unpadded)
    else:
        is_to_end = isinstance(end, int) and (end >= _FULL_SLICE_END or (end == size and begin is not None))
        stop = (
            None
            if is_to_end or end is None
            else sizes.text(end, left if begin is None and step in (None, 1) else None)
        )
    return SliceCode(begin, stop, None if step in (None, 1) else LiteralCode(str(step)))


def write_split(whole: Code, parts: Sequence[Size], dim: int, word: str | None, sizes: SizeWriter) -> Code:
    """``qkv.split(dim, dim=-1)``; `word` is that of a part's dimension."""
    texts = [sizes.text(part, word) for part in parts]
    each = texts[0] if len(set(texts)) == 1 else SeveralCode(tuple(texts), "[]")
    return MethodCode(whole, "split", (each, KeywordCode("dim", whole_number(dim))))


def data_size_lines(
    sizes: Iterable[DataSize], step: Extern, variables: Mapping[str, str], words: Mapping[str, str]
) -> list[PythonLine]:
    """The lines that bind the sizes that a call's results are the first to have."""
    return [
        PythonLine.binding([words[str(size.symbol)]], dimension(variables[size.node], size.dim))
        for size in sizes
        if size.node in step.outputs and size.node in variables
    ]


def words_of_heads(line: NamedView, sizes: SizeWriter) -> Words:
    """The words of a view of all heads at once: those of one part's, and none for which part it is."""
    assert line.unbind is not None
    words = sizes.words_at(line.heads, len(line.view.calls[-2].args[0]) - 1)
    return (*words[: line.unbind], None, *words[line.unbind :])


def is_reordered(order: Sequence[int]) -> bool:
    """Whether dimensions lie in another order in memory."""
    return list(order) != sorted(order)


def reordered(made: Code, order: Sequence[int]) -> Code:
    """A new tensor, its dimensions brought back from the order in which they lie in memory."""
    moved = [dim for dim, place in enumerate(order) if dim != place]
    if not moved:
        return made
    if len(moved) == 2:
        return MethodCode(made, "transpose", tuple(map(whole_number, moved)))
    back = (order.index(dim) for dim in range(len(order)))
    return MethodCode(made, "permute", tuple(map(whole_number, back)))
