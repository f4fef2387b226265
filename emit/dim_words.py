"""A word for each dimension of each value: the user's own (``B, T, C = x.shape``), else the customary ones.

Words start at the call's arguments and at the user's own reshapes, and are carried through the captured graph. Never
does an equal number make a word: 1024 tokens of 1024 features are told apart, and a batch of 64 is no head size of 64.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Provenance
from longhand.emit.buffer_words import BufferWords
from longhand.emit.op_words import aten_name
from longhand.emit.stated_sizes import word_of_split, words_of_reshape
from longhand.emit.words import identifier
from longhand.lower.ir import Extern, Layers, Size, View

Words = tuple[str | None, ...]

_CUSTOMARY: Mapping[tuple[int, bool], tuple[str, ...]] = {
    (2, True): ("n_rows", "n_cols"),
    (3, True): ("batch", "seq", "dim"),
    (4, True): ("batch", "channels", "height", "width"),
    (5, True): ("batch", "channels", "depth", "height", "width"),
    (2, False): ("batch", "seq"),
}
_REDUCTION_OPS = """
    sum mean prod amax amin max min var std any all argmax argmin logsumexp norm linalg_vector_norm var_mean
"""
_REDUCTIONS = frozenset(_REDUCTION_OPS.split())
_CLASS_LOSSES = frozenset({"cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward"})
_POOLS = ("conv", "max_pool", "avg_pool")
_MATMULS = frozenset({"mm", "bmm", "matmul"})


class DimWords:
    """Words for dimensions.

    Args:
        graph: Whose values.
        given: Of a backward graph: the words of what it is given, by placeholder; others have none.
        known: Words of further values, by node.
        layers: Words for values, if what a linear layer makes is to have a word: ``widen_dim``.
        chains: Chains of equal layers: those past the first few have the words of the last of these.

    Attributes:
        arguments: For each tensor argument's placeholder: a word for each dimension, None where there is none.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        given: Mapping[str, Words] | None = None,
        known: Mapping[str, Words] | None = None,
        layers: BufferWords | None = None,
        chains: Sequence[Layers] = (),
    ) -> None:
        self.arguments: dict[str, Words] = dict(given) if given is not None else _argument_words(graph)
        self._words: dict[str, Words] = {**_table_words(graph), **self.arguments}
        twins = {
            name: twin
            for chain in chains
            for names in chain.names[chain.n_kept :]
            for name, twin in zip(names, chain.names[chain.n_kept - 1], strict=True)
        }
        for node in graph.graph.nodes:
            twin = twins.get(node.name)
            if twin is not None:
                if twin in self._words:
                    self._words[node.name] = self._words[twin]
                continue
            if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
                continue
            carried = _carried(node, self._words)
            if layers is not None and aten_name(node) == "linear":
                carried = (*carried[:-1], f"{next(layers.variables(node.name))}_dim")
            elif layers is not None and aten_name(node).startswith("conv") and len(carried) == 4:
                sides = ("batch", "channels", "height", "width")
                made = tuple(f"{next(layers.variables(node.name))}_{side}" for side in sides)
                carried = _filled(carried, made)
            own = (known or {}).get(node.name, ())
            self._words[node.name] = _filled(own, carried) if len(own) == len(carried) else carried
        if given is None:
            vectors = {name for name, words in self.arguments.items() if words == (None,)}
            for node in graph.graph.nodes if vectors else ():
                self._learn_vectors(node)

    def learn_copies(self, steps: Iterable[Extern]) -> None:
        """A copy that lays a view out anew has the view's words."""
        for step in steps:
            view = step.args[0] if step.target is torch.ops.aten.contiguous.default else None
            if isinstance(view, View) and view.calls:
                self._words[step.outputs[0]] = self.of(view.calls[-1].origin, len(view.shape))

    def of(self, buffer: str, n_dims: int) -> Words:
        """Words for the dimensions of a buffer, as far as they are known."""
        for name in (buffer, buffer.removesuffix("_channels_last").removesuffix("_contiguous")):
            found = self._words.get(name, ())
            if len(found) == n_dims:
                return found
        return (None,) * n_dims

    def _learn_vectors(self, node: fx.Node) -> None:
        """A vector among the arguments goes by the dimension that it meets: a bias, a norm's weight, labels."""
        for argument in node.all_input_nodes if node.op == "call_function" else ():
            words, shape = self.arguments.get(argument.name), _shape(argument)
            if words != (None,) or node.all_input_nodes[0] is argument or aten_name(node) == "embedding":
                continue
            first = self._words.get(node.all_input_nodes[0].name, ())
            is_label = aten_name(node) in _CLASS_LOSSES
            met, size = (
                (first[:1], _shape(node.all_input_nodes[0])[:1])
                if is_label
                else (
                    first[-1:],
                    _shape(node.all_input_nodes[0])[-1:],
                )
            )
            if met and list(map(str, size)) == list(map(str, shape)):
                self.arguments[argument.name] = self._words[argument.name] = met


