"""How long files may be, tests included, and the functions and classes of the product. What is longer is listed."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "templates", "longhand")
FILE_LINES, FUNCTION_LINES, CLASS_LINES, METHODS = 400, 50, 300, 20

# The lines that a file may have, each no more than it had when this list was last looked at.
LONG_FILES = {}
# (lines, methods) that a class may have.
LARGE_CLASSES = {}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


@pytest.fixture(scope="module")
def definitions(texts: dict[str, str]) -> list[tuple[str, ast.stmt]]:
    """Every function and class, with its file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        (name, node)
        for name, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]


def n_lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_files(texts: dict[str, str]) -> None:
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    assert len(tests) > 400
    lines = {name: len(text.splitlines()) for name, text in {**texts, **tests}.items()}
    over = {name: n for name, n in lines.items() if n > LONG_FILES.get(name, FILE_LINES)}
    assert not over, f"too long: {over}"
    done = [name for name in LONG_FILES if lines.get(name, 0) <= FILE_LINES]
    assert not done, f"take these out of LONG_FILES, they are short enough: {done}"


def test_functions(definitions: list[tuple[str, ast.stmt]]) -> None:
    lengths = sorted(n_lines(node) for _, node in definitions if not isinstance(node, ast.ClassDef))
    assert lengths[int(len(lengths) * 0.99)] <= FUNCTION_LINES


def test_classes(definitions: list[tuple[str, ast.stmt]]) -> None:
    found = {
        f"{name}:{node.name}": (n_lines(node), sum(isinstance(part, ast.FunctionDef) for part in node.body))
        for name, node in definitions
        if isinstance(node, ast.ClassDef)
    }
    over = {}
    for name, (lines, methods) in found.items():
        most_lines, most_methods = LARGE_CLASSES.get(name, (CLASS_LINES, METHODS))
        if lines > max(most_lines, CLASS_LINES) or methods > max(most_methods, METHODS):
            over[name] = (lines, methods)
    assert not over, f"too large (lines, methods): {over}"
    fine = {name for name, (lines, methods) in found.items() if lines <= CLASS_LINES and methods <= METHODS}
    done = [name for name in LARGE_CLASSES if name not in found or name in fine]
    assert not done, f"take these out of LARGE_CLASSES, they are small enough: {done}"
