"""What a kernel makes, as its name: the user's variables for that, or the values whose gradients it is."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import (
    GradientWord,
    identifier,
    layer_and_leaf,
    undifferentiated,
    without_counter,
)

_LONGEST = 40  # characters of a kernel's name
_LEAVES = ("weight", "bias")
# Variables that are called alike whatever they hold.
_ANY_VALUE_TEXT = """
    out outs output outputs result results ret res hidden hidden_state hidden_states states state value values tensor
    data input inputs input_tensor temp tmp new left right total final current features feature embeddings embedding
    embeds inputs_embeds residual
"""
_ANY_VALUE = frozenset(_ANY_VALUE_TEXT.split())


def leaf_of(buffer: str, words: BufferNamer) -> str:
    """``weight``, of a buffer that is the gradient of a layer's weight, or a view of it."""
    leaf = words.provenance(buffer).gradient_of.rpartition("_")[2]
    if leaf not in _LEAVES:  # of a weight that one is added to first
        leaf = words.weights.get(buffer, "").rpartition(".")[2]
    return leaf if leaf in _LEAVES else ""


def _path_of_gradient(buffer: str, words: BufferNamer) -> str | None:
    """The path of the parameter that a result is the gradient of; None where it is no parameter's."""
    return None if buffer in words.inputs else words.paths.get(buffer)


def named_gradient(buffer: str, words: BufferNamer) -> str | None:
    """``d_qkv``: the word for the gradient of a value; None of what is none."""
    return next(words.candidates(buffer), None) if words.provenance(buffer).gradient_of else None


def of_gradients(told: str | None, stored: Sequence[str], words: BufferNamer) -> str | None:
    """``make_d_qkv``, ``d_token_embedding_weight``: the values that a kernel makes the gradients of.

    The sum for a layer's bias beside the gradient of what it is of is not told.
    """
    gradients: list[str | None] = []
    leaves: list[str] = []
    for buffer in stored:
        path, leaf = _path_of_gradient(buffer, words), leaf_of(buffer, words)
        if path is None and not leaf:
            gradients.append(named_gradient(buffer, words))
        elif gradients or leaves:
            leaves.append(leaf or layer_and_leaf(path or ""))
        elif path is not None:
            leaves.append(f"d_{layer_and_leaf(path)}")
        else:
            gradients.append(GradientWord(f"{told}_{leaf}") if told is not None else None)
    if not all(word is not None and is_telling(undifferentiated(word)) for word in gradients):
        return None
    told_once = list(dict.fromkeys(identifier(word) for word in gradients or leaves if word))
    if not told_once:
        return None
    # As its result is called.
    is_bare = len(told_once) == 1 and told_once[0] in {named_gradient(one, words) for one in stored}
    return short_enough(f"{'make_' if is_bare else ''}{'_and_'.join(told_once)}")


def of_variables(stored: Sequence[str], words: BufferNamer) -> str | None:
    """``make_alibi``: what the user assigns the results to; ``add_bias``, where a layer's bias stands for itself."""
    nodes = [words.nodes.get(buffer) for buffer in stored]  # or to the one view of it
    named = [words.origins.local(node) if node is not None else None for node in nodes]
    variables = list(dict.fromkeys(identifier(word) for word in named if word))
    if len(variables) != len(named) or not all(is_telling(word) for word in variables):
        return None
    if variables == ["biased"]:
        return "add_bias"
    return short_enough(f"make_{'_and_'.join(variables)}")


def is_telling(variable: str) -> bool:
    """Whether a variable's name says what it holds, as ``hidden_states`` and ``out`` do not."""
    is_any = variable in _ANY_VALUE or variable.endswith(("_value", "_values", "_result"))
    return len(variable) > 2 and without_counter(variable) == variable and not is_any


def short_enough(name: str) -> str | None:
    """The name of a kernel if there is one, and no longer than they are."""
    return name if 0 < len(name) <= _LONGEST else None
