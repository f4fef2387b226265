"""What an ATen operation is called in a name: the table behind kernel names and the words of unnamed values."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import Provenance
from longhand.lower.ir import PRIMITIVES, REDUCTIONS, Pointwise, Reduce, Value
from longhand.schedule.names.meanings.halves import rotated_half, rotates_pairs
from longhand.schedule.names.meanings.lengths import is_over_own_norm
from longhand.schedule.names.meanings.operation_runs import collapsed, derivatives_once, match_patterns
from longhand.schedule.names.meanings.written_norms import group_norms
from longhand.schedule.names.words import GradientWord, reworded, without_counter

# Steps that move or retype data without computing: they name nothing as long as something else does.
SILENT_TEXT = """
    view _unsafe_view reshape _reshape_alias expand permute transpose t unsqueeze squeeze select slice split
    split_with_sizes chunk unbind as_strided alias detach clone contiguous _to_copy to lift_fresh_copy
    lift_fresh getitem flatten unflatten arange full zeros ones full_like zeros_like ones_like movedim swapaxes
    diagonal unfold empty scalar_tensor sym_size
"""
SILENT = frozenset(SILENT_TEXT.split())
ATTENTION = "attention"  # a library's call, whole
_SPELLED = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "native_batch_norm": "batch_norm",
    "batch_normalized": "batch_norm",
    "_fused_rms_norm": "rms_norm",
    "native_dropout": "dropout",
    "amax": "max",
    "amin": "min",
    "masked_fill": "mask",
    "where": "where",
    "nll_loss_forward": "nll_loss",
    "cross_entropy_loss": "cross_entropy",
    "_native_batch_norm_legit_functional": "batch_norm",
    "_scaled_dot_product_flash_attention_for_cpu": ATTENTION,
    "_scaled_dot_product_efficient_attention": ATTENTION,
    "_scaled_dot_product_flash_attention": ATTENTION,
    "_scaled_dot_product_cudnn_attention": ATTENTION,
    "scaled_dot_product_attention": ATTENTION,
    "embedding_dense_backward": GradientWord("embedding"),
    "avg_pool2d_backward": GradientWord("avg_pool2d"),
    "avg_pool3d_backward": GradientWord("avg_pool3d"),
    "pow": "power",
    "mul": "mul",
    "bitwise_not": "not",
    "logical_not": "not",
    "bitwise_and": "and",
    "logical_and": "and",
    "bitwise_or": "or",
    "logical_or": "or",
    "index": "gather",
    "index_select": "gather",
    "constant_pad_nd": "pad",
    "reciprocal": "reciprocal",
    "hardtanh": "clamp",
    "linalg_vector_norm": "vector_norm",
    "clamp_min": "clamp",
}
_ROOTS: dict[float | None, str] = {-0.5: "rsqrt", 0.5: "sqrt", -1: "reciprocal"}  # powers that have a name
_ACTIVATIONS = """
    gelu silu relu sigmoid tanh elu softplus mish hardswish leaky_relu swiglu geglu dropout
"""
_GATES = frozenset({"gelu", "silu", "relu", "sigmoid", "tanh", "softplus", "mish", "hardswish"})
_REDUCTIONS = """
    sum mean var std max min argmax argmin cumsum sort topk norm cat gather mask tril triu
"""
# How much an operation tells about what a kernel is for; the rest counts 1.
_TELLING = {
    **dict.fromkeys(
        [
            "softmax",
            "log_softmax",
            "layer_norm",
            "rms_norm",
            "group_norm",
            "batch_norm",
            "cross_entropy",
            "nll_loss",
            "exp_normalize",
            "rotary",
            "partial_rotary",
            "embedding",
            "logsumexp",
            "attention",
        ],
        4,
    ),
    **dict.fromkeys(_ACTIVATIONS.split(), 3),
    **dict.fromkeys((f"{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)), 3),
    **dict.fromkeys(_REDUCTIONS.split(), 2),
}
_TELLING |= {f"{word}s": weight for word, weight in _TELLING.items() if word.endswith("_norm")}
# A derivative tells as much as what it differentiates.
_TELLING |= {f"d_{word}": weight for word, weight in _TELLING.items()}
# Operations that are no formula, and words that stand beside them and say nothing of the mathematics.
_OPS_TEXT = """
    abs add any all ceil clamp cos cumsum cumprod div eq exp floor ge gt isfinite isinf isnan le log lt max maximum mean
    min minimum mod mul ne neg not or pow power prod reciprocal remainder round rsqrt scale scatter sigmoid sign sin
    sqrt stack std sub sum tan tanh tril triu var where xor cat cats gather pad select square index_put mask
