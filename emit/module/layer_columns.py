"""One tensor of each layer, first to last: ``[layer.ln_1.weight for layer in model.blocks]``, ``[x, *xs]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.schedule.named_plan import Reached, entry_of


def column_of(texts: Sequence[str], lengths: Mapping[str, int], n_modules: Callable[[Reached], int]) -> str:
    """One tensor of each layer, first to last: ``[x, *xs]``, ``[layer.ln_1.weight for layer in model.blocks]``.

    Args:
        texts: How each is reached.
        lengths: Of the lists that launch() returns.
        n_modules: The number of modules in a list of the model's.
    """
    assert all(texts), "launch() does not return what the backward pass reads"
    if of_modules := _of_modules(texts, n_modules):
        return of_modules
    pieces: list[str] = []
    rest = list(texts)
    while rest:
        entry = entry_of(rest[0])
        n = 1
        if entry is not None:
            word, begin = entry
            while n < len(rest) and entry_of(rest[n]) == (word, begin + n):
                n += 1
            if n > 1 and not begin and lengths.get(word) == n:
                if n == len(texts):
                    return word
                pieces.append(f"*{word}")
            elif n > 1:
                pieces.append(f"*{word}[{begin}:{begin + n}]")
        if n == 1:
            pieces.append(rest[0])
        rest = rest[n:]
    return f"[{', '.join(pieces)}]"


def _of_modules(texts: Sequence[str], n_modules: Callable[[Reached], int]) -> str | None:
    """``[layer.ln_1.weight for layer in model.blocks]``, where each is the same of consecutive modules of a list."""
    first = texts[0]
    if not isinstance(first, Reached):
        return None
    n_before = first.n_before_a_list
    modules, below = Reached(*first.steps[:n_before]), Reached("layer", *first.steps[n_before + 1 :])
    if len(below.steps) == 1:
        return None
    (start,) = (step for step in first.steps[n_before : n_before + 1] if isinstance(step, int))
    end = start + len(texts)
    if list(texts) != [Reached(*modules.steps, n, *below.steps[1:]) for n in range(start, end)]:
        return None
    stop = "" if end == n_modules(modules) else str(end)
    span = f"[{start or ''}:{stop}]" if start or stop else ""
    return f"[{below} for layer in {modules}{span}]"
