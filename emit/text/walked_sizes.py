"""Numbers of a launch by the tensors that it is given: no call says 6 where a word, a shape or a stride tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from torch import fx

from longhand.emit.text.python_code import (
    Code,
    GroupedCode,
    InfixCode,
    MethodCode,
    NameCode,
    PrefixCode,
    ProductCode,
    SizeText,
    dimension,
    multiplied,
    product,
    whole_number,
    words_in,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import is_folded, is_path
from longhand.lower.ir import Buffer, Size
from longhand.schedule.named_plan import ModelStep, aten_name, is_plain_variable
from longhand.schedule.plan import (
    Access,
    Allocate,
    FewStrides,
    KernelPlan,
    Launch,
    UnitPlan,
    WalkedDims,
    dims_in_memory,
    few_strides,
    steps_to,
    walked_dims,
)


def sizes_walked(
    plan: UnitPlan, step: Launch, texts: Mapping[str, Code], variables: Mapping[str, str], writer: SizeWriter
) -> dict[str, Code]:
    """What tells the size of each axis of a launch, where only its number is known: ``ROTARY_DIM // 2``.

    Args:
        plan: The unit's plan.
        step: The launch.
        texts: What tells the sizes so far, by axis.
        variables: The variable of each buffer.
        writer: Writes sizes.
    """
    buffers, names = [plan.buffers[name] for name in step.buffers], [variables[name] for name in step.buffers]
    walked = walked_dims(plan.kernels[step.kernel], step.sizes, step.ints, buffers)
    passed = [pointer for pointer in plan.kernels[step.kernel].pointers if not pointer.scratch]
    is_made = [pointer.access is Access.WRITE for pointer in passed]
    known, folded = dict(texts), [axis for axis in walked if is_folded(texts[axis])]
    length = dict(zip(walked, step.sizes, strict=True))
    for may_divide in (False, True, True):  # by what is told by then: 4 says nothing of what it is
        for axis in [one for one in folded if is_folded(known[one])]:
            ways = [
                (way, text)
                for way in walked[axis]
                for text in (_words(way, buffers[way.place], writer),)
                if _may_tell(axis, way, text.code, length) and not _is_anothers(axis, way, walked, folded)
            ]
            if not may_divide and any(way.beside for way, _ in ways):
                continue
            parts = ((text, _part(way, text.code, known)) for way, text in ways if not text.is_number)
            in_words = next(((text, part) for text, part in parts if part is not None), None)
            single = [way for way, _ in ways if len(way.dims) == 1 and is_path(names[way.place])]
            read = min(single, key=lambda way: bool(way.beside) and is_made[way.place], default=None)
            if in_words is not None:
                writer.use(in_words[0])
                known[axis] = in_words[1]
            elif read is not None and length[axis] != 2:  # no shape tells better what a pair is
                part = _part(read, _dimension(read, buffers, names), known)
                known[axis] = part if part is not None else known[axis]
    return {axis: known[axis] for axis in folded if not is_folded(known[axis])}


def _is_anothers(
    axis: str, way: WalkedDims, walked: Mapping[str, Sequence[WalkedDims]], folded: Sequence[str]
) -> bool:
    """Whether a way goes along dimensions that another axis walks whole: the strides are alike by chance.

    Of a join's second piece, which begins before its tensor, one axis may step as far as the batch does. They are
    those of the axis that is told already, or else that walks more of the tensors so.
    """

    def n_whole(of: str) -> int:
        return sum(one.is_whole for one in walked[of])

    return any(
        other != axis
        and (other not in folded or n_whole(other) >= n_whole(axis))
        and any(one.place == way.place and one.is_whole and {*one.dims} & {*way.dims} for one in ways)
        for other, ways in walked.items()
    )


def _may_tell(axis: str, way: WalkedDims, whole: Code, length: Mapping[str, Size]) -> bool:
    """Whether a way tells an axis: beside a longer one only of a product, as of pairs in a row 2 is their formula's.

    How many groups all rows have is no formula's.
    """
    if way.beside is None or isinstance(whole, ProductCode) or (way.is_outer and way.dims == (0,)):
        return True
    inner, outer = length[axis], length[way.beside]
    return isinstance(inner, int) and isinstance(outer, int) and outer <= inner


def _words(way: WalkedDims, buffer: Buffer, writer: SizeWriter) -> SizeText:
    """The dimensions by their words; a number where one of them has none."""
    words = writer.words_of(buffer)
    texts = [writer.written(buffer.shape[dim], words[dim]) for dim in way.dims if buffer.shape[dim] != 1]
    number = next((text for text in texts if text.is_number), None)
    return number if number is not None else multiplied(texts)


def _dimension(way: WalkedDims, buffers: Sequence[Buffer], variables: Sequence[str]) -> Code:
    (dim,) = way.dims
    is_last = dim + 1 == len(buffers[way.place].shape)
    return dimension(variables[way.place], -1 if is_last else dim)


def _part(way: WalkedDims, whole: Code, texts: Mapping[str, Code]) -> Code | None:
    """What is left of a dimension for one axis: ``seq - 1`` of one that leaves the first out.

    None where a number would divide a product, of which it may be any factor.
    """
    if isinstance(whole, ProductCode) and not way.is_whole and way.beside is None:
        return None
    if way.n_parts > 1:
        return InfixCode(whole, "//", whole_number(way.n_parts))
    if way.n_left_out:
        return InfixCode(whole, "-", whole_number(way.n_left_out))
    if way.beside is None:
        return whole
    by = texts[way.beside]
    if isinstance(whole, ProductCode):
        return None if is_folded(by) else _divided(whole.factors, _factors(by))
    if is_folded(by) and by != whole_number(2):  # a number says nothing of what another one is, but of pairs
        return None
    return InfixCode(whole, "//", by if by.is_factor and not isinstance(by, ProductCode) else GroupedCode(by))


def _factors(size: Code) -> tuple[Code, ...]:
    return size.factors if isinstance(size, ProductCode) else (size,)


def _divided(factors: Sequence[Code], by: Sequence[Code]) -> Code:
    """``n_heads // n_kv_heads``: products one by the other, without what both have."""
    above, below = list(factors), list[Code]()
    for factor in by:
        if factor in above:
            above.remove(factor)
        else:
            below.append(factor)
    whole = product(above) if above else whole_number(1)
    if not below:
        return whole
    return InfixCode(
        whole, "//", below[0] if len(below) == 1 and below[0].is_factor else GroupedCode(product(below))
    )


