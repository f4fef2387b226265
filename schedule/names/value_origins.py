"""Where a captured graph's values come from: the user's statement, local or module, or what lower added.

What was named after a local that the user renamed keeps its word. What an operation's result is, where the
operation's own word would not read as a thing: ``total`` of an add.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import fx

from longhand.capture.graph import CapturedGraph, Provenance, is_overwritten
from longhand.lower.ir import Buffer, Derivation, Derived
from longhand.schedule.names.operation_names import aten_name, name_of_ops, op_word
from longhand.schedule.names.words import (
    identifier,
    place_names,
    singular,
    snake_case,
    whole_path,
    with_place,
)


def words_of_module(origin: Provenance) -> Iterator[str]:
    """The name under which the user holds the module whose call this is, if it is a layer of torch.nn's kind.

    Of a layer in a Sequential, the name of that: ``self.shortcut(x)``; ``film`` of ``self.films[0](x)``.
    """
    word = last_word(origin.module)
    path = without_positions(origin.module)
    if path != origin.module and path and is_call_of(origin.statement, path):
        owner = identifier(path.rpartition(".")[2])
        yield owner
        yield f"{owner}{origin.module[len(path) :].replace('.', '_')}"
    elif path != origin.module and path and f".{path.rpartition('.')[2]}[" in origin.statement:
        yield singular(identifier(path.rpartition(".")[2]))
    if word and (not origin.statement or not origin.qualname or is_call_of(origin.statement, origin.module)):
        yield snake_case(word)


def is_call_of(statement: str, module: str) -> bool:
    """Whether the statement calls the module by its attribute: ``x + self.c_proj(h)`` calls c_proj."""
    last = module.rpartition(".")[2]
    return f".{last}(" in statement


def without_positions(path: str) -> str:
    """The path of the list that a module is in, of the module itself where it is in none."""
    while path.rpartition(".")[2].isdigit():
        path = path.rpartition(".")[0]
    return path


def last_word(path: str) -> str | None:
    """The last word of a path; none for a position in a list. ``attention.self`` is attention: self is the caller."""
    last = path.removesuffix(".self").rpartition(".")[2]
    return identifier(last) if last and not last.isdigit() else None


def words_in_module(module: str, words: Iterable[str], layer: str = "") -> Iterator[str]:
    """The words with the path of a module, where many have them: ``features_3_conv_1_mean``, ``d_encoder_attn_out``.

    Args:
        module: The path.
        words: Words for a value that is made there.
        layer: The path of the layer in whose function they are used, with a dot behind it: it is left out.
    """
    path = module[len(layer) :] if layer and f"{module}.".startswith(layer) else module
    last = last_word(without_positions(path))
    if not path or not last:
        return
    places, whole = [*itertools.islice(place_names(path, 1), _FEW + _MORE)], whole_path(path)
    few, more = places[:_FEW], [place for place in places[_FEW:] if len(place) < len(whole)]
    said = {_in_singular(place) for place in few}
    # ``layers_0_x`` beside ``layer_0_x`` would be no other name.
    rest = () if _in_singular(whole) in said else (more, [whole])
    given = list(words)
    for some in (few, *rest):
        for word in given:
            yield from (with_place(word, place, last) for place in some)


def _in_singular(place: str) -> tuple[str, ...]:
    return tuple(map(singular, place.split("_")))


_FEW, _MORE = 4, 8  # words that say the place in a list and the end of the path, before all of it is said


_OF_ZERO = {"le": "is_not_positive", "lt": "is_negative", "ge": "is_not_negative", "gt": "is_positive"}
# By the operation's own word.
_RESULTS = {
    "add": "total",
    "bias": "biased",
    "scale": "scaled",
    "mul": "product",
    "sub": "difference",
    "div": "ratio",
    "floor_divide": "quotient",
    "mm": "product",
    "bmm": "product",
    "matmul": "product",
    "addmm": "projected",
    "linear": "projected",
    "convolution": "features",
    "conv1d": "features",
    "conv2d": "features",
    "conv3d": "features",
    "attention": "attended",
    "softmax": "weights",
    "layer_norm": "normed",
    "rms_norm": "normed",
    "normalize": "normalized",
    "l2_normalize": "normalized",
    "divide_by_norm": "normalized",
    "group_norm": "normed",
    "batch_norm": "normed",
    "embedding": "embedded",
    "gelu": "activated",
    "silu": "activated",
    "relu": "activated",
    "sigmoid": "gate",
    "dropout": "dropped",
    "cat": "joined",
    "stack": "stacked",
    "gather": "gathered",
    "mask": "masked",
    "where": "chosen",
    "exp": "exponentials",
    "sum": "sums",
    "cross_entropy": "losses",
    "nll_loss": "losses",
    "mean": "means",
    "rotary": "rotated",
    "partial_rotary": "rotated",
    "exp_normalize": "normalized",
    "max": "maxima",
    "min": "minima",
    "not": "inverted",
    "cast": "converted",
    "max_pool2d_with_indices": "pooled",
}


def result_word(op: str) -> str:
    """The word for what an operation makes; its own where there is none."""
    return _RESULTS.get(op, op)


def has_result_word(op: str) -> bool:
    """Whether what an operation makes has a word of its own."""
    return op in _RESULTS


def comparison_word(op: str, others: tuple[object, ...]) -> str | None:
    """``is_positive``, for a comparison with 0."""
    return _OF_ZERO.get(op) if others == (0,) else None


def laid_out(origins: ValueOrigins, buffer: str) -> str | None:
    """The node whose value a buffer is, that laid out anew or not; None if it is none."""
    if buffer in origins.nodes:
        return buffer
    made = origins.derived(buffer)
    return laid_out(origins, made.of) if made is not None and made.how.is_layout else None


_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\s+|.")
_SEPARATOR = "    "  # between function and statement in the lock


@dataclasses.dataclass(frozen=True)
class RenamedLocals:
    """What statements and locals were when they were first quoted.

    Attributes:
        statements: By function and statement of today, where they differ: the statement of then.
        locals: By function, the local of then by that of today.
    """

    statements: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    locals: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def statement(self, qualname: str, statement: str) -> str:
        """The statement as it was first quoted."""
        return self.statements.get((qualname, statement), statement)

    def local(self, qualname: str, local: str) -> str:
        """The local as it was first called."""
        return self.locals.get(qualname, {}).get(local, local)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "statements": sorted([name, now, then] for (name, now), then in self.statements.items()),
            "locals": sorted(
                [name, now, then] for name, pairs in self.locals.items() for now, then in pairs.items()
            ),
        }


NOTHING_RENAMED = RenamedLocals()


def find_renamed(lock: Mapping[str, Any], graph: CapturedGraph) -> RenamedLocals:
    """What was renamed since the unit was first generated.

    Args:
        lock: Of the unit's last version.
        graph: What was captured now.
    """
    known: dict[tuple[str, str], str] = {}
    locals_: dict[str, dict[str, str]] = {}
    earlier = lock.get("renamed", {})
    for name, now, then in earlier.get("statements", ()):
        known[name, now] = then
    for name, now, then in earlier.get("locals", ()):
        locals_.setdefault(name, {})[now] = then
    before, today = _of_lock(lock.get("quotes", {})), _of_graph(graph)
    statements: dict[tuple[str, str], str] = {}
    renamed: dict[str, dict[str, str]] = {}
    for name, lines in today.items():
        old_names = dict(locals_.get(name, {}))
        pairs = _renamed(before.get(name, []), lines)
        then = before[name] if pairs is not None else lines
        if pairs:
            old_names |= {now: old_names.get(old, old) for now, old in pairs.items()}
        words = {token for line in lines for token in _TOKEN.findall(line)}
        old_names = {now: old for now, old in old_names.items() if now in words and old not in words}
        if len(set(old_names.values())) == len(old_names):
            renamed[name] = old_names
            for now, old in zip(lines, then, strict=True):
                first = known.get((name, old), old)
                if first != now:
                    statements[name, now] = first
    return RenamedLocals(statements, {name: names for name, names in renamed.items() if names})


def _of_lock(quotes: Mapping[str, str]) -> dict[str, list[str]]:
    """The statements of each function, in the order of their lines."""
    placed: dict[str, list[tuple[int, str]]] = {}
    for quote, place in quotes.items():
        name, _, statement = quote.partition(_SEPARATOR)
        line = place.rpartition(":")[2]
        placed.setdefault(name, []).append((int(line) if line.isdigit() else 0, statement))
    return {name: [statement for _, statement in sorted(pairs)] for name, pairs in placed.items()}


def _of_graph(graph: CapturedGraph) -> dict[str, list[str]]:
    quotes: dict[str, str] = {}
    for node in graph.graph.nodes:
        origin: Provenance = Provenance.of(node)
        if origin.statement and origin.file:
            quotes.setdefault(f"{origin.qualname}{_SEPARATOR}{origin.statement}", f":{origin.line}")
    return _of_lock(quotes)


def _renamed(before: Iterable[str], now: Iterable[str]) -> dict[str, str] | None:
    """The names of then by those of now, if the statements are the same up to the names of variables."""
    old, new = ([_TOKEN.findall(line) for line in lines] for lines in (before, now))
    if [len(line) for line in old] != [len(line) for line in new]:
        return None
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    for old_line, new_line in zip(old, new, strict=True):
        for place, (one, other) in enumerate(zip(old_line, new_line, strict=True)):
            is_name = other.isidentifier() and one.isidentifier()
            is_attribute = place > 0 and new_line[place - 1] == "."
            if not is_name or is_attribute:
                if one != other:
                    return None
            elif forth.setdefault(other, one) != one or back.setdefault(one, other) != other:
                return None
    return {name: then for name, then in forth.items() if name != then}


class ValueOrigins:
    """What is known of where values come from. No words are chosen here.

    Args:
        graph: Whose values.
        buffers: What it was lowered to, by name.
        renamed: What the user's locals were called when the unit was first generated.

    Attributes:
        nodes: The graph's nodes by name.
        buffers: What it was lowered to, as given.
    """

    def __init__(self, graph: CapturedGraph, buffers: Mapping[str, Buffer], renamed: RenamedLocals) -> None:
        self.nodes: Mapping[str, fx.Node] = {node.name: node for node in graph.graph.nodes}
        self.buffers = buffers
        self._renamed = renamed
        self._locals_of_views = self._local_of_views(graph)
        self._statements: dict[tuple[str, str], str] = {}

    def provenance(self, node: str) -> Provenance:
        """Where a node came from, its local as it was first called; an empty one if that is not known."""
        known = self.nodes.get(node)
        return self.of(known) if known is not None else Provenance()

    def of(self, node: fx.Node) -> Provenance:
        """The same of a node of the graph."""
        origin: Provenance = node.meta.get("provenance") or Provenance()
        if origin.local and is_overwritten(node):  # the user's variable is what is written there
            return dataclasses.replace(origin, local=f"initial_{origin.local}")
        if not origin.local or origin.qualname not in self._renamed.locals:
            return origin
        return dataclasses.replace(origin, local=self._renamed.local(origin.qualname, origin.local))

    def local(self, node: fx.Node) -> str | None:
        """The user's name for a value, or for the one view that is taken of it (``q = linear(x).view(...)``)."""
        return self.of(node).local or self._locals_of_views.get(node.name)

    def _local_of_views(self, graph: CapturedGraph) -> dict[str, str]:
        local_of: dict[str, str] = {}
        for node in reversed(list(graph.graph.nodes)):
            local = self.of(node).local or local_of.get(node.name)
            source = node.args[0] if node.args else None
            if not local or node.op != "call_function" or not op_word(node).silent:
                continue
            if not isinstance(source, fx.Node) or self.of(source).local:
                continue
            # That it is kept, too, or differentiated, changes no name.
            users = [u for u in source.users if u.op != "output" and not self.of(u).differentiates]
            if len(users) == 1 and source.op == "call_function":
                local_of[source.name] = local
        return local_of

    # --- buffers that lower added ---

    def derived(self, buffer: str) -> Derived | None:
        """What a buffer is that lower added; None for one that a node is called after."""
        known = self.buffers.get(buffer)
        return known.derived if known is not None else None

    def node_of(self, buffer: str) -> str:
        """The node that computes what is in a buffer: of the losses of rows the loss."""
        made = self.derived(buffer)
        return made.of if made is not None and made.how is Derivation.LOSSES else buffer

    def source_of_layout(self, buffer: str) -> str:
        """The buffer whose value a buffer holds in another layout; itself if it is none."""
        made = self.derived(buffer)
        return made.of if made is not None and made.how.is_layout else buffer

    # --- statements ---

    def name_of_statement(self, origin: Provenance) -> str:
        """What a whole statement computes."""
        key = origin.module, origin.statement
        if key not in self._statements:
            self._statements[key] = name_of_ops(self._runs.get(key, []))
        return self._statements[key]

    @functools.cached_property
    def _runs(self) -> dict[tuple[str, str], list[fx.Node]]:
        """The nodes of each statement in each module."""
        runs: dict[tuple[str, str], list[fx.Node]] = {}
        for node in self.nodes.values():
            if node.op == "call_function":
                origin = self.of(node)
                runs.setdefault((origin.module, origin.statement), []).append(node)
        return runs

    def ends_statement(self, node: fx.Node) -> bool:
        """Whether no other node of the same statement, in the same module call, uses the value."""
        statement = self.of(node).statement
        return not any(
            user.op == "call_function" and self.of(user).statement == statement and not op_word(user).silent
            for user in node.users
        )

    def turn(self, node: fx.Node) -> int:
        """How many values of the same variable the same statement of the same module made before."""
        origin = self.of(node)
        run = self._runs.get((origin.module, origin.statement), ())
        same = [one for one in run if self.of(one).local == origin.local and _is_same_op(one, node)]
        return same.index(node) if node in same else 0

    def n_same(self, node: fx.Node) -> int:
        """How many values the same statement of the same module makes with the same operation: its calls."""
        origin = self.of(node)
        run = self._runs.get((origin.module, origin.statement), ())
        return sum(_is_same_op(other, node) and self.ends_statement(other) for other in run)


def _is_same_op(one: fx.Node, other: fx.Node) -> bool:
    """Whether two nodes do the same, both of the forward pass or both of one op's derivative."""
    derived = [Provenance.of(node).differentiates for node in (one, other)]
    return aten_name(one) == aten_name(other) and derived[0] == derived[1]
