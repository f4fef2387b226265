"""The words that the user's own statements have for sizes: ``q.view(batch, seq, self.n_heads, self.head_dim)``.

A shape that has a name is looked up where the function assigns it: ``shape = (*input_shape, -1, self.head_dim)``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from pathlib import Path

from longhand.capture.graph import Provenance
from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.pattern_names import words_of_pattern
from longhand.schedule.names.words import RESERVED_IN_MODULE, identifier

HEADS = "n_heads"  # where a shape says only how large a head is: ``(batch, seq, -1, head_dim)``
PACKED = "packed_dim"  # of a head's queries, keys and values beside each other: three times head_dim
FEWER_HEADS = "n_kv_heads"  # of keys and values that several heads of queries share
_RESHAPES = frozenset({"view", "reshape", "expand", "unflatten"})


def words_of_reshape(origin: Provenance, sizes: Sequence[Size]) -> tuple[str | None, ...]:
    """A word for each size of a reshape; none where the statement does not tell, or tells different ones.

    A reshape of a gradient is none that the statement writes.
    """
    if origin.differentiates:
        return (None,) * len(sizes)
    candidates: set[tuple[str | None, ...]] = set()
    for call in _calls(origin.statement, _RESHAPES):
        arguments = _arguments(call, origin, len(sizes))
        if len(arguments) == len(sizes) and all(map(_may_be, arguments, sizes)):
            candidates.add(tuple(map(_word, arguments)))
    if not candidates and (pattern := words_of_pattern(origin.statement, sizes)) is not None:
        candidates.add(pattern)
    if len(candidates) != 1:
        return (None,) * len(sizes)
    (words,) = candidates
    return words if len(set(words) - {None}) == len(words) - words.count(None) else (None,) * len(sizes)


def _arguments(call: ast.Call, origin: Provenance, n_dims: int) -> list[ast.expr]:
    """The sizes that a reshape is given; what is said of how heads are laid out is complete then."""
    given = list(call.args)
    if len(given) == 1 and isinstance(given[0], ast.Starred) and isinstance(given[0].value, ast.Name):
        given = [given[0].value]  # ``x.view(*new_shape)``
    if len(given) == 1 and isinstance(given[0], ast.Name):
        given = [shape_called(origin.file, origin.qualname, given[0].id) or given[0]]
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = list(given[0].elts)
    unknown: ast.expr = ast.UnaryOp(ast.UAdd(), ast.Constant(1))  # which is no -1, the rest
    if isinstance(call.func, ast.Attribute) and call.func.attr == "unflatten":
        given = _unflattened(call, n_dims, unknown)
    starred = [place for place, size in enumerate(given) if isinstance(size, ast.Starred)]
    if len(starred) == 1:  # ``*input_shape``: as many as there are
        (place,) = starred
        given[place : place + 1] = [unknown] * (n_dims - len(given) + 1)
    words = [*map(_word, given)]
    is_last_told = bool(given) and given[-1] is not unknown
    if len(words) > 1 and is_last_told and words[-1] is None and "head" in (words[-2] or ""):
        # ``view(batch, seq, n_heads, -1)``, or ``3 * self.head_dim``, of which a head has one
        given[-1] = ast.Name(PACKED if _is_several(given[-1]) else "head_dim")
    elif len(words) > 2 and _is_rest(given[-2]) and _is_of_one_head(given[-1]):
        given[-2] = ast.Name(HEADS)
    return given


def _unflattened(call: ast.Call, n_dims: int, unknown: ast.expr) -> list[ast.expr]:
    """The sizes after ``x.unflatten(-1, (3, n_heads, -1))``: those of the other dimensions stay what they are."""
    match [*call.args, *(keyword.value for keyword in call.keywords)]:
        case [dim, ast.Tuple(elts=sizes) | ast.List(elts=sizes)]:
            n_others = n_dims - len(sizes)
            try:
                place = ast.literal_eval(dim)
            except ValueError:
                return []
            if not isinstance(place, int) or n_others < 0:
                return []
            before = n_others + place + 1 if place < 0 else place
            return [*[unknown] * before, *sizes, *[unknown] * (n_others - before)]
    return []


def _is_rest(size: ast.expr) -> bool:
    """Whether a size is -1."""
    return isinstance(size, ast.UnaryOp) and isinstance(size.op, ast.USub)


def _is_several(size: ast.expr) -> bool:
    """Whether a size is a number of others: ``3 * self.head_dim``."""
    match size:
        case ast.BinOp(ast.Constant(), ast.Mult(), _) | ast.BinOp(_, ast.Mult(), ast.Constant()):
            return True
    return False


def _is_of_one_head(size: ast.expr) -> bool:
    """Whether a size is that of one head: ``self.head_dim``, ``dim // n_heads``; not of all: ``all_head_size``."""
    text = ast.unparse(size)
    is_product = isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult)
    return "head" in text and "all_head" not in text and not is_product


