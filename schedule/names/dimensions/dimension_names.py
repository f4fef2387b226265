"""A word for each dimension of each value: the user's own (``B, T, C = x.shape``), else the customary ones.

Words start at the call's arguments and at the user's own reshapes, and are carried through the captured graph. Never
does an equal number make a word: 1024 tokens of 1024 features are told apart, and a batch of 64 is no head size of 64.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterable, Mapping, Sequence, Set

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Provenance
from longhand.lower.ir import Buffer, Derivation, Extern, Layers, Size, View
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.caches import words_of_caches
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words, parts_of
from longhand.schedule.names.dimensions.customary_names import (
    dim_of_made,
    makes_features,
    of_another_sequence,
    word_of_square,
    words_apart_from_heads,
    words_of_every_table,
    words_of_heads,
    words_of_tokens,
)
from longhand.schedule.names.dimensions.dimension_propagation import (
    RESHAPES,
    filled,
    is_depthwise,
    propagated_names,
    shape_of,
)
from longhand.schedule.names.dimensions.kinds_of_arguments import is_image, is_signal, words_of_ends
from longhand.schedule.names.dimensions.met_dimensions import learned, words_met
from longhand.schedule.names.dimensions.parts import equal_parts, words_of_parts
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.dimensions.stated_sizes import FEWER_HEADS, HEADS, function_of
from longhand.schedule.names.dimensions.words_of_one_size import one_word_each
from longhand.schedule.names.operation_names import aten_name, provenance_of
from longhand.schedule.names.words import identifier

_CUSTOMARY: Mapping[tuple[int, bool], tuple[str, ...]] = {
    (2, True): ("n_rows", "n_cols"),
    (3, True): ("batch", "seq", "dim"),
    (4, True): ("batch", "channels", "height", "width"),
    (5, True): ("batch", "channels", "depth", "height", "width"),
    (2, False): ("batch", "seq"),
}
# Two words of one meaning, if they stand for the same number.
_SYNONYMS: Mapping[str | None, str] = {
    **dict.fromkeys(("batch_size", "bsz", "bs", "n_batch", "num_batch"), "batch"),
    **dict.fromkeys(("seq_len", "seq_length", "sequence_length", "q_len", "tgt_len"), "seq"),
}
_CLASS_LOSSES = frozenset({"cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward"})


class DimNamer:
    """Words for dimensions.

    Args:
        graph: Whose values.
        buffers: What it was lowered to, by name; of none, no words for what lower added.
        given: Of a backward graph: the words of what it is given, by placeholder; others have none.
        known: Words of further values, by node.
        layers: Words for values, if what a linear layer makes is to have a word: ``widen_dim``.
        chains: Chains of equal layers: those past the first few have the words of the last of these.

    Attributes:
        arguments: For each tensor argument's placeholder: a word for each dimension, None where there is none.
        parts: How many equal parts of another value come before one, by name.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        buffers: Mapping[str, Buffer],
        given: Mapping[str, Words] | None = None,
        known: Mapping[str, Words] | None = None,
        layers: BufferNamer | None = None,
        chains: Sequence[Layers] = (),
    ) -> None:
        self.arguments: dict[str, Words] = dict(given) if given is not None else _argument_words(graph)
        tables = words_of_every_table(graph, self.arguments)
        self._words: dict[str, Words] = {**tables, **self.arguments}
        self._sizes = _sizes_of(graph, self.arguments) if given is None else None
        self._twins: Mapping[str, str] = {}
        self._buffers, self.parts = buffers, equal_parts(graph.graph)
        self._are_met = False  # words that only say which layer made a dimension come after what it meets
        self._n_heads, self._rows = dict[str, Size](), dict[str, Words]()  # by attention's path; of losses
        self._shapes: dict[str, tuple[Size, ...]] = {
            node.name: shape_of(node) for node in graph.graph.nodes if node.name in buffers
        }
        twins = {
            name: twin
            for chain in chains
            for names in chain.names[chain.n_kept :]
            for name, twin in zip(names, chain.names[chain.n_kept - 1], strict=True)
        }
        self._carry(graph, twins, known or {}, layers)
        self._meet(graph)
        self._are_met = True
        self._carry(graph, twins, known or {}, layers)
        self._words |= words_of_parts(graph.graph, self._words, shape_of)
        self._meet(graph)
        self._carry(graph, twins, known or {}, layers)
        self._with_one_word_each(graph)
        self._words |= one_word_each(graph.graph, self._words, self.arguments.values())
        self._words |= words_apart_from_heads(graph.graph, self._words)
        if given is None:
            vectors = {name for name, words in self.arguments.items() if words == (None,)}
            for node in graph.graph.nodes if vectors else ():
                self._learn_vectors(node)

    def _carry(
        self,
        graph: CapturedGraph,
        twins: Mapping[str, str],
        known: Mapping[str, Words],
        layers: BufferNamer | None,
    ) -> None:
        """Gives each value the words that its arguments have for its dimensions, where it has none yet."""
        for node in graph.graph.nodes:
            twin = twins.get(node.name)
            if twin is not None:
                if twin in self._words:
                    self._words[node.name] = self._words[twin]
                continue
            if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
                continue
            carried = self._heads_told_apart(node, propagated_names(node, self._words))
            carried = self._agreeing(node, carried)
            old = self._words.get(node.name, ())
            carried = learned(old, carried) if len(old) == len(carried) else carried
            if layers is not None and self._are_met and makes_features(node) and carried:
                of_made = dim_of_made(node, next(layers.words_in_function(node.name)))
                carried = (*carried[:-1], carried[-1] or word_of_square(node, self._words) or of_made)
            elif layers is not None and aten_name(node).startswith("conv") and len(carried) == 4:
                word = next(layers.words_in_function(node.name))
                channels = carried[1] if is_depthwise(node, node.all_input_nodes[0]) else None
                kept = (carried[0], channels, *_unchanged(node, carried)[2:])
                carried = filled(kept, tuple(f"{word}_{side}" for side in _CUSTOMARY[4, True]))
            if aten_name(node) in _CLASS_LOSSES:
                self._rows[node.name] = self._words.get(node.all_input_nodes[0].name, (None,))[:1]
            own = known.get(node.name, ())
            self._words[node.name] = filled(own, carried) if len(own) == len(carried) else carried

    def _agreeing(self, node: fx.Node, words: Words) -> Words:
        """The words but for those that the call's arguments have for another size: a module's own ``batch_size``.

        What a dimension meets tells first what it is; where nothing does, the module's word comes in the end. Words
        that no argument has are their layers' own: those of several sizes say ``height`` of several heights.
        """
        if self._are_met:
            return words_of_heads(node, words_of_tokens(node, words, self._words))
        if self._sizes is None or len(words) != len(shape_of(node)):
            return words
        sizes = zip(words, map(str, shape_of(node)), strict=True)
        return tuple(word if word and self._sizes.get(word, size) == size else None for word, size in sizes)

    def _with_one_word_each(self, graph: CapturedGraph) -> None:
        """What the arguments' dimensions are called stands for other words of that meaning, where they are as long."""
        sizes: dict[str | None, str] = {}
        for node in graph.graph.nodes:
            words = self.arguments.get(node.name)
            if words is not None:
                sizes |= dict(zip(words, map(str, shape_of(node)), strict=True))
                continue
            words, shape = self._words.get(node.name, ()), shape_of(node)
            if len(words) == len(shape) and any(
                part in _SYNONYMS for word in words for part in parts_of(word)
            ):
                self._words[node.name] = tuple(
                    _plain(word, words, size, sizes) for word, size in zip(words, shape, strict=True)
                )

    def _meet(self, graph: CapturedGraph) -> None:
        """Gives the arguments of each operation the words that its result has, and those of each other."""
        for node in reversed(graph.graph.nodes):
            for name, met in words_met(node, self._words) if node.op == "call_function" else ():
                old = self._words.get(name)
                if old is not None and len(old) == len(met):
                    self._words[name] = learned(old, met)

    def _heads_told_apart(self, node: fx.Node, words: Words) -> Words:
        """The words; keys and values of fewer heads than the queries of their attention have another word for them."""
        if HEADS not in words or aten_name(node) not in RESHAPES:
            return words
        size = shape_of(node)[words.index(HEADS)]
        first = self._n_heads.setdefault(provenance_of(node).module, size)
        return words if str(first) == str(size) else tuple(FEWER_HEADS if w == HEADS else w for w in words)

    def learn_copies(self, steps: Iterable[Extern]) -> None:
        """A copy that lays a view out anew has the view's words."""
        for step in steps:
            view = step.args[0] if step.target is torch.ops.aten.contiguous.default else None
            if isinstance(view, View) and view.calls:
                self._words[step.outputs[0]] = self.of(view.calls[-1].origin, len(view.shape))

    def of(self, buffer: str, n_dims: int) -> Words:
        """Words for the dimensions of a buffer, as far as they are known."""
        if (twin := self._twins.get(buffer)) is not None:
            words = self._own(twin, n_dims)
            return words if len(words) == n_dims else (None,) * n_dims
        return self._own(buffer, n_dims)

    def _own(self, buffer: str, n_dims: int) -> Words:
        words = self._words.get(buffer, ())
        one, shape = self._buffers.get(buffer), self._shapes.get(buffer)
        if one is not None and shape not in (None, one.shape) and len(words) == len(shape):
            as_held = reshaped(shape, words, one.shape)
            if len(as_held) == n_dims:
                return as_held
        if len(words) == n_dims:
            return words
        made = None if one is None else one.derived
        if made is None:
            return (None,) * n_dims
        if made.how.keeps_the_value:  # whose own buffer may have the shape in which libraries read it
            if self._is_moved(buffer, made.of):
                return (None,) * n_dims
            words = self._words.get(made.of, ())
            words = words if len(words) == n_dims else self._own(made.of, n_dims)
            return words if len(words) == n_dims else (None,) * n_dims
        if made.how is Derivation.LOSSES:
            return self._rows.get(made.of, (None,)) if n_dims == 1 else (None,) * n_dims
        of = self._words.get(made.of, ())
        if made.how.is_of_pieces and n_dims == 3 and len(of) > 2:
            return (of[1], of[0], None)  # by channel, then by image
        return (None,) * n_dims

    def _is_moved(self, copy_of: str, buffer: str) -> bool:
        """Whether a copy has as many dimensions as what it is of, but of other sizes: it is of a transposed view."""
        one, other = self._buffers.get(copy_of), self._shapes.get(buffer)
        shapes = ([*map(str, one.shape)], [*map(str, other)]) if one and other else ([], [])
        return len(shapes[0]) == len(shapes[1]) and shapes[0] != shapes[1]

    def seen_as(self, twins: Mapping[str, str]) -> DimNamer:
        """The same words, where buffers have those of others."""
        made = copy.copy(self)
        made._twins = twins
        return made

    def _learn_vectors(self, node: fx.Node) -> None:
        """A vector among the arguments goes by the dimension that it meets: a bias, a norm's weight, labels."""
        for argument in node.all_input_nodes if node.op == "call_function" else ():
            words, shape = self.arguments.get(argument.name), shape_of(argument)
            if words != (None,) or node.all_input_nodes[0] is argument or aten_name(node) == "embedding":
                continue
            first = self._words.get(node.all_input_nodes[0].name, ())
            is_label = aten_name(node) in _CLASS_LOSSES
            met, size = (
                (first[:1], shape_of(node.all_input_nodes[0])[:1])
                if is_label
                else (
                    first[-1:],
                    shape_of(node.all_input_nodes[0])[-1:],
                )
            )
            if met and (met[0] or "").isidentifier() and list(map(str, size)) == list(map(str, shape)):
                self.arguments[argument.name] = self._words[argument.name] = met