def _shape(node: Any) -> tuple[Size, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _table_words(graph: CapturedGraph) -> dict[str, Words]:
    """Words for the tables of embeddings; one that the call's own tokens are looked up in has a vocabulary."""
    arguments = {entry.node for entry in graph.inputs if entry.kind is InputKind.ARGUMENT}
    found: dict[str, Words] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or aten_name(node) != "embedding":
            continue
        table, positions = node.args[:2]
        if isinstance(table, fx.Node) and table.op == "placeholder" and table.name not in arguments:
            rows = "vocab_size" if getattr(positions, "name", "") in arguments else None
            found.setdefault(table.name, (rows, "dim"))
    return found


def _argument_words(graph: CapturedGraph) -> dict[str, Words]:
    nodes = {node.name: node for node in graph.graph.nodes}
    written = _unpacked_shapes(graph)
    symbols = {
        (size.input_node, size.dim): size.name
        for size in graph.symbols
        if size.scale == 1 and size.offset == 0
    }
    owner: dict[str, Size] = {}
    found: dict[str, Words] = {}
    for entry in graph.inputs:
        if entry.kind is not InputKind.ARGUMENT:
            continue
        value = nodes[entry.node].meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        is_float = value.dtype.is_floating_point
        customary = _CUSTOMARY.get((value.ndim, is_float), ())
        if (value.ndim, is_float) == (4, True) and not _feeds_image_op(nodes[entry.node]):
            customary = ("batch", "heads", "seq", "dim")
        own = written.get(entry.target, ())
        words: list[str | None] = []
        for dim, size in enumerate(value.shape):
            choices = [
                symbols.get((entry.node, dim)),
                own[dim] if len(own) == value.ndim and own[dim].strip("_") else None,
                customary[dim] if customary else None,
            ]
            words.append(next((w for w in choices if w and w not in words and _agrees(owner, w, size)), None))
        for word, size in zip(words, value.shape, strict=True):
            if word is not None:
                owner[word] = size
        found[entry.node] = tuple(words)
    return found


def _agrees(owner: Mapping[str, Size], word: str, size: Size) -> bool:
    """Whether the word is new or already stands for this very size."""
    return word not in owner or str(owner[word]) == str(size)


def _feeds_image_op(node: fx.Node) -> bool:
    """Whether some image operation follows: then four dimensions are an image's."""
    image = ("conv", "batch_norm", "group_norm", "instance_norm", "pool", "upsample", "pixel_shuffle")
    return any(
        any(word in aten_name(user) for word in image)
        for user in node.graph.nodes
        if user.op == "call_function"
    )


def _unpacked_shapes(graph: CapturedGraph) -> dict[str, tuple[str, ...]]:
    """``B, T, C = x.shape`` (or ``x.size()``) in the captured function itself: {"x": ("B", "T", "C")}."""
    for node in graph.graph.nodes:
        origin: Provenance = node.meta.get("provenance", Provenance())
        if not origin.file or origin.module:
            continue
        function = origin.qualname.rpartition(".")[2]
        if graph.is_module and function != "forward":
            continue
        return _unpacked_in(origin.file, origin.qualname)
    return {}


@functools.lru_cache(maxsize=64)
def _unpacked_in(file: str, qualname: str) -> dict[str, tuple[str, ...]]:
    try:
        tree: ast.AST = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return {}
    for part in qualname.split("."):
        if part == "<locals>":
            continue
        inner = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == part
        ]
        if not inner:
            return {}
        tree = inner[0]
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
            source = _shape_of(node.value)
            targets = node.targets[0].elts
            if source and all(isinstance(target, ast.Name) for target in targets):
                found.setdefault(source, tuple(t.id for t in targets if isinstance(t, ast.Name)))
    return found


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


