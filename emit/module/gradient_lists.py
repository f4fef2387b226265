"""The gradients that a backward pass returns; those of layers are told together, in a loop over the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.schedule.named_plan import Reached

FEWEST_LAYERS = 3  # that are told together

Entry = tuple[str, int, int]  # the dictionary, how much later in it, and the place


def returned_gradients(texts: Sequence[str], paths: Sequence[str]) -> list[str]:
    """What is returned, in order: single gradients, and those of layers together.

    Args:
        texts: How each gradient is reached.
        paths: Of the weight that it belongs to, or empty.
    """
    words: list[str] = []
    n_each = _numbers_of_gradients(texts)
    place = 0
    while place < len(texts):
        n_together, together = _all_of_loop(texts[place:], n_each)
        if not n_together:
            n_together, together = _layers_alike(texts[place:], paths[place:])
        words.append(together or texts[place])
        place += max(1, n_together)
    return words


def _layers_alike(texts: Sequence[str], paths: Sequence[str]) -> tuple[int, str]:
    """How many of the first gradients are those of several layers, from the same places for each, and how to write it.

    A weight's gradient may be made where the layer before it is: there it computes again what the weight was given.
    """
    first = _layer_of_path(paths[0])
    if first is None:
        return 0, ""
    owner, position = first
    wanted: list[Entry] = []
    n_layers = done = 0
    while True:
        end = done
        while end < len(paths) and _layer_of_path(paths[end]) == (owner, position + n_layers):
            end += 1
        entries = [_of_layer(text) for text in texts[done:end]]
        found = [
            (word, layer - position - n_layers, place)
            for word, layer, place in (one for one in entries if one is not None)
        ]
        if not found or None in entries or (wanted and found != wanted):
            break
        wanted, done, n_layers = found, end, n_layers + 1
    if n_layers < FEWEST_LAYERS:
        return 0, ""
    parts = ", ".join(_slices(wanted))
    layers = f"range({position}, {position + n_layers})" if position else f"range({n_layers})"
    return done, f"*(gradient for layer in {layers} for gradient in ({parts}))"


def _slices(entries: Sequence[Entry]) -> list[str]:
    """``d_blocks[layer][0]``, ``*d_blocks[layer][2:9]``"""
    found = []
    begin = 0
    while begin < len(entries):
        word, later, place = entries[begin]
        end = begin
        while end < len(entries) and entries[end] == (word, later, place + end - begin):
            end += 1
        layer = f"layer {'+' if later > 0 else '-'} {abs(later)}" if later else "layer"
        is_single = end == begin + 1
        found.append(
            f"{word}[{layer}][{place}]" if is_single else f"*{word}[{layer}][{place}:{place + end - begin}]"
        )
        begin = end
    return found


def _layer_of_path(path: str) -> tuple[str, int] | None:
    """The first list on the way to a weight, and the place in it: ``("blocks", 3)``."""
    parts = path.split(".")
    place = next((n for n, part in enumerate(parts) if part.isdigit()), None)
    return (".".join(parts[:place]), int(parts[place])) if place is not None else None


def _numbers_of_gradients(texts: Sequence[str]) -> dict[tuple[str, int], int]:
    """By dictionary and layer: how many gradients it returned. Layers in turn have different numbers of weights."""
    n_each: dict[tuple[str, int], int] = {}
    for word, layer, place in filter(None, map(_of_layer, texts)):
        n_each[word, layer] = max(place + 1, n_each.get((word, layer), 0))
    return n_each


def _all_of_loop(texts: Sequence[str], n_each: Mapping[tuple[str, int], int]) -> tuple[int, str]:
    """How many of the first texts are all gradients of consecutive layers, in order, and how to write them."""
    found = [_of_layer(text) for text in texts]
    if found[0] is None:
        return 0, ""
    word, first, _ = found[0]
    entries = [(layer, place) for of, layer, place in filter(None, found) if of == word]
    last = max(layer for layer, _ in entries)
    expected = [
        (layer, place) for layer in range(first, last + 1) for place in range(n_each.get((word, layer), 0))
    ]
    if entries != expected or any(one is None or one[0] != word for one in found[: len(expected)]):
        return 0, ""
    layers = f"range(len({word}))" if first == 0 else f"range({first}, {last + 1})"
    return len(expected), f"*(gradient for layer in {layers} for gradient in {word}[layer])"


def _of_layer(text: str) -> tuple[str, int, int] | None:
    """(dictionary, layer, place) of what a layer returned for one of its weights: ``d_blocks[3][0]``."""
    match text.steps if isinstance(text, Reached) else ():
        case (str(word), int(layer), int(place)):
            return word, layer, place
    return None
