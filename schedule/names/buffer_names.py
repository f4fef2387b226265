"""The words for a buffer, best first: the user's local, the module's name, the parameter's path, the operation."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GradientPart, GraphInput, InputKind, Provenance
from longhand.lower.ir import Buffer, Derivation, Derived
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.names.forward_names import NO_FORWARD, ForwardNames
from longhand.schedule.names.meanings.copies import (
    copied_names,
    fillers_of_copy,
    scaled_names,
    value_behind,
    words_of_cast,
    words_of_copied,
)
from longhand.schedule.names.meanings.graph_values import phrase_of_sum, word_before_weight, words_by_use
from longhand.schedule.names.meanings.terms_of_sums import word_of_reader, words_of_term
from longhand.schedule.names.meanings.values_of_modules import (
    names_of_modules,
    of_value,
    words_of_further_call,
)
from longhand.schedule.names.module_names import alike, short_names, without_layers
from longhand.schedule.names.operation_names import SILENT, aten_name, field_word, op_word, spelled
from longhand.schedule.names.result_names import (
    STATISTIC_WORDS,
    call_of_several,
    filled_word,
    word_of_result,
    words_of_pattern,
    words_of_result,
    words_of_role,
    words_of_terms,
)
from longhand.schedule.names.value_origins import (
    NOTHING_RENAMED,
    RenamedLocals,
    ValueOrigins,
    comparison_word,
    is_call_of,
    laid_out,
    last_word,
    result_word,
    words_in_module,
    words_of_module,
)
from longhand.schedule.names.words import (
    GradientWord,
    identifier,
    ordinals,
    path_names,
    reworded,
    snake_case,
    without_counter,
)
from longhand.schedule.once import listed_once, once

_SHORT = 14
_BARE = re.compile(r"((unscaled_)?d_)?(weight|bias)(_from_\w+)?")  # whose, they do not say
_COUNTED_LAYOUT = re.compile(r"_\d+(?=_(contiguous|channels_last)$)")  # ``x_22_contiguous``
_TENSORS = frozenset({InputKind.ARGUMENT, InputKind.PART})  # of the caller


class BufferNamer:
    """Candidates for the names of a captured graph's values.

    Args:
        graph: The graph.
        buffers: What it was lowered to, by name.
        forward: Of a backward graph: what the forward pass calls what is read, made again or differentiated.
        renamed: What the user's locals were called when the unit was first generated.
        weights: Of a backward graph: by buffer the path of the weight that it is, or holds the gradient of.

    Attributes:
        renamed, differentiated, weights: As given.
        origins: Where values come from.
        held: What the module holds, and gradients of that.
        paths: Of the captured graph: the parameters that values of a backward pass are, or are the gradients of.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        buffers: Mapping[str, Buffer],
        forward: ForwardNames = NO_FORWARD,
        renamed: RenamedLocals = NOTHING_RENAMED,
        weights: Mapping[str, str] | None = None,
    ) -> None:
        self.renamed = renamed
        self.differentiated, self.saved_as = forward.differentiated, forward.variable
        self.weights = weights or {}
        self._forward = forward
        self.origins = ValueOrigins(graph, buffers, renamed)
        modules = [self.provenance(name).module for name in self.nodes]
        self._modules_alike, self._modules = alike(modules), names_of_modules(modules)
        self._locals = {self.origins.local(node) or "" for node in self.nodes.values()}
        self.paths = graph.paths
        self.inputs: Mapping[str, GraphInput] = {entry.node: entry for entry in graph.inputs}
        returned = graph.outputs[: graph.n_results]
        self._returned_by_user = {entry.value for entry in returned if isinstance(entry.value, str)}
        self._listed = listed_inputs(graph)
        self._held = {entry.node for entry in graph.inputs if entry.kind not in _TENSORS}
        self.held = self._held.union(self.weights)

    @property
    def nodes(self) -> Mapping[str, fx.Node]:
        """The graph's nodes by name."""
        return self.origins.nodes

    def provenance(self, node: str) -> Provenance:
        """Where a node came from, its local as it was first called; an empty one if that is not known."""
        return self.origins.provenance(node)

    @listed_once
    def candidates(self, buffer: str) -> Iterator[str]:
        """Names for a buffer, best first. Never empty."""
        yield from self._forward.words.get(buffer, ())
        if buffer in self.paths:
            of_path = path_names(self.paths[buffer])
            yield from of_path if buffer in self.inputs else map(GradientWord, of_path)
        entry = self.inputs.get(buffer)
        if entry is not None:
            yield from self._of_table(entry)
            if buffer in self._listed:
                yield self._listed[buffer].word  # the same for all layers
            is_told = buffer in self._forward.words  # then the number that capture gave its name says nothing
            yield from (without_counter(word) if is_told else word for word in _of_input(entry))
            return
        if (node := self.nodes.get(buffer)) is None:
            made = self.origins.derived(buffer)
            yield from self._of_derived(made) if made is not None else ()
            yield _COUNTED_LAYOUT.sub("", without_counter(identifier(buffer)))
            return
        yield from self._of_node(node)

    @listed_once
    def variables(self, buffer: str, layer: str = "", is_of_all: bool = False) -> Iterator[str]:
        """Names for a buffer in a function, as `words_in_function` has them; none is a module's."""
        modules = () if buffer in self._held else self._modules
        for word in self.words_in_function(buffer, layer, is_of_all):
            yield from of_value(word, modules, self._locals)

    @listed_once
    def words_in_function(self, buffer: str, layer: str = "", is_of_all: bool = False) -> Iterator[str]:
        """Words in a whole function, where ``weight`` does not say whose; what the path `layer` says is left out."""
        of_one = without_layers(layer)
        yield from (reworded(word, of_one) for word in self._variables(buffer, layer, is_of_all))

    def _variables(self, buffer: str, layer: str, is_of_all: bool) -> Iterator[str]:
        words = list(self.candidates(buffer))
        is_of_weight = buffer in self.paths or bool(self.provenance(buffer).gradient_of)
        told = [word for word in words if not (is_of_weight and _BARE.fullmatch(word))] or words
        yield from _of_forward(self, buffer, layer)
        yield told[0]
        plain = [word for word in told if word not in self.fillers(buffer)] or told[:1]
        yield from plain
        module = self.module_of(buffer)
        if buffer not in self.inputs:
            yield from short_names(module, plain, layer, self._modules_alike)
        yield from words_in_module(module, plain, layer)
        if is_of_all:
            yield from words_in_module(re.sub(r"\.\d+", "", self.module_of(buffer)), plain)
        yield from told

    @once
    def module_of(self, buffer: str) -> str:
        """The module whose function names a value, of a call of another module too; else the one that makes it."""
        if buffer in self._forward.modules:
            return self._forward.modules[buffer]
        made = self.origins.derived(buffer)
        if made is not None and made.of in self.nodes:
            return self.module_of(made.of)
        origin = self.provenance(buffer)
        local = self.origins.local(self.nodes[buffer]) if buffer in self.nodes else None
        is_named = bool(local) and is_call_of(origin.statement, origin.module)
        return origin.module.rpartition(".")[0] if is_named else origin.module

    @once
    def fillers(self, buffer: str) -> frozenset[str]:
        """The words for a buffer that say only by which operation it is made, or that it is a copy."""
        of_forward = self._forward.fillers.get(buffer, frozenset())
        entry, given = self.inputs.get(buffer), self._forward.words.get(buffer, ())
        if entry is not None and given:  # the node's own name says less than any of the forward's words
            of_forward |= {without_counter(word) for word in _of_input(entry)} - {*given}
        made = self.origins.derived(buffer)
        if made is not None and made.how.is_layout:
            return self.fillers(made.of) | ({*self.candidates(buffer)} - {*self.candidates(made.of)})
        node = self.nodes.get(buffer) if buffer not in self.inputs else None
        return of_forward | (frozenset(self._fillers(node) if node is not None else ()) - {*given})

    def _of_table(self, entry: GraphInput) -> Iterator[str]:
        """An embedding's table goes by the embedding's name: ``token_embedding``, of which the weight is all."""
        owner, _, leaf = entry.target.rpartition(".")
        word = last_word(owner)
        node = self.nodes.get(entry.node)
        if node is None or word is None or leaf != "weight":
            return
        reading = [user for user in node.users if user.args and user.args[0] is node]
        layers = {self.provenance(user.name).module for user in reading if aten_name(user) == "slice"}
        if owner in layers or any(aten_name(user) == "embedding" for user in reading):
            yield word

    def adds_bias(self, name: str) -> bool:
        """Whether a node adds a vector that the module holds."""
        node = self.nodes.get(name)
        return node is not None and op_word(node).word == "bias"

    def gradient(self, origin: Provenance) -> Iterator[str]:
        """Words for a gradient of one of this graph's values: ``d_x``, ``d_x_from_ln_1``, ``unscaled_d_x``."""
        value = self.value_of_gradient(origin)
        for word in self.candidates(value) if value is not None else ():
            match origin.part:
                case GradientPart.WHOLE:
                    yield GradientWord(word)
                case GradientPart.UNSCALED:
                    yield f"unscaled_d_{word}"
                case GradientPart.SUMMAND:
                    yield GradientWord(f"{word}_from_{word_of_reader(origin, word, self.origins)}")

    def value_of_gradient(self, origin: Provenance) -> str | None:
        """The value of this graph that something is the gradient of, as it was before it was only seen otherwise."""
        node = value_behind(self.nodes.get(origin.gradient_of), self.origins)
        return node.name if node is not None else None

    def _of_node(self, node: fx.Node) -> Iterator[str]:
        origin = self.origins.of(node)
        yield from self.gradient(origin)
        yield from words_of_role(origin)
        local = self.origins.local(node)
        if local:
            yield from (*word_before_weight(node, origin, local), local)
        yield from words_of_cast(node, self.inputs, self.paths)
        call = call_of_several(node)
        if (
            call is not None
            and not origin.local
            and (words := [*words_of_result(self.origins, call, node.args[1])])
        ):
            yield from words
            return  # what is made beside the first result is called nothing else
        if origin.differentiates:  # on the way to a gradient: none of the module's results
            yield from copied_names(self.origins, node)
            yield from words_of_terms(node, self.paths)
        else:
            yield from self._returned(node, origin)
            yield from words_of_module(origin)
            yield from self._of_stream(node)
            yield from copied_names(self.origins, node)
        if not origin.differentiates:
            yield from words_of_further_call(self.origins, node)
            yield from [phrase] if (phrase := phrase_of_sum(node, self._short_name)) else []
        if local:
            yield from words_of_pattern(self.origins, node, local)
        if word := field_word(node):
            yield word
        yield from words_by_use(node)
        yield from (*words_of_term(node, self.origins), *scaled_names(self.origins, node))
        yield from words_of_copied(node, functools.partial(told, self), self._held)
        yield from self._fillers(node)

    def _fillers(self, node: fx.Node) -> Iterator[str]:
        """Words that say by which operation a value is made, where nothing says what it is."""
        origin, local = self.origins.of(node), self.origins.local(node)
        op = op_word(call_of_several(node) or node)
        hint = self.renamed.local(origin.qualname, without_counter(node.name).strip("_"))
        if hint not in SILENT and hint != aten_name(node).strip("_") and spelled(hint) != op.word:
            yield hint  # no ``getitem``: that of a call in whose place a norm stands now
        is_square = aten_name(node) == "pow" and node.args[1:] == (2,)
        result = "squares" if is_square else filled_word(node) or word_of_result(node, result_word(op.word))
        yield from fillers_of_copy(node, functools.partial(told, self), self._held, self.origins)
        if compared := comparison_word(op.word, node.args[1:]):
            yield compared
        yield "loss" if result == "losses" and not _shape_of(node) else result
        if local:
            turn = self.origins.turn(node)
            yield from itertools.islice(ordinals(local), max(turn - 1, 0), turn)
            yield from (f"{local}_{result}", f"new_{local}")
        if last := last_word(origin.module):
            yield f"{last}_{result}"
        if origin.module_class:
            yield f"{snake_case(origin.module_class)}_{result}"
        yield hint

    def _of_derived(self, made: Derived) -> Iterator[str]:
        """For a buffer that lower added."""
        if made.how is Derivation.RESULT and made.of in self.nodes:
            yield from words_of_result(self.origins, self.nodes[made.of], made.place)
        elif made.how.keeps_the_value and (of := laid_out(self.origins, made.of)):
            word = next(self.candidates(of))
            if made.how is Derivation.CONTIGUOUS:
                yield word  # where the word is free: nothing reads the other layout any more
            yield reworded(word, lambda of: f"{of}_{made.how.value}")
            yield from (other for other in self.candidates(of) if other not in self.fillers(of))
        elif made.how is Derivation.LOSSES:
            yield made.how.value
        elif made.how.is_of_pieces:
            # "normalized" is what is made by means of them.
            no_words = {*STATISTIC_WORDS, *self.fillers(made.of)}
            words = [word for word in self.candidates(made.of) if word not in no_words]
            yield from (reworded(word, lambda of: f"{of}_{made.how.value}") for word in words)
            yield made.how.value

    def _returned(self, node: fx.Node, origin: Provenance) -> Iterator[str]:
        """For what a module's forward() returns: the name under which the user holds that module."""
        if not origin.statement.startswith("return ") or not self.origins.ends_statement(node):
            return
        users = (self.provenance(user.name) for user in node.users if user.op == "call_function")
        is_inner = not origin.qualname.endswith(("forward", "__call__"))
        if is_inner and any(user.module == origin.module and not user.is_of_gradient for user in users):
            return  # what a function returns and its module goes on with is none of the module's results
        frame = origin.module
        if is_call_of(origin.statement, frame) and not origin.qualname.startswith(f"{origin.module_class}."):
            frame = frame.rpartition(".")[0]
        word = last_word(frame)
        if not word:
            return
        if self.origins.n_same(node) > 1:
            given = self._main_input(node)
            if given:
                yield f"{word}_{given}"
        yield snake_case(word)

    def _main_input(self, node: fx.Node) -> str | None:
        """The nearest value with a name of its own that the node is computed from, weights left out."""
        waiting, seen = [node], set()
        while waiting:
            for source in waiting.pop(0).all_input_nodes:
                if source in seen:
                    continue
                seen.add(source)
                entry = self.inputs.get(source.name)
                if entry is not None and entry.kind not in _TENSORS:
                    continue
                local = self.origins.local(source)
                if entry is not None:
                    return next(_of_input(entry))
                if local and self.provenance(source.name).qualname != self.provenance(node.name).qualname:
                    return local
                waiting.append(source)
        return None

    def _of_stream(self, node: fx.Node) -> Iterator[str]:
        """What a layer's output is added to: ``residual`` where the sum goes on, ``out`` where it is the result."""
        if aten_name(node) not in ("add", "add_"):
            return
        sides = [side for side in node.args[:2] if isinstance(side, fx.Node) and side.name not in self._held]
        if len(sides) != 2 or len({str(_shape_of(side)) for side in (*sides, node)}) != 1:
            return
        users = [user for user in node.users if user.op != "output" and not op_word(user).silent]
        if node.name in self._returned_by_user:
            yield "out"
        elif len(users) > 1:
            yield "residual"

    def _short_name(self, node: fx.Node) -> str | None:
        origin = self.origins.of(node)
        entry = self.inputs.get(node.name)
        if entry is not None:
            word: str | None = next(_of_input(entry), None)
        else:
            local = self.origins.local(node)
            word = local or next(self._returned(node, origin), None) or next(words_of_module(origin), None)
        return word if word and len(word) <= _SHORT and "_plus_" not in word else None


def _of_forward(words: BufferNamer, buffer: str, layer: str) -> Iterator[str]:
    """The forward pass's variable for a value in the function of the same layer, or outside of layers."""
    made = words.origins.derived(buffer)
    word = words.saved_as(made.of if made is not None and made.how.keeps_the_value else buffer, layer)
    yield from [word] if word else []


def told(words: BufferNamer, buffer: str, is_told: bool = True) -> list[str]:
    """The words for a buffer that say what it is, or the others."""
    fillers = words.fillers(buffer) - {words.provenance(buffer).local}
    return [word for word in words.candidates(buffer) if (word not in fillers) == is_told]


def _of_input(entry: GraphInput) -> Iterator[str]:
    if entry.is_given:
        yield identifier(entry.target if entry.part is None else entry.part[0])
        return
    for word in path_names(entry.target):
        plain = without_counter(word.lstrip("_"))
        yield {"tensor_constant": "table", "lifted_tensor": "table"}.get(plain, word)


def _shape_of(node: fx.Node) -> tuple[object, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None