"""
_OPS = frozenset(_OPS_TEXT.split())
_BESIDE = frozenset({"and", "to", "column", "columns", "transpose", "slice", "embedding"})
_MANY = 3
_LONGEST = 40
_MOST_OPS = 4
_FORMULA = 3  # from this weight on a word tells what, and not how


@dataclasses.dataclass(frozen=True)
class OpWord:
    """One operation of a kernel's name."""

    word: str
    silent: bool = False


def aten_name(node: fx.Node) -> str:
    """The operation without namespace and overload: ``add`` for aten.add.Tensor."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet is not None:
        return str(packet.__name__)
    if node.target is operator.getitem:
        return "getitem"
    return str(getattr(node.target, "__name__", node.target))


def spelled(name: str) -> str:
    """The field's word for an ATen operation: ``attention`` for scaled_dot_product_attention."""
    word = _SPELLED.get(name, name)
    return word if isinstance(word, GradientWord) else word.strip("_")


def op_word(node: fx.Node) -> OpWord:
    """What `node` is called in a name."""
    name = aten_name(node)
    if name in SILENT or _pads_nothing(node, name):
        return OpWord(_silent_word(name), silent=True)
    dropped = _of_dropout(node, name)
    if dropped is not None:
        return dropped
    word = "normalize" if name == "mul" and is_normalizing(node) else spelled(name)
    word = "divide_by_norm" if name == "div" and is_over_own_norm(node) else word
    if word == "power" and len(node.args) > 1:
        word = _ROOTS.get(_number_of(node.args[1]), word)
    if word in ("mul", "div") and _has_number(node):
        return OpWord("floor_divide" if word == "div" and _is_whole(node) else "scale")
    if word == "add" and _adds_bias(node):
        return OpWord("bias")
    return OpWord(without_counter(word) if not word[-1:].isdigit() else word)


def _is_whole(node: fx.Node) -> bool:
    """Whether a value is of whole numbers: what is divided is no scaled one, but which of several."""
    dtype = getattr(node.meta.get("val"), "dtype", None)
    return isinstance(dtype, torch.dtype) and not (dtype.is_floating_point or dtype.is_complex)


def _pads_nothing(node: fx.Node, name: str) -> bool:
    """Whether a node is a pad of no width: the causal padding of a convolution of one column."""
    widths = node.args[1] if name == "constant_pad_nd" and len(node.args) > 1 else ()
    return bool(widths) and not any(widths)  # type: ignore[arg-type]


def is_normalizing(node: fx.Node) -> bool:
    """Whether a product is one with 1 / sqrt(x + eps), or of that with a weight."""
    factors = [factor for factor in node.args[:2] if isinstance(factor, fx.Node)]
    if len(factors) < 2 or provenance_of(node).differentiates:
        return False
    if any(map(_is_rstd, factors)):
        return True
    above = [_behind_views(factor) for factor in factors]
    module = provenance_of(node).module
    inner = [one for one in above if aten_name(one) == "mul" and provenance_of(one).module == module]
    weights = [factor for factor in factors if factor.op == "placeholder" and _n_dims(factor) == 1]
    return bool(inner and weights) and is_normalizing(inner[0])


def _behind_views(node: fx.Node) -> fx.Node:
    """What a value was before it was only seen otherwise, or rounded."""
    while node.op == "call_function" and aten_name(node) in SILENT and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def is_gate(node: fx.Node) -> bool:
    """Whether a product is one of an activation and of something else that is as large: ``silu(gate) * up``."""
    sides = [_behind_views(side) for side in node.args[:2] if isinstance(side, fx.Node)]
    if node.op != "call_function" or aten_name(node) != "mul" or len(sides) != 2:
        return False
    sizes = {str(getattr(side.meta.get("val"), "shape", ())) for side in node.args[:2]}  # type: ignore[union-attr]
    return len(sizes) == 1 and any(op_word(side).word in _GATES for side in sides)


