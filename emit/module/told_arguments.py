"""Numbers among the arguments of a library call that a tensor beside them tells: ``groups=weight.shape[0]``.

So a layer's function is the same text for layers of other widths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from longhand.emit.text.python_code import (
    Code,
    ItemCode,
    KeywordCode,
    MethodCode,
    SliceCode,
    dimension,
    whole_number,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Buffer, View
from longhand.schedule.named_plan import Number, SharedCall

TOLD = frozenset({"groups", "bias_sizes", "max_q", "max_k", "num_weights", "k"})  # arguments that may be


def told_argument(
    name: str,
    given: Mapping[str, Any],
    sizes: SizeWriter,
    code_of: Callable[[Any], Code],
    made: Buffer | None = None,
) -> Code | None:
    """What to write for an argument; None where no tensor tells it.

    Args:
        name: The argument.
        given: All arguments, by name.
        sizes: Writes sizes.
        code_of: Writes a tensor.
        made: The one tensor that the call makes, if it is one.
    """
    match name:
        case "groups":
            return _groups(given, sizes, code_of)
        case "bias_sizes":
            return _n_biases(given, code_of)
        case "max_q" | "max_k":
            return _length(name, given, sizes)
        case "k" if made is not None and made.shape and "largest" in given:  # of topk
            dim = given["dim"]
            is_told = made.shape[dim] == given[name] and sizes.words_of(made)[dim] is not None
            return sizes.text(given[name], sizes.words_of(made)[dim]) if is_told else None
        case "num_weights" if made is not None and made.shape[0] == given[name]:
            return sizes.text(given[name], sizes.words_of(made)[0])
    return None


def numbers_given(
    call: SharedCall,
    written: Callable[[Number], Code],
    variables: Mapping[str, str],
    sizes: SizeWriter,
    buffers: Mapping[str, Buffer],
) -> list[KeywordCode]:
    """``stride=2, groups=x.shape[1]``: a number that is how many channels a tensor beside it has is told by that.

    Args:
        call: Of a function.
        written: Writes a number.
        variables: Of the tensors that it is given.
        sizes: Writes sizes.
        buffers: The tensors.
    """
    keywords = []
    for word, number in call.numbers:
        image = buffers[call.tensors[call.channels[word]]] if word in call.channels else None
        channels = sizes.words_of(image)[1] if image is not None else None
        if image is None:
            text = written(number)
        elif channels is not None and isinstance(number, int) and sizes.stands_for(channels, number):
            text = sizes.text(number, channels)
        else:
            text = dimension(variables[image.name], 1)
        keywords.append(KeywordCode(word, text))
    return keywords


def _groups(given: Mapping[str, Any], sizes: SizeWriter, code_of: Callable[[Any], Code]) -> Code | None:
    """Of a convolution of each channel by itself: the word for them, or as many as its weight has filters."""
    weight, count = given.get("weight"), given["groups"]
    if not isinstance(weight, View) or not isinstance(count, int) or count == 1:
        return None
    if tuple(weight.shape[:2]) != (count, 1):
        return None
    image = given.get("input")
    if isinstance(image, View) and not image.calls:
        word = sizes.words_at(image.buffer, len(image.shape))[-len(weight.shape) + 1]
        if word is not None and sizes.stands_for(word, count):
            return sizes.text(count, word)
    return ItemCode(MethodCode(code_of(weight), "shape"), (whole_number(0),))


def _n_biases(given: Mapping[str, Any], code_of: Callable[[Any], Code]) -> Code | None:
    """One for each filter: a transposed convolution's weight has its channels the other way round."""
    weight, count = given.get("weight"), given["bias_sizes"]
    if not isinstance(weight, View) or given.get("transposed") or count is None:
        return None
    if list(count) != [weight.shape[0]]:
        return None
    return ItemCode(MethodCode(code_of(weight), "shape"), (SliceCode(None, whole_number(1)),))


def _length(name: str, given: Mapping[str, Any], sizes: SizeWriter) -> Code | None:
    """The word for attention's ``max_q`` and ``max_k``: how many positions the queries and the keys have."""
    view = given.get({"max_q": "query", "max_k": "key"}[name])
    if not isinstance(view, View) or not view.calls or len(view.shape) != 4:
        return None
    words = sizes.words_at(view.calls[-1].origin, len(view.shape))
    return sizes.text(given[name], words[2]) if given[name] == view.shape[2] else None
