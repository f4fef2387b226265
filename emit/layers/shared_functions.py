"""Functions of model.py that several of the user's modules share, printed with the words that the plan has for them.

schedule/functions/ says which modules do the same. Whether whatever says one module's sizes says the others', too, is
seen where sizes are put into words: here, for each of the modules.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence

from longhand.emit.layers.function_bodies import bodies_of
from longhand.emit.layers.function_remarks import with_overwritten
from longhand.emit.layers.layer_methods import Method, device_inside, sizes_inside, write_method
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.module_tree import Branch, ModuleTree, expression, member
from longhand.emit.module.paragraphs import LineKind, WrittenParagraph, kind_of
from longhand.emit.text.python_code import CallCode, Code, KeywordCode, NameCode, names
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import with_words_of_others
from longhand.emit.text.told_sizes import BoundSizes
from longhand.schedule.named_plan import (
    FORWARD_FORM,
    Form,
    FunctionBody,
    FunctionCandidate,
    FunctionForm,
    FunctionSharing,
    FunctionSites,
    LaunchWords,
    ModelStep,
    OneFunction,
    RepeatedLaunches,
    SharedCall,
    fields_reached,
    remark_on,
    remark_on_launch,
)


@dataclasses.dataclass(frozen=True)
class SharedFunction:
    """A function of model.py.

    Attributes:
        name: The function.
        remark: What its docstring says.
        parameters: Its parameters.
        bound: The words for sizes.
        paragraphs: What it does, in order.
    """

    name: str
    remark: str
    parameters: tuple[str, ...]
    bound: BoundSizes
    paragraphs: tuple[WrittenParagraph, ...]

    @property
    def sizes(self) -> tuple[str, ...]:
        """Lines that bind sizes to words."""
        return self.bound.lines()


class FunctionPrinter:
    """Prints them.

    Args:
        outer: The writer of forward().
        root: Of the modules.
        kernels: The words of kernels, by the plan's key.
    """

    def __init__(self, outer: BodyWriter, root: Branch, kernels: Mapping[str, LaunchWords]) -> None:
        self._outer = outer
        self._kernels = kernels
        self._root = root
        # By the identity of the candidate, which is kept beside them.
        self._methods: dict[int, list[Method]] = {}
        self._candidates: list[FunctionCandidate] = []

    def methods(self, candidate: FunctionCandidate) -> Iterator[Method]:
        """The function as it is for each of the modules, one after the other."""
        written = self._methods[id(candidate)] = []
        self._candidates.append(candidate)
        for place in range(len(candidate.sites)):
            written.append(self._method(candidate, place))
            yield written[-1]

    def function(self, one: OneFunction) -> SharedFunction:
        """The function as it was printed for the first of the modules."""
        printed = (self._methods[id(each)] for each in (one.candidate, *one.also))
        method = _with_remarks_of_all(list(itertools.chain.from_iterable(printed)))
        bound = dataclasses.replace(method.bound, stated=one.stated)
        module = (one.candidate.module,) if one.candidate.module else ()
        parameters = (*module, *one.parameters, *(word for word, _ in one.numbers[0]))
        if one.alike.is_launch:
            site = one.candidate.alike.sites[0]
            remark = remark_on_launch(self._kernels, one.candidate.module, site)
            remark = with_overwritten([remark], method.overwritten)
            return SharedFunction(one.name, remark, parameters, bound, _without_remarks(method.paragraphs))
        remark = python_docstring(remark_on(one.alike, is_backward=not one.candidate.module))
        remark = with_overwritten([remark], method.overwritten)
        return SharedFunction(one.name, remark, parameters, bound, method.paragraphs)

    def _method(self, candidate: FunctionCandidate, place: int) -> Method:
        """The function as it is printed for one of the modules."""
        alike, site, words = candidate.alike, candidate.sites[place], candidate.words
        of_site, outer, around = alike.sites[place], self._outer, candidate.around[place]
        variables = {name: one for name, one in around.items() if name not in of_site.twins}
        variables |= {name: around[name] for name in of_site.weights}
        for column in (*alike.inputs, *alike.made, *alike.views):
            if column[0] in words:
                variables[column[place]] = words[column[0]]
        variables |= fields_reached(one for _, one in candidate.records(place))
        buffers = {name: outer.plan.buffers[of] for name, of in of_site.aliases.items()}
        named = {name: dataclasses.replace(one, name=name) for name, one in buffers.items()}
        given = [column[place] for column in alike.inputs]
        calls = {id(of_site.steps[at]): call for at, call in of_site.calls.items()}
        inside = copy.copy(outer)
        told = {
            name: dataclasses.replace(outer.plan.buffers[name], shape=of_site.shapes[name])
            for name in of_site.shapes
        }
        if named or told or of_site.buffers:
            all_buffers = ChainMap({**of_site.buffers}, named, told, {**outer.plan.buffers})
            inside.plan = dataclasses.replace(outer.plan, buffers=all_buffers)
        inside.sizes, inside.calls = with_words_of_others(outer.sizes, of_site.twins), calls
        numbers = [one for one, _ in alike.numbers]
        return write_method(
            "",
            "",
            given,
            of_site.steps,
            _results(candidate, place, variables),
            inside,
            variables,
            device_inside(
                [*(one for one in given if one not in of_site.aliases), *of_site.weights], inside, variables
            ),
            sizes=sizes_inside(
                given,
                inside,
                variables,
                candidate.reads_shapes,
                numbers,
                [one.word for one in alike.symbols],
                [*of_site.weights] if alike.symbols else (),
            ),
            whose=ModulePlace(self._root, site.path, candidate.module) if candidate.module else outer.whose,
            home=outer.home and dataclasses.replace(outer.home, path=site.path, is_list=False),
        )


def _results(candidate: FunctionCandidate, place: int, variables: Mapping[str, str]) -> list[Code]:
    """What a function returns: what its caller hands on, and the record of what it keeps for a backward pass."""
    results: list[Code] = list(names(variables[name] for name in candidate.alike.sites[place].results))
    if candidate.record:
        fields = zip(candidate.fields, candidate.kept(place), strict=True)
        kept = [KeywordCode(field, NameCode(variables[name])) for field, name in fields]
        kept += [KeywordCode(field, NameCode(one.variable)) for field, one in candidate.records(place)]
        results.append(CallCode(candidate.record, tuple(kept)))
    return results


def _with_remarks_of_all(methods: Sequence[Method]) -> Method:
    """The first of them, without remarks that are not true of the others."""
    told = [{line for one in method.paragraphs for line in one.lines} for method in methods]
    paragraphs = []
    for paragraph in methods[0].paragraphs:
        kept: list[str] = []
        for kind, run in itertools.groupby(paragraph.lines, kind_of):
            some = list(run)
            if kind is not LineKind.COMMENT or all(one.issuperset(some) for one in told):
                kept += some
        paragraphs.append(dataclasses.replace(paragraph, lines=tuple(kept)))
    return dataclasses.replace(methods[0], paragraphs=tuple(paragraphs))


def _without_remarks(paragraphs: Sequence[WrittenParagraph]) -> tuple[WrittenParagraph, ...]:
    """What a function does, without the user's statements: they stand where it is called."""
    return tuple(
        WrittenParagraph("", (), tuple(line for line in one.lines if kind_of(line) is not LineKind.COMMENT))
        for one in paragraphs
    )


