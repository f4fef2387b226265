"""From templates to a unit's text: its Jinja environment, runtime.py made of its parts, and formatting.

runtime.py is the little support code that a unit's files import, and nothing else. Texts seen before are not
formatted again: black, and clang-format for C++.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import black
import jinja2

from longhand.emit.cpp.format import format_cpp
from longhand.emit.text.quoting import markdown, markdown_code, python_docstring, visible
from longhand.errors import ToolError

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "unit"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)
_ENVIRONMENT.filters |= {
    "docstring": python_docstring,
    "visible": visible,
    "markdown": markdown,
    "code": markdown_code,
}


def render_template(template: str, **values: Any) -> str:
    """A template of templates/unit, filled."""
    return _ENVIRONMENT.get_template(template).render(**values)


_PARTS = (
    "checks",
    "weights",
    "ties",
    "frozen",
    "modes",
    "autocast",
    "images",
    "constants",
    "pool",
    "shapes",
    "cpp",
    "build_cache",
    "native",
    "blas",
    "tensor_lists",
    "launch",
    "windows",
    "saved",
    "derivatives",
    "convolutions",
    "attention",
    "tensor_table",
    "cuda_graph",
    "training_graph",
    "recorded_step",
    "interpreter",
)
_BESIDE = ("blas.c", "cublas.h", "launch.c", "matrices.h", "tensors.h")  # C that some of them build
# What they define stands in place of the others' definitions of that name.
_BUILT = {"cpu": "built", "cuda": "built_cuda"}


@dataclasses.dataclass(frozen=True)
class _RuntimeDefinition:
    """A top-level statement of a part.

    Attributes:
        names: What it binds; empty for a bare statement, which is taken along with what it uses.
        uses: Names that it mentions.
        text: Its source, the comments before it included.
        part: Its part.
        files: The files beside runtime.py that it names.
        is_block: Whether it is a function or a class.
        is_headed: Whether a comment that stands by itself is before it.
    """

    names: frozenset[str]
    uses: frozenset[str]
    text: str
    part: str
    files: frozenset[str]
    is_block: bool
    is_headed: bool


@dataclasses.dataclass(frozen=True)
class _RuntimePart:
    imports: tuple[tuple[str, str], ...]  # (name bound, statement)
    definitions: tuple[_RuntimeDefinition, ...]


_RUNTIME = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "runtime"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)


def write_runtime(roots: Iterable[str], *, built_for: str | None = None) -> str:
    """The text of runtime.py. Its parts are written as black lays them out, and so is what is put together of them.

    Args:
        roots: The names that the unit's other files import from it.
        built_for: The device ("cpu", "cuda") for which its kernels were built: they are loaded, not compiled.
    """
    return write_runtime_files(roots, built_for=built_for)["runtime.py"]


def write_runtime_files(roots: Iterable[str], *, built_for: str | None = None) -> dict[str, str]:
    """runtime.py, as `write_runtime` writes it, and the C files beside it that it builds."""
    built = _BUILT.get(built_for or "")
    chosen = (*_PARTS, built) if built else _PARTS
    parts = {name: part for name in chosen if (part := _load(name)) is not None}
    definitions = [definition for part in parts.values() for definition in part.definitions]
    if built:
        own = frozenset[str]().union(*(one.names for one in definitions if one.part == built))
        definitions = [one for one in definitions if one.part == built or not own & one.names]
    wanted = _reached(set(roots), definitions)
    known = frozenset[str]().union(*(definition.names for definition in definitions))
    missing = set(roots) - known
    if missing:
        raise AssertionError(f"no part of the runtime defines {', '.join(sorted(missing))}")
    kept = [definition for place, definition in enumerate(definitions) if place in wanted]
    used = frozenset[str]().union(*(definition.uses for definition in kept))
    imports = {statement for part in parts.values() for name, statement in part.imports if name in used}
    head = '"""What the unit needs besides its kernels: input checks, weights, and the way to build and launch."""'
    top = "\n\n".join(filter(None, (head, sorted_imports(imports))))
    beside = sorted(frozenset[str]().union(*(definition.files for definition in kept)))
    return {
        "runtime.py": f"{top}{''.join(_put_together(kept))}\n",
        **{name: _source(name) for name in beside},
    }


def _source(name: str) -> str:
    """A file of templates/runtime as it is."""
    loader = _RUNTIME.loader
    assert loader is not None
    return loader.get_source(_RUNTIME, name)[0]


def _put_together(definitions: Iterable[_RuntimeDefinition]) -> Iterator[str]:
    """Their texts, with as many blank lines before each as black puts there: two around functions and classes."""
    is_after_block = False
    for one in definitions:
        yield "\n\n\n" if is_after_block or (one.is_block and not one.is_headed) else "\n\n"
        yield one.text
        is_after_block = one.is_block


def _reached(roots: set[str], definitions: list[_RuntimeDefinition]) -> set[int]:
    """Positions of the definitions that the roots need; a bare statement comes with the names that it mentions."""
    wanted: set[int] = set()
    names = set(roots)
    local = {name: place for place, definition in enumerate(definitions) for name in definition.names}
    while True:
        places = {
            place
            for place, definition in enumerate(definitions)
            if definition.names & names
            or (
                not definition.names
                and definition.uses & names & set(local)
                and _is_of_kept_part(definition, names, local, definitions)
            )
        }
        if places == wanted:
            return wanted
        wanted = places
        names |= {use for place in places for use in definitions[place].uses}


def _is_of_kept_part(
    definition: _RuntimeDefinition,
    names: set[str],
    local: dict[str, int],
    definitions: list[_RuntimeDefinition],
) -> bool:
    return any(
        definitions[local[name]].part == definition.part for name in definition.uses & names & set(local)
    )


@functools.cache
def _load(name: str) -> _RuntimePart | None:
    try:
        raw = _source(f"{name}.py.jinja")
    except jinja2.TemplateNotFound:
        return None
    text = _RUNTIME.from_string(raw).render()
    needed = re.search(r"\{#.*?Needs: (.*?)\.\s*-?#\}", raw, flags=re.DOTALL)
    stated = re.split(r",\s*(?=import |from )", " ".join(needed[1].split())) if needed else []
    tree = ast.parse(text)
    lines = text.splitlines()
    imports: list[tuple[str, str]] = []
    definitions: list[_RuntimeDefinition] = []
    end = 0
    for statement in [*ast.parse("\n".join(stated)).body, None, *tree.body]:
        if statement is None:
            end = 0
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports += _imported(statement)
        else:
            source = "\n".join(lines[end : statement.end_lineno]).strip("\n")
            is_block = isinstance(statement, ast.FunctionDef | ast.ClassDef)
            first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
            is_headed = source.startswith("#") and not lines[first - 2].strip()
            names = _bound(statement), _mentioned(statement)
            files = _named_files(statement)
            definitions.append(_RuntimeDefinition(*names, source, name, files, is_block, is_headed))
        end = statement.end_lineno or end
    return _RuntimePart(tuple(imports), tuple(definitions))


def _imported(statement: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    bindings = []
    for alias in statement.names:
        one = ast.alias(alias.name, alias.asname)
        if isinstance(statement, ast.Import):
            text = ast.unparse(ast.Import([one]))
        else:
            text = ast.unparse(ast.ImportFrom(statement.module, [one], statement.level))
        bindings.append((alias.asname or alias.name.partition(".")[0], text))
    return bindings


def _bound(statement: ast.stmt) -> frozenset[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return frozenset({statement.name})
    if isinstance(statement, ast.Assign):
        return frozenset(
            node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
        )
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return frozenset({statement.target.id})
    return frozenset()


def _mentioned(statement: ast.stmt) -> frozenset[str]:
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    quoted = {
        word
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
        for word in (node.value,)
    }
    return frozenset(names | quoted)


def _named_files(statement: ast.stmt) -> frozenset[str]:
    """The C files of templates/runtime whose names are strings in a statement."""
    words = {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)}
    return frozenset(name for name in _BESIDE if name in words)


def sorted_imports(statements: Iterable[str]) -> str:
    """Import lines in groups: the standard library, then others, then the unit's own; names of one module together.

    What stands after a ``#`` stays behind an import of a whole module.
    """
    plain: set[str] = set()
    froms: dict[str, set[str]] = {}
    for statement in statements:
        node = ast.parse(statement).body[0]
        if isinstance(node, ast.Import):
            _, mark, remark = statement.partition("  #")
            plain |= {ast.unparse(ast.Import([alias])) + mark + remark for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            froms.setdefault(module, set()).update(
                alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in node.names
            )
    lines: dict[int, list[tuple[str, str]]] = {}
    for statement in plain:
        module = statement.split()[1]
        lines.setdefault(_group(module), []).append((f"0{module}", statement))
    for module, names in froms.items():
        ordered = ", ".join(sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)))
        lines.setdefault(_group(module), []).append((f"1{module}", f"from {module} import {ordered}"))
    return "\n\n".join("\n".join(text for _, text in sorted(lines[group])) for group in sorted(lines))


def _group(module: str) -> int:
    if module.startswith("."):
        return 2
    return 1 if not _is_standard(module) else 0


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def imported_from_runtime(files: Mapping[str, str]) -> set[str]:
    """The names that a unit's Python files import from runtime.py."""
    names: set[str] = set()
    for path, text in files.items():
        if path.endswith(".py") and "runtime import" in text:  # else it is not worth parsing
            names |= _runtime_names(text)
    return names