def word_of_split(statement: str, piece: int = 0) -> str | None:
    """The word for the size of a part: ``qkv.split(dim, dim=-1)``, ``torch.split(kv, [self.rank, self.rope_dim])``."""
    words = set()
    for call in _calls(statement, frozenset({"split"})):
        sizes = call.args[1:] if ast.unparse(call.func) == "torch.split" else call.args
        match sizes[:1]:
            case [ast.List(elts=each) | ast.Tuple(elts=each)]:
                words.add(_word(each[piece]) if piece < len(each) else None)
            case [size]:
                words.add(_word(size))
    return words.pop() if len(words) == 1 else None


def word_of_end(statement: str, dim: int, n_dims: int) -> str | None:
    """The word for how many are taken from the start of a dimension: ``hidden_states[:, :seq_length, :]``.

    Those behind an ellipsis are counted from the last one: ``q[..., :rotary_dim]``.
    """
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return None
    words: set[str | None] = set()
    for node in ast.walk(tree):
        places = node.slice if isinstance(node, ast.Subscript) else None
        each = places.elts if isinstance(places, ast.Tuple) else [places]
        if each and isinstance(each[0], ast.Constant) and each[0].value is ...:
            each = [None] * (n_dims - len(each) + 1) + each[1:]
        match each[dim : dim + 1]:
            case [ast.Slice(lower=None, upper=ast.expr() as end, step=None)]:
                words.add(_word(end))
    return words.pop() if len(words) == 1 else None


def word_of_count(statement: str) -> str | None:
    """The word for how many are taken: ``torch.topk(scores, self.top_k, dim=-1)``, ``scores.topk(k=top_k)``."""
    words: set[str | None] = set()
    for call in _calls(statement, frozenset({"topk"})):
        given = call.args[1:] if ast.unparse(call.func) == "torch.topk" else call.args
        told = [*given[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "k")]
        words.update(_word(one) for one in told)
    return words.pop() if len(words) == 1 else None


@functools.lru_cache(maxsize=1024)
def _calls(statement: str, methods: frozenset[str]) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement: ``with x:``
        return ()
    return tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
    )


def _may_be(argument: ast.expr, size: Size) -> bool:
    """Whether a written size can be this one: a number must be it."""
    value = argument.operand if isinstance(argument, ast.UnaryOp) else argument
    if isinstance(argument, ast.Starred):
        return False
    return isinstance(argument, ast.UnaryOp) or not isinstance(value, ast.Constant) or value.value == size


def _word(argument: ast.expr) -> str | None:
    text = argument.attr if isinstance(argument, ast.Attribute) else None
    if isinstance(argument, ast.Name):
        text = argument.id
    word = identifier(text.strip("_")) if text and text.strip("_") else None
    return word if word is not None and word not in RESERVED_IN_MODULE else None


@functools.lru_cache(maxsize=1024)
def shape_called(file: str, function: str, name: str) -> ast.Tuple | ast.List | None:
    """The tuple that a function, by its qualified name, assigns to a name, if it does so once."""
    tree = function_of(file, function) if file else None
    if tree is None:
        return None
    assigned = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    match assigned:
        case [ast.Tuple() | ast.List() as only]:
            return only
        case [ast.BinOp(left, ast.Add(), ast.Tuple(elts=rest))]:  # ``x.size()[:-1] + (n_head, head_dim)``
            return ast.Tuple([ast.Starred(left), *rest])
    return None


@functools.lru_cache(maxsize=256)
def function_of(file: str, qualname: str) -> ast.AST | None:
    """The definition of that name in a file; None where it is not to be had."""
    tree = _parsed(file)
    for part in qualname.split(".") if tree is not None else ():
        if part == "<locals>":
            continue
        assert tree is not None
        tree = next(
            (
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name == part
            ),
            None,
        )
        if tree is None:
            return None
    return tree


@functools.lru_cache(maxsize=64)
def _parsed(file: str) -> ast.AST | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
