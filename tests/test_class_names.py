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
    "clean_body": "CSE, DCE, constant folding",
    "cleanup": "CSE, DCE, constant folding",
    "column_sums": "cross-row reductions",
    "find_column_sums": "cross-row reductions",
    "plain_calls": "library fallback",
    "odd_layers": "divergent layers",
    "odd_runs": "divergent runs",
    "first_runs": "peeled first iteration",
    "pending_sums": "deferred residual",
    "inverses": "reciprocals",
    "wide_sums": "accumulator precision",
    "starved": "low occupancy",
    "against_the_grain": "uncoalesced",
    "find_flow": "pass depths",
    "stager": "inter-pass caching",
    "turned_loads": "transposed staging",
    "may_share": "alias legality",
    "extent": "axis size",
    "decline": "unsupported",
    "bufferwords": "buffer namer",
    "carried_words": "dimension-name propagation",
    "make_instances": "replication",
    "recipe": "deferred producer",
    "carrying": "gradient tracking",
    "currency": "staleness",
    "dropped_nan": "NaN analysis",
    "freshness": "load-time staleness",
    "doors": "frontends",
    "untold": "trace isolation",
}


def old_words(path, text):
    """The module, classes, functions, and the names at its top, that have an old word."""
    tree = ast.parse(text)
    names = [path.stem]
    names += [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    names += [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    return [name for name in names if name.strip("_").lower() in OLD_WORDS]


def test_nothing_has_an_old_word():
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): old_words(path, path.read_text()) for path in paths}
    assert not {path: names for path, names in found.items() if names}


def test_old_words_are_found():
    text = "_DOORS = {}\ndef _settle(): ...\nclass Doors: ...\ndoor = 1"
    assert old_words(Path("emit/layers/pending_sums.py"), text) == [
        "pending_sums",
        "_settle",
        "Doors",
        "_DOORS",
    ]
