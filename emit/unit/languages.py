"""Kernel languages: what writes the files of a kernel, by the target's name.

The list is open: `longhand.targets.register` adds to it. docs/adding_a_target.md tells how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from longhand.emit.cpp.headers import print_cpp_headers
from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.emit.cpp.list_binding import list_face
from longhand.emit.module.templates import render_template
from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.reference import Reference
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.schedule.plan import KernelPlan


class Language(Protocol):
    """What a target's kernels are written in."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> Mapping[str, str]:
        """A kernel's files, not yet formatted, by path in the unit.

        One of them is ``kernels/NAME.py``, which defines the kernel's host function and `reference`. The function
        takes tensors, then sizes, strides and scalars, in the plan's order, and fills the tensors that it writes.

        What it raises costs the kernel: it becomes PyTorch calls.
        """

    def shared(self, files: Mapping[str, str]) -> Mapping[str, str]:
        """Further files, by path, that these kernels' files need."""


class Cpp:
    """C++ for the CPU, with a Python face beside it."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """The source, and what loads it."""
        return {
            f"kernels/{names.kernel}.cpp": print_cpp_kernel(kernel, names),
            f"kernels/{names.kernel}.py": render_template(
                "cpp_kernel.py.jinja",
                kernel=names,
                reference=reference,
                uses_torch="torch." in reference.source,
                lists=list_face(kernel, names),
            ),
        }

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """Headers."""
        sources = [text for path, text in files.items() if path.endswith(".cpp")]
        return {f"kernels/{header}": text for header, text in print_cpp_headers(sources).items()}


class Triton:
    """Triton for CUDA."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """One file."""
        return {f"kernels/{names.kernel}.py": print_triton_kernel(kernel, names, reference.source)}

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """None: they import Triton."""
        return {}


LANGUAGES: dict[str, Language] = {"cpu": Cpp(), "cuda": Triton()}