def _is_rstd(node: fx.Node) -> bool:
    """Whether a value is 1 / sqrt(x + a number), as a root or as a power."""
    inner = node.args[0] if node.op == "call_function" and node.args else None
    is_root = isinstance(inner, fx.Node) and op_word(node).word == "rsqrt" and aten_name(inner) == "add"
    return is_root and any(isinstance(argument, int | float) for argument in inner.args)  # type: ignore[union-attr]


def _n_dims(node: fx.Node) -> int:
    return getattr(node.meta.get("val"), "ndim", 0)


def _of_dropout(node: fx.Node, name: str) -> OpWord | None:
    """The operations that a dropout is made of: which elements are kept, what they are scaled by, and the choice."""
    if _is_dropout(node):
        return OpWord("dropout")
    if name == "ne" and isinstance(node.args[0], fx.Node) and aten_name(node.args[0]).startswith("bernoulli"):
        return OpWord("is_kept", silent=True)
    if name == "mul" and node.users and all(_is_dropout(user) for user in node.users):
        return OpWord("scale", silent=True)
    return None


def _is_dropout(node: fx.Node) -> bool:
    return aten_name(node) == "where" and without_counter(node.name) == "dropout"


def _silent_word(name: str) -> str:
    if name in ("transpose", "t", "permute", "movedim", "swapaxes"):
        return "transpose"
    if name in ("_to_copy", "to"):
        return "cast"
    if name in ("slice", "select", "split", "split_with_sizes", "chunk", "unbind"):
        return "slice"
    return "copy"


def _number_of(argument: Any) -> float | None:
    return float(argument) if isinstance(argument, int | float) else None


def _has_number(node: fx.Node) -> bool:
    return any(isinstance(argument, int | float) for argument in node.args[:2])


def _adds_bias(node: fx.Node) -> bool:
    """Whether one side is a vector held by the module: a bias."""
    sides = [side for side in node.args[:2] if isinstance(side, fx.Node)]
    n_dims = [getattr(side.meta.get("val"), "ndim", 0) for side in sides]
    has_vector = any(side.op == "placeholder" and n == 1 for side, n in zip(sides, n_dims, strict=True))
    return has_vector and max(n_dims) > 1


def name_of_ops(nodes: list[fx.Node]) -> str:
    """The name of a kernel that does `nodes` in order: at most 40 characters, never a number.

    Runs with a name of their own are put together; of a long list the most telling operations stay.
    """
    loud = loud_names(nodes)
    while len(loud) > _MOST_OPS or len("_".join(loud)) > _LONGEST:
        if len(loud) == 1:
            return loud[0][:_LONGEST].rstrip("_")
        least = min(range(len(loud)), key=lambda i: (_TELLING.get(loud[i], 1), -_repeats(loud, i), i))
        del loud[least]
        loud = collapsed(loud)
    return "_".join(loud)


def loud_names(nodes: list[fx.Node]) -> list[str]:
    """What `nodes` do, in order: runs with a name of their own as that."""
    words = _derivatives_as_one(nodes)
    if _rotates(nodes):
        joins = [n for n in nodes if aten_name(n) == "cat"] or [n for n in nodes if not op_word(n).silent]
        is_backward = any(provenance_of(n).differentiates for n in joins)
        words = _rotation_as_one(words, GradientWord("rotary") if is_backward else "rotary")
    loud = [word.word for word in words if not word.silent] or [word.word for word in words] or ["copy"]
    if all(word.silent for word in words):
        loud = [next((word for word in loud if word != "copy"), "copy")]
    return collapsed(derivatives_once(match_patterns(loud, any(map(is_gate, nodes)))))


def is_formula(word: str) -> bool:
    """Whether a word is a known formula's, and not that of one operation among others."""
    return _TELLING.get(word, 1) >= _FORMULA


def lists_ops(name: str) -> bool:
    """Whether a kernel's name only lists operations: three of them, or two and nothing else."""
    ops = [word for word in name.split("_") if word in _OPS]
    is_all = all(word in _OPS or word in _BESIDE for word in name.split("_"))
    return len(ops) >= _MANY or (len(ops) > 1 and is_all)


def is_norm(word: str) -> bool:
    """Whether a word is that of a normalization: ``layer_norm``."""
    return word.endswith("_norm") and is_formula(word)


