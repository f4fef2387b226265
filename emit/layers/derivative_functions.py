"""Functions of backward.py for parts of a long derivative: ``d_x, attn_gradients = attention_backward(attn, ...)``.

schedule/functions/derivatives.py says which calls they are. Each is given the part's module, where it reads weights of
it, the record of what the forward pass kept, and what else it reads; it returns what others read, and the gradients of
the module's weights by their paths inside it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from longhand.emit.layers.derivative_words import (
    CollectedGradients,
    PartSite,
    ToldPart,
    keys_of_part,
    names_of_parts,
    path_inside,
    position_of,
    remark_on_part,
    weights_of_part,
    what_passes,
    words_of_gradients,
    words_of_module,
)
from longhand.emit.layers.equal_functions import PartForms, PartFunctions
from longhand.emit.layers.layer_methods import Method, device_inside, write_method
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import Branch, expression, member, module_expression
from longhand.emit.text.python_code import Code, NamedItemsCode, names
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    MOST_TRIALS,
    NO_SIZES,
    SAVED,
    DonePart,
    DoneSteps,
    GradientGroup,
    GradientsOfModule,
    Home,
    LongFunction,
    MemoryOfSteps,
    ModuleDerivative,
    OneGradient,
    PartSizes,
    Reached,
    SharedCall,
    as_own,
    fields_of_part,
    find_derivatives,
    names_inside,
    own_steps,
    sizes_of_parts,
    word_of_field,
    words_of_part,
)
from longhand.schedule.names.words import (
    OWN_WORDS,
    RESERVED_IN_MODULE,
    GradientWord,
    first_free,
    further_names,
    identifier,
)
from longhand.schedule.plan import PlanStep

_OF_LAYERS = frozenset(["layer", "block"])  # variables of loops, of which there are none in these functions

# A gradient as it is returned: of a buffer, for the weight of a path, as its variable inside the function.
GradientCode = Callable[[str, str, str, SizeWriter], Code]


@dataclasses.dataclass(frozen=True)
class DividedFunction:
    """A function of backward.py that has parts.

    Attributes:
        function: What it does.
        gradient: How a gradient is returned.
    """

    function: LongFunction
    gradient: GradientCode


@dataclasses.dataclass(frozen=True)
class _Around:
    """The function that a part is called in.

    Attributes:
        path: Of its module.
        word: What it calls that.
        variables: Its variables.
        body: Its writer.
    """

    path: str
    word: str
    variables: Mapping[str, str]
    body: BodyWriter


class DerivativeWriter:
    """Writes them.

    Args:
        root: Of the forward pass's modules.
        taken: Names that no function may have.
    """

    def __init__(self, root: Branch, taken: Iterable[str]) -> None:
        self._root = root
        self._taken = {*taken}
        self._told: dict[str, ToldPart] = {}
        self._found: dict[int, tuple[ModuleDerivative, ...]] = {}  # by the identity of a function
        self._memory: dict[int, MemoryOfSteps] = {}
        self._sizes: Mapping[int, PartSizes] = {}  # by the identity of a part
        self._known = PartFunctions()
        self._names: dict[int, str] = {}  # by the identity of a part
        self._in_symbols: set[int] = set()  # parts whose function has symbols for sizes
        self._lone: set[int] = set()  # parts whose function does nothing else
        self._done: dict[int, DonePart] = {}  # by the identity of a part: what it does
        self._sites: dict[str, list[PartSite]] = {}
        self.functions = self._known.functions
        self.are_together = False  # whether any returns a dictionary of gradients

    def find(self, functions: Sequence[DividedFunction], outer: BodyWriter) -> None:
        """Finds the parts of all functions, some of which may be one.

        Args:
            functions: That of the model, and those of layers.
            outer: The writer of the model's.
        """
        plan, own = outer.plan, [one.function for one in functions]
        hints = plan.program.graph.examples
        memory = [MemoryOfSteps(one.steps, plan.buffers, hints) for one in own]
        found = find_derivatives(own, outer.words, outer.calls, memory)
        self._found = {id(one): parts for one, parts in zip(functions, found, strict=True)}
        self._memory = {id(one): held for one, held in zip(functions, memory, strict=True)}
        self._derivative: DoneSteps = DoneSteps(plan.steps, outer.words, is_backward=True)
        self._sizes = sizes_of_parts(own, found, outer.words, plan.buffers, outer.sizes.words_at)

    def name(self, written: Iterable[tuple[DividedFunction, str, BodyWriter]]) -> None:
        """Names the functions, once it is known which parts each of them does: all are written to learn that.

        Args:
            written: What divide() will be given, one by one.
        """
        each = list(written)
        for left in range(MOST_TRIALS, -1, -1):
            if not left:  # none is given numbers then
                own = self._sizes.items()
                self._sizes = {part: dataclasses.replace(one, in_symbols=None) for part, one in own}
                self._in_symbols = set()
            trial = DerivativeWriter(self._root, self._taken)
            trial._found, trial._memory, trial._sizes = self._found, self._memory, self._sizes
            trial._in_symbols, trial._done, trial._derivative = self._in_symbols, self._done, self._derivative
            for divided, word, outer in each:
                trial.divide(divided, word, copy.copy(outer))
            # What a function is given for another one's numbers shows once it is known that this one has some.
            before, self._in_symbols = self._in_symbols, trial._parts_in_symbols()
            if before == self._in_symbols:
                break
        names = names_of_parts([*trial._sites.values()], self._taken)
        for name, sites in zip(names, trial._sites.values(), strict=True):
            self._names |= {id(site.part): name for site in sites}
            self._lone |= {id(site.part) for site in sites if len(sites) == 1}

    def _parts_in_symbols(self) -> set[int]:
        """The parts that are one function with others by their sizes as symbols."""
        parts = {name: {id(site.part) for site in sites} for name, sites in self._sites.items()}
        several = {name: own for name, own in parts.items() if len(own) > 1}
        are_so = (o for n, o in several.items() if self._known.is_in_symbols(n) or o <= self._in_symbols)
        return set().union(*are_so)

    def divide(self, divided: DividedFunction, word: str, outer: BodyWriter) -> list[CollectedGradients]:
        """Writes the parts of a function, whose writer learns the calls; what these return of gradients.

        Args:
            divided: It, of which the parts are found.
            word: What it calls its module.
            outer: Its writer.
        """
        around = _Around(divided.function.path, word, divided.function.variables, outer)
        return self._parts(self._found[id(divided)], divided, around)

    def _parts(
        self, parts: Sequence[ModuleDerivative], divided: DividedFunction, around: _Around
    ) -> list[CollectedGradients]:
        used = {*around.variables.values(), *OWN_WORDS}
        collected = []
        for part in parts:
            call = self._part(part, divided, around, used)
            if call.collected:
                self.are_together |= part.root != around.path
                used.add(call.collected)
                collected.append(CollectedGradients(part.root, call.collected, frozenset(part.gradients)))
            around.body.calls = {**around.body.calls, id(divided.function.steps[part.start]): call}
        return collected

    def _part(
        self, part: ModuleDerivative, divided: DividedFunction, around: _Around, used: Container[str]
    ) -> SharedCall:
        """One function, and the call of it."""
        function, outer = divided.function, around.body
        own, before = (
            [
                name
                for name in part.given
                if module and function.weights.get(name, "").startswith(f"{module}.")
            ]
            for module in (part.root, function.before)
        )
        weights = [name for name in part.given if name in function.weights]
        others = [name for name in weights if name not in (*own, *before)]
        kept = [name for name in part.given if name in function.fields and name not in weights]
        told = fields_of_part(part, kept, around.variables, self._memory[id(divided)])
        fields = list(told.inside)
        given = [*(name for name in part.given if name not in function.fields), *told.beside]
        variables, word = self._variables(part, divided, around, own, [*others, *given])
        if told.record != SAVED:
            as_own(variables, told)
        whole = function.steps[part.start : part.stop]
        plain = [step for step in whole if isinstance(step, PlanStep)]
        inside = copy.copy(outer)
        inside.variables = variables
        nested = self._parts(part.parts, divided, _Around(part.root, word, variables, inside))
        steps, calls = own_steps(plain, inside.calls, told.emptied)
        inside.calls = {id(steps[at]): call for at, call in calls.items()}
        inputs = [*given, *others, *fields, *own, *before]
        device = device_inside([*given, *fields, *own, *before, *others], inside, variables)
        records = (SAVED,) if fields or part.takes_lists else ()
        first = (*((word,) if own else ()), *records, *_modules_of(before, variables))
        hidden = {variables[name] for name in (*fields, *own, *before)}
        told_sizes = self._sizes.get(id(part), NO_SIZES)

        def write(body: BodyWriter, form: Sequence[PlanStep], sizes: SizeWriter) -> Method:
            results: list[Code] = list(names(variables[name] for name in part.results))
            if part.gradients:
                results.append(_gradients(part, divided, variables, sizes, nested))
            method = write_method(
                "",
                "",
                inputs,
                form,
                results,
                body,
                variables,
                device,
                sizes=sizes,
                home=Home(self._root, part.root, word=word),
                is_of_layers=not function.drops_fields,
            )
            rest = tuple(one for one in method.parameters if one not in hidden)
            return dataclasses.replace(method, parameters=(*first, *rest))

        forms = PartForms(inside, steps, told_sizes, variables, inputs, write)
        of_several = forms.in_symbols() if id(part) in self._in_symbols else None
        method, numbers = of_several or forms.plain(), forms.numbers(of_several)
        are_general = (part.is_of_several or part.is_among_others) and of_several is None
        general = (forms.told, forms.reading, forms.in_symbols) if are_general else ()
        name = self._known.known(method, general)
        if not name:
            name = self._names.get(id(part), f"part_{len(self.functions)}")
            assert name not in self.functions, f"{name} would be two functions"
            self._known.add(name, method, general)
        gradients, made = (
            [one for one in some if isinstance(next(outer.words.candidates(one)), GradientWord)]
            for some in (given, part.results)
        )
        is_again = not (made or part.gradients)
        self._sites.setdefault(name, []).append(PartSite(part, function, is_again))
        into, out = ([variables[one] for one in some] for some in (gradients, part.results))
        weights_of, whose = weights_of_part(part, function), "their" if part.also else "its"
        if id(part) not in self._done:
            self._done[id(part)] = self._derivative.part(part, whole)
        now = ToldPart(
            what_passes([] if is_again else into, out, weights_of, whose),
            (position_of(part.path, function),),
            self._done[id(part)],
            is_of_layers=not function.drops_fields,
        )
        earlier = self._told.get(name)
        if earlier is not None and now.is_of_layers and not earlier.is_of_layers:
            self._known.prefer(name, method)
        is_own = self._known.is_by(name, method)
        of_all = self._told[name] = earlier.with_another(now, is_by_other=is_own) if earlier else now
        self._known.say(name, remark_on_part(part, function, of_all, is_again=is_again))
        below, holder = (path_inside(path, around.path) for path in (part.path, part.root))
        reached = around.word
        if part.root != around.path:
            branch = self._root.at(around.path) if around.path else self._root
            reached = str(member(module_expression(branch, holder), around.word)) if own else ""
        return SharedCall(
            part.stop - part.start,
            name,
            "",
            (*given, *others),
            numbers,
            part.results,
            told.released,
            part.made,
            first=tuple({word: reached, SAVED: told.record}.get(one, one) for one in first),
            collected=first_free(words_of_gradients(below, around.word), used) if part.gradients else "",
            emptied=told.emptied,
        )

    def _variables(
        self,
        part: ModuleDerivative,
        divided: DividedFunction,
        around: _Around,
        own: Sequence[str],
        others: Sequence[str],
    ) -> tuple[dict[str, str], str]:
        """The variables inside a function, which do not tell where in the model it is; what its module is called."""
        steps = divided.function.steps[part.start : part.stop]
        reserved = {*OWN_WORDS - _OF_LAYERS, *RESERVED_IN_MODULE}
        short = words_of_part(part, steps, around.variables, around.body.words, reserved)
        variables = {name: short.get(word, word) for name, word in around.variables.items()}
        named = {*names_inside(steps, around.body.words)}
        of_before = [name for name in named if isinstance(around.variables.get(name), Reached)]
        held = (divided.function.weights, divided.function.fields)
        renamed = [name for name in others if any(name in some for some in held)]
        taken = {variables[name] for name in named.union(others).difference(renamed) if name in variables}
        taken |= {*reserved, *_modules_of(of_before, around.variables)}
        word = (
            around.word
            if part.root == around.path
            else first_free(words_of_module(part, is_lone=id(part) in self._lone), taken)
        )
        branch = self._root.at(part.root)
        for name in own:
            below = divided.function.weights[name].removeprefix(f"{part.root}.")
            variables[name] = member(expression(branch, below), word)
        taken.add(word)
        for name in renamed:
            if name in divided.function.weights:
                parts = [one for one in divided.function.weights[name].split(".") if not one.isdigit()]
                plain = identifier("_".join(parts[-2:]))
                variables[name] = first_free(itertools.chain((plain,), further_names(plain)), taken)
            else:
                field = around.variables[name].rpartition(".")[2]
                variables[name] = word_of_field(name, field, part, around.body.words, taken)
            taken.add(variables[name])
        return variables, word


def _gradients(
    part: ModuleDerivative,
    divided: DividedFunction,
    variables: Mapping[str, str],
    sizes: SizeWriter,
    nested: Sequence[CollectedGradients],
) -> Code:
    """What a part returns last."""
    named = []
    for buffer, path, key in keys_of_part(part, divided.function):
        named.append((buffer, key, divided.gradient(buffer, path, variables[buffer], sizes)))
    return gradients_with(named, part.root, nested)


def gradients_with(
    named: Sequence[tuple[str, str, Code]], path: str, collected: Sequence[CollectedGradients]
) -> Code:
    """``{"norm.weight": d_norm_weight, **of_module("attn", attn_gradients)}``

    Args:
        named: (buffer, path of its weight inside the module, how it is returned).
        path: The module's.
        collected: What its parts return together.
    """
    items: dict[tuple[str, Code], None] = {}
    for buffer, key, gradient in named:
        inside = next((one for one in collected if buffer in one.buffers), None)
        items[(key, gradient) if inside is None else ("", inside.spread_in(path))] = None
    return NamedItemsCode(tuple(key for key, _ in items), tuple(gradient for _, gradient in items))


def together(
    groups: Sequence[GradientGroup], results: Sequence[object], collected: Sequence[CollectedGradients]
) -> list[GradientGroup]:
    """The gradients that a backward pass returns, those that its parts return together as one."""
    told: dict[GradientGroup, None] = {}
    for group in groups:
        result = results[group.place] if isinstance(group, OneGradient) else None
        buffer = result.buffer if isinstance(result, View) else ""
        inside = next((one for one in collected if buffer in one.buffers), None)
        told[group if inside is None else GradientsOfModule(inside.path, inside.word)] = None
    return list(told)


def _modules_of(weights: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """What variable holds the module that weights are reached by: ``previous_norm``."""
    reached = (variables[name] for name in weights)
    return tuple(dict.fromkeys(str(one.steps[0]) for one in reached if isinstance(one, Reached)))
