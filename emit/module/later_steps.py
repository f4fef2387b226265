"""What the steps around a statement do: which memory is made, dropped, or bound anew, and what a copy is made for."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import torch

from longhand.lower.ir import Buffer, Extern
from longhand.schedule.named_plan import (
    BufferNamer,
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    Reached,
    SharedCall,
    is_plain_variable,
    list_holding,
    plain_steps,
)
from longhand.schedule.plan import (
    Allocate,
    Launch,
    Release,
    Repeat,
    Reuse,
    UnitStep,
    buffers_made,
    buffers_read,
    touched,
)

DEVICE_WORDS = ("device", "its_device", "on_device", "device_of_all", "same_device")
_SOON = 0  # statements in between: where one runs, what is bound anew behind it would stay


def gathered_lists(
    buffers: Iterable[str], steps: Iterable[ModelStep], variables: Mapping[str, str]
) -> list[str]:
    """The lists that loops gather of which every tensor is among the buffers."""
    dropped = set(buffers)
    return [
        list_holding(variables[loop.repeat.outputs[0][place]])
        for loop in steps
        if isinstance(loop, Loop)
        for place in loop.gathered
        if dropped.issuperset(run[place] for run in loop.repeat.outputs)
    ]


def root(expression: str) -> str:
    """The variable that an expression starts from."""
    return expression.partition(".")[0].partition("[")[0]


def device_tensor(device: str) -> set[str]:
    """What must stay so that the device can be asked for: the tensor in ``saved.x.device``, and the record."""
    return {root(device), device.removesuffix(".device")}


def loses_device(device: str, dropped: Iterable[str | None], later: Sequence[ModelStep]) -> bool:
    """Whether what tells the device goes before the last new tensor is made: a variable, a field, a record."""
    return any(device.startswith((f"{one}.", f"{one}[")) for one in dropped) and _allocates(later)


def _allocates(steps: Sequence[ModelStep]) -> bool:
    """Whether any of the steps makes a tensor in the function itself."""
    return any(
        isinstance(one, Allocate) or (isinstance(one, Extern) and _names_gpu(one))
        for step in steps
        if not isinstance(step, Loop | FirstCall | LayerCall)
        for one in plain_steps(step)
    )


def _names_gpu(call: Extern) -> bool:
    """Whether a call is told to make its result on a GPU: it is the one on which the function runs."""
    return any(isinstance(value, torch.device) and value.type == "cuda" for _, value in call.kwargs)


def dropped_alone(variables: Iterable[str | None], *, is_of_layers: bool) -> list[str]:
    """Those that ``del`` drops alone: words, and fields of what a call saves, which a layer's are not."""
    return [
        one
        for one in variables
        if one and (one.isidentifier() or (not is_of_layers and is_plain_variable(one)))
    ]


def rebound_or_alive(
    variables: Mapping[str, str],
    names: Iterable[str],
    steps: Sequence[ModelStep],
    place: int,
    calls: Mapping[int, SharedCall],
) -> set[str]:
    """Names that the very next statements bind anew, or that stand for another buffer that is still read."""
    later_read: set[str] = set()
    first_bound: dict[str, int] = {}
    for number_, (read, made) in enumerate(_read_and_made(steps[place + 1 :], calls)):
        for buffer in read:
            variable = variables.get(buffer, "")
            if variable not in first_bound:
                later_read.add(variable)
        for buffer in made:
            first_bound.setdefault(variables.get(buffer, ""), number_)
    bound_soon = {word for word, place in first_bound.items() if place <= _SOON}
    return {name for name in names if name in later_read or name in bound_soon}


def dropped_records(
    words: Iterable[str],
    still: Collection[str],
    variables: Mapping[str, str],
    later: Iterable[ModelStep],
) -> tuple[list[str], set[str]]:
    """What is dropped, a block's record as a whole where nothing of it is read any more; and what is gone with it.

    Args:
        words: Variables, fields of such records among them.
        still: Those that stay.
        variables: Of the function.
        later: The steps behind.
    """
    dropped = [word for word in dict.fromkeys(words) if word not in still]
    holders = [_record_of_block(one) for one in dropped]
    many = {holder for holder in holders if holder and holders.count(holder) > 1}
    if not many:
        return dropped, set()
    read = {name for step in later for plain in plain_steps(step) for name in buffers_read(plain)}
    needed = {_record_of_block(variables.get(name, "")) for name in read}
    many = {one for one in many if not any(_is_within(holder, one) for holder in needed)}
    told = [holder if holder in many else one for one, holder in zip(dropped, holders, strict=True)]
    # A record that another one holds is gone with that.
    told = [one for one in told if not any(_is_within(one, holder) and one != holder for holder in many)]
    holding = {name: _record_of_block(one) for name, one in variables.items()}
    gone = {name for name, one in holding.items() if any(_is_within(one, holder) for holder in many)}
    return list(dict.fromkeys(told)), gone


