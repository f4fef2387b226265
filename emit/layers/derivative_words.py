"""What functions for parts of a derivative are called, and what their docstrings say."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import torch

from longhand.emit.text.quoting import python_docstring
from longhand.schedule.named_plan import BACKWARD_FORM, PREVIOUS, LongFunction, ModuleDerivative
from longhand.schedule.names.words import further_names, identifier, listed, singular, snake_case

_WIDEST = 103  # of a line of a docstring
_MOST_NAMED = 2  # weights in it
_MOST_PLACES = 4  # of modules
_INDICES = ("[i]", "[j]", "[k]", "[l]")  # which of a list, where several do the same; no module is called so
_INDEX = _INDICES[0]

Position = tuple[str, ...] | None  # of a module, by the parts of its path; None of several that share none


def names_of_part(part: ModuleDerivative, root: str) -> Iterator[str]:
    """``attention_backward``, of one of several layers that are written out ``layer_3_attn_backward``."""
    parts = part.path.removeprefix(f"{root}.").split(".") if root else part.path.split(".")
    ending = BACKWARD_FORM.ending
    of_its_class = f"{snake_case(part.class_name)}{ending}"
    is_of_many = part.is_of_several or part.is_among_others or not any(map(str.isdigit, parts))
    if is_of_many and not hasattr(torch.nn, part.class_name):
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


def words_of_gradients(below: str) -> Iterator[str]:
    """What holds the gradients of a module's weights: ``attn_gradients``."""
    parts = below.split(".")
    following = [*parts[1:], ""]
    words = [singular(one) if after.isdigit() else one for one, after in zip(parts, following, strict=True)]
    for start in range(len(parts) - 1, -1, -1):
        if not parts[start].isdigit():
            yield f"{identifier('_'.join(words[start:]))}_gradients"
    yield from further_names("gradients")


def position_of(path: str, function: LongFunction) -> tuple[str, ...]:
    """The parts of ``layers[3].attn``; of ``layers[i].attn`` in what all layers do."""
    at = None if function.drops_fields else function.path.count(".")
    return tuple(_INDEX if n == at else one for n, one in enumerate(path.split(".")))


def position_of_both(one: Position, other: Position) -> Position:
    """That of ``layers[i].attn`` for two layers' parts; None of any others."""
    if one is None or other is None or len(one) != len(other):
        return None
    pairs = list(zip(one, other, strict=True))
    differing = [n for n, (first, second) in enumerate(pairs) if first != second]
    if not all(_is_index(part) for n in differing for part in pairs[n]):
        return None
    if len(differing) == 1 and _INDEX in pairs[differing[0]]:
        letters = {differing[0]: _INDEX}
    else:
        free = [letter for letter in _INDICES if letter not in (*one, *other)]
        if len(differing) > len(free):
            return None
        letters = dict(zip(differing, free, strict=False))
    return tuple(letters.get(n, first) for n, (first, _) in enumerate(pairs))


def told_positions(places: Sequence[tuple[str, ...]]) -> str:
    """``layers[i].attn``; of what has no such common place each, ``layer2 and layer3``, or that they are many."""
    whole: Position = places[0]
    for one in places[1:]:
        whole = position_of_both(whole, one)
    if whole is not None:
        return told_position(whole)
    texts = list(dict.fromkeys(map(told_position, places)))
    return listed(texts) if len(texts) <= _MOST_PLACES else f"{texts[0]} and {len(texts) - 1} others"


def told_position(position: tuple[str, ...]) -> str:
    """``layers[i].attn``"""
    texts = (f"[{one}]" if one.isdigit() else one if one in _INDICES else f".{one}" for one in position)
    return "".join(texts).removeprefix(".")


def _is_index(part: str) -> bool:
    """Which of a list: a number, or the letter for several."""
    return part.isdigit() or part in _INDICES


def weights_of_part(part: ModuleDerivative, function: LongFunction) -> list[str]:
    """The weights whose gradients a part returns, as its module calls them."""
    return [key for _, _, key in keys_of_part(part, function)]


def path_inside(path: str, root: str) -> str:
    """The path of something in a module, as it is called there."""
    return path.removeprefix(f"{root}.") if root else path


def words_of_module(part: ModuleDerivative) -> Iterator[str]:
    """What a function calls the module that it is given."""
    *_, attribute = ["module", *(one for one in part.root.split(".") if not one.isdigit())]
    plain = singular(attribute) if part.root.rpartition(".")[2].isdigit() else attribute
    if part.is_of_several and part.root == part.path:
        plain = snake_case(part.class_name)
    yield from (plain, f"{plain}_module")
    yield from further_names(plain)


def also_of(part: ModuleDerivative, function: LongFunction) -> str:
    """``, without output.LayerNorm, and of previous_norm``"""
    without = f", without {path_inside(part.without, part.path)}" if part.without else ""
    if not part.also:
        return without
    before = next(iter(function.of_before.values()), "").removeprefix(PREVIOUS).rpartition(".")[0]
    is_before = part.also == function.before
    also = f"the previous layer's {before}" if is_before else path_inside(part.also, part.root)
    return f"{without}, and of {also}"


def what_passes(source: Sequence[str], results: Sequence[str], weights: Sequence[str], whose: str) -> str:
    """``from d_residual to d_x and the gradient of down.weight``; of many weights only that there are some."""
    few = f"the gradient{'s' * (len(weights) > 1)} of {listed(weights)}"
    of_weights = few if len(weights) <= _MOST_NAMED else f"gradients of {whose} weights"
    own = [of_weights] if weights else []
    # The gradient of x before the module, too, where that of x behind it is called so.
    made = listed([*(f"{one} of its input" if one in source else one for one in results), *own])
    return f"from {listed(source)} to {made}" if source else f"makes {made}"


def remark_of(class_name: str, position: str, beside: str | None, passes: str) -> str:
    """``The derivative of Attention, attn: from d_residual to d_x and the gradients of its weights.``

    Args:
        class_name: The module's class.
        position: Where it is.
        beside: What it is not of the module, and is of others; None: it is no more than a part of it.
        passes: What it is given and makes.
    """
    whole = "The derivative" if beside is not None else "Part of the derivative"
    begin = f"{whole} of {class_name}, {position}{beside or ''}"
    whole = f"{begin}: {passes}."
    if len(whole) <= _WIDEST:
        return python_docstring(whole)
    told, lines = (textwrap.wrap(f"{text[:1].upper()}{text[1:]}.", _WIDEST) for text in (begin, passes))
    return "\n".join(map(python_docstring, [*told, "", *lines, ""]))


def keys_of_part(part: ModuleDerivative, function: LongFunction) -> Iterator[tuple[str, str, str]]:
    """(buffer, the path of its weight in the function's module, that in the part's) of what a part returns last."""
    for buffer, paths in function.gradients.items():
        for path in paths if buffer in part.gradients else ():
            yield buffer, path, path_inside(f"{function.path}.{path}" if function.path else path, part.root)
    for buffer, path in function.of_before.items():
        if buffer in part.gradients:
            yield buffer, path, path
