"""In each file of the gallery's units a name is given once: nothing in a function hides what the file has."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from pathlib import Path

import pytest

# What the file of a unit's model or kernel has; runtime.py is written by hand.
GALLERY = Path(__file__).resolve().parents[2] / "generated"
FILES = [path for path in sorted(GALLERY.rglob("*.py")) if ".base" not in path.parts]
SOURCES = [path for path in sorted(GALLERY.rglob("kernels/*.cpp")) if ".base" not in path.parts]
# `const float mean = `, `for (int64_t row = `, `double total;`
DECLARED = re.compile(
    r"\b(?:float|double|bool|auto|int|u?int(?:8|16|32|64)_t)\b[\s*&]*(?:__restrict__\s+)?(\w+)\s*[=;\[,)]"
)
OWN_FILES = ("model.py", "backward.py")


def bound_in(body: list[ast.stmt]) -> list[str]:
    """What statements of a file bind at its top."""
    found: list[str] = []
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found += [one.asname or one.name.partition(".")[0] for one in names]
            case ast.Assign(targets=targets):
                found += [
                    one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
                ]
    return found


def hidden_in(tree: ast.Module) -> set[tuple[str, str]]:
    """(function, name) where one binds what the file has at its top, or one of Python's own names that it calls."""
    top = set(bound_in(tree.body))
    found = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        read = {
            node.func.id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        # A tunable is passed on under its own name: ``BLOCK: tl.constexpr``.
        is_passed = {
            one.arg: one.annotation is not None and "constexpr" in ast.unparse(one.annotation)
            for one in given
        }
        arguments = [name for name, is_tunable in is_passed.items() if not is_tunable]
        bound = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        taken = top | (read & set(dir(builtins)))
        found |= {(function.name, name) for name in (bound | set(arguments)) & taken}
    return found


def shadowed_in(text: str) -> set[str]:
    """Names that C++ declares again further in, or a second time in one block."""
    found: set[str] = set()
    scopes: list[set[str]] = [set()]
    for line in text.splitlines():
        code = line.split("//")[0]
        names = DECLARED.findall(code)
        opens, closes = code.count("{"), code.count("}")
        for _ in range(min(closes, len(scopes) - 1) if code.lstrip().startswith("}") else 0):
            scopes.pop()
        if opens:
            scopes.append(set())
        for name in names:
            found |= {name} if any(name in scope for scope in scopes) else set()
            scopes[-1].add(name)
    return found


def test_nothing_hides_a_name_of_its_file() -> None:
    assert len(FILES) > 100
    wrong = {
        str(path.relative_to(GALLERY)): hidden
        for path in FILES
        if (path.name in OWN_FILES or path.parent.name == "kernels")
        and (hidden := hidden_in(ast.parse(path.read_text())))
    }
    assert not wrong


def test_each_name_of_a_file_is_given_once() -> None:
    wrong = {}
    for path in FILES:
        if path.name in OWN_FILES or path.parent.name == "kernels":
            counts = Counter(bound_in(ast.parse(path.read_text()).body))
            wrong[str(path.relative_to(GALLERY))] = [name for name, count in counts.items() if count > 1]
    assert not {name: twice for name, twice in wrong.items() if twice}


def test_no_kernel_in_cpp_declares_a_name_again() -> None:
    assert len(SOURCES) > 30
    wrong = {
        str(path.relative_to(GALLERY)): again for path in SOURCES if (again := shadowed_in(path.read_text()))
    }
    assert not wrong


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(x):\n    torch = x", {("f", "torch")}),
        ("def f(x):\n    max = x\n    return max(x)", {("f", "max")}),
        ("def f(x):\n    y = x", set()),
    ],
)
def test_hidden_names_are_found(text: str, names: set[tuple[str, str]]) -> None:
    assert hidden_in(ast.parse(f"import torch\n{text}")) == names


def test_shadowed_names_are_found() -> None:
    text = "void f(float* x) {\n  for (int64_t row = 0; row < n; ++row) {\n    const float NAME = x[row];\n  }\n}"
    assert [shadowed_in(text.replace("NAME", name)) for name in ("mean", "row", "x")] == [
        set(),
        {"row"},
        {"x"},
    ]