def steps_walked(
    plan: UnitPlan, step: Launch, ints: Sequence[Code], variables: Mapping[str, str]
) -> list[Code]:
    """The strides and offsets of a launch, those that are only numbers so far by the strides of the tensors."""
    kernel = plan.kernels[step.kernel]
    passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
    buffers, told = dict(zip(passed, step.buffers, strict=True)), list[Code]()
    for parameter, value, text in zip(kernel.ints, step.ints, ints, strict=True):
        name = buffers.get(parameter.pointer or "")
        if name is None or not is_folded(text) or not is_path(variables[name]):
            told.append(text)
            continue
        by = _stride if parameter.axis is not None else _begin
        found = by(value, plan.buffers[name], variables[name])
        if found is None and parameter.axis is None:
            found = _selected(plan, value, plan.buffers[name], variables[name])
        told.append(found or text)
    return told


def _selected(plan: UnitPlan, value: Size, buffer: Buffer, variable: str) -> Code | None:
    """``2 * freq.stride(0)``: the begin of what the user selects of a tensor along its first dimension.

    Without that it would only be as many elements by chance.
    """
    node = next((one for one in plan.program.graph.graph.nodes if one.name == buffer.name), None)
    first = buffer.stride[0] if buffer.shape and buffer.layout_is_known else 0
    if (
        node is None
        or not isinstance(value, int)
        or not isinstance(first, int)
        or first <= 1
        or value % first
    ):
        return None
    seen, places = [node], set[object]()
    for one in seen:  # grows
        for user in one.users:
            if aten_name(user) == "select" and user.args[1] == 0:
                places.add(user.args[2])
            elif aten_name(user) in _PARTS and user.args[0] is one and _keeps_first(user):
                seen.append(user)
    times = value // first
    return _along(variable, FewStrides(times, 0)) if times in places and times < buffer.shape[0] else None


_PARTS = frozenset({"split_with_sizes", "split", "getitem", "slice", "alias"})


def _keeps_first(node: fx.Node) -> bool:
    """Whether a part is taken along another dimension than the first."""
    place = {"split_with_sizes": 2, "split": 2, "slice": 1}.get(aten_name(node))
    return place is None or (*node.args[place : place + 1], 0)[0] not in (0, None)


def _stride(value: Size, buffer: Buffer, variable: str) -> Code | None:
    """``cos.stride(1)``, ``2 * x.stride(2)`` of a window that moves by two lines."""
    few = few_strides(value, buffer)
    return None if few is None else _along(variable, few)