def _plain(word: str | None, words: Words, size: Size, sizes: Mapping[str | None, str]) -> str | None:
    """The customary word of that meaning, if the call's arguments have it for the same number; else the word."""
    if isinstance(word, ProductWord):
        told = dict(zip(word.of, word.sizes, strict=False))
        parts = [_plain(part, word.of, told.get(part, 0), sizes) or part for part in word.of]
        return ProductWord(parts, word.sizes)
    plain = _SYNONYMS.get(word)
    return plain if plain not in words and sizes.get(plain) == str(size) else word


def _sizes_of(graph: CapturedGraph, arguments: Mapping[str, Words]) -> dict[str, str]:
    """How large each word of the call's arguments says that a dimension is."""
    shapes = {node.name: shape_of(node) for node in graph.graph.nodes if node.name in arguments}
    pairs = (zip(words, shapes.get(name, ()), strict=False) for name, words in arguments.items())
    return {word: str(size) for one in pairs for word, size in one if word is not None}


def _unchanged(node: fx.Node, words: Words) -> Words:
    """The words of dimensions that a convolution leaves as large as they were."""
    sizes = zip(words, shape_of(node.all_input_nodes[0]), shape_of(node), strict=True)
    return tuple(word if str(old) == str(new) else None for word, old, new in sizes)