def still_holding(
    wanted: Sequence[str],
    nodes: Sequence[str],
    viewed: Mapping[str, tuple[str, str]],
    holds: Mapping[str, str],
) -> list[str]:
    """For each view a variable that was bound to it and to nothing since; nothing where one has none.

    Args:
        wanted: What they would be called now: such a variable comes first.
        nodes: The nodes that they are.
        viewed: By variable: the node of its view, and the key of what it held then.
        holds: By variable: the key of what it holds.
    """
    held = {one: node for one, (node, bound) in viewed.items() if holds[one] == bound}
    of_each = [
        next((one for one in (variable, *held) if held.get(one) == node), "")
        for variable, node in zip(wanted, nodes, strict=True)
    ]
    return of_each if all(of_each) else []


def _is_within(variable: str, record: str) -> bool:
    """Whether a variable is a record, or a field of it, or of one that it holds."""
    return variable == record or variable.startswith(f"{record}.")


def _record_of_block(variable: str) -> str:
    """``saved.layer2_1`` of one of its fields; nothing of any other variable."""
    if not isinstance(variable, Reached) or not variable.is_field:
        return ""
    holder = str(variable.steps[0])
    return holder if "." in holder else ""


def _read_and_made(
    steps: Sequence[ModelStep], calls: Mapping[int, SharedCall]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """What each statement reads and binds; what the function of a call has for itself are no variables here."""
    n_in_call = 0
    for step in steps:
        call = None if n_in_call else calls.get(id(step))
        if call is not None:
            n_in_call = call.n_steps
            yield call.tensors, call.results
        elif not n_in_call:
            for plain in plain_steps(step):
                own = _made_inside(plain)
                yield [name for name in buffers_read(plain) if name not in own], buffers_made(plain)
        n_in_call = max(n_in_call - 1, 0)


def _made_inside(step: UnitStep) -> set[str]:
    """What the runs of a repeat make, which their function has names for."""
    runs = step.runs if isinstance(step, Repeat) else ()
    return {name for run in runs for inner in run for name in buffers_made(inner)}


def weights_named(
    step: Launch | Extern, variables: Mapping[str, str], words: BufferNamer, in_backward: bool
) -> set[str]:
    """The weights that a call names by their place in the module; in a backward pass, where it names none, all of them.

    There the gradient of one is told by its name as well.
    """
    held = ((name, variables.get(name)) for name in touched(step))
    weights = {name for name, one in held if isinstance(one, Reached) and not one.is_field}
    if not in_backward:
        return weights
    return set() if weights else {*words.weights}


def quoted_step(
    steps: Sequence[ModelStep], calls: Container[int], buffers: Mapping[str, Buffer], words: BufferNamer
) -> Launch | Extern | None:
    """The step whose statement stands above the first one: of a copy into another layout what it is made for.

    Args:
        steps: From a launch or a library call on.
        calls: Steps that functions stand for, by identity.
        buffers: The plan's.
        words: The captured graph's.

    Returns:
        None where what reads the copy has no statement of its own above it: a loop, or a call of a function; or where
        what follows the copy of a gradient but computes something again.
    """
    for step in steps:
        if id(step) in calls or not isinstance(step, Launch | Extern | Allocate | Reuse | Release):
            return None
        if isinstance(step, Launch) or (isinstance(step, Extern) and not _is_layout_copy(step, buffers)):
            is_other = step is not steps[0] and _reads_gradient(steps[0], words)
            return None if is_other and not _reads_gradient(step, words) else step
    return None


def _reads_gradient(step: ModelStep, words: BufferNamer) -> bool:
    read = buffers_read(step) if isinstance(step, Launch | Extern) else ()
    return any(words.provenance(words.origins.node_of(name)).is_of_gradient for name in read)


def _is_layout_copy(step: Extern, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a call is lowering's own, for a layout that somebody asks for: ``out = out.contiguous()``."""
    made = buffers[step.outputs[0]].derived if len(step.outputs) == 1 and step.outputs[0] else None
    return step.target is torch.ops.aten.contiguous.default and made is not None and made.how.is_layout
