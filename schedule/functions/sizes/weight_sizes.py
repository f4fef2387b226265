"""Sizes that differ from module to module and that a function can read: of what it is given, or its module holds.

``channels = module.gate.weight.shape[0]`` is one parameter less for whoever calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer
from longhand.schedule.functions.alike_steps import SiteSteps


def told_by_weights(
    sizes: Sequence[int | str], word: str, sites: Sequence[SiteSteps], buffers: Mapping[str, Buffer]
) -> tuple[str, int] | None:
    """The weight, of the first module's, and its dimension that is a size in each module; None where there is none.

    Of several the one that its word names: ``gate.weight`` for ``gate_channels``; or else the first.

    Args:
        sizes: The size in each module.
        word: What it is called.
        sites: What each module does; with the paths of the weights that it reads.
        buffers: The plan's, by name.
    """
    held = [_shapes(site, buffers) for site in sites]
    names = {path: name for name, path in sites[0].weights.items()}
    told = [
        (path, dim)
        for path, shape in held[0].items()
        for dim in range(len(shape))
        if all(_size(other.get(path, ()), dim) == size for other, size in zip(held, sizes, strict=True))
    ]
    named = (one for one in told if set(one[0].split(".")) & set(word.split("_")))
    path, dim = next(named, next(iter(told), ("", 0)))
    return (names[path], dim) if path else None


def told_by_parameters(
    sizes: Sequence[int | str],
    inputs: Sequence[Sequence[str]],
    sites: Sequence[SiteSteps],
    buffers: Mapping[str, Buffer],
) -> list[tuple[str, int]]:
    """The parameters, by the first module's buffers, and their dimensions that are a size in each module.

    Args:
        sizes: The size in each module.
        inputs: For each parameter the buffers that it is.
        sites: What each module does.
        buffers: The plan's, by name.
    """
    telling: list[tuple[str, int]] = []
    for column in inputs:
        given = [buffers.get(site.aliases.get(name, name)) for site, name in zip(sites, column, strict=True)]
        shapes = [tuple(buffer.shape) if buffer is not None else () for buffer in given]
        telling += [
            (column[0], dim)
            for dim in range(min(map(len, shapes)))
            if all(shape[dim] == size for shape, size in zip(shapes, sizes, strict=True))
        ]
    return telling


def _shapes(site: SiteSteps, buffers: Mapping[str, Buffer]) -> dict[str, tuple[object, ...]]:
    """The shape of each weight of a module, by its path below it."""
    by_path = {path: buffers.get(site.aliases.get(name, name)) for name, path in site.weights.items()}
    return {path: tuple(buffer.shape) for path, buffer in by_path.items() if buffer is not None}


def _size(shape: Sequence[object], dim: int) -> object:
    return shape[dim] if dim < len(shape) else None
