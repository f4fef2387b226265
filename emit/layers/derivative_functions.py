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
    also_of,
    keys_of_part,
    names_of_part,
    path_inside,
    position_of,
    remark_of,
    weights_of_part,
    what_passes,
    words_of_gradients,
    words_of_module,
)
from longhand.emit.layers.equal_functions import as_any_names
from longhand.emit.layers.layer_methods import Method, device_inside, sizes_inside, write_method
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.gradient_lists import OF_MODULE
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import Branch, expression, member, module_expression
from longhand.emit.text.python_code import CallCode, Code, LiteralCode, NameCode, NamedItemsCode, names
from longhand.emit.text.quoting import python_string
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    SAVED,
    GradientGroup,
    GradientsOfModule,
    Home,
    LongFunction,
    MemoryOfSteps,
    ModuleDerivative,
    OneGradient,
    Reached,
    SharedCall,
    find_derivatives,
    own_steps,
    references,
    without_parts,
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


@dataclasses.dataclass(frozen=True)
class CollectedGradients:
    """A dictionary of gradients that a part returns.

    Attributes:
        path: Of the part's module, in the model.
        word: The dictionary.
        buffers: What it holds.
    """

    path: str
    word: str
    buffers: frozenset[str]

    def spread_in(self, path: str) -> Code:
        """``of_module("attn", attn_gradients)``, in a dictionary of another module's gradients."""
        if self.path == path:
            return NameCode(self.word)
        below = self.path.removeprefix(f"{path}.") if path else self.path
        return CallCode(OF_MODULE, (LiteralCode(python_string(below)), NameCode(self.word)))


class DerivativeWriter:
    """Writes them.

    Args:
        root: Of the forward pass's modules.
        taken: Names that no function may have.
    """

    def __init__(self, root: Branch, taken: Iterable[str]) -> None:
        self._root = root
        self._taken = {*taken}
        self._methods: dict[str, object] = {}
        self._passes: dict[str, str] = {}
        self.functions: dict[str, SharedFunction] = {}
        self.are_together = False  # whether any returns a dictionary of gradients

    def divide(self, divided: DividedFunction, word: str, outer: BodyWriter) -> list[CollectedGradients]:
        """Writes the parts of a function, whose writer learns the calls; what these return of gradients.

        Args:
            divided: It.
            word: What it calls its module.
            outer: Its writer.
        """
        function, plan = divided.function, outer.plan
        memory = MemoryOfSteps(function.steps, plan.buffers, plan.program.graph.examples)
        parts = find_derivatives(function, outer.words, outer.calls, memory)
        return self._parts(parts, divided, _Around(function.path, word, function.variables, outer))

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
        fields = [name for name in part.given if name in function.fields and name not in weights]
        given = [name for name in part.given if name not in function.fields]
        if part.told:
            given, fields = [*given, *part.told], []
        variables, word = self._variables(part, divided, around, own, [*others, *given])
        plain = [step for step in function.steps[part.start : part.stop] if isinstance(step, PlanStep)]
        inside = copy.copy(outer)
        inside.variables = variables
        nested = self._parts(part.parts, divided, _Around(part.root, word, variables, inside))
        steps, calls = own_steps(plain, inside.calls, part.emptied)
        inside.calls = {id(steps[at]): call for at, call in calls.items()}
        inputs = [*given, *others, *fields, *own, *before]
        sizes = sizes_inside(inputs, inside, variables)
        results: list[Code] = list(names(variables[name] for name in part.results))
        if part.gradients:
            results.append(_gradients(part, divided, variables, sizes, nested))
        method = write_method(
            "",
            "",
            inputs,
            steps,
            results,
            inside,
            variables,
            device_inside([*given, *fields, *own, *before, *others], inside, variables),
            sizes=sizes,
            home=Home(self._root, part.root),
            is_of_layers=not function.drops_fields,
        )
        records = (SAVED,) if fields or part.takes_lists else ()
        first = (*((word,) if own else ()), *records, *_modules_of(before, variables))
        hidden = {variables[name] for name in (*fields, *own, *before)}
        rest = tuple(one for one in method.parameters if one not in hidden)
        method = dataclasses.replace(method, parameters=(*first, *rest))
        name = self._known(method)
        if not name:
            name = first_free(names_of_part(part, function.path), self._taken)
            gradients = [one for one in given if isinstance(next(outer.words.candidates(one)), GradientWord)]
            into, out = ([variables[one] for one in some] for some in (gradients, part.results))
            passes = what_passes(into, out, weights_of_part(part, function), "their" if part.also else "its")
            self._passes[name] = passes
            remark = remark_of(
                part.class_name, position_of(part.path, function), also_of(part, function), passes
            )
            self._methods[name] = as_any_names(method)
            self._taken.add(name)
            self.functions[name] = SharedFunction(
                name, remark, method.parameters, method.bound, method.paragraphs
            )
        else:
            again = remark_of(
                part.class_name, "in several places", also_of(part, function), self._passes[name]
            )
            self.functions[name] = dataclasses.replace(self.functions[name], remark=again)
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
            (),
            part.results,
            part.released,
            part.made,
            first=tuple(reached if one == word else one for one in first),
            collected=first_free(words_of_gradients(below), used) if part.gradients else "",
            emptied=part.emptied,
        )

    def _known(self, method: Method) -> str:
        """The function that does the same already, or none."""
        does = as_any_names(method)
        return next((name for name, one in self._methods.items() if one == does), "")

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
        named = {name for step in steps if isinstance(step, PlanStep) for name in references(step)}
        words = {around.variables[name] for name in named if name in around.variables}
        everywhere = {*around.variables.values(), *OWN_WORDS - _OF_LAYERS, *RESERVED_IN_MODULE}
        short = without_parts(sorted(word for word in words if word.isidentifier()), part.path, everywhere)
        variables = {name: short.get(word, word) for name, word in around.variables.items()}
        of_before = [name for name in named if isinstance(around.variables.get(name), Reached)]
        taken = {*everywhere, *variables.values(), *_modules_of(of_before, around.variables)}
        word = around.word if part.root == around.path else first_free(words_of_module(part), taken)
        branch = self._root.at(part.root)
        for name in own:
            below = divided.function.weights[name].removeprefix(f"{part.root}.")
            variables[name] = member(expression(branch, below), word)
        taken.add(word)
        for name in others:
            if name in divided.function.weights:
                parts = [one for one in divided.function.weights[name].split(".") if not one.isdigit()]
                plain = identifier("_".join(parts[-2:]))
            elif name in divided.function.fields:
                plain = around.variables[name].rpartition(".")[2]
                plain = without_parts([plain], part.path, taken).get(plain, plain)
            else:
                continue
            variables[name] = first_free(itertools.chain((plain,), further_names(plain)), taken)
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