def _argument_words(graph: CapturedGraph) -> dict[str, Words]:
    nodes = {node.name: node for node in graph.graph.nodes}
    written = _unpacked_shapes(graph)
    symbols = {
        (size.input_node, size.dim): size.name
        for size in graph.symbols
        if size.scale == 1 and size.offset == 0
    }
    caches = words_of_caches(graph)
    owner: dict[str, Size] = {}
    by_node: dict[str, Words] = {}
    for entry in graph.inputs:
        if entry.kind not in (InputKind.ARGUMENT, InputKind.PART):
            continue
        value = nodes[entry.node].meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        is_float = value.dtype.is_floating_point
        customary: Words = _CUSTOMARY.get((value.ndim, is_float), ())
        if (value.ndim, is_float) == (4, True) and not is_image(nodes[entry.node], entry.target):
            customary = ("batch", "heads", "seq", "dim")
        if (value.ndim, is_float) in ((2, True), (3, True)) and is_signal(nodes[entry.node]):
            customary = ("batch", "channels", "length") if value.ndim == 3 else ("batch", "samples")
        if (value.ndim, is_float) == (2, False):
            customary = words_of_ends(nodes[entry.node], entry.target) or customary
        customary = caches.get(entry.node, customary)
        own = written.get(entry.target, ())
        words: list[str | None] = []
        for dim, size in enumerate(value.shape):
            choices = [
                symbols.get((entry.node, dim)),
                own[dim] if len(own) == value.ndim and own[dim].strip("_") else None,
                customary[dim] if customary else None,
                of_another_sequence(entry.target, customary[dim] or "") if customary else None,
            ]
            words.append(next((w for w in choices if w and w not in words and _agrees(owner, w, size)), None))
        for word, size in zip(words, value.shape, strict=True):
            if word is not None:
                owner[word] = size
        by_node[entry.node] = tuple(words)
    return by_node


