"""The layout of the rooms: small folders, each with its line in docs/architecture.md."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "longhand")
MOST_MODULES = 25


def folders():
    return [init.parent for room in ROOMS for init in sorted((ROOT / room).rglob("__init__.py"))]


def test_no_folder_holds_more_modules_than_one_can_survey():
    large = {
        str(folder.relative_to(ROOT)): count
        for folder in folders()
        if (count := sum(path.name != "__init__.py" for path in folder.glob("*.py"))) > MOST_MODULES
    }
    assert not large


def test_the_architecture_page_lists_each_folder_with_its_first_line():
    page = (ROOT / "docs" / "architecture.md").read_text()
    missing = []
    for folder in folders():
        first = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").split("\n")[0]
        row = f"| `{folder.relative_to(ROOT)}/` | {first} |"
        missing += [] if first and row in page else [row]
    assert not missing


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for folder in folders()
        for path in folder.glob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent
