"""The head of a kernel's file: numbers that get a name, the shapes of its tensors, how much it reads and writes.

A number's name is the user's, ``BETA2`` for 0.999, or its role's. A tensor of which a kernel takes a part is not as
large as that: the comment says where the part lies.
"""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence

from longhand.capture.graph import Role
from longhand.emit.cpp.types import cpp_type, literal
from longhand.emit.text.expression import log_of, root_text, scale_text
from longhand.emit.text.formula import title_of
from longhand.emit.text.textbook import is_softmax_of_one
from longhand.lower.ir import Buffer, Constant, Load, Pointwise, PointwiseOp, Store, Value
from longhand.schedule.named_plan import (
    BufferNamer,
    KernelNames,
    NamedPlan,
    fills_padding,
    launches,
    least_of,
)
from longhand.schedule.names.words import GradientWord, further_names, identifier, listed
from longhand.schedule.plan import (
    KernelPlan,
    KernelReads,
    Launch,
    Pointer,
    Region,
    UnitPlan,
    part_taken,
    row_stride,
    tensor_shape,
)

_MOST_LISTED = 4  # tensors of any kind; of more, those of one kind are counted
_FEWEST_COUNTED = 3  # of one kind
_MOST_PLAIN = 6  # whose kind says nothing
_LARGEST_BARE = 9
_OF_ONE = "A softmax over one element is 1; it is NaN where that is infinite or NaN."
_COMMENT = 88  # characters for a pointer and where its elements lie, beside ``_ptr,  # float32, ``
_ELEMENT = {Region.WHOLE: "one element", Region.FIRST: "the first element"}
_SHAPE = {Region.WHOLE: "{}", Region.IN_MEMORY: "{} in memory", Region.FIRST: "the first {}"}
# By the role of the value that compares with them.
_CONSTANTS_OF: dict[str | None, str] = {
    Role.COUNTS: "IGNORE_INDEX",
    Role.IS_IGNORED: "IGNORE_INDEX",
    Role.IS_NOT_PADDING: "PADDING_IDX",
}
_ROLES = {
    PointwiseOp.EQ: "SPECIAL_VALUE",
    PointwiseOp.NE: "SPECIAL_VALUE",
    PointwiseOp.LT: "THRESHOLD",
    PointwiseOp.LE: "THRESHOLD",
    PointwiseOp.GT: "THRESHOLD",
    PointwiseOp.GE: "THRESHOLD",
    PointwiseOp.ADD: "OFFSET",
    PointwiseOp.SUB: "OFFSET",
    PointwiseOp.MUL: "FACTOR",
    PointwiseOp.FLOOR_DIV: "DIVISOR",
    PointwiseOp.TRUNC_DIV: "DIVISOR",
    PointwiseOp.REMAINDER: "DIVISOR",
    PointwiseOp.FMOD: "DIVISOR",
    PointwiseOp.BITWISE_AND: "BITS",
    PointwiseOp.BITWISE_OR: "BITS",
    PointwiseOp.BITWISE_XOR: "BITS",
    PointwiseOp.MAXIMUM: "LIMIT",
    PointwiseOp.MINIMUM: "LIMIT",
    PointwiseOp.WHERE: "FILL_VALUE",
}


@dataclasses.dataclass(frozen=True)
class NamedConstant:
    """``constexpr int64_t IGNORE_INDEX = -100;``

    Attributes:
        type: In C++.
        name: In capitals.
        value: In C++.
        remark: What it is in other words, in C++: ``12**-0.5``.
    """

    type: str
    name: str
    value: str
    remark: str = ""


def named_constants(
    body: tuple[Value, ...], taken: frozenset[str], given: Mapping[int, str]
) -> dict[int, NamedConstant]:
    """The constants of a body that need a name, by position; equal ones share it.

    Args:
        body: The kernel's.
        taken: Names that no constant may have.
        given: The user's names for numbers, by position.
    """
    constants: dict[int, NamedConstant] = {}
    used = set(taken)
    for position, value in enumerate(body):
        if not isinstance(value, Constant) or not (position in given or _wants_name(value)):
            continue
        kind, text = cpp_type(value.dtype), literal(value.value, value.dtype).text
        same = next((c for c in constants.values() if (c.type, c.value) == (kind, text)), None)
        if same is None:
            word = given.get(position) or (value.name.upper() if value.name else _role(position, body))
            if word in used and value.dtype.is_floating_point:
                word = next(one.upper() for one in further_names(word) if one.upper() not in used)
            elif word in used:
                word = identifier(f"{word}_{text.rstrip('L').replace('-', 'MINUS_')}")
            used.add(word)
            same = NamedConstant(kind, word, text, scale_text(word, value.value) or _remark(value))
        constants[position] = same
    return constants


