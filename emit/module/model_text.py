"""What model.py consists of, as its template prints it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.emit.layers.model_loops import Block


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """model.py and what it needs of the other files.

    Attributes:
        text: The source, not yet formatted.
        exported: The class or function that the unit exports.
        launch: What runs the kernels without the checks.
        records: Whether that is recorded: a call replays it.
        runtime_names: What it imports from runtime.py.
        stored: Values of constants.pt, by name.
    """

    text: str
    exported: str
    launch: str
    records: bool
    runtime_names: frozenset[str]
    stored: Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class ModelText:
    """What templates/model/model.py.jinja prints.

    Attributes:
        title: The first line of the file.
        signature: What comes in and what goes out, a line each.
        imports: Sorted.
        name: The class or function.
        source: The original's importable name.
        is_module: Whether to print a class.
        base: The class's base.
        base_arguments: What its constructor is given.
        members: Lines of ``__init__``.
        parameters: Of forward, with defaults.
        checks: Lines that check what came.
        sizes: Lines that bind sizes to words.
        paragraphs: (quotes, lines) of the body.
        launch_arguments: With CUDA graphs or in training: the parameters of launch().
        launch_given: What forward() gives it.
        mutates: The numbers of those that it writes to.
        blocks: Classes of repeated blocks.
        constants: Lines that bind module-level constants (functions only).
        training: In training: what forward() returns, a call of backward.py's autograd.Function.
        remark: What the docstring of launch() says besides, or empty.
        launch: The method that runs what forward() checked: ``launch``, unless the module has something of that name.
        recording: The attribute that holds the CUDA graphs.
    """

    title: str
    signature: tuple[str, ...]
    imports: str
    name: str
    source: str
    is_module: bool
    base: str
    base_arguments: str
    members: tuple[str, ...]
    parameters: tuple[str, ...]
    checks: tuple[str, ...]
    sizes: tuple[str, ...]
    paragraphs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    launch_arguments: tuple[str, ...] | None
    launch_given: tuple[str, ...]
    mutates: tuple[int, ...]
    blocks: tuple[Block, ...]
    constants: tuple[str, ...]
    training: tuple[str, ...] = ()
    remark: str = ""
    launch: str = "launch"
    recording: str = "_graph"