@functools.lru_cache(maxsize=1024)  # kernels are the same in many units
def _runtime_names(text: str) -> frozenset[str]:
    """What a file imports from runtime.py, wherever in it."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:  # statements alone: most of a tree is expressions
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module == "runtime" and node.level:
            names |= {alias.name for alias in node.names}
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, ())
            waiting += inner if isinstance(inner, list) else ()
    return frozenset(names)


_MODE = black.Mode(line_length=110, target_versions={black.TargetVersion.PY311})


# Black leaves two empty lines before a function or class of a module, whatever stands around them.
_BETWEEN = re.compile(r"\n\n\n(?=def |class |@)")


@functools.lru_cache(maxsize=1024)
def format_python(text: str) -> str:
    """The text as black lays it out: function by function, for most of them are those of other units.

    Raises:
        ToolError: black cannot parse it (a bug in longhand).
    """
    blocks = _BETWEEN.split(text)
    try:
        if all(blocks):
            return "\n\n\n".join(_format_block(block).rstrip("\n") for block in blocks) + "\n"
    except black.InvalidInput:  # a string may hold what looks like the beginning of a function
        pass
    try:
        return _format_block(text)
    except black.InvalidInput as error:
        raise ToolError(f"black cannot read generated Python: {error}") from error


@functools.lru_cache(maxsize=4096)
def _format_block(text: str) -> str:
    """Whole statements of a file."""
    try:
        return black.format_file_contents(text, fast=True, mode=_MODE)
    except black.NothingChanged:
        return text


_format_cpp = functools.lru_cache(maxsize=1024)(format_cpp)


def format_files(files: Mapping[str, str]) -> dict[str, str]:
    """Every .py, .cpp and .h file formatted; clang-format's processes run side by side."""
    native = [path for path in files if path.endswith((".cpp", ".h"))]
    with ThreadPoolExecutor(max_workers=4) as threads:
        formatted = dict(
            zip(
                native,
                threads.map(lambda path: _format_cpp(files[path], path.rpartition("/")[2]), native),
                strict=True,
            )
        )
    return {
        path: formatted.get(path) or (_format_file(text) if path.endswith(".py") else text)
        for path, text in files.items()
    }


def _format_file(text: str) -> str:
    """What is no Python stays as it is: the proof of the unit says where, with the file and the line."""
    try:
        return format_python(text)
    except ToolError:
        with contextlib.suppress(SyntaxError):
            ast.parse(text)
            raise
        return text
