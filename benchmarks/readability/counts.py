"""What a program can find of the things that a reader stumbles over: one small function for each.

Each takes a unit's text and returns where it found its thing, in words; their number is the count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from benchmarks.readability.text import UnitText

Counter = Callable[[UnitText], list[str]]

_OPS_TEXT = """
    abs add and any all ceil clamp clone cos cumsum cumprod div eq erf exp floor ge gt fill index_put isfinite isinf
    isnan le log lt max maximum mean min minimum mod mul ne neg not or pow power prod reciprocal remainder round rsqrt
    scale scatter sigmoid sign sin sqrt stack std sub sum tan tanh tril triu var where xor cat gather pad select
"""
_OPS = frozenset(_OPS_TEXT.split())
# Words that tell two kernels apart and say nothing of the math.
_BESIDE_TEXT = """
    and to of by row rows col cols column columns flat batched nested blocks strided packed short only copy copies
    transpose transposed split parts pair triple several masked partial fp16 bf16 fp32 fp64 int64 int32 bool
"""
_BESIDE = frozenset(_BESIDE_TEXT.split())
_MANY_OPS = 3
_MANY_NUMBERS = 3
_WIDEST = 110
_MOST_DIGITS = 6  # significant ones that a person would write: 0.044715 has five

_FORBIDDEN = re.compile(
    r"result|\w+_value|selected|scaled|\w*at_at\w*|part_\d+_\w+|\w+_only|\w+_down2|\w+_by_(?:row|col)"
)
_QUOTE = re.compile(r"^\s*# (\S+    \S.*(?:\n\s*#         \S.*)*)", re.M)
# A parameter whose comment says all of its shape: ``x_ptr,  # bf16 (n_rows, n_cols)``; not how it lies in memory.
_SHAPE = re.compile(
    r"^ +(?:const )?(?:\w+ \*)?(\w+?)(?:_ptr)?, +(?:# \w+|//),? \(([^()]*)\)(?! in memory)", re.M
)
_CPP_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def chain_names(unit: UnitText) -> list[str]:
    """Kernels that are called after a list of operations: ``cat_sub_ne``."""
    return [name for name in unit.kernels if _is_chain(name.split("_"))]


def _is_chain(words: list[str]) -> bool:
    ops = [word for word in words if word in _OPS and word != "and"]
    is_all = all(word in _OPS or word in _BESIDE for word in words)
    return len(ops) >= _MANY_OPS or (len(ops) > 1 and is_all)


def listing_docstrings(unit: UnitText) -> list[str]:
    """Kernels whose docstring gives no formula, nor the name of what it is the backward pass of."""
    listings = []
    for name in unit.kernels:
        first = (ast.get_docstring(ast.parse(unit.files[f"kernels/{name}.py"])) or "").partition("\n\n")[0]
        words = re.findall(r"\w+", first.partition(":")[2])
        is_listing = " from " in first or sum(word in _OPS for word in words) > 1
        if "in one pass" in first or ("=" not in first and is_listing and "backward pass of" not in first):
            listings.append(f"{name}: {first}")
    return listings


def unsaid_orders(unit: UnitText) -> list[str]:
    """Tensors whose axes come in another order than a result's, by the comments, and that a formula names bare."""
    found = []
    for name in unit.kernels:
        code, cpp = (unit.files.get(f"kernels/{name}.{ending}", "") for ending in ("py", "cpp"))
        formula = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")[0].partition(":")[2]
        shapes = dict(_SHAPE.findall(cpp or code))
        made = [
            word
            for word in shapes
            if re.search(rf"tl\.store\(\s*{word}_ptr", code)
            or re.search(rf"^ +(?!const )\w+ \*(?:__restrict )?{word},", cpp, re.M)
        ]
        for word, result in ((word, result) for result in made for word in shapes if word not in made):
            axes, wanted = (shapes[one].replace(" ", "").split(",") for one in (word, result))
            is_moved = [one for one in axes if one in wanted] != [one for one in wanted if one in axes]
            if "=" in formula and is_moved and re.search(rf"\b{word}\b(?![.\[])", formula):
                found.append(f"{name}: {word} ({shapes[word]}) into {result} ({shapes[result]}): {formula}")
    return found


