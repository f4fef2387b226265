"""Functions of backward.py for parts of a long derivative: ``d_x, attn_gradients = attention_backward(attn, ...)``.

schedule/functions/derivatives.py says which calls they are. Each is given the part's module, where it reads weights of
it, the record of what the forward pass kept, and what else it reads; it returns what others read, and the gradients of
the module's weights by their paths inside it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

import torch

from longhand.emit.layers.equal_functions import as_any_names
from longhand.emit.layers.layer_methods import Method, device_inside, sizes_inside, write_method
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.gradient_lists import OF_MODULE
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import Branch, expression, member, module_expression
from longhand.emit.text.python_code import CallCode, Code, LiteralCode, NameCode, NamedItemsCode, names
from longhand.emit.text.quoting import python_docstring, python_string
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    BACKWARD_FORM,
    SAVED,
    GradientGroup,
    GradientsOfModule,
    Home,
    LongFunction,
    MemoryOfSteps,
    ModuleDerivative,
    OneGradient,
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
    listed,
    singular,
    snake_case,
)
from longhand.schedule.plan import PlanStep

_OF_LAYERS = frozenset(["layer", "block"])  # variables of loops, of which there are none in these functions
_WIDEST = 103  # of a line of a docstring
_MOST_NAMED = 2  # weights in it

# A gradient as it is returned: of a buffer, for the weight of a path, as its variable inside the function.
GradientCode = Callable[[str, str, str, SizeWriter], Code]


@dataclasses.dataclass(frozen=True)
class DividedFunction:
    """A function of backward.py that has parts.

    Attributes:
        function: What it does.
        weights: By buffer: the path of each weight that it reads in its module, in the model.
        gradient: How a gradient is returned.
    """

    function: LongFunction
    weights: Mapping[str, str]
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
                self.are_together = True
                used.add(call.collected)
                collected.append(CollectedGradients(part.path, call.collected, frozenset(part.gradients)))
            around.body.calls = {**around.body.calls, id(divided.function.steps[part.start]): call}
        return collected

    def _part(
        self, part: ModuleDerivative, divided: DividedFunction, around: _Around, used: Container[str]
    ) -> SharedCall:
        """One function, and the call of it."""
        function, outer = divided.function, around.body
        own = [name for name in part.given if divided.weights.get(name, "").startswith(f"{part.path}.")]
        others = [name for name in part.given if name in divided.weights and name not in own]
        fields = [name for name in part.given if name in function.fields and name not in divided.weights]
        given = [name for name in part.given if name not in function.fields]
        if part.told:
            given, fields = [*given, *part.told], []
        variables, word = self._variables(part, divided, around, own, [*others, *given])
        plain = [step for step in function.steps[part.start : part.stop] if isinstance(step, PlanStep)]
        inside = copy.copy(outer)
        inside.variables = variables
        nested = self._parts(part.parts, divided, _Around(part.path, word, variables, inside))
        steps, calls = own_steps(plain, inside.calls, part.emptied)
        inside.calls = {id(steps[at]): call for at, call in calls.items()}
        inputs = [*given, *others, *fields, *own]
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
            device_inside([*given, *fields, *own, *others], inside, variables),
            sizes=sizes,
            home=Home(self._root, part.path),
            is_of_layers=not function.drops_fields,
        )
        first = (*((word,) if own else ()), *((SAVED,) if fields or part.takes_lists else ()))
        hidden = {variables[name] for name in (*fields, *own)}
        rest = tuple(one for one in method.parameters if one not in hidden)
        method = dataclasses.replace(method, parameters=(*first, *rest))
        name = self._known(method)
        if not name:
            name = first_free(_names(part, function.path), self._taken)
            gradients = [one for one in given if isinstance(next(outer.words.candidates(one)), GradientWord)]
            into, out = ([variables[one] for one in some] for some in (gradients, part.results))
            passes = _passes(into, out, _weights(part, function))
            self._passes[name] = passes
            remark = _remark(part.class_name, _position(part.path, function), passes)
            self._methods[name] = as_any_names(method)
            self._taken.add(name)
            self.functions[name] = SharedFunction(
                name, remark, method.parameters, method.bound, method.paragraphs
            )
        else:
            again = _remark(part.class_name, "in several places", self._passes[name])
            self.functions[name] = dataclasses.replace(self.functions[name], remark=again)
        branch = self._root.at(around.path) if around.path else self._root
        below = part.path.removeprefix(f"{around.path}.") if around.path else part.path
        reached = str(member(module_expression(branch, below), around.word)) if own else ""
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
            collected=first_free(_words_of_gradients(below), used) if part.gradients else "",
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
        taken = {*everywhere, *variables.values()}
        *_, attribute = ["module", *(one for one in part.path.split(".") if not one.isdigit())]
        plain = singular(attribute) if part.path.rpartition(".")[2].isdigit() else attribute
        if part.is_of_several:
            plain = snake_case(part.class_name)
        word = first_free(itertools.chain((plain, f"{plain}_module"), further_names(plain)), taken)
        branch = self._root.at(part.path)
        for name in own:
            below = divided.weights[name].removeprefix(f"{part.path}.")
            variables[name] = member(expression(branch, below), word)
        taken.add(word)
        for name in others:
            if name in divided.weights:
                parts = [one for one in divided.weights[name].split(".") if not one.isdigit()]
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
    root = divided.function.path
    named = []
    for buffer, paths in divided.function.gradients.items():
        for path in paths if buffer in part.gradients else ():
            whole = f"{root}.{path}" if root else path
            gradient = divided.gradient(buffer, path, variables[buffer], sizes)
            named.append((buffer, whole.removeprefix(f"{part.path}."), gradient))
    return gradients_with(named, part.path, nested)


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


def _names(part: ModuleDerivative, root: str) -> Iterator[str]:
    """``attention_backward``, of one of several layers that are written out ``layer_3_attn_backward``."""
    parts = part.path.removeprefix(f"{root}.").split(".") if root else part.path.split(".")
    ending = BACKWARD_FORM.ending
    of_its_class = f"{snake_case(part.class_name)}{ending}"
    if (part.is_of_several or not any(map(str.isdigit, parts))) and not hasattr(torch.nn, part.class_name):
        yield of_its_class
    if part.is_of_several:
        yield from further_names(of_its_class)
    following = [*parts[1:], ""]
    words = [singular(one) if after.isdigit() else one for one, after in zip(parts, following, strict=True)]
    last_list = max(
        (n for n, after in enumerate(following) if after.isdigit() and not parts[n].isdigit()), default=-1
    )
    for start in range(last_list if last_list >= 0 else len(parts) - 1, -1, -1):
        if not words[start].isdigit():
            yield f"{identifier('_'.join(words[start:]))}{ending}"
    yield from further_names(of_its_class)


def _words_of_gradients(below: str) -> Iterator[str]:
    parts = below.split(".")
    following = [*parts[1:], ""]
    words = [singular(one) if after.isdigit() else one for one, after in zip(parts, following, strict=True)]
    for start in range(len(parts) - 1, -1, -1):
        if not parts[start].isdigit():
            yield f"{identifier('_'.join(words[start:]))}_gradients"
    yield from further_names("gradients")


def _position(path: str, function: LongFunction) -> str:
    """``layers[3].attn``; ``layers[i].attn`` in what all layers do."""
    parts = path.split(".")
    at = None if function.drops_fields else function.path.count(".")
    texts = (f"[{'i' if n == at else one}]" if one.isdigit() else f".{one}" for n, one in enumerate(parts))
    return "".join(texts).removeprefix(".")


def _weights(part: ModuleDerivative, function: LongFunction) -> list[str]:
    """The weights whose gradients a part returns, as its module calls them."""
    paths = [one for name, some in function.gradients.items() if name in part.gradients for one in some]
    whole = (f"{function.path}.{path}" if function.path else path for path in paths)
    return [path.removeprefix(f"{part.path}.") for path in whole]


def _passes(source: Sequence[str], results: Sequence[str], weights: Sequence[str]) -> str:
    """``from d_residual to d_x and the gradient of down.weight``; of many weights only that there are some."""
    few = f"the gradient{'s' * (len(weights) > 1)} of {listed(weights)}"
    of_weights = few if len(weights) <= _MOST_NAMED else "gradients of its weights"
    made = [*results, *([of_weights] if weights else [])]
    return f"from {listed(source)} to {listed(made)}" if source else f"makes {listed(made)}"


def _remark(class_name: str, position: str, passes: str) -> str:
    """``The derivative of Attention, attn: from d_residual to d_x and the gradients of its weights.``"""
    begin = f"The derivative of {class_name}, {position}"
    whole = f"{begin}: {passes}."
    if len(whole) <= _WIDEST:
        return python_docstring(whole)
    lines = textwrap.wrap(f"{passes[:1].upper()}{passes[1:]}.", _WIDEST)
    return "\n".join(map(python_docstring, [f"{begin}.", "", *lines, ""]))
