"""What a function of a Python text reads of its local names, and of fields that it drops, along all paths.

A name that is read before it is bound or after its ``del``, a field (``saved.x``) after ``del saved.x``, and what is
assigned for nobody.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
from collections.abc import Callable, Iterable

from longhand.proof.scopes import (
    Fault,
    child_nodes,
    defaults_of,
    dotted,
    dropped_fields,
    functions_in,
    has_items,
    names_of_scope,
    parameter_names,
)


class _BindingKind(enum.Enum):
    GIVEN = "a parameter"
    BOUND = "an assignment"
    UNBOUND = "nothing yet"
    DELETED = "a del"


@dataclasses.dataclass(frozen=True)
class _BindingPlace:
    kind: _BindingKind
    line: int = 0


_UNBOUND = frozenset({_BindingPlace(_BindingKind.UNBOUND)})
_State = dict[str, frozenset[_BindingPlace]] | None  # None: no path leads here


def binding_faults(path: str, tree: ast.Module, text: str) -> list[Fault]:
    """Every read of a local name that may be unbound, and every assignment in a function that nothing reads."""
    faults = _Scope(path, None, tree.body).faults()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python counts them
    for statement in tree.body:
        # A function's own names do not depend on what is around it: those of runtime.py are the same in all units.
        source = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        if source in _FAULTLESS:
            continue
        found = [_Scope(path, node.args, node.body).faults() for node in functions_in([statement])]
        if any(found):
            faults = faults.union(*found)
        elif found and len(_FAULTLESS) < _MOST_FAULTLESS:
            _FAULTLESS.add(source)
    return sorted(faults)


_FAULTLESS: set[str] = set()  # functions and classes
_MOST_FAULTLESS = 2000


def _joined(one: _State, other: _State) -> _State:
    if one is None or other is None:
        return other if one is None else one
    if one is other:
        return one
    return {name: one[name] | other[name] for name in one}


def _copied(state: _State) -> _State:
    return None if state is None else dict(state)


class _Scope:
    """One function, or the top level of a module."""

    def __init__(self, path: str, arguments: ast.arguments | None, body: list[ast.stmt]) -> None:
        self.path = path
        self.body = body
        self.is_module = arguments is None
        given = parameter_names(arguments) if arguments is not None else []
        own, self.captured = names_of_scope(arguments, body)
        self.state: _State = {
            name: frozenset({_BindingPlace(_BindingKind.GIVEN)}) if name in given else _UNBOUND
            for name in sorted(own)
        }
        # Fields that are dropped somewhere here: what they are of has them at first.
        self._fields = sorted(dropped_fields(body))
        self.state |= {field: frozenset({_BindingPlace(_BindingKind.GIVEN)}) for field in self._fields}
        self._faults: set[Fault] = set()
        self.bound: set[tuple[str, _BindingPlace]] = set()
        self.read: set[tuple[str, _BindingPlace]] = set()
        self.loops: list[tuple[list[_State], list[_State]]] = []  # states at each break and continue
        # For each `try` around: the states from which its handlers may start.
        self.raised: list[list[_State]] = []

    def faults(self) -> set[Fault]:
        """Runs the analysis."""
        self._run(self.body)
        if not self.is_module:
            for name, definition in self.bound - self.read:
                if not name.startswith("_") and name not in self.captured:
                    words = f"`{name}` is assigned, and nothing reads it"
                    self._faults.add(Fault(self.path, definition.line, name, words, is_harmless=True))
        return self._faults

    def _say(self, line: int, name: str, what: str) -> None:
        self._faults.add(Fault(self.path, line, name, what))

    # What happens to a name.

    def _load(self, name: str, line: int) -> None:
        if self.state is None or name not in self.state:
            return
        for definition in self.state[name]:
            self.read.add((name, definition))
            if definition.kind is _BindingKind.UNBOUND:
                self._say(line, name, f"`{name}` is read, and a path that binds no `{name}` leads here")
            elif definition.kind is _BindingKind.DELETED:
                self._say(line, name, f"`{name}` is read after `del {name}` in line {definition.line}")

    def _store(self, name: str, line: int) -> None:
        if self.state is not None and name in self.state:
            definition = _BindingPlace(_BindingKind.BOUND, line)
            self.bound.add((name, definition))
            self.state[name] = frozenset({definition})
        self._has_again(f"{name}.")

    def _has_again(self, start: str) -> None:
        """Fields that begin so are those of another object from here on."""
        for field in self._fields:
            if self.state is not None and f"{field}.".startswith(start):
                self.state[field] = frozenset({_BindingPlace(_BindingKind.GIVEN)})

    def _delete(self, name: str, line: int) -> None:
        if self.state is None or name not in self.state:
            return
        for definition in self.state[name]:
            if definition.kind is _BindingKind.DELETED:
                self._say(line, name, f"`{name}` is deleted twice: before in line {definition.line}")
            elif definition.kind is _BindingKind.UNBOUND:
                self._say(line, name, f"`{name}` is deleted, and a path that binds no `{name}` leads here")
        self.state[name] = frozenset({_BindingPlace(_BindingKind.DELETED, line)})

    # Statements.

    def _run(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._note_raise()
            self._statement(statement)
        self._note_raise()

    def _note_raise(self) -> None:
        for states in self.raised:
            states.append(_copied(self.state))

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.If():
                self._visit(node.test)
                self._branches([lambda: self._run(node.body), lambda: self._run(node.orelse)])
            case ast.For() | ast.AsyncFor():
                self._visit(node.iter)
                self._loop(node)
            case ast.While():
                self._loop(node)
            case ast.With() | ast.AsyncWith():
                self._with(node)
            case ast.Try():
                self._try(node)
            case ast.Match():
                self._visit(node.subject)
                self._branches([*(self._case(case) for case in node.cases), lambda: None])
            case ast.Return() | ast.Raise():
                self._visit_all(child_nodes(node))
                self._note_raise()
                self.state = None
            case ast.Break() | ast.Continue():
                self.loops[-1][isinstance(node, ast.Continue)].append(self.state)
                self.state = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit_all([*node.decorator_list, *defaults_of(node.args)])
                self._store(node.name, node.lineno)
            case ast.ClassDef():
                self._visit_all([*node.decorator_list, *node.bases, *(word.value for word in node.keywords)])
                self._store(node.name, node.lineno)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    self._store(alias.asname or alias.name.partition(".")[0], node.lineno)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node)
            case _:
                self._visit_all(child_nodes(node))

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if isinstance(node, ast.AugAssign):
            self._load_target(node.target)
        if node.value is not None:
            self._visit(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._visit(target)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            # It may write into what others hold, too.
            self.read.add((node.target.id, _BindingPlace(_BindingKind.BOUND, node.target.lineno)))

    def _load_target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._load(target.id, target.lineno)

    def _branches(self, ways: Iterable[Callable[[], None]]) -> None:
        """One of these happens."""
        before = self.state
        after: _State = None
        for way in ways:
            self.state = _copied(before)
            way()
            after = _joined(after, self.state)
        self.state = after

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """A loop, walked until nothing new arrives at its head."""
        entry = self.state  # not changed from here on
        while True:
            breaks: list[_State] = []
            continues: list[_State] = []
            self.loops.append((breaks, continues))
            self.state = _copied(entry)
            self._visit(node.test if isinstance(node, ast.While) else node.target)
            self._run(node.body)
            self.loops.pop()
            passed: _State = None
            for state in (self.state, *continues):
                passed = _joined(passed, state)
            again = _joined(entry, passed)
            if again == entry:
                break
            entry = again
        is_walked = isinstance(node, ast.For) and has_items(node.iter)
        self.state = _copied(passed if is_walked else entry)
        if isinstance(node, ast.While):
            self._visit(node.test)
            if isinstance(node.test, ast.Constant) and node.test.value:
                self.state = None  # only a break leaves it
        self._run(node.orelse)
        for state in breaks:
            self.state = _joined(self.state, state)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._visit(item.context_expr)
            if item.optional_vars is not None:
                self._visit(item.optional_vars)
        suppresses = any("suppress" in ast.dump(item.context_expr) for item in node.items)
        if suppresses:
            self.raised.append([])
        self._run(node.body)
        if suppresses:
            for state in self.raised.pop():
                self.state = _joined(self.state, state)

    def _try(self, node: ast.Try) -> None:
        self.raised.append([])
        self._run(node.body)
        raised: _State = None
        for state in self.raised.pop():
            raised = _joined(raised, state)
        self._run(node.orelse)
        ends = [self.state]
        ends_badly = raised
        for handler in node.handlers:
            self.state = _copied(raised)
            if handler.type is not None:
                self._visit(handler.type)
            if handler.name is not None:
                self._store(handler.name, handler.lineno)
            self._run(handler.body)
            ends.append(self.state)
            ends_badly = _joined(ends_badly, self.state)
        self.state = None
        for state in ends:
            self.state = _joined(self.state, state)
        if node.finalbody:
            normal = self.state
            self.state = _copied(ends_badly)
            self._run(node.finalbody)
            self.state = normal
            self._run(node.finalbody)

    def _case(self, case: ast.match_case) -> Callable[[], None]:
        def run() -> None:
            for node in ast.walk(case.pattern):
                name = getattr(node, "name", None)
                if isinstance(node, ast.MatchAs | ast.MatchStar) and name is not None:
                    self._store(name, case.pattern.lineno)
            if case.guard is not None:
                self._visit(case.guard)
            self._run(case.body)

        return run

    # Expressions.

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Name(ctx=ast.Load()):
                self._load(node.id, node.lineno)
            case ast.Name(ctx=ast.Store()):
                self._store(node.id, node.lineno)
            case ast.Name(ctx=ast.Del()):
                self._delete(node.id, node.lineno)
            case ast.Attribute():
                self._visit(node.value)
                match node.ctx:
                    case ast.Load():
                        self._load(dotted(node), node.lineno)
                    case ast.Store():
                        self._has_again(f"{dotted(node)}.")
                    case ast.Del():
                        self._delete(dotted(node), node.lineno)
            case ast.NamedExpr():
                self._visit(node.value)
                self._visit(node.target)
            case ast.Lambda():
                self._visit_all(defaults_of(node.args))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._comprehension(node)
            case ast.BoolOp():
                self._visit(node.values[0])
                # The others may not be reached; they bind nothing but by `:=`.
                self._branches([lambda: self._visit_all(node.values[1:]), lambda: None])
            case ast.IfExp():
                self._visit(node.test)
                self._branches([lambda: self._visit(node.body), lambda: self._visit(node.orelse)])
            case _:
                self._visit_all(child_nodes(node))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        """Its own names hide those around it."""
        own = {
            part.id
            for generator in node.generators
            for part in ast.walk(generator.target)
            if isinstance(part, ast.Name)
        }
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                self._store(part.target.id, part.lineno)
        first = node.generators[0].iter
        self._visit(first)
        inside = {id(part) for part in ast.walk(first)}
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id not in own and id(part) not in inside:
                self._visit(part)