def kernels_without_input(unit: UnitText) -> list[str]:
    """Kernels that read no tensor: what they write is known before the call."""
    names = []
    for name in unit.kernels:
        is_cpp = f"kernels/{name}.cpp" in unit.files
        text = _code(unit, name)
        reads = re.search(r"const \w+ \*", _signature(text)) if is_cpp else "tl.load(" in text
        names += [] if reads else [name]
    return names


def folded_floats(unit: UnitText) -> list[str]:
    """Numbers that nobody would write: more digits than a person types, or a size as a float that is divided by.

    What the user wrote, and what has a name in capitals, is none.
    """
    numbers = []
    for path, text in unit.files.items():
        if not path.endswith((".py", ".cpp")) or not path.startswith(("kernels/", "model.py", "backward.py")):
            continue
        code = re.sub(r"^.*\b[A-Z][A-Z0-9_]+\b\s*=.*$", "", _bare(path, text), flags=re.M)
        theirs = _theirs(unit)
        for number in re.findall(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?f?(?!\w)", code):
            digits = re.sub(r"e.*|\.|f", "", number).strip("0")
            if len(digits) > _MOST_DIGITS and not _is_known(number) and number not in theirs:
                numbers.append(f"{path}: {number}")
        for number in re.findall(r"/ (\d{2,}\.0)f?\b", code):
            if not re.search(rf"(?<![\w.]){number.removesuffix('.0')}\b", theirs):
                numbers.append(f"{path}: / {number}")
    return numbers


def positional_numbers(unit: UnitText) -> list[str]:
    """Calls of kernels with three or more numbers in a row that no keyword names."""
    n_tensors = {name: _n_pointers(unit, name) for name in unit.kernels}
    calls = []
    for path, text in unit.wrappers.items():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="kernels"), attr=name)):
                    if len(node.args) - n_tensors.get(name, 0) >= _MANY_NUMBERS:
                        calls.append(f"{path}: {name}")
    return calls


def forbidden_names(unit: UnitText) -> list[str]:
    """Words that say nothing: ``result``, ``selected``, ``x_value``, ``part_1_x``, ``add_only``."""
    theirs = _theirs(unit)
    words: dict[str, None] = {}
    for path, text in unit.files.items():
        if path in unit.wrappers or (path.startswith("kernels/") and path.endswith((".py", ".cpp"))):
            for word in re.findall(r"[A-Za-z_]\w*", _bare(path, text)):
                if _FORBIDDEN.fullmatch(word) and not re.search(rf"\b{word}\b", theirs):
                    words[f"{path}: {word}"] = None
    return list(words)


def glue(unit: UnitText) -> list[str]:
    """Reshapes of reshapes, transposes of transposes, and ``contiguous()`` of what was just made so."""
    glue_calls = []
    for path, text in unit.wrappers.items():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr=outer, value=ast.Call(func=ast.Attribute(attr=inner)))):
                    if (outer, inner) in _NEEDLESS:
                        glue_calls.append(f"{path}: .{inner}().{outer}()")
        for first, second in _neighbours(ast.parse(text)):
            if (second[1], first[1]) in _NEEDLESS and first[0] == second[0] == second[2]:
                glue_calls.append(f"{path}: {first[0]}.{first[1]}(), then .{second[1]}()")
    return glue_calls


_SHAPES, _TURNS = ("reshape", "view", "flatten"), ("transpose", "t")
_NEEDLESS = {
    *((one, other) for one in _SHAPES for other in _SHAPES),
    *((one, one) for one in _TURNS),
    *(("contiguous", one) for one in ("contiguous", "clone", "empty", "empty_like")),
}


def repeated_quotes(unit: UnitText) -> list[str]:
    """Statements of the user that are quoted again in the same function of a wrapper."""
    repeats = []
    for text in unit.wrappers.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
                quotes = [re.sub(r"\s*\n\s*#\s+", " ", quote) for quote in _QUOTE.findall(body)]
                repeats += [quote for place, quote in enumerate(quotes) if quote in quotes[:place]]
    return repeats


