"""One name, one class: who reads `Pass` or `Fault` need not ask which one."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "longhand")


def classes_of_one_name(texts):
    """By name of a class: the files that define it, where these are several, or it is defined in one several times."""
    found = defaultdict(list)
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_two_classes_have_one_name():
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(paths) > 400
    assert not classes_of_one_name({str(path.relative_to(ROOT)): path.read_text() for path in paths})


def test_two_classes_of_one_name_are_found():
    texts = {"a.py": "class Pass: ...", "b.py": "def f():\n    class Pass: ...\nclass Other: ..."}
    assert classes_of_one_name(texts) == {"Pass": ["a.py", "b.py"]}
