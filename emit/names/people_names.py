"""Names that people gave: a kernel that does one function or module of the user's is called after it.

Where it does not, and no formula with a name is in it, it is called after the variable that its result is assigned to.
A list of operations, ``le_where_add``, says how and not what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from torch import fx

from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.operation_names import is_formula, loud_words, op_word, provenance_of
from longhand.emit.names.words import identifier, snake_case, without_counter

_LONGEST = 40
# So many operations without a name of their own read well beside one that has: add_layer_norm.
_PLAINLY_SAID = 1
# What functions and modules are called that say nothing of what they compute.
_SAYS_LITTLE_TEXT = """
    step update forward call f fn func function inner loop foreach run main wrapper body g op ops compute apply model
    module layer block net network encoder decoder head activation act function_impl prepare_inputs helper
"""
_SAYS_LITTLE = frozenset(_SAYS_LITTLE_TEXT.split())
_BEFORE = re.compile(r"^(get|compute|calculate|make|apply|build|create|eager|maybe)_(?=\w{3})")
_AFTER = re.compile(r"(?<=\w{3})_(forward|fn|func|function|impl|activation|layer|module|op)$")
# Variables that are called alike whatever they hold.
_ANY_VALUE_TEXT = """
    out outs output outputs result results ret res hidden hidden_state hidden_states states state value values tensor
    data input inputs input_tensor temp tmp new left right total final current features feature embeddings embedding
    embeds inputs_embeds residual
"""
_ANY_VALUE = frozenset(_ANY_VALUE_TEXT.split())


def is_list_of_ops(nodes: Sequence[fx.Node]) -> bool:
    """Whether the operations alone make a name that only lists them."""
    return sum(not is_formula(word) for word in loud_words(list(nodes))) > _PLAINLY_SAID


def name_of_people(nodes: Sequence[fx.Node], stored: Iterable[str], words: BufferWords) -> str | None:
    """The name for a kernel whose operations would only be listed; None where people have none for it either.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    frame = _frame(nodes)
    return (
        (_told(frame) if frame is not None and _is_whole(frame, nodes, words) else None)
        or _of_formulas(nodes)
        or _of_variables(stored, words)
        or (_told(frame) if frame is not None and not _is_forward(frame) else None)
    )


def name_of_copy(nodes: Sequence[fx.Node]) -> str | None:
    """``repeat_kv``: the one function, which is no module's forward(), of a kernel that only moves data."""
    frames = {(provenance_of(node).qualname, provenance_of(node).module) for node in nodes}
    frame = frames.pop() if len(frames) == 1 else None
    return None if frame is None or not frame[0] or _is_forward(frame) else _told(frame)


def name_of_backward(nodes: Sequence[fx.Node]) -> str | None:
    """``d_llama_rms_norm``: the module or function whose gradient most of a kernel is.

    None where nothing is differentiated, where a known formula says what (``d_rotary``), or where most of it belongs to
    the model as a whole, whose name would tell no kernel from another.
    """
    if any(word.startswith("d_") for word in loud_words(list(nodes))) or not is_list_of_ops(nodes):
        return None  # a sum of columns alone is that, whatever layer's bias it is for
    frame = frame_of_backward(nodes)
    told = _told(frame) if frame is not None else None
    return f"d_{told}" if told is not None and len(told) + 2 <= _LONGEST else None


Frame = tuple[str, str]  # a function's qualname, and the path of the module that it was called in


def _frame(nodes: Sequence[fx.Node]) -> Frame | None:
    """The one function in which all of it is done."""
    origins = [provenance_of(node) for node in nodes if not op_word(node).silent]
    frames = {(origin.qualname, origin.module) for origin in origins}
    return frames.pop() if len(frames) == 1 else None


def frame_of_backward(nodes: Sequence[fx.Node]) -> Frame | None:
    """The call of a module below the model, or of a function, whose gradient most of some nodes are."""
    derived = [node for node in nodes if provenance_of(node).differentiates and not op_word(node).silent]
    frames = Counter((provenance_of(node).qualname, provenance_of(node).module) for node in derived)
    frame = max(frames, key=lambda one: frames[one], default=("", ""))
    is_model = _is_forward(frame) and not frame[1]
    return None if is_model or not frame[0] else frame


def _is_whole(frame: Frame, nodes: Sequence[fx.Node], words: BufferWords) -> bool:
    """Whether nothing that the function computes, nor a module inside of its module, is done elsewhere."""
    inside = {node.name for node in nodes}
    path = frame[1]
    for node in words.nodes.values():
        if node.op != "call_function" or node.name in inside or op_word(node).silent:
            continue
        origin = provenance_of(node)
        is_below = _is_forward(frame) and origin.module.startswith(f"{path}." if path else "")
        if is_below or (origin.qualname, origin.module) == frame:
            return False
    return True


def _is_forward(frame: Frame) -> bool:
    return frame[0].rpartition(".")[2] in ("forward", "__call__")


def _told(frame: Frame) -> str | None:
    """A word for a function, ``bloom_gelu`` for ``bloom_gelu_forward``; None if its name says little."""
    *owners, function = frame[0].replace("<locals>.", "").split(".")
    if _is_forward(frame) and owners:
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


def _of_variables(stored: Iterable[str], words: BufferWords) -> str | None:
    """``make_alibi``: what the user assigns the results to."""
    named = [words.provenance(buffer).local for buffer in stored]
    found = list(dict.fromkeys(identifier(word) for word in named if word))
    if len(found) != len(named) or not all(_is_telling(word) for word in found):
        return None
    name = "_and_".join(found)
    return f"make_{name}" if len(name) + len("make_") <= _LONGEST else None


def _is_telling(variable: str) -> bool:
    return len(variable) > 2 and without_counter(variable) == variable and variable not in _ANY_VALUE