def _wants_name(value: Constant) -> bool:
    if value.dtype.is_floating_point:
        return value.name is not None or log_of(value.value) is not None or root_text(value.value) is not None
    return abs(value.value) > _LARGEST_BARE


def _remark(value: Constant) -> str:
    if not value.dtype.is_floating_point or value.name:
        return ""
    if (kind := least_of(value)) is not None:
        return f"of {str(kind).removeprefix('torch.')}"
    logged = log_of(value.value)
    return f"log({logged})" if logged else root_text(value.value) or ""


def _role(position: int, body: tuple[Value, ...]) -> str:
    number = body[position]
    assert isinstance(number, Constant)
    is_fraction = number.dtype.is_floating_point
    if is_fraction and (logged := log_of(number.value)):
        return f"LOG_{logged}"
    for value in body:
        if isinstance(value, Pointwise) and position in value.args:
            if value.name in _CONSTANTS_OF:
                return _CONSTANTS_OF[value.name]
            is_scale = is_fraction and value.op in (PointwiseOp.MUL, PointwiseOp.DIV)
            return "SCALE" if is_scale else _ROLES.get(value.op, "NUMBER")
    return "NUMBER"


def headed(passes: Sequence[NamedPlan]) -> list[NamedPlan]:
    """The passes, each kernel's names with the sentences at the head of its file, said of its first call."""
    heads: dict[str, tuple[str, tuple[str, ...]]] = {}
    headed_passes: list[NamedPlan] = []
    for one in passes:
        for launch in launches(one.plan):
            if launch.kernel not in heads:
                kernel, names = one.plan.kernels[launch.kernel], one.names.kernels[launch.kernel]
                notes = _notes(kernel, launch, one.plan, names, one.words)
                heads[launch.kernel] = title_of(kernel, names, one.words), notes
        # A kernel that two passes call has axes and pointers of other names in each: only what is said is shared.
        kernels = {
            key: dataclasses.replace(own, title=heads[key][0], notes=heads[key][1])
            for key, own in one.names.kernels.items()
        }
        headed_passes.append(dataclasses.replace(one, names=dataclasses.replace(one.names, kernels=kernels)))
    return headed_passes


def _notes(
    kernel: KernelPlan, launch: Launch, plan: UnitPlan, names: KernelNames, words: BufferNamer
) -> tuple[str, ...]:
    """Why longhand added the operation, if it did; what is read and written how often."""
    remarks = dict.fromkeys(words.provenance(origin).remark for origin in kernel.origins)
    line = traffic_line(kernel, launch, plan.buffers, names)
    of_one = [_OF_ONE] if is_softmax_of_one(kernel.body) else []
    return (*of_one, *(remark for remark in remarks if remark), f"{line}.")


_INDENT = "    "
_LONGEST_IN_TABLE = 240  # of a title whose results are named before their formulas
FACE_WIDTH = 107  # of a Python file's first line, whose quotes stand before it


def in_one_line(title: str) -> str:
    """The title for a table: ``norm = weight * x * rstd, where rstd = rsqrt(mean(x**2) + eps)``."""
    first, *equations = title.split("\n")
    if not equations:
        return first
    is_list = first.endswith(":")  # of results, which are among the equations
    whole = f"{' '.join([*([] if is_list else [first]), '; '.join(equations)])}."
    return f"{first[:-1]}." if is_list and len(whole) > _LONGEST_IN_TABLE else whole


def head_lines(kernel: str, title: str, width: int, escaped: Callable[[str], str]) -> list[str]:
    """The lines that a file begins with.

    Args:
        kernel: The kernel's name.
        title: What `title_of` made.
        width: Of a line.
        escaped: What makes a text safe inside the comment or the docstring.
    """
    first, *equations = title.split("\n")
    lines = textwrap.wrap(escaped(f"{kernel}: {first}"), width, break_long_words=False)
    for equation in equations:
        lines += textwrap.wrap(
            _INDENT + escaped(equation), width, subsequent_indent=2 * _INDENT, break_long_words=False
        )
    return lines


