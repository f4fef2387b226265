"""Names of kernels that no operation gives: people's, of a function or module; what it is for; its schedule."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import Provenance
from longhand.lower.ir import Constant, Derivation, Derived, Load, Store
from longhand.schedule.names.buffer_names import BufferWords
from longhand.schedule.names.operation_names import aten_name, is_formula, loud_words, op_word, provenance_of
from longhand.schedule.names.value_origins import without_positions
from longhand.schedule.names.words import identifier, layer_and_leaf, snake_case, without_counter
from longhand.schedule.plan import KernelPlan


@dataclasses.dataclass(frozen=True)
class ScheduleWords:
    """Words for one schedule.

    Attributes:
        adjective: What sets such a kernel apart in its name; empty where its shape tells it (``flat``, ``blocks``).
        is_best: Whether of all that may tell two kernels of the same math apart that word is the best.
        walk: How it goes through its space, for the title. Empty where that is plain, or facts of the plan tell it.
    """

    adjective: str = ""
    is_best: bool = False
    walk: str = ""


_WORDS = {
    "elementwise": ScheduleWords(),
    "foreach": ScheduleWords(),
    "transposed": ScheduleWords("transposed", is_best=True),
    "columns": ScheduleWords("columns", is_best=True, walk="column by column"),
    "rows_and_columns": ScheduleWords(walk="in one pass over the rows"),
    "rows_split": ScheduleWords("split", is_best=True),
    "rows_persistent": ScheduleWords("rows"),
    "rows_looped": ScheduleWords("rows"),
}


def words_of(plan: KernelPlan) -> ScheduleWords:
    """The words of a kernel's schedule; one that has none here is called by its own name."""
    name = plan.schedule.name
    return _WORDS.get(name) or ScheduleWords(name)


class KernelPurpose(enum.Enum):
    """The text is the kernel's name."""

    FILL_PADDING = "fill_padding"
    PIECE_STATISTICS = "piece_statistics"  # makes the statistics of pieces
    BATCH_STATISTICS = "batch_statistics"  # reads them, and the running ones
    ROW_STATISTICS = "row_statistics"  # reads them alone
    TO_CHANNELS_LAST = "to_channels_last"
    TO_CONTIGUOUS = "to_contiguous"


def purpose_of(plan: KernelPlan, words: BufferWords) -> KernelPurpose | None:
    """What a kernel is for; None where its operations say it."""
    stored = _derivations(plan, words, Store)
    if Derivation.PIECE_SQUARES in stored:
        return KernelPurpose.PIECE_STATISTICS
    if Derivation.PIECE_SQUARES in _derivations(plan, words, Load):
        read = {value.buffer for value in plan.body if isinstance(value, Load)}
        return KernelPurpose.BATCH_STATISTICS if len(read) > 2 else KernelPurpose.ROW_STATISTICS
    if fills_padding(plan):
        return KernelPurpose.FILL_PADDING
    if all(isinstance(value, Load | Store) for value in plan.body):
        last = words.origins.derived(plan.pointers[-1].name)
        if last is not None and last.how is Derivation.CHANNELS_LAST:
            return KernelPurpose.TO_CHANNELS_LAST
        if last is not None and last.how is Derivation.CONTIGUOUS:
            return KernelPurpose.TO_CONTIGUOUS
    return None


def fills_padding(plan: KernelPlan) -> bool:
    """Whether a kernel reads nothing and writes zeros around what another one does."""
    stored = [plan.body[value.value] for value in plan.body if isinstance(value, Store)]
    is_zero = all(isinstance(value, Constant) and value.value == 0 for value in stored)
    return is_zero and any(parameter.pointer is not None for parameter in plan.ints)


def _derivations(plan: KernelPlan, words: BufferWords, kind: type[Load] | type[Store]) -> set[Derivation]:
    found: list[Derived | None] = [words.origins.derived(v.buffer) for v in plan.body if isinstance(v, kind)]
    return {one.how for one in found if one is not None}


_LONGEST = 40
# So many operations without a name of their own read well beside one that has: add_layer_norm.
_PLAINLY_SAID = 1
# What functions and modules are called that say nothing of what they compute.
_SAYS_LITTLE_TEXT = """
    step update forward call f fn func function inner loop foreach run main wrapper body g op ops compute apply model
    module layer block net network encoder decoder head activation act function_impl prepare_inputs helper
    reshape view split unsplit shape
"""
_SAYS_LITTLE = frozenset(_SAYS_LITTLE_TEXT.split())
_BEFORE = re.compile(r"^(get|compute|calculate|make|apply|build|create|eager|maybe)_(?=\w{3})")
_AFTER = re.compile(r"(?<=\w{3})_(forward|fn|func|function|impl|activation|layer|module|op)$")
_JOINS = frozenset({"cat", "stack"})
# Variables that are called alike whatever they hold.
_ANY_VALUE_TEXT = """
    out outs output outputs result results ret res hidden hidden_state hidden_states states state value values tensor
    data input inputs input_tensor temp tmp new left right total final current features feature embeddings embedding
    embeds inputs_embeds residual
"""
_ANY_VALUE = frozenset(_ANY_VALUE_TEXT.split())
Frame = tuple[str, str]  # a function's qualname, and the path of the module that it was called in
_ESSENTIALLY_ALL = 0.8  # of the operations: an epsilon that is added elsewhere makes no difference


