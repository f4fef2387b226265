"""What a program can check of readability, over every file of generated/ (the points marked there as such)."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "generated"
UNITS = sorted(path.parent for path in GENERATED.rglob("longhand.lock"))
VENDORED = {"runtime.py", "check.py"}
MAX_KERNEL_NAME = 40
MAX_LINES = 80
MAX_NESTING = 4
MAX_WIDTH = 110
NUMBERED = re.compile(
    r"\b(?:tmp|buf|arg|in_ptr|out_ptr|primals|tangents|add|mul|view|getitem)_?\d+(?:_\d+)?\b"
)
ABSOLUTE_OR_DATED = re.compile(r"/home/|/root/|/tmp/|\b20\d\d-\d\d-\d\d\b|\bline \d+\b|DO NOT EDIT", re.I)


def relative(path):
    return str(path.relative_to(GENERATED))


def written(unit, *patterns):
    """The unit's files, without what longhand keeps for itself."""
    return [path for pattern in patterns for path in sorted(unit.glob(pattern))]


KERNELS_PY = [path for unit in UNITS for path in written(unit, "kernels/*.py") if path.name != "__init__.py"]
HEADERS = [path for unit in UNITS for path in written(unit, "kernels/*.h")]
KERNELS_CPP = [path for unit in UNITS for path in written(unit, "kernels/*.cpp")]
WRAPPERS = [path for unit in UNITS for path in written(unit, "model.py", "backward.py")]
ALL = [*KERNELS_PY, *KERNELS_CPP, *WRAPPERS]
TRITON = [path for path in KERNELS_PY if "@triton.jit" in path.read_text()]


def python_kernels(path):
    """The kernels of a Triton file; not the small functions that they call."""
    for node in ast.parse(path.read_text()).body:
        is_jit = isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(d) for d in node.decorator_list
        )
        if is_jit and any(argument.arg.endswith("_ptr") for argument in node.args.args):
            yield node


