"""Names of kernels that no operation gives: those that people gave their functions, modules and variables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from torch import fx

from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.call_frames import (
    CallFrame,
    called_in,
    frame_of,
    frame_of_backward,
    has_arithmetic,
    is_derivative,
    is_forward,
    is_mostly_of,
    is_nearly_whole,
    is_nearly_whole_backward,
    is_whole,
    n_operations,
)
from longhand.schedule.names.meanings.made_names import (
    leaf_of,
    named_gradient,
    of_gradients,
    of_variables,
    short_enough,
)
from longhand.schedule.names.operation_names import (
    is_activation,
    is_formula,
    is_norm,
    loud_names,
    op_word,
    provenance_of,
)
from longhand.schedule.names.value_origins import result_word
from longhand.schedule.names.words import (
    GradientWord,
    identifier,
    reworded,
    snake_case,
    without_counter,
)

_LONGEST = 40
_MOST_BESIDE = 2  # operations beside an activation whose name is a kernel's: a scaled sum's is
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
_AFTER_CLASS = re.compile(_AFTER.pattern.replace("forward|", ""))  # FeedForward is no forward() of Feed
# A norm that classes are called after where it is what they are: a LayerNorm may be one of these.
_NAMED_AS_IT_IS = "rms_norm"
_SCATTERED = frozenset({"index_put", "scatter_add"})  # the derivatives of reading rows
_JOINS = frozenset({"cat", "cats", "stack"})
_MOVES = frozenset({"gather", "scatter", "scatter_add", "index_add", "index_put", "pad", *_JOINS})
# Operations that say nothing of what a kernel is for.
_SAYS_NO_PURPOSE = frozenset(
    {"add", "sub", "mul", "div", "ne", "eq", "lt", "le", "gt", "ge", "where", "cast", *_JOINS}
)


def is_list_of_ops(nodes: Sequence[fx.Node]) -> bool:
    """Whether the operations alone make a name that only lists them."""
    return sum(not is_formula(word) for word in loud_names(list(nodes))) > _PLAINLY_SAID


def name_of_people(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str | None:
    """The name for a kernel whose operations would only be listed; None where people have none for it either.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    frame = frame_of(nodes)
    told = told_of(frame) if frame is not None else None
    is_all = frame is not None and is_whole(frame, nodes, words.nodes)
    is_most = frame is not None and is_nearly_whole(frame, nodes, words.nodes)
    return (
        (told if is_all else None)
        or (name_of_formulas(nodes) if not is_understated(nodes) else None)
        or of_variables(stored, words)
        or (told if is_most and not is_understated(nodes) else None)
        or _of_part(told, stored, words)
    )


def is_understated(nodes: Sequence[fx.Node]) -> bool:
    """Whether one function of a number, ``relu``, would say least of what some nodes do."""
    loud = loud_names(list(nodes))
    formulas = [word for word in loud if is_formula(word)]
    return bool(formulas) and all(map(is_activation, formulas)) and len(loud) - len(formulas) > _MOST_BESIDE