def is_list_of_ops(nodes: Sequence[fx.Node]) -> bool:
    """Whether the operations alone make a name that only lists them."""
    return sum(not is_formula(word) for word in loud_words(list(nodes))) > _PLAINLY_SAID


def name_of_people(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferWords) -> str | None:
    """The name for a kernel whose operations would only be listed; None where people have none for it either.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    frame = frame_of(nodes)
    told = _told(frame) if frame is not None else None
    is_all = frame is not None and is_whole(frame, nodes, words.nodes)
    is_most = frame is not None and is_nearly_whole(frame, nodes, words.nodes)
    return (
        (told if is_all else None)
        or _of_formulas(nodes)
        or _of_variables(stored, words)
        or (told if is_most else None)
        or _of_part(told, stored, words)
    )


def name_of_copy(nodes: Sequence[fx.Node], words: BufferWords) -> str | None:
    """``repeat_kv``: the one function, which is no module's forward(), of a kernel that only moves data.

    None where the function computes something elsewhere.
    """
    frames = {(provenance_of(node).qualname, provenance_of(node).module) for node in nodes}
    frame = frames.pop() if len(frames) == 1 else None
    if frame is None or not frame[0] or is_forward(frame) or has_arithmetic(frame, words.nodes):
        return None
    return _told(frame)


def name_of_backward(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferWords) -> str | None:
    """``d_llama_rms_norm``: the module or function whose gradient a kernel computes; else the value whose gradient.

    None where nothing is differentiated, where a known formula says what (``d_rotary``), or where people have no name.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    loud = loud_words(list(nodes))
    is_listed = is_list_of_ops(nodes) or _JOINS.issuperset(loud)
    if any(word.startswith("d_") for word in loud) or not is_listed or not any(map(is_derivative, nodes)):
        return None  # a sum of columns alone is that, whatever layer's bias it is for
    frame = frame_of_backward(nodes)
    told = _told(frame) if frame is not None else None
    if frame is None or told is None or not is_nearly_whole_backward(frame, nodes, words.nodes):
        return _of_gradients(told, stored, words) or _of_part(told, stored, words)
    leaf = _leaf(stored[0], words) if len(stored) == 1 else ""
    return _short_enough(f"d_{told}_{leaf}" if leaf else f"d_{told}")


def _leaf(buffer: str, words: BufferWords) -> str:
    """``weight``, of a buffer that is the gradient of a layer's weight, or a view of it."""
    leaf = words.provenance(buffer).gradient_of.rpartition("_")[2]
    return leaf if leaf in ("weight", "bias") else ""


def _path_of_gradient(buffer: str, words: BufferWords) -> str | None:
    """The path of the parameter that a result is the gradient of; None where it is no parameter's."""
    return None if buffer in words.inputs else words.paths.get(buffer)


def _named_gradient(buffer: str, words: BufferWords) -> str | None:
    """``d_qkv``: the word for the gradient of a value; None of what is none."""
    return next(words.candidates(buffer), None) if words.provenance(buffer).gradient_of else None


def _of_gradients(told: str | None, stored: Sequence[str], words: BufferWords) -> str | None:
    """``d_qkv_and_bias``, ``d_token_embedding_weight``: the values that a kernel makes the gradients of."""
    found: list[str | None] = []
    leaves: list[str] = []
    for buffer in stored:
        path, leaf = _path_of_gradient(buffer, words), _leaf(buffer, words)
        if path is None and not leaf:
            found.append(_named_gradient(buffer, words))
        elif found or leaves:
            leaves.append(leaf or layer_and_leaf(path or ""))
        elif path is not None:
            leaves.append(f"d_{layer_and_leaf(path)}")
        else:
            found.append(f"d_{told}_{leaf}" if told is not None else None)
    if not all(word is not None and _is_telling(word.removeprefix("d_")) for word in found):
        return None
    told_once = list(dict.fromkeys(identifier(word) for word in [*found, *leaves] if word))
    is_bare = len(stored) == 1 and told_once[0] == _named_gradient(
        stored[0], words
    )  # as its result is called
    return _short_enough(f"{'make_' if is_bare else ''}{'_and_'.join(told_once)}")


def _of_part(told: str | None, stored: Sequence[str], words: BufferWords) -> str | None:
    """``d_attention_hidden_states``: of a function's variable that is called as many others, with the function."""
    named = {_named_gradient(buffer, words) or words.provenance(buffer).local for buffer in stored}
    word = named.pop() if len(named) == 1 else None
    if not word or told is None:
        return None
    prefix = "d_" if word.startswith("d_") else ""
    return _short_enough(f"{prefix}{told}_{without_counter(identifier(word.removeprefix('d_')))}")


def _short_enough(name: str) -> str | None:
    return name if 0 < len(name) <= _LONGEST else None


