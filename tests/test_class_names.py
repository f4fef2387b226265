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


# Words that nobody in the field uses for what they said, with the one that is used.
OLD_WORDS = {
    "certainty": "range analysis",
    "settle": "simplify_predicates",
    "turning": "transposed staging",
    "chain_of": "delinearize",
    "forward_value": "store-to-load forwarding",
    "redundancy": "dead and common step elimination",
    "unify": "loop alignment",
    "likeness": "body signature",
    "column_sums": "cross-row reductions",
    "plain_calls": "library fallback",
    "odd_layers": "divergent layers",
    "odd_runs": "divergent runs",
    "first_runs": "peeled first iteration",
    "pending_sums": "deferred residual",
    "inverses": "reciprocals",
    "dropped_nan": "NaN analysis",
    "freshness": "load-time staleness",
    "doors": "frontends",
    "untold": "trace isolation",
}


def test_no_module_class_or_function_has_an_old_word():
    found = []
    for path in (
        path for room in ("capture", "lower", "schedule") for path in sorted((ROOT / room).rglob("*.py"))
    ):
        names = [path.stem]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.append(node.name)
        found += [f"{path.relative_to(ROOT)}: {name}" for name in names if name.lstrip("_") in OLD_WORDS]
    assert not found
