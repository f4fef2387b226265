"""What the user wrote once and calls several times: a function of model.py, called for each of the modules.

schedule/layers/alike_calls.py says which modules may do the same, alike_steps.py which do, up to sizes, and
function_words.py what the function calls everything. Here it is printed with these words for each of the modules: as
the same text, if whatever says one module's sizes says the others', too. That is the function; calls take their place.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from longhand.emit.layers.function_bodies import FunctionBody, bodies_of
from longhand.emit.layers.function_sites import FunctionSites
from longhand.emit.layers.layer_methods import Method, device_inside, sizes_inside, write_method
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.module_tree import Branch, ModuleTree
from longhand.emit.module.paragraphs import LineKind, kind_of
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import with_words_of_others
from longhand.schedule.named_plan import (
    AlikeSteps,
    CallsAlike,
    CallSite,
    ModelStep,
    ModuleCalls,
    Number,
    SharedCall,
    SiteSteps,
    alike_steps,
    kernel_words,
    remark_on,
    variables_of,
    words_for_module,
)
from longhand.schedule.names.words import OWN_WORDS, first_free, further_words, snake_case

_MOST_PARAMETERS = 8
_MOST_OF_PART = 5  # parameters of a function that is called once
_MOST_TRIES = 40
_MOST_NUMBERS = 3


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

    def has_text_of(self, other: SharedFunction) -> bool:
        """Whether they are one, but for the name."""
        mine = self.parameters, self.sizes, self.paragraphs
        return mine == (other.parameters, other.sizes, other.paragraphs)


@dataclasses.dataclass(frozen=True)
class _OneFunction:
    """What several modules are.

    Attributes:
        alike: What they do, in which places of the plan.
        method: The function, as it was printed for the first one.
        numbers: For each module the numbers that it is called with: those of library calls, and sizes that differ.
        stated: Words for sizes that are the same in all of them.
    """

    alike: AlikeSteps
    method: Method
    numbers: tuple[tuple[tuple[str, Number], ...], ...]
    stated: Mapping[str, int | str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Beside the module."""
        return (*self.method.parameters, *(word for word, _ in self.numbers[0]))


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
        self.functions: list[SharedFunction] = []
        self.calls: dict[int, SharedCall] = {}
        self._sites = FunctionSites(bodies, outer, tree, self.calls)
        self._told_of: dict[str, CallsAlike] = {}  # by function: the modules that it is
        self._kernels: dict[str, tuple[str, ...]] = {}  # by function: the words of those that it launches

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
        self._sites.forget()
        functions = {function.name for function in self.functions}
        words = (one for one in words_for_module(alike) if one not in functions)
        word = next(one for one in words if all(self._sites.is_free(one, site) for site in alike.sites))
        found = self._largest(alike, word)
        if found is None:
            return ()
        alike, one = found
        name = self._named(alike, one, word, used)
        used |= {name, word}
        each = [self._sites.steps_of(site, word) for site in alike.sites]
        for place, (site, told) in enumerate(zip(alike.sites, each, strict=True)):
            steps = one.alike.sites[place]
            assert told is not None
            given = [column[place] for column in one.alike.inputs]
            call = SharedCall(
                site.stop - site.start,
                name,
                site.path,
                tuple(steps.aliases.get(buffer, buffer) for buffer in given),
                one.numbers[place],
                steps.results,
                told.dropped,
                told.made,
            )
            self.calls[id(self._bodies[site.body].steps[site.start])] = call
        return alike.sites

    def _named(self, alike: CallsAlike, one: _OneFunction, word: str, used: set[str]) -> str:
        """The name of the function, which is written now if no earlier one has the same text."""
        new = _function("", word, alike, one)
        for place, known in enumerate(self.functions):
            if new.has_text_of(known) and self._told_of[known.name].class_name == alike.class_name:
                both = self._told_of[known.name].and_also(alike)
                self._told_of[known.name] = both
                told = python_docstring(remark_on(both))
                self.functions[place] = dataclasses.replace(known, remark=told)
                return known.name
        name = self._name(alike, one.alike.sites[0], {*used, word})
        self.functions.append(dataclasses.replace(new, name=name))
        self._told_of[name] = alike
        return name

    def _largest(self, alike: CallsAlike, word: str) -> tuple[CallsAlike, _OneFunction] | None:
        """Modules of a class that are one function: all of them, or else those that do what one of them does."""
        if len(alike.sites) == 1:
            one = self._as_one(alike, word, reads_shapes=False)
            return (alike, one) if one is not None and len(one.parameters) <= _MOST_OF_PART else None
        one = self._told(alike, word)
        if one is not None or len(alike.sites) == 2:
            return None if one is None else (alike, one)
        for place, first in enumerate(alike.sites):
            same = (
                other
                for other in alike.sites[place + 1 :]
                if self._told(dataclasses.replace(alike, sites=(first, other)), word) is not None
            )
            group = dataclasses.replace(alike, sites=(first, *same))
            one = self._told(group, word) if len(group.sites) > 1 and group.is_worth else None
            if one is not None:
                return group, one
        return None

    def _told(self, alike: CallsAlike, word: str) -> _OneFunction | None:
        """The one function that modules are: of one size, or that reads all sizes from tensors."""
        stated = self._as_one(alike, word, reads_shapes=False)
        if stated is not None and not any(stated.numbers):
            return stated
        read = self._as_one(alike, word, reads_shapes=True)
        told = [one for one in (stated, read) if one is not None]
        return min(told, key=lambda one: len(one.parameters), default=None)

    def _name(self, alike: CallsAlike, site: SiteSteps, used: set[str]) -> str:
        """A name for the function: the class's, with a word for what it does and earlier ones of that class do not."""
        plain = snake_case(alike.class_name)
        names = {key: one.kernel for key, one in self._outer.names.kernels.items()}
        words = kernel_words(site, names)
        known = {word for other, of in self._kernels.items() if other.startswith(plain) for word in of}
        own = (f"{plain}_{word}" for word in words if word not in known)
        name = first_free(itertools.chain([plain], own, further_words(plain)), used)
        self._kernels[name] = words
        return name

    def _as_one(self, alike: CallsAlike, word: str, reads_shapes: bool) -> _OneFunction | None:
        """The one function that modules are, with the words of the first one; None if they are none."""
        each = [self._sites.steps_of(site, word) for site in alike.sites]
        sites = [one for one in each if one is not None]
        if len(sites) < len(each):
            return None
        found = alike_steps([one.steps for one in sites], self._outer.words, sites[0].variables)
        if found is None or len(found.inputs) + len(found.numbers) > _MOST_PARAMETERS:
            return None
        around = [one.variables for one in sites]
        words = variables_of(found, around, self._outer.words, word, alike.sites[0].path)
        told = [
            word,
            *(number for number, _ in found.numbers),
            *(words[column[0]] for column in found.inputs),
        ]
        given = {column[0] for column in found.inputs}
        locals_of_it = {one for name, one in words.items() if name not in given}
        if len(set(told)) < len(told) or not locals_of_it.isdisjoint(told[: 1 + len(found.numbers)]):
            return None
        methods: list[Method] = []
        for place, site in enumerate(alike.sites):
            method = self._method(found, place, words, site, sites[place].variables, word, reads_shapes)
            is_one = not methods or method.does_what(methods[0])
            if not is_one or method.needed or method.bound.padding:
                return None
            methods.append(method)
        return _with_sizes(found, methods)

    def _method(
        self,
        alike: AlikeSteps,
        place: int,
        words: Mapping[str, str],
        site: CallSite,
        around: Mapping[str, str],
        word: str,
        reads_shapes: bool,
    ) -> Method:
        """The function as it is printed for one of the modules."""
        of_site, outer = alike.sites[place], self._outer
        variables = {name: one for name, one in around.items() if name not in of_site.twins}
        variables |= {name: around[name] for name in of_site.weights}
        for column in (*alike.inputs, *alike.made, *alike.views):
            if column[0] in words:
                variables[column[place]] = words[column[0]]
        buffers = {name: outer.plan.buffers[of] for name, of in of_site.aliases.items()}
        named = {name: dataclasses.replace(one, name=name) for name, one in buffers.items()}
        given = [column[place] for column in alike.inputs]
        calls = {id(of_site.steps[at]): call for at, call in of_site.calls.items()}
        inside = copy.copy(outer)
        if named:
            inside.plan = dataclasses.replace(outer.plan, buffers={**outer.plan.buffers, **named})
        inside.sizes, inside.calls = with_words_of_others(outer.sizes, of_site.twins), calls
        return write_method(
            "",
            "",
            given,
            of_site.steps,
            [variables[column[place]] for column in _results(alike)],
            inside,
            variables,
            device_inside([one for one in given if one not in of_site.aliases], inside, variables),
            sizes=sizes_inside(given, inside, variables, reads_shapes, [one for one, _ in alike.numbers]),
            whose=ModulePlace(self._tree, site.path, word),
        )


