"""One tensor of each layer, first to last: ``[layer.ln_1.weight for layer in model.blocks]``, ``[x, *xs]``.

Of the first layer it may be that of what stands before all of them, as where a norm is one kernel with how the next
layer begins: ``[model.norm.weight, *(layer.norm.weight for layer in model.blocks[:7])]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.schedule.named_plan import Reached, entry_of


def column_of(texts: Sequence[str], lengths: Mapping[str, int], n_modules: Callable[[Reached], int]) -> str:
    """One tensor of each layer, first to last.

    Args:
        texts: How each is reached.
        lengths: Of the lists that launch() returns.
        n_modules: The number of modules in a list of the model's.
    """
    assert all(texts), "launch() does not return what the backward pass reads"
    if len(texts) > 1 and _n_of_modules(texts) == len(texts):
        return f"[{_of_modules(texts, n_modules)}]"
    pieces: list[str] = []
    rest = list(texts)
    while rest:
        n, piece = _run(rest, lengths, n_modules)
        if n == len(texts) and piece in lengths:
            return piece
        pieces.append(f"*{piece}" if n > 1 else piece)
        rest = rest[n:]
    return f"[{', '.join(pieces)}]"


def _run(
    texts: Sequence[str], lengths: Mapping[str, int], n_modules: Callable[[Reached], int]
) -> tuple[int, str]:
    """How many of the first ones are entries of one list, or the same of modules of one list, and these."""
    entry = entry_of(texts[0])
    if entry is None:
        n = _n_of_modules(texts)
        return (n, f"({_of_modules(texts[:n], n_modules)})") if n > 1 else (1, texts[0])
    word, begin = entry
    n = 1
    while n < len(texts) and entry_of(texts[n]) == (word, begin + n):
        n += 1
    if n == 1:
        return 1, texts[0]
    is_whole = not begin and lengths.get(word) == n
    return n, word if is_whole else f"{word}[{begin or ''}:{begin + n}]"


def _n_of_modules(texts: Sequence[str]) -> int:
    """How many of the first ones are the same of consecutive modules of one list."""
    place = _place_in_list(texts)
    first = texts[0]
    if place is None or not isinstance(first, Reached):
        return 1
    n = 2
    while n < len(texts) and texts[n] == _moved(first, place, n):
        n += 1
    return n


def _place_in_list(texts: Sequence[str]) -> int | None:
    """Which step of the first one is the place in a list, in whose next one the second is the same."""
    if len(texts) < 2 or not isinstance(texts[0], Reached):
        return None
    first = texts[0]
    places = (n for n, step in enumerate(first.steps[:-1]) if isinstance(step, int))
    return next((place for place in places if texts[1] == _moved(first, place, 1)), None)


def _moved(reached: Reached, place: int, n: int) -> Reached:
    """The same of the module `n` further on."""
    number = reached.steps[place]
    assert isinstance(number, int)
    return Reached(*reached.steps[:place], number + n, *reached.steps[place + 1 :])


def _of_modules(texts: Sequence[str], n_modules: Callable[[Reached], int]) -> str:
    """``layer.ln_1.weight for layer in model.blocks``, of the same of consecutive modules of a list."""
    first, place = texts[0], _place_in_list(texts)
    assert isinstance(first, Reached) and place is not None
    start = first.steps[place]
    assert isinstance(start, int)
    modules, below = Reached(*first.steps[:place]), Reached("layer", *first.steps[place + 1 :])
    end = start + len(texts)
    stop = "" if end == n_modules(modules) else str(end)
    span = f"[{start or ''}:{stop}]" if start or stop else ""
    return f"{below} for layer in {modules}{span}"