def shape_names(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> tuple[str, ...] | None:
    """A word for each dimension; none for a single element, None where no shape says what is accessed."""
    shape = tensor_shape(plan, pointer)
    if shape is None:
        return None
    return tuple(names.scalars[dim] if isinstance(dim, int) else names.axes[dim].size for dim in shape)


def shape_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str | None:
    """``(n_rows, n_cols)``, ``the first (n_rows, n_cols)``, ``one element``; None where no shape says it."""
    words = shape_names(plan, names, pointer)
    if words is None:
        return None
    if not words:
        return _ELEMENT.get(pointer.region, "an element")
    sizes = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    if pointer.region in _SHAPE:
        return _SHAPE[pointer.region].format(sizes)
    return _part_comment(plan, names, pointer, sizes)


def _part_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer, sizes: str) -> str:
    """``(n_rows, n_cols), rows x_stride apart``: where the kernel's elements lie among the tensor's."""
    part = part_taken(plan, pointer)
    stride = row_stride(plan, pointer)
    text = f"{part.n_places} parts, {sizes} each" if part.n_places > 1 else sizes
    text = f"at most {text}" if part.is_conditional else text
    room = room_beside(names, pointer)
    if stride is not None and len(told := f"{text}, rows {names.ints[stride]} apart") <= room:
        return told
    begin = None if part.is_conditional else part.begins_at
    if stride is not None or part.is_strided:
        text += " by strides"
    elif begin is None and not part.is_conditional:
        text += " of a tensor that may be larger"
    if begin is None:
        return text
    # A shape alone would say that it is the whole tensor, and calls are held to that.
    shortest = f"{'by strides, ' * part.is_strided}from its offset on"
    all_told = (f"{text}, from {names.ints[begin]} on", f"{text}, from its offset on", shortest)
    return next((told for told in all_told if len(told) <= room), shortest)


def room_beside(names: KernelNames, pointer: Pointer) -> int:
    """How many characters there are beside a pointer for where its elements lie."""
    return _COMMENT - len(names.pointers[pointer.name])