def unrolled_layers(unit: UnitText) -> list[str]:
    """Layers of one list, by number, whose weights one function reads one after another.

    A layer of which it reads a few alone is none: what of a layer is fused with its neighbour stands beside the loop.
    """
    unrolled = []
    for text in unit.wrappers.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                seen: dict[str, dict[str, set[str]]] = {}
                for part in ast.walk(node):
                    match _layer_of(part):
                        case (layers, layer, below):
                            seen.setdefault(layers, {}).setdefault(layer, set()).add(below)
                for of_list in seen.values():
                    most = max(map(len, of_list.values()))
                    unrolled += [layer for layer, read in list(of_list.items())[1:] if 2 * len(read) > most]
    return [layer for layer in unrolled if layer.startswith("self.") and ".shape[" not in layer]


def _layer_of(node: ast.AST) -> tuple[str, str, str] | None:
    """A list, one of its layers, and what is read of that: ``self.layers``, ``self.layers[3]``, ``.norm.weight``."""
    path = ""
    while isinstance(node, ast.Attribute):
        path, node = f".{node.attr}{path}", node.value
    match node:
        case ast.Subscript(value=ast.Attribute() as layers, slice=ast.Constant(value=int(i))) if path:
            return ast.unparse(layers), f"{ast.unparse(layers)}[{i}]", path
    return None


def wide_lines(unit: UnitText) -> list[str]:
    """Lines of model.py and backward.py that are wider than any that a person would leave so."""
    return [
        f"{path}, line {number}: {len(line)} columns"
        for path, text in unit.wrappers.items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > _WIDEST
    ]


COUNTERS: dict[str, Counter] = {
    "chain names": chain_names,
    "listing docstrings": listing_docstrings,
    "unsaid orders": unsaid_orders,
    "without input": kernels_without_input,
    "folded floats": folded_floats,
    "positional numbers": positional_numbers,
    "forbidden names": forbidden_names,
    "glue": glue,
    "repeated quotes": repeated_quotes,
    "unrolled layers": unrolled_layers,
    "wide lines": wide_lines,
}


def _code(unit: UnitText, name: str) -> str:
    path = f"kernels/{name}.cpp"
    path = path if path in unit.files else f"kernels/{name}.py"
    return _bare(path, unit.files[path])


def _signature(cpp: str) -> str:
    match = re.search(r'extern "C" void \w+\(([^)]*)\)', cpp)
    return match[1] if match else ""


def _n_pointers(unit: UnitText, name: str) -> int:
    """How many of a kernel's arguments are tensors."""
    text = _code(unit, name)
    if f"kernels/{name}.cpp" in unit.files:
        return _signature(text).count("*")
    host = next(
        (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name),
        None,
    )
    given = [argument.arg for argument in host.args.args] if host is not None else []
    return sum(f"{word}_ptr" in text for word in given)


def _bare(path: str, text: str) -> str:
    """The code without comments and docstrings."""
    if path.endswith(".cpp"):
        return _CPP_COMMENT.sub("", text)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _theirs(unit: UnitText) -> str:
    """Everything that is quoted from the user."""
    quotes = [quote for text in unit.wrappers.values() for quote in _QUOTE.findall(text)]
    docstrings = [
        ast.get_docstring(ast.parse(unit.files[f"kernels/{name}.py"])) or "" for name in unit.kernels
    ]
    return "\n".join([*quotes, *(text.partition("\n\n")[2] for text in docstrings)])


def _is_known(number: str) -> bool:
    """Whether it is a power of ten, or the largest number of a type, that is written with an exponent."""
    return re.fullmatch(r"3\.40282\d+e\+?38f?|1\.0e.*", number) is not None


def _neighbours(tree: ast.Module) -> Iterator[tuple[tuple[str, str, str], tuple[str, str, str]]]:
    """Pairs of following statements ``x = y.method(...)``, each as (x, method, y)."""
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            steps = [_method(statement) for statement in body] if isinstance(body, list) else []
            yield from ((one, other) for one, other in pairwise(steps) if one and other)


def _method(statement: ast.stmt) -> tuple[str, str, str] | None:
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=source), attr=method)),
        ):
            return target, method, source
    return None
