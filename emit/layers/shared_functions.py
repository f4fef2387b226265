"""What the user wrote once and calls several times: a function of model.py, called for each of the modules.

schedule/layers/alike_calls.py says which modules may do the same. Here each is printed as a function of its own; if
they are one but for parameters (emit/layers/alike_texts.py), that is printed, and calls in their place.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from longhand.capture.graph import InputKind
from longhand.emit.layers.alike_texts import OneFunction, PrintedFunction, as_one
from longhand.emit.layers.function_bodies import FunctionBody, bodies_of
from longhand.emit.layers.function_names import kernel_words, remark_on, words_for_module
from longhand.emit.layers.layer_methods import Method, device_inside, own_releases, sizes_inside, write_method
from longhand.emit.layers.parameter_words import renamed, users_words, without_owner
from longhand.emit.module.body_parts import SharedCall
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.module_tree import Branch, ModuleTree, expression, member
from longhand.emit.text.quoting import python_docstring
from longhand.lower.ir import Extern
from longhand.schedule.named_plan import (
    CallsAlike,
    CallSite,
    ModelStep,
    ModuleCalls,
    made_in,
    named_views,
    plain_sites,
    plain_steps,
    references,
    view_key,
)
from longhand.schedule.names.words import OWN_WORDS, first_free, further_words, identifier, snake_case
from longhand.schedule.plan import Launch, PlanStep, Release, Reuse, UnitStep

_MOST_RESULTS = 3
_MOST_PARAMETERS = 8
_MOST_OF_PART = 5  # parameters of a function that is called once
_MOST_TRIES = 40


@dataclasses.dataclass(frozen=True)
class SharedFunction:
    """A function of model.py.

    Attributes:
        name: The function.
        remark: What its docstring says.
        parameters: Its parameters.
        sizes: Lines that bind sizes to words.
        paragraphs: (quotes, lines).
    """

    name: str
    remark: str
    parameters: tuple[str, ...]
    sizes: tuple[str, ...]
    paragraphs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclasses.dataclass(frozen=True)
class _Printed:
    """A module's steps as a function of its own.

    Attributes:
        method: The text.
        text: What of it is compared.
        results: What it makes that is read elsewhere.
        released: What it drops of what it is given.
        made: What it makes.
        reached: By parameter: how the caller reaches a tensor of another module.
    """

    method: Method
    text: PrintedFunction
    results: tuple[str, ...]
    released: tuple[str, ...]
    made: frozenset[str]
    reached: Mapping[str, str]


class FunctionSharing:
    """Finds the functions.

    Args:
        bodies: The functions of model.py.
        outer: The writer of forward().
        tree: The root of the modules.
    """

    def __init__(self, bodies: Sequence[FunctionBody], outer: BodyWriter, tree: Branch) -> None:
        self._bodies = bodies
        self._outer = outer
        self._tree = tree
        graph = outer.plan.program.graph
        self._weights = {
            entry.node: entry.target
            for entry in graph.inputs
            if entry.kind not in (InputKind.ARGUMENT, InputKind.SIZE)
        }
        self._told_by_data = {size.node for size in graph.data_sizes}
        self._in_lists = {node for one in outer.lists for node in one.nodes}
        self._read = [_first_and_last(body.steps) for body in bodies]
        # For as long as calls stay the same.
        self._known: dict[tuple[CallSite, str, bool], _Printed | None] = {}
        self.functions: list[SharedFunction] = []
        self.calls: dict[int, SharedCall] = {}

    def find(self, names: Sequence[str]) -> None:
        """Fills `functions` and `calls`, which is by the first step of each call.

        Args:
            names: Those that no function may have.
        """
        found = ModuleCalls(
            [body.steps for body in self._bodies], self._outer.words, [body.root for body in self._bodies]
        )
        self._outer.calls = self.calls
        taken = {
            CallSite(number, place, place, "")
            for number, body in enumerate(self._bodies)
            for place in body.fixed
        }
        refused: set[tuple[CallSite, ...]] = set()
        # In any function of the file a variable of that name would hide it.
        used = {*names, *OWN_WORDS, *(word for body in self._bodies for word in body.variables.values())}
        for candidates in (found.candidates, found.parts):
            for _ in range(_MOST_TRIES):
                left = (one for one in candidates(taken) if one.sites not in refused)
                best = next(left, None)
                if best is None:
                    break
                refused.add(best.sites)
                taken.update(self._share(best, used))

    def _share(self, alike: CallsAlike, used: set[str]) -> tuple[CallSite, ...]:
        """Makes modules of one class one function, if they are; or those that do what the first one does."""
        self._known.clear()
        functions = {function.name for function in self.functions}
        words = (one for one in words_for_module(alike) if one not in functions)
        word = next(one for one in words if all(self._is_free(one, site) for site in alike.sites))
        found = self._largest(alike, word)
        if found is None:
            return ()
        alike, told = found
        each, one = told
        name = self._name(alike, one, {*used, word})
        used |= {name, word}
        self.functions.append(_function(name, word, alike, each[0].method, one))
        columns = zip(alike.sites, each, one.arguments, one.numbers, strict=True)
        for site, printed_site, arguments, numbers in columns:
            variables = self._bodies[site.body].variables
            call = SharedCall(
                site.stop - site.start,
                name,
                site.path,
                tuple(printed_site.reached.get(one, one) for one in arguments),
                numbers,
                tuple(variables[buffer] for buffer in printed_site.results),
                printed_site.results,
                printed_site.released,
                printed_site.made,
            )
            self.calls[id(self._bodies[site.body].steps[site.start])] = call
        return alike.sites

    def _largest(
        self, alike: CallsAlike, word: str
    ) -> tuple[CallsAlike, tuple[list[_Printed], OneFunction]] | None:
        """Modules of a class that are one function: all of them, or else those that do what one of them does."""
        if len(alike.sites) == 1:
            told = self._as_one(alike, word, reads_shapes=False)
            is_plain = told is not None and len(told[1].parameters) <= _MOST_OF_PART
            return (alike, told) if told is not None and is_plain else None
        told = self._told(alike, word)
        if told is not None or len(alike.sites) == 2:
            return None if told is None else (alike, told)
        for place, first in enumerate(alike.sites):
            same = (
                other
                for other in alike.sites[place + 1 :]
                if self._told(dataclasses.replace(alike, sites=(first, other)), word) is not None
            )
            group = dataclasses.replace(alike, sites=(first, *same))
            told = self._told(group, word) if len(group.sites) > 1 and group.is_worth else None
            if told is not None:
                return group, told
        return None

    def _is_free(self, word: str, site: CallSite) -> bool:
        """Whether nothing in the steps of a site is called so."""
        body = self._bodies[site.body]
        steps = plain_sites(body.steps, site)
        named = {name for step in steps for name in references(step)}
        keys = (
            view_key(step, key)
            for step in steps
            if isinstance(step, Extern)
            for line in named_views(step, self._outer.words)
            for key in line.keys
        )
        return all(body.variables.get(name) != word for name in (*named, *keys))

    def _told(self, alike: CallsAlike, word: str) -> tuple[list[_Printed], OneFunction] | None:
        """The one function that modules are: of one size, or that reads all sizes from tensors."""
        stated = self._as_one(alike, word, reads_shapes=False)
        if stated is not None and not any(stated[1].numbers):
            return stated
        read = self._as_one(alike, word, reads_shapes=True)
        told = [one for one in (stated, read) if one is not None]
        return min(told, key=lambda one: len(one[1].parameters), default=None)

    def _name(self, alike: CallsAlike, one: OneFunction, used: set[str]) -> str:
        """A name for the function: the class's, with a word for what it does and earlier ones of that class do not."""
        plain = snake_case(alike.class_name)
        words = list(dict.fromkeys(kernel_words(one.lines)))
        known = {
            word
            for other in self.functions
            if other.name.startswith(plain)
            for _, lines in other.paragraphs
            for word in kernel_words(lines)
        }
        own = (f"{plain}_{word}" for word in words if word not in known)
        more = further_words(plain)
        return first_free(itertools.chain([plain], own, more), used)

    def _as_one(
        self, alike: CallsAlike, word: str, reads_shapes: bool
    ) -> tuple[list[_Printed], OneFunction] | None:
        """Each module's steps, and the one function that they are; None if they are none."""
        printed = [self._printed(site, word, reads_shapes) for site in alike.sites]
        each = [one for one in printed if one is not None]
        one = as_one([one.text for one in each]) if len(each) == len(printed) else None
        if one is None or len(one.parameters) > _MOST_PARAMETERS or word in one.parameters:
            return None
        return each, one

    def _printed(self, site: CallSite, word: str, reads_shapes: bool) -> _Printed | None:
        """A module's text, written once for all that it is compared with."""
        key = (site, word, reads_shapes)
        if key not in self._known:
            self._known[key] = self._written(site, word, reads_shapes)
        return self._known[key]

    def _written(self, site: CallSite, word: str, reads_shapes: bool) -> _Printed | None:
        """A module's steps as a function that is given the module as `word`; None if they are none."""
        body = self._bodies[site.body]
        steps = plain_sites(body.steps, site)
        made = made_in(steps)
        told = self._given(site, steps, word) if self._holds(site.path) else None
        results = self._results(site, steps)
        if told is None or not 0 < len(results) <= _MOST_RESULTS:
            return None
        given, variables, reached = told
        method = write_method(
            "",
            "",
            given,
            own_releases(steps),
            [variables[name] for name in results],
            self._outer,
            variables,
            device_inside(given, self._outer, variables),
            sizes=sizes_inside(given, self._outer, variables, reads_shapes),
            whose=ModulePlace(self._tree, site.path, word),
        )
        if method.needed or method.bound.padding:
            return None
        lines = (*method.bound.told, *(line for _, lines in method.paragraphs for line in lines))
        text = PrintedFunction(lines, method.parameters, method.bound.stated)
        released = (name for step in steps if isinstance(step, Release) for name in step.buffers)
        dropped = tuple(name for name in released if name not in made)
        return _Printed(method, text, results, dropped, made, reached)

    def _holds(self, path: str) -> bool:
        """Whether the tree of modules has one there: one without tensors is none of it."""
        branch = self._tree
        for part in path.split("."):
            if part not in branch.branches:
                return False
            branch = branch.branches[part]
        return True

    def _given(
        self, site: CallSite, steps: Sequence[PlanStep], word: str
    ) -> tuple[list[str], dict[str, str], dict[str, str]] | None:
        """The buffers that a function takes beside its module, its variables, and how others' tensors are reached.

        None if they are none of a function.
        """
        body, made, branch = self._bodies[site.body], made_in(steps), self._tree.at(site.path)
        variables = dict(body.variables)
        given: list[str] = []
        reached: dict[str, str] = {}
        for name in _in_order_of_use(steps):
            path = self._weights.get(name, "")
            if path.startswith(f"{site.path}."):
                variables[name] = member(expression(branch, path.removeprefix(f"{site.path}.")), word)
            elif name in made:
                continue
            elif path:  # of another module
                own = identifier(path.rpartition(".")[2])
                if own in (word, *reached) or not self._is_free(own, site):
                    return None
                reached[own] = variables[name]
                variables[name] = own
                given.append(name)
            elif not variables.get(name, "").isidentifier():
                return None
            else:
                given.append(name)
        named = {name for step in steps for name in references(step)}
        is_whole = not named & (self._told_by_data | self._in_lists)
        return (given, variables, reached) if is_whole else None

    def _results(self, site: CallSite, steps: Sequence[PlanStep]) -> tuple[str, ...]:
        """What the steps make that is read elsewhere."""
        kept, read = self._bodies[site.body].kept, self._read[site.body]

        def is_read(name: str) -> bool:
            first, last = read.get(name, (site.start, site.start))
            return name in kept or first < site.start or last >= site.stop

        return tuple(name for name in _made_in_order(steps) if is_read(name))


