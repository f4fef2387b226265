"""What a kernel calls the tensors that it is given: the word that its calls share, or what it does with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from longhand.lower.ir import Store
from longhand.schedule.names.shared.callers import Callers, differentiated
from longhand.schedule.names.shared.plain_names import plain_names_in
from longhand.schedule.names.shared.without_lists import without_lists
from longhand.schedule.names.words import Scope, identifier, plural, singular, without_counter
from longhand.schedule.plan import Access, KernelPlan, Pointer


def name_pointers(kernel: KernelPlan, callers: Callers, scope: Scope) -> dict[str, str]:
    """By pointer: the names of all of a kernel's tensors, which are taken from `scope`."""
    words, launch = callers.first.words, callers.first.launch
    passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
    places = {pointer.name: place for place, pointer in enumerate(passed)}
    pointer_of = {buffer: pointer.name for pointer, buffer in zip(passed, launch.buffers, strict=True)}
    shared = {pointer.name: callers.candidates(place) for place, pointer in enumerate(passed)}
    n_claims = Counter(shared[name][0] for name in pointer_of.values() if shared[name])
    n_written = sum(pointer.access is not Access.READ for pointer in passed)
    values = {place: callers.value_of_gradient(place) for place in range(len(passed))}
    gradients = {value: passed[place] for place, value in values.items() if value is not None}
    names: dict[str, str] = {}
    waiting: list[Pointer] = []

    def value_of(pointer: Pointer) -> str | None:
        """The pointer to the value that a pointer's is the gradient of, if the kernel is given both."""
        buffer = launch.buffers[places[pointer.name]] if pointer.name in places else ""
        return pointer_of.get(differentiated(words, buffer))

    def rank(pointer: Pointer) -> tuple[int, bool]:
        """Gradients of what is here come before other gradients, which may have the same word; then what is here.

        Of each of these first what is called so in the calls.
        """
        place = places.get(pointer.name)
        of_what_is_here = 0 if value_of(pointer) is not None else 1 if place in gradients else 2
        return of_what_is_here, place is None or not callers.is_exact(place)

    for pointer in sorted(kernel.pointers, key=rank):
        if pointer.scratch:
            waiting.append(pointer)
            continue
        candidates = shared[pointer.name]
        is_input = launch.buffers[places[pointer.name]] in words.inputs
        if is_input and len(candidates) > 1 and n_claims[candidates[0]] > 1:
            candidates = [*candidates[1:], candidates[0]]  # two weights: both say whose they are
        if not candidates or len(callers.told_apart) > 1:
            place = places[pointer.name]
            plain = plain_names_in(kernel, pointer, place, callers, gradients.get(place))
            candidates = [*candidates, *plain]
        if pointer.many:
            one = dict.fromkeys(singular(without_counter(word)) for word in candidates)
            candidates = [*one, *candidates]
        names[pointer.name] = scope.pick([*candidates, *_pointer_fallbacks(pointer, candidates, n_written)])
    _shorten(names, kernel, callers, places, scope)
    for pointer in waiting:
        names[pointer.name] = scope.pick([*_partial_words(kernel, pointer, names, len(waiting))])
    return {pointer.name: names[pointer.name] for pointer in kernel.pointers}


def _shorten(
    names: dict[str, str], kernel: KernelPlan, callers: Callers, places: Mapping[str, int], scope: Scope
) -> None:
    """Takes the places of lists out of the names of a kernel's tensors.

    Args:
        names: The names, by pointer.
        kernel: The kernel.
        callers: Its calls.
        places: By pointer: which argument it is.
        scope: The names of the kernel.
    """
    written = {pointer.name for pointer in kernel.pointers if pointer.access is not Access.READ}
    paths = {name: callers.paths(place) for name, place in places.items()}
    for name, word in without_lists(names, paths, written).items():
        if scope.is_free(word):
            scope.release(names[name])
            names[name] = scope.take(word)


def _partial_words(kernel: KernelPlan, pointer: Pointer, names: dict[str, str], n_partials: int) -> list[str]:
    """``d_weight_partial``, where the chunks of several reductions are kept."""
    partial = next(one for one in kernel.partials if one.pointer == pointer.name)
    results = [
        names[value.buffer]
        for value in kernel.body
        if isinstance(value, Store) and value.value == partial.position
    ]
    words = [f"{word}_partial" for word in results] if n_partials > 1 else []
    return [*words, "partial", f"partial_{without_counter(identifier(pointer.name))}"]


def pointers_of_lists(kernel: KernelPlan) -> list[Pointer]:
    """The pointers that stand for lists."""
    return [pointer for pointer in kernel.pointers if pointer.many]


def name_lists(kernel: KernelPlan, pointers: dict[str, str], scope: Scope) -> dict[str, str]:
    """``params`` where the pointer is ``param``."""
    return {
        pointer.name: scope.pick([plural(pointers[pointer.name]), f"{pointers[pointer.name]}_list"])
        for pointer in pointers_of_lists(kernel)
    }


def _pointer_fallbacks(pointer: Pointer, candidates: list[str], n_written: int) -> list[str]:
    if pointer.access is Access.READ:
        return [f"{candidates[0]}_in", "source"]
    of_several = [f"{candidates[0]}_out"] if n_written > 1 else []
    return [*of_several, "out", f"{candidates[0]}_out", "result"]