def _told(frame: Frame) -> str | None:
    """A word for a function, ``bloom_gelu`` for ``bloom_gelu_forward``; None if its name says little."""
    *owners, function = frame[0].replace("<locals>.", "").split(".")
    if is_forward(frame) and owners:
        function = owners[-1]
    word = snake_case(identifier(function.strip("_"))).strip("_")
    word = _AFTER.sub("", _BEFORE.sub("", word))
    is_telling = word not in _SAYS_LITTLE and len(word) > 2 and "lambda" not in word
    return word if is_telling and len(word) <= _LONGEST else None


def _of_formulas(nodes: Sequence[fx.Node]) -> str | None:
    """``softmax``, of a scaled and masked one; an embedding alone is only a lookup."""
    found = dict.fromkeys(word for word in loud_words(list(nodes)) if is_formula(word))
    name = "_".join(found)
    return name if found.keys() - {"embedding", "dropout"} and len(name) <= _LONGEST else None


def _of_variables(stored: Sequence[str], words: BufferWords) -> str | None:
    """``make_alibi``: what the user assigns the results to."""
    named = [words.provenance(buffer).local for buffer in stored]
    found = list(dict.fromkeys(identifier(word) for word in named if word))
    if len(found) != len(named) or not all(_is_telling(word) for word in found):
        return None
    name = "_and_".join(found)
    return f"make_{name}" if len(name) + len("make_") <= _LONGEST else None


def _is_telling(variable: str) -> bool:
    return len(variable) > 2 and without_counter(variable) == variable and variable not in _ANY_VALUE


# --- whose work a kernel is ---


def _frame(origin: Provenance) -> Frame:
    """The function that holds the statement, which may call a layer of PyTorch's: that is nobody's code."""
    is_called = hasattr(torch.nn, origin.module_class) and origin.module_class not in origin.qualname.split(
        "."
    )
    caller = without_positions(origin.module).rpartition(".")[0]
    return origin.qualname, caller if is_called else origin.module


def frame_of(nodes: Sequence[fx.Node]) -> Frame | None:
    """The one function in which all of some nodes is done."""
    frames = {_frame(provenance_of(node)) for node in nodes if not op_word(node).silent}
    return frames.pop() if len(frames) == 1 else None


def frame_of_backward(nodes: Sequence[fx.Node]) -> Frame | None:
    """The call of a module below the model, or of a function, whose gradient most of some nodes are."""
    derived = [node for node in nodes if provenance_of(node).differentiates and not op_word(node).silent]
    frames = Counter(_frame(provenance_of(node)) for node in derived)
    frame = max(frames, key=lambda one: frames[one], default=("", ""))
    is_model = is_forward(frame) and not frame[1]
    return None if is_model or not frame[0] else frame


def is_forward(frame: Frame) -> bool:
    """Whether a function is what calling a module runs."""
    return frame[0].rpartition(".")[2] in ("forward", "__call__")


def is_derivative(node: fx.Node) -> bool:
    """Whether a node is part of a derivative, and not of what is computed again for it."""
    return bool(provenance_of(node).differentiates)


def is_whole(frame: Frame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]) -> bool:
    """Whether nothing that the function computes, nor a module inside of its module, is done elsewhere."""
    return _share(frame, nodes, graph, derived=False) == 1


def is_nearly_whole(frame: Frame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]) -> bool:
    """Whether some nodes compute essentially all that the function does in the graph."""
    return _share(frame, nodes, graph, derived=False) >= _ESSENTIALLY_ALL


def is_nearly_whole_backward(frame: Frame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]) -> bool:
    """Whether some nodes differentiate essentially all that the graph differentiates of the function."""
    return _share(frame, nodes, graph, derived=True) >= _ESSENTIALLY_ALL


def has_arithmetic(frame: Frame, graph: Mapping[str, fx.Node]) -> bool:
    """Whether the function computes anything in the graph, and does not only move data."""
    return bool(_operations(frame, graph.values(), derived=False))


_Operation = tuple[
    str, int, str, str
]  # module, line, statement, operation: a second call of a function is no other


def _share(frame: Frame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node], derived: bool) -> float:
    """How much of the operations that the graph has of a function some nodes do, from 0 to 1."""
    whole = _operations(frame, graph.values(), derived)
    done = _operations(frame, nodes, derived)
    return len(whole & done) / len(whole) if whole else 0.0


def _operations(frame: Frame, nodes: Iterable[fx.Node], derived: bool) -> set[_Operation]:
    """The operations of a function, and of the modules inside of its module; or those that are differentiated."""
    path = frame[1]
    found = set()
    for node in nodes:
        origin = provenance_of(node)
        if node.op != "call_function" or op_word(node).silent or bool(origin.differentiates) != derived:
            continue
        is_below = is_forward(frame) and origin.module.startswith(f"{path}." if path else "")
        if is_below or _frame(origin) == frame:
            op = without_counter(origin.differentiates) if derived else aten_name(node)
            found.add((origin.module, origin.line, origin.statement, op))
    return found
