"""Every word that the generated files use, chosen once (emit/names/naming.py) and only printed afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.emit.layers.loops import ModelStep


@dataclasses.dataclass(frozen=True)
class AxisNames:
    """The words for one axis of a kernel.

    Attributes:
        index: The loop or lane variable: ``row``, ``col``, ``head``.
        size: The argument that holds its size: ``n_rows``, ``n_cols``, ``n_heads``.
    """

    index: str
    size: str


@dataclasses.dataclass(frozen=True)
class Quote:
    """A statement of the user's, quoted in a comment: ``Attention.forward    out = q @ k.transpose(-2, -1)``."""

    qualname: str
    statement: str


@dataclasses.dataclass(frozen=True)
class KernelNames:
    """The words of one kernel file.

    Attributes:
        kernel: The kernel's and the file's name: ``add_layer_norm``.
        title: What it computes, in one sentence or formula, for the first line: ``the residual sum, normalized.``
        quotes: The user's statements that it does.
        pointers: By pointer key: ``x`` (Triton appends ``_ptr``).
        axes: By axis name.
        ints: By IntParameter name: ``qkv_stride``.
        scalars: By position of the ScalarParameter: ``eps``.
        values: By position in the body: values that get a line of their own, and its name. All others are written
            inside the expression that uses them.
        notes: Further lines for the docstring: what is read and written how often, what was fused.
        lists: By pointer key, for pointers that are `many`: the word of the list, ``params`` where the pointer's own
            is ``param``.
        constants: By position in the body: the user's names for numbers, ``BETA1``.
    """

    kernel: str
    title: str
    quotes: tuple[Quote, ...]
    pointers: Mapping[str, str]
    axes: Mapping[str, AxisNames]
    ints: Mapping[str, str]
    scalars: Mapping[int, str]
    values: Mapping[int, str]
    notes: tuple[str, ...] = ()
    lists: Mapping[str, str] = dataclasses.field(default_factory=dict)
    constants: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class UnitNames:
    """The words of a whole unit.

    Attributes:
        kernels: By kernel key.
        buffers: The Python variable that holds each buffer in model.py: ``scores``, ``self.W_q.weight``.
        sizes: Python expressions for symbolic sizes and words for numbers: ``batch``.
        steps: The steps of model.py that `buffers` are the variables of, repeats arranged as loops.
    """

    kernels: Mapping[str, KernelNames]
    buffers: Mapping[str, str]
    sizes: Mapping[str, str]
    steps: tuple[ModelStep, ...]