def _carried(node: fx.Node, words: Mapping[str, Words]) -> Words:
    """The words of a result, from those of its arguments."""
    name, shape = aten_name(node), _shape(node)
    given = [argument for argument in node.all_input_nodes if _shape(argument)]
    first = words.get(given[0].name, (None,) * len(_shape(given[0]))) if given else ()
    if name == "linear" and len(first) == len(shape):
        weight = words.get(given[1].name, (None,)) if len(given) > 1 else (None,)
        return (*first[:-1], weight[0] if weight[0] not in first[:-1] else None)
    if name == "constant_pad_nd" and len(first) == len(shape):
        return tuple(
            word if word is None or str(old) == str(new) else f"padded_{word}"
            for word, old, new in zip(first, _shape(given[0]), shape, strict=True)
        )
    if name in _MATMULS and len(given) == 2:
        second = words.get(given[1].name, (None,) * len(_shape(given[1])))
        if len(first) == len(shape) == len(second):
            return (*first[:-1], second[-1])
    if name == "addmm" and len(given) == 3:
        return (words.get(given[1].name, (None, None))[0], None)
    if name == "embedding":
        indices = words.get(given[-1].name, ())
        return (*indices, "dim") if len(indices) == len(shape) - 1 else (None,) * len(shape)
    if name.startswith(_POOLS) and len(first) == len(shape):
        return _of_image(name, first, _shape(given[0]), shape)
    if name in ("transpose", "permute", "t", "unsqueeze", "select"):
        moved = _moved(name, node.args, first, len(shape))
        if moved is not None and len(moved) == len(shape):
            return moved
    if name in ("view", "_unsafe_view", "reshape", "flatten", "unflatten"):
        carried = reshaped(_shape(given[0]) if given else (), first, shape)
        return _filled(carried, words_of_reshape(_statement(node), shape))
    if name == "getitem" and isinstance(node.args[0], fx.Node):
        whole = [argument for argument in node.args[0].all_input_nodes if _shape(argument)][:1]
        if not whole:
            return (None,) * len(shape)
        word = word_of_split(_statement(node)) if aten_name(node.args[0]).startswith("split") else None
        return _filled(_of_piece(whole[0], words, shape), (word,) * len(shape))
    if name in ("slice", "narrow") and given:
        return _of_piece(given[0], words, shape)
    if "batch_norm" in name or name == "group_norm":
        return first if len(first) == len(shape) else (None,) * len(shape)
    if name in _REDUCTIONS:
        reduced = _reduced(node.args, first, len(shape))
        return reduced if len(reduced) == len(shape) else (None,) * len(shape)
    if name in ("cross_entropy_loss", "nll_loss_forward") and len(first) == len(shape) + 1:
        return first[:-1]
    if name == "scaled_dot_product_attention" and len(first) == len(shape):
        return (*first[:-1], None)
    return _broadcast(given, words, shape)


def _statement(node: fx.Node) -> str:
    origin: Provenance = node.meta.get("provenance", Provenance())
    return origin.statement


