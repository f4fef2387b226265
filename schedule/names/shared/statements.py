"""Which statements of the user's are quoted above a call: those that it does, whatever its operations stand in.

No statement is quoted of which the call does nothing but see a value otherwise, nor one whose factor is 1, nor one that
asks for the device while the model was captured on another one, nor of one layer what the others do not. Of derivatives
those are quoted whose results' gradients come in, not those that merely hand a gradient on to be added up.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import Provenance
from longhand.lower.ir import Extern
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.call_frames import own_origins
from longhand.schedule.names.operation_names import SILENT, aten_name, provenance_of
from longhand.schedule.names.words import without_counter
from longhand.schedule.plan import Launch, PlanStep, UnitPlan, flat_steps

Statement = tuple[str, str]  # the function's qualified name, and what stands there
Origins = tuple[str, ...]  # nodes of the captured graph
_NEUTRAL = {"mul": 1, "div": 1, "add": 0, "sub": 0}
_OF_LIBRARIES = frozenset(
    ["mm", "bmm", "addmm", "addmm_", "baddbmm", "matmul", "linear", "convolution", "convolution_backward"]
)
_JOINS = frozenset({"cat", "stack"})
_OF_DEVICE = re.compile(r"\bdevice\b|\bis_(cuda|cpu|mps)\b")


def made_before(plan: UnitPlan) -> dict[Origins, frozenset[str]]:
    """By the operations of a launch: those that an earlier launch does, too.

    What two gradients are computed from, each kernel computes: the second one is not for the first one's statement.
    """
    first: dict[str, Origins] = {}
    launches = [step.origins for step in flat_steps(plan.steps) if isinstance(step, Launch)]
    for origins in launches:
        for node in origins:
            first.setdefault(node, origins)
    again = {origins: frozenset(node for node in origins if first[node] != origins) for origins in launches}
    return {origins: nodes for origins, nodes in again.items() if nodes}


def stated_by(
    step: Launch | Extern, words: BufferNamer, again: Mapping[Origins, frozenset[str]] | None = None
) -> list[Provenance]:
    """Where a call's operations came from: those of which the user's statement is known, and says what it does.

    The statement that makes the result comes last; of derivatives that one first whose result's gradient comes in.

    Args:
        step: The call.
        words: The captured graph's.
        again: Of a backward pass: `made_before`, which is not told if anything else is.

    What longhand added for speed, and remarks on, is in a backward pass none of the statement's at which it stands.
    """
    origins = step.origins if isinstance(step, Launch) else (step.origin,)
    stated = stated_origins(origins, words.nodes)
    nodes = sorted(words.nodes[name] for name in stated if name in words.nodes)
    loud = [node.name for node in nodes if not _is_silent(node)]
    names = loud or [*(name for name in stated if name not in words.nodes), *(node.name for node in nodes)]
    without = (again or {}).get(tuple(origins), frozenset())
    names = [name for name in names if name not in without] or names
    names = _joins_first(names, words)
    known = [where for where in map(words.provenance, names) if where.statement]
    if again is not None and isinstance(step, Launch):
        known = [where for where in known if where.is_of_gradient or not where.remark]
    places: dict[Statement, int] = {}
    for place, where in enumerate(known):
        said = where.qualname, where.statement
        places[said] = places.get(said, place) if where.is_of_gradient else place
    return sorted(known, key=lambda where: places[where.qualname, where.statement])


def _joins_first(names: Sequence[str], words: BufferNamer) -> list[str]:
    """The operations of a forward pass, of which the last one tells: that results lie side by side is the least."""
    if any(words.provenance(name).is_of_gradient for name in names):
        return [*names]
    joins = [name for name in names if name in words.nodes and aten_name(words.nodes[name]) in _JOINS]
    return [*joins, *(name for name in names if name not in joins)]


def stated_origins(origins: Sequence[str], nodes: Mapping[str, fx.Node]) -> tuple[str, ...]:
    """The operations whose statements tell what is done."""
    own = own_origins(origins, nodes)
    true = tuple(name for name in own if name not in nodes or not _asks_for_another_device(nodes[name]))
    of_statements: dict[Statement, list[fx.Node]] = {}
    for node in (nodes[name] for name in true if name in nodes):
        of_statements.setdefault(_statement(node), []).append(node)
    idle = {key for key, some in of_statements.items() if _are_idle(key, some)}
    done = tuple(name for name in true if name not in nodes or _statement(nodes[name]) not in idle)
    differentiated = tuple(name for name in done if name not in nodes or not _hands_on(nodes[name]))
    return differentiated or done or true


def _statement(node: fx.Node) -> Statement:
    where = provenance_of(node)
    return where.qualname, where.statement


def _are_idle(statement: Statement, nodes: Sequence[fx.Node]) -> bool:
    """Whether operations do nothing of a statement but pass a value on: a library does the rest of it, or nobody."""
    if all(_is_silent(node) for node in nodes):
        return statement in _of_libraries(nodes[0].graph)
    return all(_is_silent(node) or _passes_on(node) for node in nodes)


def _hands_on(node: fx.Node) -> bool:
    """Whether a node of a backward pass adds up what several readers of a value hand on, or sees that otherwise."""
    where = provenance_of(node)
    if not where.is_of_gradient or where.differentiated:
        return False
    return _is_silent(node) or (
        aten_name(node) == "add" and all(isinstance(one, fx.Node) for one in node.args)
    )


def _is_silent(node: fx.Node) -> bool:
    return aten_name(node) in SILENT


@functools.lru_cache(maxsize=2)
def _of_libraries(graph: fx.Graph) -> frozenset[Statement]:
    """The statements in which a matmul or a convolution of a graph stands."""
    return frozenset(_statement(node) for node in graph.nodes if aten_name(node) in _OF_LIBRARIES)


def _passes_on(node: fx.Node) -> bool:
    """Whether an operation's result is what it is given: a factor of ones, a term of zeros."""
    name = aten_name(node)
    if name not in _NEUTRAL or len(node.args) < 2:
        return False
    first, second = node.args[:2]
    either = (second,) if name in ("div", "sub") else (first, second)
    return any(_filled_with(one) == _NEUTRAL[name] for one in either)


