"""emit/ only prints: it reads no text that was printed before, and decides nothing by numbers.

What a statement binds, needs and is, travels with it; what is computed how is a field of the plan. emit/unit reads the
files of users and merges them: there texts are read. All else that looks into a text is listed here, with its reason.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import jinja2
import pytest

ROOT = Path(__file__).resolve().parent.parent
OF_USERS = (
    "emit/unit/",
    "emit/cpp/syntax.py",
)  # files of users, and the checker of C++ that they may have edited
_SEARCHES_TEXT = """
    partition rpartition split rsplit find rfind index rindex count startswith endswith replace removeprefix
    removesuffix
"""
SEARCHES = frozenset(_SEARCHES_TEXT.split())
PARSERS = frozenset({"ast.parse", "compile", "tokenize.tokenize", "tokenize.generate_tokens"})

# (file, how often, why): the only places that look for signs of code in a text.
READS = {
    "emit/text/quoting.py": (15, "words of the user's, which are escaped, and broken where they are long"),
    "emit/module/call_checks.py": (1, "the user's own text: which quotes it has"),
    "emit/module/model_py.py": (1, "the lines of a title"),
    "emit/text/kernel_head.py": (
        4,
        "the lines of a title, which the ledger keeps; a number's sign in a word",
    ),
    "emit/text/backward_words.py": (2, "words of the names' table, for people"),
    "emit/text/expression.py": (5, "numbers as Python writes them"),
    "emit/text/function_names.py": (2, "spellings of the table of functions"),
    "emit/text/value_formula.py": (1, "a term: whether it has a minus of its own"),
    "emit/triton/space.py": (1, "a sum: whether it begins with a minus"),
    "emit/text/numbers_of_pi.py": (1, "a number as it is written: whether it is one term"),
    "emit/triton/operators.py": (1, "spellings of the table of functions"),
    "emit/cpp/headers.py": (1, "spellings of the table of functions"),
    "emit/triton/kernel.py": (1, "blanks at the ends of a template's lines"),
    "emit/module/module_tree.py": (1, "the step to a module: a key or a name"),
    "emit/module/later_steps.py": (1, "what a device is taken of: the variable that it begins with"),
}

# Numbers at the top of modules, by file: how wide and how long texts are, how many things are told one by one, which
# numbers people write as digits, and seconds to wait for a tool. None says how anything is computed.
NUMBERS = {
    "emit/cpp/format.py": {"LINE_LENGTH", "_MOST_SECONDS"},
    "emit/cpp/kernel.py": {"_INDENT"},
    "emit/cpp/syntax.py": {"_MOST_SECONDS"},
    "emit/cpp/types.py": {"_INT32_MAX", "_INT64_MIN"},
    "emit/layers/call_functions.py": {"_LINES_AROUND"},
    "emit/layers/saved_records.py": {"_MOST_LISTED", "_MOST_SIZES", "_WIDEST_OF_CALLS"},
    "emit/layers/stage_classes.py": {"_MOST_LISTED"},
    "emit/layers/derivative_words.py": {"_MOST_NAMED", "_MOST_PLACES", "_WIDEST"},
    "emit/layers/following_modules.py": {"_WIDEST"},
    "emit/module/attention_calls.py": {"_WIDEST_HEAD"},
    "emit/layers/function_remarks.py": {"_WIDEST", "_WIDEST_REMARK"},
    "emit/module/offset_texts.py": {"_MOST_BLOCKS", "_MOST_STEPS"},
    "emit/module/backward_py.py": {"_MANY_NONE"},
    "emit/module/call_checks.py": {"_MOST_SHAPES"},
    "emit/module/constants.py": {"_SMALL", "_SMALLEST_BASE"},
    "emit/module/launch_lines.py": {"_CHANNELS_LAST"},
    "emit/module/later_steps.py": {"_SOON"},
    "emit/module/paragraphs.py": {"WIDEST", "_MOST_LINES"},
    "emit/module/view_calls.py": {"_FULL_SLICE_END"},
    "emit/text/equations.py": {"_SHORT", "_LONGEST_OF_NORM"},
    "emit/text/expression.py": {"_MOST_DIGITS", "_LARGEST", "_ROUND"},
    "emit/text/formula.py": {
        "_LONGEST",
        "_WIDEST",
        "_TWO_LINES",
        "_MOST_INSTEAD_OF_OPS",
        "_LONGEST_EQUATION",
        "_MUCH_SHORTER",
        "_MOST_STEPS_OF_NORM",
    },
    "emit/text/backward_words.py": {"_MOST_OPERATIONS"},
    "emit/text/kernel_head.py": {
        "_COMMENT",
        "_MOST_LISTED",
        "_FEWEST_COUNTED",
        "_MOST_PLAIN",
        "_LARGEST_BARE",
        "FACE_WIDTH",
        "_LONGEST_IN_TABLE",
    },
    "emit/text/reference.py": {"_LONGEST"},
    "emit/text/reference_page.py": {"_WIDEST_PURPOSE"},
    "emit/text/title_lines.py": {
        "_MOST_NAMED",
        "_MOST_MADE",
        "_MOST_GIVEN",
        "LONGEST_LINE",
        "MOST_EQUATIONS",
        "_MOST_LINES",
        "_WIDTH",
    },
    "emit/text/told_sizes.py": {"_FIRST_OF_IMAGE", "_LARGEST_BARE", "_WIDEST"},
    "emit/text/value_formula.py": {"LONGEST_FORMULA"},
    "emit/triton/block.py": {"_WIDEST"},
    "emit/triton/functions.py": {"_SHORT", "_LONG_ADDRESS"},
    "emit/triton/kernel.py": {"_WIDTH", "_INDENT"},
    "emit/unit/contract.py": {"_LEAST_LIKE"},
    "emit/unit/loading.py": {"_SECONDS_OF_A_RACE"},
    "emit/unit/lock.py": {"_MOST_LINES"},
    "emit/unit/lock_file.py": {"LARGEST_TEXT", "LARGEST_TENSORS", "FORMAT", "_LONGEST"},
    "emit/unit/on_disk.py": {"MOST_WAIT_SECONDS", "_EXCHANGE", "_HERE"},
    "emit/unit/picture.py": {"VERSION", "MOST_QUOTES", "MOST_REFUSALS", "MOST_STEPS"},
    "emit/unit/sources.py": {"_DIGITS"},
    "emit/unit/writer.py": {"_MOST_TURNS"},
}
# Comparisons with a larger number that has no name.
COMPARISONS = {
    "emit/text/reference_calls.py": {"-100"},  # cross_entropy's own default
    "emit/triton/scope.py": {"-2 ** 31", "2 ** 31", "8"},  # which numbers Triton takes for 64 bits
    "emit/unit/lock_file.py": {"2 ** 63"},  # what JSON may hold
}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    paths = sorted((ROOT / "emit").rglob("*.py"))
    assert len(paths) > 80
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def written(node: ast.expr) -> str:
    """The characters of a constant text, formatted or not."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_code(text: str) -> bool:
    """Whether a text is a sign of code, and no word, path or number."""
    is_part = text.endswith(".") and text != "."  # ``torch.``
    return is_part or any(not (sign.isalnum() or sign in "._") for sign in text)


