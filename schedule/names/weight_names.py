"""What a backward pass calls the weights that it reads, and their gradients: ``q_proj_weight``, ``d_q_proj_weight``.

A gradient has exactly the word of its weight. A word that several weights could have is nobody's: each of them goes by
more of its path, ``layers_3_q_proj_weight``, so that no gradient stands beside a weight that it is not the gradient of.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from longhand.capture.graph import CapturedGraph
from longhand.lower.ir import View
from longhand.schedule.layers.following import PREVIOUS
from longhand.schedule.layers.model_steps import Loop
from longhand.schedule.names.words import further_names, identifier, path_names, place_names, singular
from longhand.schedule.plan import UnitPlan

_BARE = frozenset({"weight", "bias"})  # say nothing of whose they are


def weights_of(plan: UnitPlan) -> dict[str, str]:
    """Of a backward pass: the path of the weight that a buffer is, or holds the gradient of."""
    graph: CapturedGraph = plan.program.graph
    paths = {entry.node: graph.paths[entry.node] for entry in graph.inputs if entry.node in graph.paths}
    for output, result in zip(graph.outputs, plan.results, strict=True):
        path = graph.paths.get(output.value) if isinstance(output.value, str) else None
        if path is not None and isinstance(result, View):
            paths.setdefault(result.buffer, path)
    return paths


def name_weights(
    wanted: Iterable[str], paths: Iterable[str], is_free: Callable[[str], bool]
) -> dict[str, str]:
    """A word for each weight, by its path; with ``d_`` before it, it is free too.

    Args:
        wanted: The paths of the weights that need a word.
        paths: Those of all weights that they have to be told from.
        is_free: Whether a word may be given out.
    """
    known, wanted = {*paths, *wanted}, list(wanted)
    shared = _names_of_several_lists(known)
    n_claims = Counter(word for path in known for word in set(_words(path, shared)))
    word_of: dict[str, str] = {}
    for path in dict.fromkeys(wanted):
        words = list(_words(path, shared))
        own = [word for word in words if n_claims[word] == 1] or words[-1:]
        taken = set(word_of.values())
        word_of[path] = next(
            word
            for word in chain(own, further_names(own[-1]))
            if word not in taken and is_free(word) and is_free(f"d_{word}")
        )
    return word_of


def inside_layer(path: str, owner: str, positions: Iterable[int]) -> str | None:
    """``mlp.fc1.weight`` of ``blocks.3.mlp.fc1.weight``; None of what is in no such layer of the list."""
    below = path.removeprefix(f"{owner}." if owner else "")
    position, _, rest = below.partition(".")
    is_inside = (not owner or below != path) and position.isdigit() and int(position) in positions
    return rest if is_inside and rest else None


def _names_of_several_lists(paths: Iterable[str]) -> frozenset[str]:
    """``layers``, of ``encoder.layers`` and ``decoder.layers``."""
    owners: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split(".")
        for at, part in enumerate(parts):
            if at and part.isdigit():
                owner = ".".join(part for part in parts[: at - 1] if not part.isdigit())
                owners.setdefault(parts[at - 1], set()).add(owner)
    return frozenset(name for name, having in owners.items() if len(having) > 1)


def _words(path: str, shared: Set[str]) -> Iterator[str]:
    """Shortest first; positions in lists come in where nothing shorter tells."""
    parts = path.split(".")
    bare = _BARE if len(parts) > 1 else frozenset()
    *plain, last = path_names(path)  # the last one is all of the path
    yield from (word for word in plain if word not in bare)
    yield from place_names(path, 2, shared)
    yield from (word for word in _with_all_places(parts) if len(word) < len(last))
    yield last
    for start in range(len(parts) - 1, -1, -1):
        if any(part.isdigit() for part in parts[start:]) and not parts[start].isdigit():
            yield identifier("_".join(parts[start:]))


def _with_all_places(parts: Sequence[str]) -> Iterator[str]:
    """``layer_0_2_block_1_to_kv_weight``: every place in a list, of lists in lists all of them, and the path's end."""
    lists = [at for at, part in enumerate(parts) if at and part.isdigit() and not parts[at - 1].isdigit()]
    heads = [
        "_".join((singular(parts[at - 1]), *itertools.takewhile(str.isdigit, parts[at:]))) for at in lists
    ]
    end = [part for part in parts[lists[-1] :] if not part.isdigit()] if lists else []
    for n_last in range(2, len(end) + 1):
        yield identifier("_".join((*heads, *end[-n_last:])))


def _key_of_previous(loop: Loop, paths: Sequence[str]) -> str:
    """``previous norm.weight``, where each layer's weight is the layer before's, if that is one of them."""
    inside = paths[0].removeprefix(f"{loop.owner}.{loop.positions[0] - 1}.")
    first = min(loop.positions)
    pairs = [(n, path) for n, path in zip(loop.positions, paths, strict=True) if n != first]
    are = bool(pairs) and all(path == f"{loop.owner}.{n - 1}.{inside}" for n, path in pairs)
    return f"{PREVIOUS}{inside}" if are else ""


def keys_of_gradients(loop: Loop, paths: Mapping[str, str]) -> list[str]:
    """What each gradient that a layer returns is called: the path of its weight inside the layer, ``mlp.fc.weight``.

    Where a layer's function ends in a module of the layer before, ``previous norm.weight``, of the first one, too; of
    another weight that no such layer holds the end of its path.

    Args:
        loop: Of a backward pass.
        paths: By buffer: the weight that it holds the gradient of.
    """
    keys: list[str] = []
    for place in loop.collected:
        own = [paths.get(outputs[place], "") for outputs in loop.repeat.outputs]
        heads = [f"{loop.owner}.{position}." for position in loop.positions]
        below = {path.removeprefix(head) for path, head in zip(own, heads, strict=True)}
        parts = own[0].split(".")
        n_shown = next((n for n, part in enumerate(reversed(parts)) if part.isdigit()), len(parts))
        end = ".".join(parts[len(parts) - n_shown :])
        key = below.pop() if len(below) == 1 else _key_of_previous(loop, own) or end
        keys.append(key if key and key not in keys else f"{key or 'gradient'} ({place})")
    return keys