def _filled(words: Words, others: Words) -> Words:
    """`words`, and where there is none the other, unless it stands elsewhere in them."""
    return tuple(
        word if word is not None else other if other not in words else None
        for word, other in zip(words, others, strict=True)
    )


def _of_image(name: str, first: Words, old: tuple[Size, ...], new: tuple[Size, ...]) -> Words:
    """A convolution makes other channels; what it leaves as large as it was keeps its word."""
    kept = [
        word if str(size) == str(made) else _made(word)
        for word, size, made in zip(first, old, new, strict=True)
    ]
    return (first[0], _made(first[1]) if name.startswith("conv") else first[1], *kept[2:])


def _made(word: str | None) -> str | None:
    """``out_channels``: what stands in the place of channels after an operation on images."""
    return None if word is None else f"out_{word.removeprefix('out_')}"


def _moved(name: str, args: tuple[Any, ...], first: Words, n_dims: int) -> Words | None:
    if name == "t":
        return tuple(reversed(first))
    if name == "permute":
        return tuple(first[dim] for dim in args[1])
    if name == "transpose":
        moved = list(first)
        one, other = args[1], args[2]
        moved[one], moved[other] = moved[other], moved[one]
        return tuple(moved)
    dim = args[1] % n_dims if name == "unsqueeze" else args[1] % len(first)
    if name == "unsqueeze":
        return (*first[:dim], None, *first[dim:])
    return (*first[:dim], *first[dim + 1 :])


def reshaped(old: tuple[Size, ...], words: Words, new: tuple[Size, ...]) -> Words:
    """Dimensions that stay, counted from both ends, keep their words."""
    found: list[str | None] = [None] * len(new)
    front = 0
    while front < min(len(old), len(new)) and str(old[front]) == str(new[front]):
        found[front] = words[front] if front < len(words) else None
        front += 1
    for back in range(1, min(len(old), len(new)) - front + 1):
        if str(old[-back]) != str(new[-back]):
            break
        found[-back] = words[-back] if back <= len(words) else None
    return tuple(found)


def _of_piece(whole: fx.Node, words: Mapping[str, Words], shape: tuple[Size, ...]) -> Words:
    """The words of a piece of a split tensor: of the dimensions that it has whole."""
    old, carried = _shape(whole), words.get(whole.name, ())
    if len(old) != len(shape) or len(carried) != len(shape):
        return (None,) * len(shape)
    return tuple(
        word if str(size) == str(part) else None for word, size, part in zip(carried, old, shape, strict=True)
    )


def _reduced(args: tuple[Any, ...], first: Words, n_dims: int) -> Words:
    """The words that are left when dimensions are reduced, kept as 1 or dropped."""
    dims = args[1] if len(args) > 1 else None
    if dims is None or isinstance(dims, bool) or len(first) == 0:
        return (None,) * n_dims
    gone = {dim % len(first) for dim in (dims if isinstance(dims, list | tuple) else [dims])}
    if not gone:
        return (None,) * n_dims
    if n_dims == len(first):
        return tuple(None if dim in gone else word for dim, word in enumerate(first))
    return tuple(word for dim, word in enumerate(first) if dim not in gone)


def _broadcast(given: list[fx.Node], words: Mapping[str, Words], shape: tuple[Size, ...]) -> Words:
    """The words of an elementwise result: every argument's shape must broadcast to it."""
    found: list[str | None] = [None] * len(shape)
    shapes = [_shape(argument) for argument in given]
    fits = all(
        len(old) <= len(shape)
        and all(str(part) in ("1", str(whole)) for part, whole in zip(old[::-1], shape[::-1], strict=False))
        for old in shapes
    )
    if not fits:
        return tuple(found)
    for argument, old in zip(given, shapes, strict=True):
        carried = words.get(argument.name, ())
        if len(carried) != len(old):
            continue
        for back in range(1, len(old) + 1):
            if found[-back] is None and str(old[-back]) == str(shape[-back]):
                found[-back] = carried[-back]
    return tuple(found)
