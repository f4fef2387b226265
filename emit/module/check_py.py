"""check.py: every kernel against its reference within a real call, and the model with references for kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import sympy
import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Literal
from longhand.emit.cpp.list_binding import list_arguments, whole_list
from longhand.emit.module.call_checks import as_size
from longhand.emit.module.model_text import ModelFile
from longhand.emit.module.trees import Parameter, TensorList, build_arguments, find_lists, parameters
from longhand.emit.text.reference import Reference
from longhand.emit.text.reference_page import FlatMemory, StridedView
from longhand.emit.unit.templates import render_template
from longhand.schedule.named_plan import SILENT, BufferNamer, KernelNames, NamedPlan, aten_name, kernels_of
from longhand.schedule.names.words import OWN_WORDS, RESERVED_IN_MODULE, Scope
from longhand.schedule.plan import KernelPlan

# What check.py itself calls so where the arguments are.
_OWN_TEXT = "sys model arguments results leaves weights gradients fill run window memory laid_out"
_OWN_NAMES = frozenset(_OWN_TEXT.split())
# What it defines, and what the functions that call the user's bind: a user's function may be called so, too.
_DEFINED_TEXT = """
    make_arguments make_model fill run tensors_in window memory laid_out as_double copied results_of differences error
    allowed first_mismatch compared with_check with_reference run_with check_kernels check_model main
    torch kernels name tensor
"""
_DEFINED = _OWN_NAMES | frozenset(_DEFINED_TEXT.split())


@dataclasses.dataclass(frozen=True)
class CheckedKernel:
    """One kernel as check.py knows it.

    Attributes:
        name: The kernel.
        arguments: What its host function is given, in order.
        read: (parameter of the reference, expression).
        written: Expressions for what the reference returns, in order.
        needs: The functions that these expressions call: ``window``, ``memory``.
        groups: For a kernel over lists: (its lists, what one tensor of each is called, lines that bind sizes).
    """

    name: str
    arguments: tuple[str, ...]
    read: tuple[tuple[str, str], ...]
    written: tuple[str, ...]
    needs: frozenset[str]
    groups: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None


def write_check(passes: list[NamedPlan], references: Mapping[str, Reference], model: ModelFile) -> str:
    """The text of check.py, not yet formatted."""
    plan, words = passes[0].plan, passes[0].words
    graph = plan.program.graph
    kernels = [
        checked_kernel(kernel, one.names.kernels[key], references[key])
        for key, (kernel, one) in sorted(
            kernels_of(passes).items(), key=lambda entry: entry[1][1].names.kernels[entry[0]].kernel
        )
    ]
    is_training = len(passes) > 1
    lists = find_lists(plan, parameters(graph), words.nodes)
    variables = _variables(graph, words, model.exported)
    device = plan.options.target.device.value
    given = frozenset(entry.node for entry in graph.inputs)
    on_gpu = given - plan.program.on_cpu if device == "cuda" else frozenset()
    tensors = list(_random_tensors(graph, words, variables, parameters(graph), lists, on_gpu))
    in_lists = {one.nodes[0] for one in lists if one.is_uniform}
    types: set[tuple[str, str]] = set()
    arguments = (
        ", ".join(variable for _, variable, _ in tensors)
        if model.records
        else build_arguments(
            graph,
            {leaf: variable for leaf, variable, _ in tensors},
            types,
            {one.nodes[0]: one.name for one in lists if one.is_uniform},
        )
    )
    needs = {word for kernel in kernels for word in kernel.needs}
    name = f"generated_{model.exported}" if model.exported in _DEFINED else model.exported
    return render_template(
        "check.py.jinja",
        name=name,
        imported=name if name == model.exported else f"{model.exported} as {name}",
        launch=model.launch,
        is_module=graph.is_module,
        device=device,
        kernels=kernels,
        tensors=tensors,
        arguments=arguments,
        types=sorted((module, word.partition(".")[0]) for module, word in types),
        shapes=sorted({one.constant for one in lists if one.is_uniform}),
        has_lists=any(kernel.groups is not None for kernel in kernels),
        needs_layout=any(_is_laid_out(words.nodes[leaf]) for leaf, _, _ in tensors if leaf not in in_lists),
        records=model.records,
        is_training=is_training,
        trained=[
            variables[entry.node]
            for entry in graph.inputs
            if is_training and entry.kind is InputKind.ARGUMENT and entry.node in graph.grad_inputs
        ],
        needs_memory="memory" in needs,
        needs_window="window" in needs,
    )


def checked_kernel(plan: KernelPlan, names: KernelNames, reference: Reference) -> CheckedKernel:
    """What a kernel's reference reads and writes of what the kernel is given, as expressions."""
    pointers = [names.pointers[pointer.name] for pointer in plan.pointers if not pointer.scratch]
    sizes = [names.axes[axis.name].size for axis in plan.axes]
    ints = [names.ints[parameter.name] for parameter in plan.ints]
    scalars = [names.scalars[scalar.position] for scalar in plan.scalars]
    read = []
    needs = {"memory" if isinstance(one, FlatMemory) else "window" for one in reference.results}
    for parameter in reference.parameters:
        view = reference.views.get(parameter)
        if view is not None:
            read.append((parameter, _window(view)))
            needs.add("window")
        elif parameter in reference.views:
            read.append((parameter, f"memory({parameter})"))
            needs.add("memory")
        else:
            read.append((parameter, parameter))
    written = tuple(
        f"memory({one.tensor})" if isinstance(one, FlatMemory) else _window(one) for one in reference.results
    )
    if plan.schedule.is_over_lists:
        many = [pointer.name for pointer in plan.pointers if pointer.many]
        words = tuple(names.lists[name] for name in many)
        each = tuple(names.pointers[name] for name in many)
        whole = whole_list(plan, names)
        bound = (f"{sizes[0]} = {whole[1]}.numel()",) if whole is not None else ()
        given = (*list_arguments(plan, names), *scalars)
        groups = words, each, bound
        return CheckedKernel(names.kernel, given, tuple(read), written, frozenset(needs), groups)
    given = (*pointers, *sizes, *ints, *scalars)
    return CheckedKernel(names.kernel, given, tuple(read), written, frozenset(needs))