def reads_text(tree: ast.AST) -> list[str]:
    """What looks for signs of code in a text, or takes it apart."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=args) if name in SEARCHES:
                is_of_torch = (
                    ast.unparse(of).startswith("str(") and written(args[0]) == "torch."
                )  # a dtype's name
                if any(is_code(written(one)) for one in args) and not is_of_torch:
                    found.append(ast.unparse(node))
            case ast.Call() if ast.unparse(node.func) in PARSERS:
                found.append(ast.unparse(node))
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]) if is_code(written(left)):
                found.append(ast.unparse(node))
    return found


def test_templates_name_what_is_not_theirs_in_braces() -> None:
    """So that the name is carried with the text: an import and a parameter follow from it."""
    frames = {"kernel.py.jinja", "functions.jinja"}  # written around what is finished
    paths = [path for path in (ROOT / "templates/triton").glob("*.jinja") if path.name not in frames]
    assert len(paths) > 10
    bare = []
    for path in paths:
        source = path.read_text()
        functions = jinja2.Environment().parse(source).find_all(jinja2.nodes.Macro)
        for macro in functions:
            texts = [node.data for node in macro.find_all(jinja2.nodes.TemplateData)]
            texts += [
                node.value for node in macro.find_all(jinja2.nodes.Const) if isinstance(node.value, str)
            ]
            of_runtime = {"ceil_div", "next_power_of_2", "tensor_table"}
            others = {"n_splits"} if macro.name != "host" else set()  # which the host function computes
            words = {word for text in texts for word in re.findall(r"\w+", text)}
            bare += [(path.name, macro.name, word) for word in words & (of_runtime | others)]
    assert not bare


def is_number(node: ast.expr | None) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) in (int, float)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
    return False


def numbers_at_the_top(tree: ast.Module) -> set[str]:
    """The names of a module's own numbers; those of tuples and tables of numbers, too."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = getattr(node.value, "elts", None) or getattr(node.value, "values", None) or [node.value]
            if any(map(is_number, parts)):
                found |= {name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)}
    return found