def _function(name: str, word: str, alike: CallsAlike, one: _OneFunction) -> SharedFunction:
    """The function as it was printed for the first of the modules."""
    bound = dataclasses.replace(one.method.bound, stated=one.stated)
    remark = python_docstring(remark_on(alike))
    return SharedFunction(name, remark, (word, *one.parameters), bound.lines(), one.method.paragraphs)


def _with_sizes(alike: AlikeSteps, methods: Sequence[Method]) -> _OneFunction | None:
    """The function; sizes that differ from module to module become parameters."""
    stated = [method.bound.stated for method in methods]
    same = {word: size for word, size in stated[0].items() if all(one[word] == size for one in stated)}
    numbers = [
        (
            *((word, values[place]) for word, values in alike.numbers),
            *((word, size) for word, size in one.items() if word not in same),
        )
        for place, one in enumerate(stated)
    ]
    found = _OneFunction(alike, _with_remarks_of_all(methods), tuple(numbers), same)
    is_short = len(found.parameters) <= _MOST_PARAMETERS and len(numbers[0]) <= _MOST_NUMBERS
    return found if is_short else None


def _with_remarks_of_all(methods: Sequence[Method]) -> Method:
    """The first of them, without remarks that are not true of the others."""
    told = [{line for _, lines in method.paragraphs for line in lines} for method in methods]
    paragraphs = []
    for quotes, lines in methods[0].paragraphs:
        kept: list[str] = []
        for kind, run in itertools.groupby(lines, kind_of):
            some = list(run)
            if kind is not LineKind.COMMENT or all(one.issuperset(some) for one in told):
                kept += some
        paragraphs.append((quotes, tuple(kept)))
    return dataclasses.replace(methods[0], paragraphs=tuple(paragraphs))


def _results(alike: AlikeSteps) -> list[tuple[str, ...]]:
    """What each of the modules makes that is read elsewhere."""
    return list(zip(*(site.results for site in alike.sites), strict=True))


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