def code_of(path):
    """The text without comments, strings and docstrings."""
    text = path.read_text()
    if path.suffix == ".cpp":
        return re.sub(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", "", text, flags=re.S)
    return ast.unparse(_Undocumented().visit(ast.parse(text)))


class _Undocumented(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Constant("") if isinstance(node.value, str) else node


def cpp_bodies(path):
    """(header, body) of each function of a C++ file."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.S)
    for match in re.finditer(r"^[^\n#;{}]*\([^;{}]*\)\s*\{", text, re.M):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield match.group(), text[match.end() : end - 1]


def test_there_is_a_gallery():
    assert len(UNITS) >= 20
    assert KERNELS_PY and KERNELS_CPP and TRITON


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_1_names_say_what_a_thing_is(path):
    user_words = {word for quote in _quotes(path) for word in re.findall(r"\w+", quote)}
    found = {name for name in NUMBERED.findall(code_of(path)) if name not in user_words}
    assert not found, found


@pytest.mark.parametrize("path", [*KERNELS_PY, *KERNELS_CPP], ids=relative)
def test_1_kernels_are_named_after_the_math(path):
    assert len(path.stem) <= MAX_KERNEL_NAME
    assert not re.search(r"\d{2,}$|kernel\d*$", path.stem)


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_2_parameters_stand_one_a_line_and_pointers_tell_their_dtype(path):
    lines = path.read_text().splitlines()
    for kernel in python_kernels(path):
        rows = [argument.lineno for argument in kernel.args.args]
        assert len(set(rows)) == len(rows), kernel.name
        for argument in kernel.args.args:
            if argument.arg.endswith("_ptr"):
                comment = lines[argument.lineno - 1].partition("#")[2]
                dtype = r"\s*(fp?\d+|bf16|i\d+|u\d+|bool|float\d+|bfloat16|u?int\d+)\b"
                assert re.match(dtype, comment), argument.arg


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_3_kernels_are_documented(path):
    module = ast.get_docstring(ast.parse(path.read_text()))
    assert module and len(module.splitlines()) <= 15
    for kernel in python_kernels(path):
        assert ast.get_docstring(kernel), kernel.name


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_5_no_bare_integers_in_triton_bodies(path):
    for kernel in python_kernels(path):
        for node in ast.walk(ast.Module(kernel.body, [])):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                assert abs(node.value) < 10, f"{kernel.name}: {node.value}"


@pytest.mark.parametrize("path", KERNELS_CPP, ids=relative)
def test_5_no_bare_integers_in_cpp_bodies(path):
    for header, body in cpp_bodies(path):
        body = re.sub(r"^\s*#[^\n]*|\"[^\"\n]*\"|constexpr[^;]*;", "", body, flags=re.M)
        found = re.findall(r"(?<![\w.])(\d{2,})(?![\w.])", body)
        assert not found, (header, found)


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_6_masks_are_no_constants_and_computed_once(path):
    for kernel in python_kernels(path):
        text = ast.unparse(kernel)
        assert not re.search(r"mask=(True|None)|tl\.full\([^)]*True", text)
        for node in ast.walk(kernel):
            if isinstance(node, ast.keyword) and node.arg == "mask":
                assert not any(isinstance(inner, ast.Compare) for inner in ast.walk(node.value)), ast.unparse(
                    node
                )


@pytest.mark.parametrize("path", [*KERNELS_PY, *WRAPPERS], ids=relative)
def test_7_nothing_is_assigned_twice_or_for_nothing(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        loaded = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for statement in ast.walk(function):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                assert name in loaded, f"{function.name}: {name} is never read"
        if any("triton.jit" in ast.unparse(d) for d in function.decorator_list):
            for argument in function.args.args:
                assert argument.arg in loaded, f"{function.name}: parameter {argument.arg} is never read"


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_8_no_cast_to_the_type_a_value_has(path):
    assert not re.search(r"\.to\((tl\.\w+)\)\.to\(\1\)", path.read_text())


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_10_triton_kernels_are_short_and_flat(path):
    for kernel in python_kernels(path):
        assert kernel.end_lineno - kernel.lineno + 1 <= MAX_LINES, kernel.name
        assert nesting(kernel) <= MAX_NESTING, kernel.name


@pytest.mark.parametrize("path", KERNELS_CPP, ids=relative)
def test_10_cpp_kernels_are_short_and_flat(path):
    for header, body in cpp_bodies(path):
        assert len(body.strip().splitlines()) <= MAX_LINES, header
        depth = deepest = 0
        for character in body:
            depth += {"{": 1, "}": -1}.get(character, 0)
            deepest = max(deepest, depth)
        assert deepest <= MAX_NESTING, header


def nesting(node):
    inner = [nesting(child) for child in ast.iter_child_nodes(node)]
    is_block = isinstance(node, ast.For | ast.While | ast.If | ast.With)
    return max(inner, default=0) + is_block


@pytest.mark.parametrize("path", [*ALL, *HEADERS], ids=relative)
def test_10_lines_are_not_too_long(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert len(line) <= MAX_WIDTH, f"line {number} has {len(line)} columns"


@pytest.mark.parametrize("path", TRITON, ids=relative)
def test_11_tunables_stand_in_one_block_at_the_top(path):
    tunables = [
        node.lineno
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    assert tunables == list(range(tunables[0], tunables[0] + len(tunables)))
    assert tunables[-1] < min(kernel.lineno for kernel in python_kernels(path))


@pytest.mark.parametrize("path", [*KERNELS_PY, *WRAPPERS], ids=relative)
def test_14_files_stand_alone(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        for name in names:
            assert name.split(".")[0] != "longhand", name
            assert not re.search(r"^torch\.(.*\.)?_", name), name


def test_14_ruff_is_quiet_over_the_gallery():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--quiet", str(GENERATED)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_no_noise(path):
    found = ABSOLUTE_OR_DATED.search(path.read_text())
    assert not found, found.group()


@pytest.mark.parametrize("unit", UNITS, ids=relative)
def test_15_the_same_math_is_one_kernel(unit):
    """Of a kernel in two steps, the second may be as another's: both add up the parts that chunks left."""
    texts = {}
    for path in written(unit, "kernels/*.py"):
        for kernel in python_kernels(path):
            if kernel.name.endswith("_combine_kernel"):
                continue
            body = ast.unparse(ast.Module(kernel.body[1:], []))
            assert body not in texts, f"{path.name} and {texts[body]} are the same kernel"
            texts[body] = path.name


def _quotes(path):
    """The user's statements that the lock says are quoted in this unit."""
    unit = path.parent.parent if path.parent.name == "kernels" else path.parent
    return re.findall(r'"[^"]*"', json.dumps(json.loads((unit / "longhand.lock").read_text())))