def _begin(value: Size, buffer: Buffer, variable: str) -> Code | None:
    """``-(x.stride(2) + x.stride(3))`` of a window with a padding of one."""
    few = steps_to(value, buffer)
    if not few:
        return None
    told = _along(variable, few[0])
    for more in few[1:]:
        told = InfixCode(told, "+", _along(variable, more))
    if value > 0:
        return told
    return PrefixCode("-", told if len(few) == 1 else GroupedCode(told))


def _along(variable: str, few: FewStrides) -> Code:
    if few.dim is None:
        return whole_number(few.times)
    stride = MethodCode(NameCode(variable), "stride", (whole_number(few.dim),))
    return stride if few.times == 1 else ProductCode((whole_number(few.times), stride))


def dims_of_fill(
    plan: UnitPlan,
    step: Allocate,
    later: Sequence[ModelStep],
    variables: Mapping[str, str],
    writer: SizeWriter,
    folded: Set[int],
) -> dict[int, Code]:
    """By place: what tells a dimension of a new tensor, of what the launch that fills it reads along the same axis.

    Args:
        plan: The unit's plan.
        step: What is made.
        later: The steps behind, the launch among them if nothing but further tensors is made before.
        variables: The variable of each buffer.
        writer: Writes sizes.
        folded: The places that nothing else tells.
    """
    launch = next((one for one in later if not isinstance(one, Allocate)), None)
    if not isinstance(launch, Launch) or step.buffer not in launch.buffers:
        return {}
    buffers = [plan.buffers[name] for name in launch.buffers]
    own, told = launch.buffers.index(step.buffer), dict[int, Code]()
    names = [variables.get(name, "") for name in launch.buffers]
    kernel = plan.kernels[launch.kernel]
    at_hand = [name in step.beside and is_path(names[place]) for place, name in enumerate(launch.buffers)]
    for axis, ways in walked_dims(kernel, launch.sizes, launch.ints, buffers).items():
        own_ways = [way for way in ways if way.place == own and len(way.dims) == 1 and way.dims[0] in folded]
        read = [
            way
            for way in ways
            if launch.buffers[way.place] in step.beside and way.beside is None and len(way.dims) == 1
        ]
        read = [way for way in read if way.place != own and is_plain_variable(names[way.place])]
        whole = next((way for way in own_ways if way.is_whole), None)
        if whole is None or not read:
            outer = next((way for way in own_ways if way.is_outer), None)
            if (way := whole or outer) is not None and way.dims[0] not in told:
                axes = [one for one in (axis, way.beside) if one is not None]
                code = _along_axes(kernel, launch, axes, buffers, names, at_hand, writer)
                told |= {way.dims[0]: code} if code is not None else {}
            continue
        texts = [(way, _words(way, buffers[way.place], writer)) for way in read]
        in_words = next(((way, text) for way, text in texts if not text.is_number), None)
        size = _dimension(read[0], buffers, names) if in_words is None else writer.use(in_words[1])
        part = _part(read[0] if in_words is None else in_words[0], size, {})
        told |= {whole.dims[0]: part} if part is not None else {}
    return told


def _along_axes(
    kernel: KernelPlan,
    launch: Launch,
    axes: Sequence[str],
    buffers: Sequence[Buffer],
    names: Sequence[str],
    at_hand: Sequence[bool],
    writer: SizeWriter,
) -> Code | None:
    """What the tensors at hand tell of the sizes of axes, multiplied; None where one is but a number.

    Args:
        kernel: What is launched.
        launch: The launch.
        axes: The axes.
        buffers: The tensors that it is given.
        names: The variables that hold them.
        at_hand: Which of them there are by now.
        writer: Writes sizes.
    """
    sizes = dict(zip((one.name for one in kernel.axes), launch.sizes, strict=True))
    passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
    given = []
    for place, pointer in enumerate(passed):
        dims = pointer.dims and dims_in_memory(kernel, pointer, launch.sizes, launch.ints)
        if dims and at_hand[place]:
            given.append((names[place], buffers[place], dims))
    used = {*writer.used}
    known = writer.axes(sizes, given[::-1])
    codes = [known[axis] for axis in axes]
    writer.used.intersection_update(used.union(*map(words_in, codes)))
    return None if any(map(is_folded, codes)) else product(codes) if len(codes) > 1 else codes[0]