def is_whole_shape(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> bool:
    """Whether `shape_comment` begins with sizes: nothing but them says what is accessed."""
    return bool(shape_names(plan, names, pointer)) and pointer.region in (Region.WHOLE, Region.IN_MEMORY)


def traffic_line(
    kernel: KernelPlan, launch: Launch, buffers: Mapping[str, Buffer], names: KernelNames
) -> str:
    """The line, without its full stop.

    Args:
        kernel: The kernel.
        launch: Its first call.
        buffers: The unit's buffers.
        names: The kernel's words.
    """
    pointers = names.pointers
    stores = [value for value in kernel.body if isinstance(value, Store)]
    adds = [value for value in stores if value.adds]
    written = told_tensors((value.buffer for value in stores if not value.adds), kernel, names)
    added = f"adds to {told_tensors((value.buffer for value in adds), kernel, names)}"
    sums = {value.buffer for value in adds}
    if any(pointer.name in sums and pointer.dtype.is_floating_point for pointer in kernel.pointers):
        added += " in whatever order, so that last bits need not repeat"
    writes = " and ".join([*([f"writes {written} once"] if written else []), *([added] if adds else [])])
    if fills_padding(kernel):
        return f"Writes the padding of {written} once, and nothing else"
    shapes = [buffers[buffer].shape for buffer in launch.buffers]
    reads = KernelReads(kernel, launch.sizes, shapes, launch.scalars)
    loaded = dict.fromkeys(value.buffer for value in kernel.body if isinstance(value, Load))
    kept = [buffer for buffer in loaded if reads.stays_in_cache(buffer)]
    picked = [buffer for buffer in loaded if reads.is_picked(buffer)]
    rest = [buffer for buffer in loaded if buffer not in (*kept, *picked)]
    for_each = [buffer for buffer in rest if reads.read_for_each(buffer)]
    rest = [buffer for buffer in rest if buffer not in for_each]
    again = [buffer for buffer in rest if reads.is_repeated(buffer)]
    once = [buffer for buffer in rest if buffer not in again]
    cut = [buffer for buffer in once if reads.takes_part(buffer) and len(once) <= _MOST_LISTED]
    whole = [buffer for buffer in once if buffer not in cut]
    parts = [f"{told_tensors(whole, kernel, names)} once{_picked(whole, reads, pointers)}"] if whole else []
    parts += [f"part of {listed(pointers[buffer] for buffer in cut)} once"] if cut else []
    if again:
        parts.append(f"{told_tensors(again, kernel, names)} once from memory and again from the cache")
    parts += _for_each(for_each, reads, names)
    parts += _where(picked, reads, names)
    line = f"Reads {listed(parts)}, {writes}" if parts else f"{writes[:1].upper()}{writes[1:]}"
    if kept:
        line += f"; {told_tensors(kept, kernel, names)} stay{'s' * (len(kept) == 1)} in cache"
    return f"One launch over lists of tensors of any sizes. {line}" if kernel.schedule.is_over_lists else line


def _picked(once: list[str], reads: KernelReads, pointers: Mapping[str, str]) -> str:
    """`` (logits at labels twice)``: elements that are read again because a tensor of positions says so."""
    picks = [
        (pointers[buffer], listed(map(pointers.__getitem__, reads.picked_by(buffer)))) for buffer in once
    ]
    texts = [f"{word} at {positions} twice" for word, positions in picks if positions]
    return f" ({listed(texts)})" if texts else ""


def _for_each(buffers: list[str], reads: KernelReads, names: KernelNames) -> list[str]:
    """``cos and sin once for each head``"""
    tables: dict[str, list[str]] = {}
    for buffer in buffers:
        axes = listed(names.axes[axis].index for axis in reads.read_for_each(buffer))
        tables.setdefault(axes, []).append(buffer)
    return [
        f"{told_tensors(alike, reads.kernel, names)} once for each {axes}" for axes, alike in tables.items()
    ]


def _where(picked: list[str], reads: KernelReads, names: KernelNames) -> list[str]:
    """``embed_tokens where input_ids says``: of each element nobody knows how often it is read, or whether."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for buffer in picked:
        positions = tuple(names.pointers[one] for one in reads.picked_by(buffer))
        tables.setdefault(positions, []).append(buffer)
    told = {positions: told_tensors(alike, reads.kernel, names) for positions, alike in tables.items()}
    return [
        f"{tensors} where {listed(positions)} say{'s' * (len(positions) == 1)}"
        for positions, tensors in told.items()
    ]


class _Kind(enum.Enum):
    """What is counted. Others' words may stand beside a number of gradients: a gradient can have a word of its own."""

    GRADIENT = "{} gradients"
    VECTOR = "the {} vectors"
    OTHER = "tensors"


def told_tensors(buffers: Iterable[str], plan: KernelPlan, names: KernelNames) -> str:
    """``d_out, the 5 vectors and x``.

    Args:
        buffers: The keys of the kernel's pointers.
        plan: The kernel.
        names: Its words.
    """
    kinds = {buffer: _kind(buffer, plan, names) for buffer in dict.fromkeys(buffers)}
    if len(kinds) <= _MOST_LISTED:
        return listed(names.pointers[buffer] for buffer in kinds)
    counted = {
        kind for kind in (_Kind.GRADIENT, _Kind.VECTOR) if list(kinds.values()).count(kind) >= _FEWEST_COUNTED
    }
    left = [buffer for buffer, kind in kinds.items() if kind not in counted]
    if len(left) > _MOST_PLAIN:
        return _with_others(kinds)
    entries = [
        kind.value.format(list(kinds.values()).count(kind)) if kind in counted else names.pointers[buffer]
        for buffer, kind in kinds.items()
    ]
    return listed(dict.fromkeys(entries))


def _with_others(kinds: dict[str, _Kind]) -> str:
    """``the 7 tensors``, ``3 gradients and the 7 other tensors``."""
    numbers = {kind: list(kinds.values()).count(kind) for kind in _Kind}
    said = [kind for kind in (_Kind.GRADIENT, _Kind.VECTOR) if numbers[kind] >= _FEWEST_COUNTED]
    n_others = len(kinds) - sum(numbers[kind] for kind in said)
    others = f"the {n_others} {'other ' * bool(said)}{_Kind.OTHER.value}"
    return listed([*(kind.value.format(numbers[kind]) for kind in said), others])


def _kind(buffer: str, plan: KernelPlan, names: KernelNames) -> _Kind:
    if isinstance(names.pointers[buffer], GradientWord):
        return _Kind.GRADIENT
    ranks = {pointer.name: _rank(tensor_shape(plan, pointer)) for pointer in plan.pointers}
    return _Kind.VECTOR if ranks[buffer] == 1 < max(ranks.values()) else _Kind.OTHER


def _rank(shape: tuple[str | int, ...] | None) -> int:
    return 2 if shape is None else len(shape)