def name_of_most(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str | None:
    """``lstm_c_and_h``, ``experts_sums_add``: the function that most of a kernel is of, what it makes, and the rest.

    For a kernel that nothing else has a name for than a list of its operations. None where no function has one either.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    loud = [node for node in nodes if loud_names([node]) and not op_word(node).silent]
    frames = [called_in(node) for node in loud]
    work = Counter(
        frame for node, frame in zip(loud, frames, strict=True) if op_word(node).word not in _MOVES
    )
    counted = Counter(frame for frame in frames if frame[0])
    for frame in sorted(counted, key=lambda one: (-work[one], -counted[one], frames.index(one))):
        told = told_of(frame)
        if told is None:
            continue
        inside = [node for node, own in zip(loud, frames, strict=True) if own == frame]
        made = _made_by(inside, stored, words)
        is_function_s = is_nearly_whole(frame, nodes, words.nodes)
        if not made and not frame[1] and (is_forward(frame) or not is_function_s):
            continue  # the model's own name says nothing of what a kernel of it does
        if not made and not is_function_s:  # a part of a function has not its name
            made = _local_of(inside[-1], words) or result_word(op_word(inside[-1]).word)
        outside = [node for node, own in zip(loud, frames, strict=True) if own != frame]
        return _of_function_and_rest(told, made, loud_names(outside) if outside else [], nodes)
    return None


def _of_function_and_rest(told: str, made: str, rest: Sequence[str], nodes: Sequence[fx.Node]) -> str | None:
    """``film_conv_out_relu``: a function, what of it is made, and what is done with that if that is one thing."""
    sign = "d_" if any(map(is_derivative, nodes)) else ""
    made = made.removeprefix(sign)  # the gradient's of what it makes
    rest = rest if len(rest) <= _PLAINLY_SAID else [word for word in rest if is_formula(word)]
    tail = "_".join(rest) if len(rest) <= _PLAINLY_SAID and not sign else ""
    both = _overlapped(told, made) if made else told
    names = ["_".join(filter(None, parts)) for parts in ([both, tail], [both])]
    return next((f"{sign}{name}" for name in names if len(sign) + len(name) <= _LONGEST), None)


def _local_of(node: fx.Node, words: BufferNamer) -> str:
    """The user's variable for a value, ``out`` of ``film_conv``; or empty."""
    return without_counter(identifier(words.provenance(node.name).local or ""))


def name_of_small(nodes: Sequence[fx.Node], words: BufferNamer) -> str | None:
    """``layer_scale``, ``d_layer_scale``: the class of a module whose one operation a kernel is, or differentiates.

    None where the module does more: a product inside of an attention is no attention.
    """
    loud = [node for node in nodes if not op_word(node).silent]
    if not loud or len({op_word(node).word for node in loud}) > 1 or is_formula(op_word(loud[0]).word):
        return None
    are_derivatives = all(map(is_derivative, loud))
    if are_derivatives and op_word(loud[0]).word == "sum":
        return None  # for the bias of what is called so
    frame = frame_of_backward(nodes) if are_derivatives else frame_of(nodes)
    if frame is None or not frame[1] or not is_forward(frame) or n_operations(frame, words.nodes) != 1:
        return None
    told = told_of(frame)
    return told if told is None or not are_derivatives else short_enough(f"d_{told}")


def name_of_target(
    op: str, calls: Sequence[tuple[Sequence[fx.Node], Sequence[str], BufferNamer]]
) -> str | None:
    """``make_multi_scale_qkv``, ``rotary_pos_emb_cat``: for a kernel that is one operation of arithmetic, or of moving.

    What all of its calls make, in the user's word, else the one function that all of them are a part of.

    Args:
        op: The operation.
        calls: Of each call what it does, what it writes, and the words of its graph.
    """
    if op not in _SAYS_NO_PURPOSE:
        return None
    made = {of_variables(stored, words) or of_gradients(None, stored, words) for _, stored, words in calls}
    if len(made) == 1 and (target := made.pop()) is not None:
        return target
    frames = {_frame_of_function(nodes) for nodes, _, _ in calls}
    frame = frames.pop() if len(frames) == 1 else None
    told = told_of((frame, "")) if frame is not None else None
    return short_enough(f"{told}_{op}") if told is not None else None


def _frame_of_function(nodes: Sequence[fx.Node]) -> str | None:
    """The function that all of a kernel is a part of, if it is no module's forward() and nothing is differentiated."""
    frame = frame_of(nodes) if not any(map(is_derivative, nodes)) else None
    return frame[0] if frame is not None and not is_forward(frame) else None


def _overlapped(told: str, made: str) -> str:
    """``top_k_router_top_value``, of a router's ``router_top_value``: a word that both have stands once."""
    words, others = told.split("_"), made.split("_")
    shared = max((n for n in range(len(others)) if n <= len(words) and words[-n:] == others[:n]), default=0)
    return "_".join([*words, *others[shared:]])


def _made_by(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str:
    """``c_and_h``: the user's words for those of a kernel's results that some of its operations make."""
    made = {node.name for node in nodes}
    locals_of = [words.provenance(buffer).local for buffer in stored if buffer in made]
    return "_and_".join(dict.fromkeys(without_counter(identifier(one)) for one in locals_of if one))


def name_of_copy(nodes: Sequence[fx.Node], words: BufferNamer) -> str | None:
    """``repeat_kv``: the one function, which is no module's forward(), of a kernel that only moves data.

    None where the function computes something elsewhere.
    """
    frames = {(provenance_of(node).qualname, provenance_of(node).module) for node in nodes}
    frame = frames.pop() if len(frames) == 1 else None
    if frame is None or not frame[0] or is_forward(frame) or has_arithmetic(frame, words.nodes):
        return None
    return told_of(frame)


def name_of_backward(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str | None:
    """``d_llama_rms_norm``: the module or function whose gradient a kernel computes; else the value whose gradient.

    None where nothing is differentiated, where a known formula says what (``d_rotary``), or where people have no name.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    loud = loud_names(list(nodes))
    if moved := _of_moved(nodes, loud, words):
        return moved
    is_listed = is_list_of_ops(nodes) or _JOINS.issuperset(loud)
    if len(loud) == 1 and _SCATTERED.issuperset(loud):
        return of_variables(stored, words) or of_gradients(None, stored, words)
    is_formula_s = any(isinstance(word, GradientWord) for word in loud)
    if is_formula_s or not is_listed or not any(map(is_derivative, nodes)):
        return None  # a sum of columns alone is that, whatever layer's bias it is for
    frame = frame_of_backward(nodes)
    told = told_of(frame) if frame is not None else None
    if frame is None or told is None or not is_nearly_whole_backward(frame, nodes, words.nodes):
        return of_gradients(told, stored, words) or _of_part(told, stored, words)
    leaf = leaf_of(stored[0], words) if len(stored) == 1 else ""
    return short_enough(f"d_{told}_{leaf}" if leaf else f"d_{told}")


def _of_moved(nodes: Sequence[fx.Node], loud: Sequence[str], words: BufferNamer) -> str | None:
    """``d_repeat_kv``: a sum alone is the derivative of a function that only moves data, where it repeated it."""
    frame = frame_of_backward(nodes) if list(loud) == ["sum"] else None
    if frame is None or is_forward(frame) or has_arithmetic(frame, words.nodes):
        return None
    told = told_of(frame)
    return short_enough(f"d_{told}") if told is not None else None


def name_of_differentiated(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str | None:
    """``d_new_gelu``: a function that is differentiated, whatever of it is computed again and kept.

    None where a known formula is (``d_gelu`` says it), or where the kernel does anything else.
    """
    origins = [origin for origin in map(provenance_of, nodes) if origin.differentiates]
    formulas = [o.differentiated for o in origins if is_formula(o.differentiated)]
    is_one_op = len({origin.differentiates for origin in origins}) == 1
    frame = frame_of_backward(nodes)
    told = told_of(frame) if frame is not None else None
    if frame is None or told is None or is_one_op or not all(map(is_activation, formulas)):
        return None
    if not is_mostly_of(frame, nodes) or not is_nearly_whole_backward(frame, nodes, words.nodes):
        return None
    kept = [name for name in stored if name in words.nodes and not words.provenance(name).differentiates]
    if kept and not is_nearly_whole(frame, nodes, words.nodes):
        return None
    return short_enough(f"d_{told}")


def name_of_beyond(nodes: Sequence[fx.Node], stored: Sequence[str], words: BufferNamer) -> str | None:
    """``make_d_lin_skip``: for a kernel that goes on behind the derivative of an activation, and stores none of that.

    Args:
        nodes: What it does, in order.
        stored: The buffers that it writes.
        words: The captured graph's.
    """
    origins = [provenance_of(node) for node in nodes]
    formulas = {one.differentiates: one.differentiated for one in origins if one.differentiated}
    if not all(map(is_activation, formulas.values())):
        return None
    gradients = [buffer for buffer in stored if words.provenance(words.origins.node_of(buffer)).gradient_of]
    through = {words.provenance(words.origins.node_of(buffer)).differentiates for buffer in gradients}
    if not through or not through.isdisjoint(formulas):
        return None
    fillers = {word for buffer in gradients for word in words.fillers(buffer)}
    is_said = all(next(words.candidates(buffer)) not in fillers for buffer in gradients)
    return of_gradients(None, gradients, words) if is_said else None


def _of_part(told: str | None, stored: Sequence[str], words: BufferNamer) -> str | None:
    """``d_attention_hidden_states``: of a function's variable that is called as many others, with the function."""
    named = {named_gradient(buffer, words) or words.provenance(buffer).local for buffer in stored}
    word = named.pop() if len(named) == 1 else None
    if not word or told is None:
        return None
    return short_enough(reworded(word, lambda of: _after(told, without_counter(identifier(of)))))


def _after(told: str, made: str) -> str:
    """``vit_embeddings``, of ViTEmbeddings' ``embeddings``: what ends in a word is not followed by it."""
    return told if f"_{told}".endswith(f"_{made}") else _overlapped(told, made)


def own_or_class(frame: CallFrame) -> str:
    """``LlamaRMSNorm`` for its forward(), and for its method ``_norm``, which says less; else the function's."""
    *owners, function = frame[0].replace("<locals>.", "").split(".")
    is_class_s = is_forward(frame) or is_end_of_class(function, owners)
    return owners[-1] if owners and is_class_s else function


def is_end_of_class(function: str, owners: Sequence[str]) -> bool:
    """Whether a method is called as its class ends: ``_norm`` of a RMSNorm is all that there is to say, too."""
    return bool(owners) and snake_case(identifier(owners[-1])).endswith(f"_{function.strip('_')}")


def told_of(frame: CallFrame) -> str | None:
    """A word for a function, ``bloom_gelu`` for ``bloom_gelu_forward``; None if its name says little."""
    *owners, function = frame[0].replace("<locals>.", "").split(".")
    is_class = bool(owners) and (is_forward(frame) or is_end_of_class(function, owners))
    function = owners[-1] if is_class else function
    word = snake_case(identifier(function.strip("_"))).strip("_")
    if word.endswith(f"_{_NAMED_AS_IT_IS}"):
        return _NAMED_AS_IT_IS
    word = (_AFTER_CLASS if is_class else _AFTER).sub("", _BEFORE.sub("", word))
    is_telling = word not in _SAYS_LITTLE and len(word) > 2 and "lambda" not in word
    return word if is_telling and len(word) <= _LONGEST else None


def name_of_formulas(nodes: Sequence[fx.Node]) -> str | None:
    """``softmax``, of a scaled and masked one; an embedding alone is only a lookup."""
    formulas = Counter(word for word in loud_names(list(nodes)) if is_formula(word))
    name = "_".join(f"{word}s" if is_norm(word) and n > 1 else word for word, n in formulas.items())
    return name if formulas.keys() - {"embedding", "dropout"} and len(name) <= _LONGEST else None
