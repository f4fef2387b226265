"""What a value is in an operation that we write out is a `Role`, given once: no text stands for it anywhere."""

import ast
from pathlib import Path

from longhand.capture.graph import Role

ROOT = Path(__file__).resolve().parents[2]
# By function: which of its arguments is a value's word. Beside them: what goes by these keywords.
WORDS = {
    "named": 0,
    "called": 0,
    "scalar": 2,
    "constant": 2,
    "reduce": 3,
    "mean_of": 3,
    "mean": 1,
    "sum": 1,
    "picked": 1,
}
KEYWORDS = {"apply": {"name"}, "load": {"name"}, "load_at": {"name"}, "Lookup": {"mask_word", "size_word"}}


def texts_for_roles(tree):
    """Texts among the words that lowerings and derivatives give to values."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func).rpartition(".")[2]
        given = node.args[WORDS[function] :][:1] if function in WORDS else []
        given += [keyword.value for keyword in node.keywords if keyword.arg in KEYWORDS.get(function, ())]
        texts = [part for one in given for part in ast.walk(one) if isinstance(part, ast.Constant)]
        found += [ast.unparse(node) for text in texts if isinstance(text.value, str)]
    return found


def asks_for_a_text(tree):
    """Comparisons of a value's name, or of a node's role, with a text that is a role's."""
    roles = {role.value for role in Role}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(
            (".name", ".role", "'name', None)")
        ):
            texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            found += [ast.unparse(node)] if texts & roles else []
    return found


def trees(*folders):
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert paths
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def test_lowerings_and_derivatives_give_roles():
    found = {
        name: texts_for_roles(tree) for name, tree in trees("lower/lowerings", "capture/autograd").items()
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_later_rooms_ask_for_roles():
    found = {name: asks_for_a_text(tree) for name, tree in trees("lower", "schedule", "emit").items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_each_role_is_given_somewhere():
    given = {
        ast.unparse(node).removeprefix("Role.")
        for tree in trees("lower", "capture", "schedule/numerics").values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("Role.")
    }
    assert {role.name for role in Role} - given == set()


def test_texts_are_found():
    tree = ast.parse("""
x.named("rstd")
apply(op, x, name="numerator" if plain else None)
y.named(Role.MEAN)
is_half = scalar.name == "half"
is_own = origin.role is Role.HALF
""")
    assert len(texts_for_roles(tree)) == 2
    assert asks_for_a_text(tree) == ["scalar.name == 'half'"]