def compared_with(tree: ast.AST) -> set[str]:
    """Numbers beyond two, written out, that something is compared with by size."""
    by_size = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)
    return {
        ast.unparse(side)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(one, by_size) for one in node.ops)
        for side in (node.left, *node.comparators)
        if is_number(side) and abs(eval(ast.unparse(side))) > 2
    }


def test_printed_text_is_not_read_again(trees: dict[str, ast.Module]) -> None:
    found = {name: reads_text(tree) for name, tree in trees.items() if not name.startswith(OF_USERS)}
    counts = Counter({name: len(reads) for name, reads in found.items() if reads})
    listed = {name: most for name, (most, _) in READS.items()}
    assert {name: found[name] for name, n in counts.items() if n > listed.get(name, 0)} == {}
    assert {name: counts[name] for name, most in listed.items() if counts[name] < most} == {}, "list fewer"


def compares_printed(tree: ast.AST) -> list[str]:
    """What asks whether two functions were printed alike, or holds a decision beside a printed line."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(bases=bases) if "PythonLine" in map(ast.unparse, bases):
                found.append(node.name)  # a line that carries what is decided of it
            case ast.Compare(left=left, comparators=[right]) if any(
                ast.unparse(side).endswith((".lines", ".paragraphs")) for side in (left, right)
            ):
                found.append(ast.unparse(node))
    return found


def test_no_printed_functions_are_compared(trees: dict[str, ast.Module]) -> None:
    """Whether two functions do the same, their statements tell, which are values (emit/text/python_code.py)."""
    assert not {name: found for name, tree in trees.items() if (found := compares_printed(tree))}


def test_comparisons_of_printed_functions_are_found() -> None:
    tree = ast.parse("""
class CallLine(PythonLine):
    call = None
is_same = one.paragraphs == other.paragraphs
n_lines = len(one.lines) == 1
""")
    assert compares_printed(tree) == [
        "CallLine",
        "one.paragraphs == other.paragraphs",
    ]


def test_readers_of_text_are_found() -> None:
    readers = """
target, _, value = last.partition(" = ")
needs = any("memory(" in text for text in texts)
names = ast.parse(text)
is_functional = "F." in printed
is_call = line.startswith(f"{word} = ")
"""
    others = """
owner, _, name = path.rpartition(".")
is_there = "reduce" in names
dtype = str(value.dtype).removeprefix("torch.")
"""
    assert len(reads_text(ast.parse(readers))) == 5
    assert not reads_text(ast.parse(others))


def test_no_number_decides(trees: dict[str, ast.Module]) -> None:
    assert {name: found for name, tree in trees.items() if (found := numbers_at_the_top(tree))} == NUMBERS
    assert {name: found for name, tree in trees.items() if (found := compared_with(tree))} == COMPARISONS


def test_numbers_are_found() -> None:
    tree = ast.parse(
        "FEWEST_LAYERS = 3\n_SIDES: tuple[int, ...] = (64, 128)\nis_many = len(layers) >= 3 or n > 1"
    )
    assert numbers_at_the_top(tree) == {"FEWEST_LAYERS", "_SIDES"}
    assert compared_with(tree) == {"3"}
