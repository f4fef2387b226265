"""Which layers a kernel serves, where that tells it from another one of the same math: ``stage4``, ``block_14``."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import identifier, singular, snake_case


def places_apart(callers: Callers, others: Callers) -> Iterator[str]:
    """``stage4``, ``block_14``: a module that all calls stand in, and none of the other kernel's; the outermost first.

    Args:
        callers: The calls of a kernel.
        others: Those of the one with the plain name.
    """
    mine, theirs = (_places(one) for one in (callers, others))
    shared = [place for place in mine[0] if all(place in places for places in mine[1:])]
    yield from dict.fromkeys(
        word for path in shared if not any(path in places for places in theirs) and (word := _word_of(path))
    )


def _places(callers: Callers) -> list[list[str]]:
    """For each call the paths of the modules that it stands in, outermost first, without the torch.nn layers' own."""
    places = []
    for caller in callers.every:
        paths = [source.module for source in caller.sources if source.module]
        heads = {".".join(path.split(".")[:n]): n for path in paths for n in range(1, path.count(".") + 1)}
        places.append(sorted(heads, key=lambda head: heads[head]))
    return places


def _word_of(path: str) -> str:
    """``block_14`` of ``encoder.blocks.14``; ``stage2_1`` of ``stage2.1``, which is no list of stages; ``attn``."""
    owner, _, last = path.rpartition(".")
    if not last.isdigit():
        return identifier(last)
    name = identifier(owner.rpartition(".")[2])
    return f"{singular(name)}_{last}" if name and not name.isdigit() else ""


def layers_apart(callers: Callers) -> Iterator[str]:
    """The layers whose work a kernel does in every call: where nothing in its code tells it from another one."""
    words = callers.first.words
    sources = [words.provenance(origin) for origin in reversed(callers.first.launch.origins)]
    for source in sources:
        module = source.module.rpartition(".")[2]
        if module and not module.isdigit() and callers.have_module(module):
            yield identifier(module)
    yield from (
        snake_case(identifier(source.module_class))
        for source in sources
        if callers.have_module(source.module_class)
    )