def _window(view: StridedView) -> str:
    def listed(items: tuple[str, ...]) -> str:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"

    offset = "" if view.offset == "0" else f", {view.offset}"
    return f"window({view.tensor}, {listed(view.shape)}, {listed(view.stride)}{offset})"


def _variables(graph: CapturedGraph, words: BufferNamer, exported: str) -> dict[str, str]:
    """The variable of each argument's tensor in check.py."""
    scope = Scope(RESERVED_IN_MODULE | OWN_WORDS | _OWN_NAMES | {exported, f"generated_{exported}"})
    arguments = (InputKind.ARGUMENT, InputKind.SIZE)
    return {
        entry.node: scope.pick(words.candidates(entry.node))
        for entry in graph.inputs
        if entry.kind in arguments
    }


def _random_tensors(
    graph: CapturedGraph,
    words: BufferNamer,
    variables: Mapping[str, str],
    given: tuple[Parameter, ...],
    lists: tuple[TensorList, ...],
    on_gpu: frozenset[str],
) -> Iterator[tuple[str, str, str]]:
    """(placeholder, variable, expression) for each tensor argument; a list has that of its first tensor."""
    kinds = {entry.node: entry.kind for entry in graph.inputs}
    nonnegative = frozenset(entry.node for entry in graph.inputs if entry.is_nonnegative)
    examples = graph.examples
    whole = {one.name: one for one in lists if one.is_uniform}
    for parameter in given:
        if parameter.name in whole:
            one = whole[parameter.name]
            yield one.nodes[0], one.name, _random_list(one, nonnegative.issuperset(one.nodes))
            continue
        for leaf, _ in parameter.leaves:
            if isinstance(leaf, Literal):
                continue
            node = words.nodes[leaf]
            variable = variables[leaf]
            if kinds[leaf] is InputKind.SIZE:
                yield leaf, variable, str(_example(node.meta["val"], examples))
            else:
                moved = ".to(DEVICE)" if leaf in on_gpu else ""
                yield leaf, variable, f"{_random(node, examples, leaf in nonnegative)}{moved}"


def _random_list(one: TensorList, is_nonnegative: bool) -> str:
    dtype = "" if one.dtypes[0] is torch.float32 else f", dtype={one.dtypes[0]}"
    make = f"torch.{'rand' if is_nonnegative else 'randn'}(shape{dtype}, device=DEVICE)"
    if not one.dtypes[0].is_floating_point:
        make = f"torch.randint(0, 2, shape{dtype}, device=DEVICE)"
    return f"[{make} for shape in {one.constant}]"


def _example(size: object, examples: Mapping[sympy.Symbol, int]) -> int:
    return int(sympy.sympify(as_size(size)).subs(examples))


def _random(node: fx.Node, examples: Mapping[sympy.Symbol, int], is_nonnegative: bool) -> str:
    value: torch.Tensor = node.meta["val"]
    shape = [_example(size, examples) for size in value.shape]
    dims = ", ".join(map(str, shape))
    if value.dtype is torch.bool:
        text = f"torch.rand({dims}) < 0.5" if dims else "torch.rand(()) < 0.5"
        text = f"({text})"
    elif not value.dtype.is_floating_point and not value.dtype.is_complex:
        drawn = _positions(node, examples)
        span = f"{drawn.low}, {drawn.high}, ({dims}{',' * (len(shape) == 1)})"
        text = f"torch.randint({span}, dtype={value.dtype}){_sorted(drawn, len(shape))}"
    else:
        dtype = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
        text = f"torch.{'rand' if is_nonnegative else 'randn'}({dims or '()'}{dtype})"
    if _is_laid_out(node):
        stride = tuple(_example(step, examples) for step in value.stride())
        text = f"laid_out({text}, {stride})"
    return text