def has_weight(node: fx.Node) -> bool:
    """Whether a norm multiplies what it normalizes, or adds to it: what it makes is not only normalized then."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return any(given.get(name) is not None for name in ("weight", "bias"))


def is_activation(word: str) -> bool:
    """Whether a word is that of one function of one number, which larger formulas are made of."""
    return word in _ACTIVATIONS.split()


provenance_of = Provenance.of


def derivative_word(origin: Provenance) -> GradientWord:
    """``d_gelu``, for a node that differentiates a gelu."""
    return GradientWord(_SPELLED.get(origin.differentiated, origin.differentiated).strip("_"))


def _derivatives_as_one(nodes: list[fx.Node]) -> list[OpWord]:
    """The words of the nodes; a run that differentiates one op is one word: ``d_gelu``."""
    words: list[OpWord] = []
    before = ""
    norms = group_norms(nodes)
    for node in nodes:
        origin = provenance_of(node)
        if not origin.differentiated:
            own = [*map(OpWord, norms[node].split())] if node in norms else _of_statistics(node, nodes)
            words += [op_word(node)] if own is None else own
        elif origin.differentiates != before:
            words.append(OpWord(derivative_word(origin)))
        before = origin.differentiates
    return words


def _of_statistics(node: fx.Node, nodes: list[fx.Node]) -> list[OpWord] | None:
    """The words of a batch norm that leaves it to another operation to normalize; None of any other operation.

    One kernel that does both is one ``batch_norm``; one that only makes mean and deviation is none.
    """
    results = [user for user in node.users if user.target is operator.getitem]
    if not aten_name(node).startswith("_native_batch_norm") or any(user.args[1] == 0 for user in results):
        return None
    normalizing = {user for result in results for user in result.users if op_word(user).word == "batch_norm"}
    return [] if normalizing & {*nodes} else [OpWord("batch_statistics")]


def _rotates(nodes: list[fx.Node]) -> bool:
    """Whether halves are rotated, or the user's own words say that positions are: nothing in cat, mul and add does."""
    if any(rotated_half(node) is not None or rotates_pairs(node) for node in nodes):
        return True
    where = [node.meta.get("provenance") for node in nodes]
    return any(
        "rotar" in f"{origin.qualname} {origin.statement} {origin.module_class}".lower()
        or "rotate_half" in origin.statement
        for origin in where
        if origin is not None
    )


def _rotation_as_one(words: list[OpWord], name: str) -> list[OpWord]:
    """cat, mul and add in a row as ``rotary``; what is joined with columns that stay is added up in that join."""
    loud = [word.word for word in words if not word.silent]
    for length in (5, 4, 3):
        for start in range(len(loud) - length + 1):
            run, rest = loud[start : start + length], loud[start + length :]
            is_whole = run[-1] in ("add", "sub") or (run.count("mul") > 1 and rest[:1] == ["cat"])
            if is_whole and set(run) <= {"neg", "cat", "stack", "mul", "add", "sub"} and "mul" in run:
                partial = reworded(name, lambda word: f"partial_{word}")  # the other columns stay as they are
                told = [partial, *rest[1:]] if rest[:1] == ["cat"] else [name, *rest]
                return [OpWord(word) for word in [*loud[:start], *told]]
    return words


def _repeats(words: list[str], position: int) -> int:
    return words.count(words[position])


def field_word(node: fx.Node) -> str | None:
    """What the field calls the result of operations that have no name in the user's code: ``gated``, ``rstd``."""
    operands = [argument for argument in node.args[:2] if isinstance(argument, fx.Node)]
    if aten_name(node) == "mul" and len(operands) == 2 and not provenance_of(node).differentiates:
        is_gate = any(op_word(operand).word in _GATES for operand in operands)
        return "gated" if is_gate else None
    if aten_name(node) == "rsqrt" and operands and aten_name(operands[0]) == "add":
        return "rstd" if any(isinstance(argument, int | float) for argument in operands[0].args) else None
    return None


def noun_of(value: Value) -> str:
    """What an operation of a kernel makes, as a thing: ``product``, ``sum``."""
    if isinstance(value, Pointwise):
        return PRIMITIVES[value.op].noun or value.op.value
    if isinstance(value, Reduce):
        return REDUCTIONS[value.op].noun or value.op.value
    return "value"