def share_modules(
    steps: Sequence[ModelStep], outer: BodyWriter, tree: ModuleTree, names: Sequence[str]
) -> tuple[SharedFunction, ...]:
    """What several of the user's modules do alike in a call of the model.

    Args:
        steps: Of forward().
        outer: Its writer.
        tree: The modules.
        names: The model's, and those of the records that layers save: no function, and no record, may have them.
    """
    return share_functions(bodies_of(steps, outer, tree), outer, tree, names)


def share_functions(
    bodies: Sequence[FunctionBody],
    outer: BodyWriter,
    tree: ModuleTree,
    names: Sequence[str],
    form: FunctionForm = FORWARD_FORM,
    in_records: Mapping[str, str] | None = None,
) -> tuple[SharedFunction, ...]:
    """What several of the user's modules do alike; the writer of forward() learns where that is called.

    Args:
        bodies: forward(), and the functions of layers.
        outer: The writer of forward().
        tree: The modules.
        names: Those that no function may have.
        form: Of the functions.
        in_records: Of a backward pass: what the forward pass keeps in records of its calls, and the module of each.
    """
    calls: dict[int, SharedCall] = {}
    outer.calls = calls
    plan = outer.plan
    in_lists = frozenset(node for one in outer.lists for node in one.nodes)

    def reach(path: str, weight: str, word: str) -> str:
        return member(expression(tree.root.at(path), weight), word)

    graph = plan.program.graph
    sites = FunctionSites(bodies, graph, outer.words, tree.root, in_lists, reach, calls, form, in_records)
    kernels = {
        key: LaunchWords.of(plan.kernels[key], one.kernel, one.pointers)
        for key, one in outer.names.kernels.items()
    }
    words_of = outer.sizes.words_at
    steps, roots = [body.steps for body in bodies], [body.root for body in bodies]
    launches = RepeatedLaunches(steps, outer.words, roots, sites.weights, kernels)

    def found(often: Collection[Form]) -> tuple[SharedFunction, ...]:
        calls.clear()
        printer = FunctionPrinter(outer, tree.root, kernels)
        sharing = FunctionSharing(
            bodies,
            sites,
            outer.words,
            kernels,
            calls,
            printer.methods,
            plan.buffers,
            words_of,
            lambda taken: launches.candidates(taken, often),
        )
        sharing.find([*names, *(one.name for one in tree.functions.values())])
        return tuple(printer.function(one) for one in sharing.functions)

    functions = found(())
    often = launches.written_often(calls) if form.takes_module else ()
    return found(often) if often else functions