def _filled_with(argument: object) -> object:
    """The number that all elements of an argument are; None where they are none."""
    while isinstance(argument, fx.Node):
        match aten_name(argument), argument.args:
            case "ones" | "ones_like", _:
                return 1
            case "zeros" | "zeros_like", _:
                return 0
            case ("full" | "full_like", (_, number, *_)) | ("scalar_tensor", (number, *_)):
                return number
            case (name, (fx.Node() as source, *_)) if name in SILENT:
                argument = source
            case _:
                return None
    return argument


def _asks_for_another_device(node: fx.Node) -> bool:
    """Whether a statement's branch is chosen by the device, of a model that was captured on the CPU for another."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
        return False
    return _chooses_by_device(provenance_of(node).statement)


@functools.lru_cache(maxsize=4096)
def _chooses_by_device(statement: str) -> bool:
    if not _OF_DEVICE.search(statement):
        return False
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return False
    tests = (one.test for one in ast.walk(tree) if isinstance(one, ast.IfExp))
    return any(_OF_DEVICE.search(ast.unparse(test)) for test in tests)


def statements_of_some(
    runs: Sequence[Sequence[PlanStep]], pattern: int, words: BufferNamer
) -> dict[int, frozenset[Statement]]:
    """By the identity of a step of the run that a function is printed from: what it alone would say of it.

    Args:
        runs: Equal steps, of all layers that are called by the function.
        pattern: Which of them it is printed from.
        words: The captured graph's.
    """
    if len({len(run) for run in runs}) > 1:
        return {}
    found: dict[int, frozenset[Statement]] = {}
    for place, step in enumerate(runs[pattern]):
        said = [frozenset(_statements(run[place], words)) for run in runs]
        if said[pattern]:
            found[id(step)] = said[pattern] - frozenset.intersection(*said)
    return {step: statements for step, statements in found.items() if statements}


def _statements(step: PlanStep, words: BufferNamer) -> Iterator[Statement]:
    if isinstance(step, Launch | Extern):
        yield from ((where.qualname, where.statement) for where in stated_by(step, words))


def partly_again(step: Launch | Extern, words: BufferNamer) -> frozenset[Statement]:
    """The statements of which a step of a backward pass computes but a part again: ``q * scale`` of an attention.

    So it is where the pass differentiates an operation of the statement that the step does not do, which does not make
    the statement's value either.
    """
    origins = step.origins if isinstance(step, Launch) else (step.origin,)
    done: dict[tuple[str, Statement], set[str]] = {}
    made: set[tuple[str, Statement]] = set()
    for name in origins:
        node = words.nodes.get(name)
        if node is None or provenance_of(node).is_of_gradient:
            continue
        where = provenance_of(node).module, _statement(node)
        done.setdefault(where, set()).update(() if _is_silent(node) else {without_counter(node.name)})
        if provenance_of(node).local and not _is_silent(node):
            made.add(where)
    if not done:
        return frozenset()
    derived = _differentiated(next(iter(words.nodes.values())).graph)
    parts = {where for where, ops in done.items() if derived.get(where, frozenset()) - ops}
    return frozenset(statement for _, statement in parts - made)


@functools.lru_cache(maxsize=2)
def _differentiated(graph: fx.Graph) -> Mapping[tuple[str, Statement], frozenset[str]]:
    """By module and statement: the operations of which a backward pass has the derivatives; not those of views."""
    found: dict[tuple[str, Statement], set[str]] = {}
    for node in graph.nodes:
        where = provenance_of(node)
        if where.differentiates and not _is_silent(node) and not _hands_on(node):
            op = without_counter(where.differentiates)
            if op not in SILENT:
                found.setdefault((where.module, _statement(node)), set()).add(op)
    return {where: frozenset(ops) for where, ops in found.items()}
