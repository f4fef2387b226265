"""Functions printed side by side: whether they are one, and what it must be given.

Each was printed from the steps of another module. They are one function if their statements are the same but for what
variables are called: what is assigned in the same place is the same variable, and what comes from outside is a
parameter wherever it comes from. Numbers that differ are parameters, too, where a keyword says what they are.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection, Mapping, Sequence

from longhand.schedule.names.words import first_free

Column = tuple[str, ...]  # what each of the functions has in one place
_DEFAULTS: Mapping[str, int | bool] = {
    "stride": 1,
    "padding": 0,
    "dilation": 1,
    "groups": 1,
    "is_causal": False,
}
_SIMPLE = ast.Assign | ast.AugAssign | ast.Expr | ast.Return | ast.Delete
_MOST_NUMBERS = 3


@dataclasses.dataclass(frozen=True)
class PrintedFunction:
    """One of them.

    Attributes:
        lines: Its statements.
        inputs: The variables that it takes.
        stated: Words for sizes, and what they stand for.
    """

    lines: tuple[str, ...]
    inputs: tuple[str, ...]
    stated: Mapping[str, int | str]


@dataclasses.dataclass(frozen=True)
class OneFunction:
    """What several are.

    Attributes:
        lines: The first one's, with the words of parameters.
        parameters: In order.
        arguments: For each of the functions the tensors that it is called with.
        numbers: Likewise (parameter, number), which come after them.
        stated: Words for sizes that are the same in all of them.
    """

    lines: tuple[str, ...]
    parameters: tuple[str, ...]
    arguments: tuple[Column, ...]
    numbers: tuple[tuple[tuple[str, str], ...], ...]
    stated: dict[str, int | str]


class _DifferError(Exception):
    """They are not one function."""


def as_one(functions: Sequence[PrintedFunction]) -> OneFunction | None:
    """The one function that all of some are; None if they are not."""
    try:
        return _TextsInStep(functions).result()
    except _DifferError:
        return None


class _TextsInStep:
    """Walks the statements of all functions at once."""

    def __init__(self, functions: Sequence[PrintedFunction]) -> None:
        self._functions = functions
        # By variable: the number of what was assigned, or the parameter that it is another name of.
        self._local: list[dict[str, int | str]] = [{} for _ in functions]
        self._n_locals = 0
        self._renamed: dict[str, list[ast.Name]] = {}  # where the first one gives a parameter another name
        self._stored: list[ast.Name] = []  # by the first one
        self._inputs: dict[Column, list[ast.Name]] = {}
        self._sizes: dict[Column, None] = {}
        self._numbers: dict[Column, tuple[str, list[tuple[ast.expr, str]]]] = {}
        self._target = ""
        trees = [ast.parse("\n".join(one.lines)).body for one in functions]
        while any(trees):
            for number, tree in enumerate(trees):
                while tree and self._is_renaming(number, tree[0]):
                    tree.pop(0)
            if not all(trees):
                break
            self._statement([tree.pop(0) for tree in trees])
        if any(trees):
            raise _DifferError

    def _is_renaming(self, number: int, statement: ast.stmt) -> bool:
        """Whether a statement only gives a variable another name, which is noted: ``normed = x``."""
        match statement:
            case ast.Assign(targets=[ast.Name() as target], value=ast.Name() as value):
                inputs = self._functions[number].inputs
                known = self._local[number].get(value.id, value.id if value.id in inputs else None)
                if known is None:
                    return False
                self._local[number][target.id] = known
                if number == 0:
                    self._stored.append(target)
                    if isinstance(known, str):
                        self._renamed.setdefault(known, []).append(value)
                return True
        return False

    def _statement(self, nodes: Sequence[ast.stmt]) -> None:
        first = nodes[0]
        if not isinstance(first, _SIMPLE) or any(type(node) is not type(first) for node in nodes):
            raise _DifferError
        self._target = ""
        if isinstance(first, ast.Assign):
            if len(first.targets) == 1 and isinstance(first.targets[0], ast.Name):
                self._target = first.targets[0].id
            self._all([node.value for node in nodes if isinstance(node, ast.Assign)])
            for targets in zip(
                *(node.targets for node in nodes if isinstance(node, ast.Assign)), strict=True
            ):
                self._all(targets)
        else:
            self._fields(nodes)

    def _all(self, nodes: Sequence[ast.AST], keyword: str = "") -> None:
        first = nodes[0]
        if isinstance(first, ast.Constant) and all(isinstance(node, ast.Constant) for node in nodes):
            self._constants([node for node in nodes if isinstance(node, ast.Constant)], keyword)
            return
        if any(type(node) is not type(first) for node in nodes):
            raise _DifferError
        if isinstance(first, ast.Name):
            self._names([node for node in nodes if isinstance(node, ast.Name)])
        elif isinstance(first, ast.Call):
            self._calls([node for node in nodes if isinstance(node, ast.Call)])
        else:
            self._fields(nodes)

    def _fields(self, nodes: Sequence[ast.AST]) -> None:
        for field in nodes[0]._fields:
            values = [getattr(node, field) for node in nodes]
            if isinstance(values[0], list):
                if len({len(value) for value in values}) > 1:
                    raise _DifferError
                for parts in zip(*values, strict=True):
                    self._all(parts)
            elif isinstance(values[0], ast.AST):
                self._all(values)
            elif any(value != values[0] for value in values):
                raise _DifferError

    def _calls(self, nodes: Sequence[ast.Call]) -> None:
        self._all([node.func for node in nodes])
        if len({len(node.args) for node in nodes}) > 1:
            raise _DifferError
        for arguments in zip(*(node.args for node in nodes), strict=True):
            self._all(arguments)
        given = [{str(one.arg): one.value for one in node.keywords} for node in nodes]
        for word in dict.fromkeys(word for one in given for word in one):
            values = [one.get(word) for one in given]
            there = [value for value in values if value is not None]
            if len(there) == len(values):
                self._all(there, word)
            elif word in _DEFAULTS and all(isinstance(value, ast.Constant) for value in there):
                constants = [ast.Constant(_DEFAULTS[word]) if value is None else value for value in values]
                where = values[0] if values[0] is not None else nodes[0]
                self._differing([str(ast.unparse(value)) for value in constants], word, where)
            else:
                raise _DifferError

    def _constants(self, nodes: Sequence[ast.Constant], keyword: str) -> None:
        texts = [repr(node.value) for node in nodes]
        if len(set(texts)) == 1:
            return
        if not keyword or not all(isinstance(node.value, int | float) for node in nodes):
            raise _DifferError
        self._differing(texts, keyword, nodes[0])

    def _differing(self, texts: Sequence[str], keyword: str, where: ast.expr) -> None:
        column = (keyword, *texts)
        same = [one for one in self._numbers if one[0] == keyword and one != column]
        word = keyword if not same else f"{self._target}_{keyword}"
        if same and (not self._target or any(known == word for known, _ in self._numbers.values())):
            raise _DifferError
        self._numbers.setdefault(column, (word, []))[1].append((where, keyword))

    def _names(self, nodes: Sequence[ast.Name]) -> None:
        words = tuple(node.id for node in nodes)
        if isinstance(nodes[0].ctx, ast.Store):
            self._stored.append(nodes[0])
            for known, word in zip(self._local, words, strict=True):
                known[word] = self._n_locals
            self._n_locals += 1
            return
        found = [known.get(word, word) for known, word in zip(self._local, words, strict=True)]
        if any(isinstance(one, int) for one in found):
            if len(set(found)) > 1:
                raise _DifferError
            return
        roots = tuple(map(str, found))
        kinds = {
            (word in one.inputs, word in one.stated) for word, one in zip(roots, self._functions, strict=True)
        }
        if kinds == {(True, False)}:
            places = self._inputs.setdefault(roots, [])
            places += [nodes[0]] if roots[0] == words[0] else []
        elif kinds == {(False, True)}:
            self._sizes[words] = None
        elif kinds != {(False, False)} or len(set(words)) > 1 or words[0] == "self":
            raise _DifferError

    def result(self) -> OneFunction:
        """The first function, with parameters for what differs."""
        first = self._functions[0]
        taken = {
            node.id for node in ast.walk(ast.parse("\n".join(first.lines))) if isinstance(node, ast.Name)
        }
        edits: list[tuple[ast.expr, str, str]] = (
            []
        )  # what stands there, the word for it, the keyword of a new argument
        given: list[tuple[str, Column]] = []
        order = sorted(self._inputs, key=lambda column: first.inputs.index(column[0]))
        if len({column[0] for column in order if column[0] in self._renamed}) < sum(
            column[0] in self._renamed for column in order
        ):
            raise _DifferError  # another name of which parameter?
        for column in order:
            places = [*self._inputs[column], *self._renamed.get(column[0], ())]
            word = self._plainest(column, places, taken)
            if any(word == known for known, _ in given):
                word = first_free((*column[1:], *(f"other_{one}" for one in column)), {*taken})
            if word != column[0]:
                edits += [(node, word, "") for node in places]
            taken.add(word)
            given.append((word, column))
        stated = self._stated_sizes(given)
        for (keyword, *texts), (word, places) in self._numbers.items():
            if word in taken:
                raise _DifferError
            edits += [(where, word, keyword) for where, keyword in places]
            given.append((word, tuple(texts)))
        if len(given) - len(order) > _MOST_NUMBERS:
            raise _DifferError
        lines = edited(first.lines, edits)
        n_inputs = len(order)
        numbers = range(len(self._functions))
        return OneFunction(
            lines,
            tuple(word for word, _ in given),
            tuple(tuple(column[number] for _, column in given[:n_inputs]) for number in numbers),
            tuple(tuple((word, column[number]) for word, column in given[n_inputs:]) for number in numbers),
            stated,
        )

    def _plainest(self, column: Column, places: Sequence[ast.Name], taken: Collection[str]) -> str:
        """What most of the functions call a parameter, if the first one can call it so, too."""
        word = max(column, key=column.count)
        stored = [node for node in self._stored if node.id == word]
        if word == column[0] or word in self._functions[0].inputs:
            return column[0]
        if word in taken and not stored:
            return column[0]
        is_before = all(use.lineno <= node.lineno for use in places for node in stored)
        return word if is_before else column[0]

    def _stated_sizes(self, given: list[tuple[str, Column]]) -> dict[str, int | str]:
        """The sizes that are the same everywhere; others become parameters."""
        stated: dict[str, int | str] = {}
        if len({column[0] for column in self._sizes}) < len(self._sizes):
            raise _DifferError  # one word is two
        for column in self._sizes:
            values = [one.stated[word] for one, word in zip(self._functions, column, strict=True)]
            if len(set(map(str, values))) == 1:
                stated[column[0]] = values[0]
            else:
                given.append((column[0], tuple(map(str, values))))
        return stated


def edited(lines: Sequence[str], edits: Sequence[tuple[ast.expr, str, str]]) -> tuple[str, ...]:
    """The lines with words in the places of expressions, and further arguments at the ends of calls."""
    text = "\n".join(lines)
    rows = text.split("\n")
    places = []
    for node, word, keyword in edits:
        assert node.end_lineno is not None and node.end_col_offset is not None
        if keyword and isinstance(node, ast.Call):  # an argument that the first function left out
            places.append(
                (node.end_lineno - 1, node.end_col_offset - 1, node.end_col_offset - 1, f", {keyword}={word}")
            )
        else:
            places.append((node.lineno - 1, node.col_offset, node.end_col_offset, word))
    for row, begin, end, word in sorted(places, reverse=True):
        encoded = rows[row].encode()
        rows[row] = (encoded[:begin] + word.encode() + encoded[end:]).decode()
    found: list[str] = []
    for line in lines:
        count = line.count("\n") + 1
        found.append("\n".join(rows[:count]))
        rows = rows[count:]
    return tuple(found)