def _function(name: str, word: str, alike: CallsAlike, method: Method, one: OneFunction) -> SharedFunction:
    """The function from the text of its first call."""
    short = without_owner(alike.sites[0].path, one.lines)
    text, parameters = renamed(short, one.lines), [short.get(one, one) for one in one.parameters]
    n_told = len(method.bound.told)
    words = users_words(parameters, word, text[:n_told], _paragraphs(method, text[n_told:]))
    text, parameters = renamed(words, text), [words.get(one, one) for one in parameters]
    told, paragraphs = tuple(text[:n_told]), _paragraphs(method, text[n_told:])
    bound = dataclasses.replace(method.bound, told=told, stated=one.stated)
    remark = python_docstring(remark_on(alike))
    return SharedFunction(name, remark, (word, *parameters), bound.lines(), paragraphs)


def _paragraphs(method: Method, lines: Sequence[str]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """The paragraphs of a text, with other lines in their places."""
    rest = iter(lines)
    return tuple((quotes, tuple(next(rest) for _ in old)) for quotes, old in method.paragraphs)


def _first_and_last(steps: Sequence[ModelStep]) -> dict[str, tuple[int, int]]:
    """Of each buffer that steps name, the first and the last place where one does."""
    found: dict[str, tuple[int, int]] = {}
    for place, step in enumerate(steps):
        for name in _named(step):
            found[name] = (found.get(name, (place, place))[0], place)
    return found


def _named(step: ModelStep) -> list[str]:
    """Every buffer that a step of model.py names."""
    return [name for plain in plain_steps(step) for name in _named_in(plain)]


def _named_in(step: UnitStep) -> list[str]:
    if isinstance(step, PlanStep):
        return [] if isinstance(step, Release) else list(references(step))
    inside = (name for run in step.runs for inner in run for name in _named_in(inner))
    return [*inside, *(name for each in (*step.inputs, *step.outputs) for name in each)]


def _in_order_of_use(steps: Sequence[PlanStep]) -> list[str]:
    """What calls name, and then what only memory is taken from."""
    calls = [step for step in steps if isinstance(step, Launch | Extern)]
    rest = [step for step in steps if isinstance(step, Reuse)]
    return list(dict.fromkeys(name for step in (*calls, *rest) for name in references(step)))


def _made_in_order(steps: Sequence[PlanStep]) -> list[str]:
    made = made_in(steps)
    return [name for name in dict.fromkeys(n for step in steps for n in references(step)) if name in made]


def share_functions(
    steps: Sequence[ModelStep], outer: BodyWriter, tree: ModuleTree, names: Sequence[str]
) -> tuple[SharedFunction, ...]:
    """What several of the user's modules do alike; the writer of forward() learns where that is called.

    Args:
        steps: Of forward().
        outer: Its writer.
        tree: The modules.
        names: Those that no function may have.
    """
    sharing = FunctionSharing(bodies_of(steps, outer, tree), outer, tree.root)
    sharing.find([*names, *(one.name for one in tree.functions.values())])
    return tuple(sharing.functions)
