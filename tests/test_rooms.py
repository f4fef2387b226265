"""The layout of the rooms: small folders, each with its line in docs/architecture.md."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

# Files of emit/ with regular expressions that read no text that was printed before: emit/unit reads users' files and
# merges them, the others read the user's words. What a statement needs travels with it, and which parameters a kernel
# has follows from its body's syntax tree.
OF_USERS = ("emit/unit/", "emit/cpp/syntax.py")
OF_PATHS = {"emit/module/call_checks.py", "emit/text/quoting.py"}

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "longhand")
MOST_MODULES = 25
# Of emit, with a function that runs while a CUDA unit of attention is made. It was 95 when
# first counted, and grew from 39 only for constants at the top of a file, what is dropped before later calls, and
# what formulas say with a textbook's words.
MOST_ENTERED = 43


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


def test_no_regular_expression_reads_printed_text():
    found = Counter(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "emit").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("re.")
        and node.func.attr != "escape"
    )
    assert found.keys() >= OF_PATHS
    assert not {
        name: n for name, n in found.items() if not name.startswith(OF_USERS) and name not in OF_PATHS
    }


def test_emit_asks_nobody_for_names():
    text = (ROOT / "schedule" / "named_plan.py").read_text()
    modules = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert "longhand.schedule.names.unit_names" in modules  # what has been named
    # What names variables, layers and passes.
    namers = {
        f"longhand.schedule.names.{name}" for name in ("variables", "layer_names", "backward_names", "unit")
    }
    assert not modules & namers


def test_the_named_plan_hands_on_only_what_emit_reads():
    handed_on = {
        alias.name
        for node in ast.walk(ast.parse((ROOT / "schedule" / "named_plan.py").read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    read = {
        alias.name
        for path in (ROOT / "emit").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "longhand.schedule.named_plan"
        for alias in node.names
    }
    assert len(read) > 40
    assert handed_on == read


def test_a_unit_of_attention_enters_few_files_of_emit():
    command = [sys.executable, "-m", "tests.entered_files", "examples.attention:small"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    *entered, _ = done.stdout.splitlines()
    files = [line.split()[0] for line in entered]
    assert "emit/unit/files.py" in files and "emit/triton/kernel.py" in files
    assert len(files) <= MOST_ENTERED, "\n".join(files)
    of_emit = {path for paths, _ in walk() for path in paths if path.startswith("emit/")}
    assert len(of_emit) > 5 and of_emit <= set(files)


def walk():
    """The files that follow one tensor, in order, each row with the names that it says are there."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## Follow one tensor")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", files), re.findall(r"`([^`]+)`", said)) for files, said in rows]


def imported(path):
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_one_tensor_is_followed_through_files_that_name_one_another():
    files = [path for paths, _ in walk() for path in paths]
    assert len(files) == len(set(files)) > 20
    named = set()
    for number, path in enumerate(files):
        module = path.removesuffix(".py").replace("/", ".")
        module = module if module.startswith("longhand.") else f"longhand.{module}"
        is_by_name = Path(path).parent.name == "schedules" and any(
            Path(before).name == Path(path).name for before in files[:number]
        )
        assert number == 0 or module in named or is_by_name, path
        named.update(imported(path))


def test_what_is_said_of_the_files_is_in_them():
    said = [(paths, name) for paths, names in walk() for name in names]
    assert len(said) > 15
    missing = []
    for paths, name in said:
        text = "".join((ROOT / path).read_text() for path in paths)
        missing += [] if all(word in text for word in re.findall(r"\w+", name)) else [(paths, name)]
    assert not missing
