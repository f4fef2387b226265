"""Edits that break what other files rely on are found in the text, with their line."""

from __future__ import annotations

import pytest

from longhand.emit.unit.contract import find_breaches

GELU = """import torch

BLOCK = 512


def gelu(x, out, n_elements):
    out.copy_(torch.nn.functional.gelu(x))


def reference(x):
    return torch.nn.functional.gelu(x)
"""
MODEL = """from . import kernels
from .kernels.gelu import reference


class Net:
    def forward(self, x):
        return kernels.gelu(x, x, x.numel())
"""
CPP = """// gelu
extern "C" void soft(
    const float *x,  // (n,)
    float *out,
    long n) {
  for (long i = 0; i < n; ++i) out[i] = x[i];
}
"""
UNIT = {
    "__init__.py": "from .model import Net\n",
    "model.py": MODEL,
    "kernels/__init__.py": "from .gelu import gelu\n",
    "kernels/gelu.py": GELU,
    "kernels/soft.cpp": CPP,
}


def breaches(path: str, text: str | None) -> list[str]:
    files = {**UNIT, path: text} if text is not None else {k: v for k, v in UNIT.items() if k != path}
    return [str(breach) for breach in find_breaches(files, UNIT)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("kernels/gelu.py", "BLOCK = 512", "BLOCK = 1024\nEXTRA = 3"),
        ("kernels/gelu.py", "    out.copy_", "    # a comment\n    out.copy_"),
        ("kernels/gelu.py", "n_elements):", "n_elements, block=BLOCK):"),
        ("kernels/soft.cpp", "const float *x,", "const float *__restrict__ source,"),
        ("kernels/soft.cpp", "out[i] = x[i]", "out[i] = x[i] * 1.0f"),
        ("model.py", "return kernels", "print(x.shape)\n        return kernels"),
    ],
)
def test_edits_inside_are_allowed(path: str, old: str, new: str) -> None:
    assert old in UNIT[path]
    assert breaches(path, UNIT[path].replace(old, new)) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("kernels/gelu.py", "def gelu(", "def my_gelu(", "kernels/gelu.py:6: gelu is gone or was renamed"),
        ("kernels/gelu.py", "def reference(", "def ref(", "kernels/gelu.py:10: reference is gone"),
        (
            "kernels/gelu.py",
            "(x, out, n_elements)",
            "(x, n_elements, out)",
            "kernels/gelu.py:6: the signature of gelu",
        ),
        (
            "kernels/gelu.py",
            "n_elements):",
            "n_elements, block):",
            "kernels/gelu.py:6: the signature of gelu",
        ),
        ("kernels/gelu.py", "def reference(x):", "def reference(x:", "kernels/gelu.py:10: syntax error"),
        (
            "kernels/gelu.py",
            "BLOCK = 512",
            "<<<<<<< HEAD\n=======\n>>>>>>> b",
            "kernels/gelu.py:3: git's conflict",
        ),
        (
            "kernels/soft.cpp",
            "void soft",
            "void hard",
            'kernels/soft.cpp:2: extern "C" void soft(...) is gone',
        ),
        ("kernels/soft.cpp", "long n)", "int n)", "kernels/soft.cpp:2: the signature of soft changed"),
        ("kernels/soft.cpp", "const float *x,", "", "kernels/soft.cpp:2: the signature of soft changed"),
        (
            "model.py",
            "def forward(self, x)",
            "def forward(self, x, y)",
            "model.py:6: the signature of Net.forward",
        ),
        ("model.py", "class Net", "class Other", "model.py:5: Net is gone"),
        ("kernels/__init__.py", "from .gelu import gelu", "", "kernels/__init__.py:1: gelu is gone"),
    ],
)
def test_what_others_use_must_stay(path: str, old: str, new: str, expected: str) -> None:
    assert old in UNIT[path]
    (found,) = breaches(path, UNIT[path].replace(old, new))
    assert found.startswith(expected)


def test_a_number_that_callers_name_keeps_its_name() -> None:
    named = {**UNIT, "model.py": MODEL.replace("x.numel())", "x.numel()) or kernels.soft(x, x, n=4)")}
    renamed = {**named, "kernels/soft.cpp": CPP.replace("long n)", "long count)")}
    assert breaches("kernels/soft.cpp", renamed["kernels/soft.cpp"]) == []
    (found,) = find_breaches(renamed, named)
    assert str(found).startswith("kernels/soft.cpp:2: the signature of soft changed: its callers pass (")


def test_a_removed_file_is_named() -> None:
    assert breaches("kernels/soft.cpp", None) == ["kernels/soft.cpp:1: the file is missing"]
