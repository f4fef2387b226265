"""The rooms import one way only, and torch's private modules stay where they are listed."""

import ast
import functools
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "templates", "longhand")
GROUND = {"longhand.errors", "longhand.options"}
# What a room may import besides itself and the ground.
NEIGHBOURS = {
    "capture": set(),
    "lower": {"longhand.capture.graph"},
    # The loop program, the arithmetic of its sizes, and the rules that it keeps wherever it is.
    "schedule": {
        "longhand.capture.graph",
        "longhand.lower.ir",
        "longhand.lower.sizes",
        "longhand.lower.rules",
    },
    # The plan, its names, and which names there may be.
    "emit": {
        "longhand.capture.graph",
        "longhand.lower.ir",
        "longhand.schedule.plan",
        "longhand.schedule.named_plan",
        "longhand.schedule.names.words",
    },
    "templates": set(),
}
PRIVATE_TORCH = {
    "capture/frontends/torch_checkpoints.py",
    "capture/torch_private.py",
    "capture/torch_dynamo.py",
    "capture/torch_tracing.py",
    "capture/torch_transforms.py",
}
# Documented by PyTorch in spite of the underscore, and the only door to what they do.
DOCUMENTED = ("torch.utils._pytree", "torch._logging")


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def imported(path):
    """(module, line) of each import; `from a import b` counts as a.b too."""
    return tuple(_imported(path))


def _imported(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def room_of(module):
    words = module.split(".")
    return words[1] if words[0] == "longhand" and len(words) > 1 and words[1] in ROOMS else None


@pytest.mark.parametrize("room", list(NEIGHBOURS))
def test_a_room_imports_only_itself_its_neighbours_result_and_the_ground(room):
    allowed = NEIGHBOURS[room] | GROUND
    wrong = []
    for path in sources(room):
        for module, line in imported(path):
            if not module.startswith("longhand.") or room_of(module) == room:
                continue
            if not any(module == name or module.startswith(name + ".") for name in allowed):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module}")
    # `from longhand.options import Device` yields longhand.options.Device, which the prefix test lets pass.
    assert not wrong, "\n".join(wrong)


def test_nobody_imports_a_room_by_its_bare_name():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sources(*ROOMS, "tests", "examples", "benchmarks")
        for module, line in imported(path)
        if module.split(".")[0] in ("capture", "lower", "schedule", "emit", "templates")
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_inside_a_function():
    wrong = []
    for path in sources(*ROOMS):
        for function in ast.walk(parsed(path)):
            if isinstance(function, ast.FunctionDef):
                wrong += [
                    f"{path.relative_to(ROOT)}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Import | ast.ImportFrom)
                ]
    assert not wrong, "\n".join(wrong)


@functools.cache
def private_torch_names(path):
    """Dotted names that start with torch and have a private part; in imports and in expressions."""
    return tuple(_private_torch_names(path))


def root_of(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _private_torch_names(path):
    found = {module for module, _ in imported(path)}
    names = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute))
    found |= {ast.unparse(node) for node in names if root_of(node) == "torch"}
    for name in found:
        parts = name.split(".")
        is_private = any(part.startswith("_") and not part.startswith("__") for part in parts[1:])
        if parts[0] == "torch" and is_private and not name.startswith(DOCUMENTED):
            yield name


def test_private_names_of_torch_stay_in_their_module():
    # OpOverload is the type of what torch.ops holds; it has no public name.
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(*ROOMS)
        if str(path.relative_to(ROOT)) not in PRIVATE_TORCH
        for name in private_torch_names(path)
        if not name.startswith("torch._ops")
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_no_product_code_names_inductor_or_functorch():
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources(*ROOMS)
        for name in private_torch_names(path)
        if name.startswith(("torch._inductor", "torch._functorch"))
    ]
    assert not wrong, wrong


def module_of(path):
    words = path.relative_to(ROOT).with_suffix("").parts
    words = words if words[0] == "longhand" else ("longhand", *words)
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def circles(imports):
    """Sets of modules that import one another, by way of whatever."""
    graph = networkx.DiGraph(imports)
    return [sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1]


def test_no_modules_import_one_another_types_included():
    paths = {module_of(path): path for path in sources(*ROOMS)}
    imports = set()
    for name, path in paths.items():
        for node in ast.walk(parsed(path)):  # also below TYPE_CHECKING
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [one if one in paths else node.module for one in whole]
            imports |= {(name, other) for other in names if other in paths and other != name}
    assert len(imports) > 1000
    assert not circles(imports)


def test_a_circle_is_found():
    assert circles({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}) == [["a", "b", "c"]]