def _agrees(owner: Mapping[str, Size], word: str, size: Size) -> bool:
    """Whether the word is new or already stands for this very size."""
    return word not in owner or str(owner[word]) == str(size)


def _unpacked_shapes(graph: CapturedGraph) -> dict[str, tuple[str, ...]]:
    """``B, T, C = x.shape`` (or ``x.size()``) in the captured function itself: {"x": ("B", "T", "C")}."""
    for node in graph.graph.nodes:
        origin: Provenance = Provenance.of(node)
        if not origin.file or origin.module:
            continue
        function = origin.qualname.rpartition(".")[2]
        if graph.is_module and function != "forward":
            continue
        return _unpacked_in(origin.file, origin.qualname)
    return {}


@functools.lru_cache(maxsize=64)
def _unpacked_in(file: str, qualname: str) -> dict[str, tuple[str, ...]]:
    tree = function_of(file, qualname)
    if tree is None:
        return {}
    unpacked: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
            source = _shape_of(node.value)
            targets = node.targets[0].elts
            if source and all(isinstance(target, ast.Name) for target in targets):
                unpacked.setdefault(source, tuple(t.id for t in targets if isinstance(t, ast.Name)))
    return unpacked


def _shape_of(value: ast.AST) -> str | None:
    """The name of the tensor whose whole shape the expression is."""
    if isinstance(value, ast.Call) and not value.args and isinstance(value.func, ast.Attribute):
        value = value.func if value.func.attr == "size" else value
    if (
        isinstance(value, ast.Attribute)
        and value.attr in ("shape", "size")
        and isinstance(value.value, ast.Name)
    ):
        return identifier(value.value.id)
    return None


def symbol_names(
    graph: CapturedGraph, taken: Set[str], tensors: Iterable[tuple[str, Words, object]]
) -> tuple[dict[str, str], frozenset[str]]:
    """The word of each symbol, and the symbols whose words are variables without a shape that binds them.

    Args:
        graph: What was captured.
        taken: Names that are variables.
        tensors: Those of the call, with the words of their dimensions.
    """
    words = {str(size.symbol): size.name for size in graph.symbols}
    given = {str(size.symbol) for size in graph.symbols if size.dim is None}
    known = {*taken, *words.values(), *(word for _, each, _ in tensors for word in each if word is not None)}
    for size in graph.data_sizes:
        word = size.name
        while word in known:
            word += "_"
        known.add(word)
        words[str(size.symbol)] = word
    return words, frozenset(given | {str(size.symbol) for size in graph.data_sizes})