def _is_laid_out(node: fx.Node) -> bool:
    """Whether a tensor lies in memory otherwise than torch makes one."""
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and not value.is_contiguous()


def _sorted(drawn: _Positions, n_dims: int) -> str:
    """``.sort(-1).values``"""
    if drawn.order is None:
        return ""
    dim, is_falling = drawn.order
    return f".sort({dim if dim < n_dims - 1 else -1}{', descending=True' * is_falling}).values"


@dataclasses.dataclass(frozen=True)
class _Positions:
    """What whole numbers are drawn, so that they, and what is made of them, are rows of the tables that they pick from.

    Attributes:
        low: The least of them.
        high: The first number that is none.
        order: The dimension along which they stand in order, and whether the larger ones come first; None: in no order.
    """

    low: int
    high: int
    order: tuple[int, bool] | None = None


def _positions(node: fx.Node, examples: Mapping[sympy.Symbol, int]) -> _Positions:
    """Of an argument: two numbers where it picks from no table."""
    seen: set[fx.Node] = set()
    waiting: list[tuple[fx.Node, int]] = [(node, 0)]  # and what has been added to it
    lows, highs, orders = list[int](), list[int](), set[tuple[int, bool] | None]()
    while waiting:
        current, shift = waiting.pop()
        for user in current.users:
            name = aten_name(user)
            size = _n_choices(user, current, name)
            if user in seen:
                continue
            seen.add(user)
            if size is not None:
                lows.append(-shift)
                highs.append(_example(size, examples) - shift)
            elif name in ("add", "sub") and isinstance(user.args[1], int):
                waiting.append((user, shift + (user.args[1] if name == "add" else -user.args[1])))
            elif name in SILENT or name in ("add", "sub", "clamp"):
                orders |= {_order(user, node)} if name == "sub" and _is_within(user, node) else set()
                waiting.append((user, shift))
    if not highs:
        return _Positions(0, 2)
    low, high = max(lows), min(highs)
    if len(orders) > 1 or None in orders or high <= low:
        return _Positions(0, 1)  # equal ones: nothing else is known to be right
    return _Positions(low, high, next(iter(orders), None))


def _n_choices(user: fx.Node, current: fx.Node, name: str) -> object:
    """How many rows a table has that a node picks from by another one; None where it is no position."""
    if name == "embedding" and user.args[1] is current:
        return user.args[0].meta["val"].shape[0]  # type: ignore[union-attr]
    if name in ("gather", "index_select") and user.args[2] is current:
        shape = user.args[0].meta["val"].shape or (1,)  # type: ignore[union-attr]
        return shape[user.args[1]]  # type: ignore[index]
    if name in ("nll_loss_forward", "nll_loss", "cross_entropy_loss"):
        return user.args[0].meta["val"].shape[-1]  # type: ignore[union-attr]
    return None


def _is_within(difference: fx.Node, node: fx.Node) -> bool:
    """Whether both sides of a difference are parts of an argument, in whatever way."""

    def comes_from(value: object) -> bool:
        while isinstance(value, fx.Node) and value is not node and aten_name(value) in SILENT and value.args:
            value = value.args[0]
        return value is node

    return all(map(comes_from, difference.args[:2]))


def _order(difference: fx.Node, node: fx.Node) -> tuple[int, bool] | None:
    """The order of an argument's numbers in which a difference of two of its parts is not negative."""
    first, second = (_part(side, node) for side in difference.args[:2])
    if first is None or second is None or first[0] != second[0]:
        return None
    return first[0], first[1] < second[1]


def _part(value: object, node: fx.Node) -> tuple[int, int] | None:
    """(dimension, index) of ``bbox[:, :, 3]``, also in another type; None of what is no such part."""
    while isinstance(value, fx.Node) and aten_name(value) in ("_to_copy", "unsqueeze", "alias", "clone"):
        value = value.args[0]
    if not isinstance(value, fx.Node) or aten_name(value) not in ("select", "slice"):
        return None
    owner, dim, index = (*value.args, 0, 0)[:3]
    if owner is not node or not isinstance(dim, int) or not isinstance(index, int):
        return None
    size = node.meta["val"].shape[dim]
    return dim % node.meta["val"].ndim, index + (size if index < 0 else 0)
