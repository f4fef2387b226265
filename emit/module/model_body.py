"""The statements of model.py: steps of the plan as paragraphs of Python, each under the user's own statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from longhand.capture.graph import Provenance
from longhand.emit.layers.call_loops import as_loops, call_of_many, popped
from longhand.emit.layers.layer_numbers import is_one_of
from longhand.emit.module.body_parts import Needs
from longhand.emit.module.later_steps import (
    DEVICE_WORDS,
    device_tensor,
    dropped_alone,
    dropped_records,
    gathered_lists,
    loses_device,
    quoted_step,
    rebound_or_alive,
    still_holding,
    weights_named,
)
from longhand.emit.module.launch_lines import AllocationWriter, LaunchWriter
from longhand.emit.module.library_calls import LibraryWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.paragraphs import (
    WIDEST,
    LineKind,
    Paragraph,
    PythonLine,
    append,
    chosen,
    drop_unread,
    indented,
    joined_quotes,
    quotes_of,
    remark_lines,
    said_once,
    with_reason,
    words_read,
)
from longhand.emit.module.told_arguments import numbers_given
from longhand.emit.module.trees import MadeList, TensorList
from longhand.emit.module.view_calls import argument, data_size_lines, words_of_heads, write_split, write_view
from longhand.emit.text.python_code import (
    CallCode,
    Code,
    MethodCode,
    NameCode,
    PythonStatement,
    SeveralCode,
    begun_with,
    names,
    whole_number,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import same_sizes, with_the_rest
from longhand.lower.ir import Extern
from longhand.options import Device
from longhand.schedule.named_plan import (
    BufferNamer,
    CallsOfFunction,
    Choice,
    FirstCall,
    Home,
    LayerCall,
    Loop,
    ModelStep,
    Number,
    SharedCall,
    Statement,
    UnitNames,
    heading_of,
    is_evident,
    is_lone_sum,
    is_product,
    kept_alone,
    loops_of,
    made_before,
    named_views,
    own_origins,
    partly_again,
    plain_steps,
    stated_by,
    told_apart,
    unread_buffers,
    view_key,
)
from longhand.schedule.plan import (
    Allocate,
    Launch,
    PlanStep,
    Release,
    Reuse,
    UnitPlan,
    buffers_made,
)


class BodyWriter:
    """Prints the steps of one function.

    Args:
        plan: The unit's plan.
        names: Its words.
        words: The captured graph's.
        variables: The variable of each buffer inside this function.
        sizes: Writes sizes with the words that this function binds.
        device: A Python expression for the device of new tensors on CUDA: ``x.device``.
        lists: The arguments that kernels take as lists, and the lists that they make.
        position: In a layer that asks which one it is: the attribute that holds that.
        is_of_layers: Whether this is the function of many layers, so that no path of a module is that of all.
        numbers: Words for scalars of launches, by place, that the function is given.
        whose: The module at hand, from which others are reached.
        home: The module whose function this is; None: no part of it heads what it does.
    """

    def __init__(
        self,
        plan: UnitPlan,
        names: UnitNames,
        words: BufferNamer,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        device: str,
        lists: Sequence[TensorList | MadeList] = (),
        position: str = "",
        is_of_layers: bool = False,
        numbers: Mapping[tuple[Launch, int], str] | None = None,
        whose: ModulePlace | None = None,
        home: Home | None = None,
    ) -> None:
        self.whose = whose
        self.home = home
        self.position = position
        self.is_of_layers = is_of_layers
        self._trunks, self._devices = frozenset[str](), set[str]()
        self.plan = plan
        self.names, self.words = names, words
        self.variables, self.sizes = variables, sizes
        self.device, self.lists = device, lists
        self.made_lists = {name: one for one in lists if isinstance(one, MadeList) for name in one.nodes}
        self.launches = LaunchWriter(plan, names, words, variables, sizes, lists, numbers or {})
        self.allocations = AllocationWriter(plan, variables, sizes, device, lists)
        self._unread, self._again, self._kept = unread_buffers(plan), made_before(plan), kept_alone(plan)
        self._is_in_branch, self._is_on_cpu = False, plan.options.target.device is Device.CPU
        self.library = LibraryWriter(variables, sizes, self.allocations, not self._is_on_cpu)
        self.returned: Collection[str] = ()  # variables that the function returns
        self.needs = Needs()
        self.seen_as: dict[str, list[str]] = {}  # by buffer: the variables that hold views of it
        self.holds: dict[str, str] = {}  # by variable: what was bound to it last
        self.viewed: dict[str, tuple[str, str]] = {}  # by variable: its view, and the key of what it holds
        self.told: set[str] = set()  # remarks: each is made once
        self.calls: Mapping[int, SharedCall] = {}  # by the first of the steps that they stand for
        self._made_in_calls, self._emptied = set[str](), set[str]()  # and seen by nobody else
        self.in_backward = False  # whether all but gradients is computed again
        self.of_some: Mapping[int, frozenset[Statement]] = {}  # by step: what not all layers come from

    def write(self, steps: Sequence[ModelStep], loop_lines: Mapping[int, list[str]]) -> list[Paragraph]:
        """The paragraphs of `steps`.

        Args:
            steps: In order.
            loop_lines: For the place of each Loop among `steps`: its lines.
        """
        paragraphs, waiting, done = list[Paragraph](), list[str](), 0
        self._trunks = frozenset(loop.owner for loop in loops_of(steps))
        for place, step in enumerate(steps):
            call = self.calls.get(id(step))
            if place < done:
                continue
            if call is not None:
                done = place + call.n_steps
                self._call(call, steps, done - 1, waiting, paragraphs)
                waiting = []
            elif isinstance(step, Loop | FirstCall | LayerCall):
                lines = waiting + loop_lines[place]
                for made in (name for plain in plain_steps(step) for name in buffers_made(plain)):
                    self.holds[self.variables.get(made, "")] = made
                is_next = place > 0 and isinstance(steps[place - 1], FirstCall | LayerCall)
                if is_next and isinstance(step, Loop | LayerCall):
                    paragraphs[-1].lines += lines
                else:
                    append(paragraphs, Paragraph((), lines))
                waiting = []
            elif isinstance(step, Choice):
                stated = [one for each in step.steps for one in self._stated(each)]
                quotes = chosen(quotes_of(stated, self.in_backward), self.in_backward)
                append(paragraphs, Paragraph(quotes, waiting + self._choice(step)))
                waiting = []
            elif isinstance(step, Allocate) and step.buffer in self.made_lists:
                one = self.made_lists[step.buffer]
                self.needs.empty |= self._is_on_cpu
                waiting += [self.allocations.write_list(one)] if step.buffer == one.nodes[0] else []
            elif isinstance(step, Allocate):
                self.needs.empty |= self._is_on_cpu
                self._bind(step.buffer)
                line, fill = self.allocations.begin(step, steps[place + 1 :])
                waiting.append(line)
                if fill is not None:  # both are one statement
                    append(paragraphs, self._paragraph(fill, waiting))
                    done, waiting = place + 2, []
            elif isinstance(step, Reuse):
                waiting += self._reuse(step)
            elif isinstance(step, Release):
                self._release(step, steps, place, paragraphs)
            else:
                why = self._remarks(step)
                self.needs.kernels |= isinstance(step, Launch)
                lines = [self.launches.write(step)] if isinstance(step, Launch) else self._extern(step)
                quoted = quoted_step(steps[place:], self.calls, self.plan.buffers, self.words)
                append(paragraphs, self._paragraph(quoted, why + waiting + lines))
                waiting = []
        if waiting:
            append(paragraphs, Paragraph((), waiting))
        if self.whose is not None and self.calls:
            reach, n_listed, taken = self.whose.reach, self.whose.n_listed, [*self.variables.values()]
            paragraphs = as_loops(paragraphs, reach, n_listed, taken, self._number)
        drop_unread(paragraphs, self._devices, words_read(paragraphs))
        return joined_quotes(said_once(paragraphs, self.in_backward))

    def _call(
        self,
        call: SharedCall,
        steps: Sequence[ModelStep],
        last: int,
        waiting: list[str],
        paragraphs: list[Paragraph],
    ) -> None:
        """The call of a function in the place of steps, the last of which is told."""
        self._made_in_calls |= call.made - set(call.results)
        waiting = waiting + self._keep_device(map(self.variables.get, call.emptied), steps[last + 1 :])
        targets = tuple(self._bind(buffer) for buffer in call.results)
        module = (self.whose.reach(call.path),) if self.whose is not None and call.path else ()
        tensors = tuple(self.variables[buffer] for buffer in call.tensors)
        numbers = numbers_given(call, self._number, self.variables, self.sizes, self.plan.buffers)
        given = (*names([*call.first, *module, *tensors]), *numbers, *popped(call))
        line = PythonLine.binding((*targets, *call.bound_last), CallCode(call.name, given))
        calls = CallsOfFunction(self.plan, self.calls, self.variables, self.returned)
        many = call_of_many(call, self.whose, tensors, targets, calls.is_handed_on(call, steps[last + 1 :]))
        paragraph = self._paragraph(call.last_launch(steps[: last + 1]), [*waiting, line])
        paragraph.call = None if call.is_launch else many
        append(paragraphs, paragraph)
        self._emptied.update(call.emptied)  # but for views that are held here
        self._release(Release((*call.released, *call.emptied)), steps, last, paragraphs)

    def _number(self, number: Number) -> Code:
        """What a function is given for one of its numbers."""
        return argument(number, self.sizes)

    def _paragraph(self, step: Launch | Extern | None, lines: list[str]) -> Paragraph:
        """Lines that do what a step does, below the part of the module and the user's statements that it is for."""
        if step is None:
            return Paragraph((), lines)
        stated = self._stated(step)
        told, modules = told_apart(stated, self.home, self.in_backward)
        heading = heading_of([one.module for one in stated], self.home, self._trunks)
        is_kept = isinstance(step, Launch) and step.origins in self._kept
        parts = partly_again(step, self.words) if self.in_backward else ()
        quotes = quotes_of(told, self.in_backward, is_kept, parts)
        weights = weights_named(step, self.variables, self.words, self.in_backward)
        is_sum = self.in_backward and is_lone_sum(step, self.words.nodes)
        evident = is_sum or is_evident(step, len(quotes) + len(modules), weights)
        is_again = any(quote.is_again for quote in quotes) or any(one.is_again for one in modules)
        evident = evident and not is_again
        return Paragraph(chosen(quotes, self.in_backward), lines, heading, evident, modules, is_product(step))

    def _stated(self, step: PlanStep) -> list[Provenance]:
        """Where its operations came from: those of which the user's statement is known."""
        left = self.of_some.get(id(step), ())
        again = self._again if self.in_backward else None
        known = stated_by(step, self.words, again) if isinstance(step, Launch | Extern) else []
        return [one for one in known if (one.qualname, one.statement) not in left]

    def _choice(self, choice: Choice) -> list[str]:
        """``if self.layer == 3:`` and what that layer does, ``else:`` and what the others do."""
        lines: list[str] = []
        for positions, steps in choice.cases:
            inner = self._plain_lines(steps)
            if not inner and len(choice.cases) == 1:
                test = is_one_of(self.position, positions, is_so=False)
                return [PythonLine.worded("if", test), *indented(self._plain_lines(choice.otherwise))]
            head = PythonLine.worded("elif" if lines else "if", is_one_of(self.position, positions))
            lines += [head, *indented(inner or [PythonLine.worded("pass")])]
        otherwise = self._plain_lines(choice.otherwise)
        return [*lines, PythonLine.worded("else"), *indented(otherwise)] if otherwise else lines

    def _plain_lines(self, steps: Sequence[PlanStep]) -> list[str]:
        """The lines of steps that only some layers do, without the user's statements."""
        self._is_in_branch, viewed = True, dict(self.viewed)  # what is bound here is bound on no other path
        lines = [line for paragraph in self.write(steps, {}) for line in paragraph.lines]
        self._is_in_branch, self.viewed = False, viewed
        return lines

    def _reuse(self, step: Reuse) -> list[str]:
        new, old = self._bind(step.buffer), self.variables[step.of]
        buffer, other = self.plan.buffers[step.buffer], self.plan.buffers[step.of]
        is_alike = same_sizes(buffer.shape, other.shape) and same_sizes(buffer.stride, other.stride)
        value: Code = NameCode(old)
        if not is_alike:
            value = MethodCode(value, "view", with_the_rest(self.sizes.dims(buffer), buffer.shape))
        if new == old and is_alike:
            return []
        remark = "in place" if step.in_place and is_alike else "the same memory"
        return [PythonLine.of(with_reason(PythonStatement((new,), value, remark=remark), old, step.in_place))]

    def _release(
        self, step: Release, steps: Sequence[ModelStep], place: int, paragraphs: list[Paragraph]
    ) -> None:
        buffers = [b for b in step.buffers if b not in self._made_in_calls]
        held = (self.variables.get(buffer) for buffer in buffers if buffer not in self._emptied)
        words = dropped_alone(held, is_of_layers=self.is_of_layers)
        # Memory that was taken over goes by its new name; its first one may be another buffer's by now.
        words = [name for name in words if self.holds.get(name, step.buffers[0]) in step.buffers]
        words += [variable for b in buffers for variable in self.seen_as.get(b, [])]
        words += gathered_lists(step.buffers, steps, self.variables)
        still = rebound_or_alive(self.variables, words, steps, place, self.calls)
        if self._is_in_branch:
            still |= device_tensor(self.allocations.device)  # the other branches do not drop it
        dropped, gone = dropped_records(words, still, self.variables, steps[place + 1 :])
        self._emptied |= gone
        if dropped and paragraphs:
            lines = paragraphs[-1].lines
            lines += self._keep_device(dropped, steps[place:])
            lines.append(PythonLine.worded("del", SeveralCode(names(dropped), ""), LineKind.RELEASE))

    def _keep_device(self, dropped: Iterable[str | None], later: Sequence[ModelStep]) -> list[str]:
        """The line that keeps the device when the tensor that tells it is dropped, and some are made later."""
        if self._is_on_cpu or not loses_device(self.allocations.device, dropped, later):
            return []
        word = next(one for one in DEVICE_WORDS if one not in {*self.variables.values(), *self.sizes.values})
        self._devices.add(word)
        before, self.allocations.device = self.allocations.device, word
        return [PythonLine.binding([word], NameCode(before))]

    def _remarks(self, step: Launch | Extern) -> list[str]:
        """Why longhand added an operation that the user did not write, or changed one, as comments."""
        origins = own_origins(step.origins, self.words.nodes) if isinstance(step, Launch) else (step.origin,)
        if is_lone_sum(step, self.words.nodes):
            return []
        why = dict.fromkeys(self.words.provenance(origin).remark for origin in origins if origin)
        new = [text for text in why if text and text not in self.told]
        self.told.update(new)
        return [line for text in new for line in remark_lines(text, WIDEST)]

    def _extern(self, step: Extern) -> list[str]:
        lines, call = list[str](self._view_lines(step)), self.library.write(step)
        self.needs.functional |= call.needs_functional
        self.needs.runtime |= {call.runtime} if call.runtime else set()
        self.needs.registering |= {call.module} if call.module else set()
        named = [name for name in step.outputs if name in self.variables and name not in self._unread]
        targets = [self._bind(name) if name in named else "_" for name in step.outputs if named]
        told = data_size_lines(self.plan.program.graph.data_sizes, step, self.variables, self.sizes.symbols)
        return [*lines, PythonLine.binding(targets, call.code), *told]

    def _bind(self, buffer: str) -> str:
        """The variable of a buffer that begins; what it held before is gone."""
        variable = self.variables[buffer]
        for held in self.seen_as.values():
            if variable in held:
                held.remove(variable)
        self.holds[variable] = buffer
        return variable

    def _view_lines(self, step: Extern) -> list[PythonLine]:
        """``q, k, v = qkv.split(256, dim=-1)``: the views that the user named, before the call that reads them."""
        self.library.views = {}
        lines: list[PythonLine] = []
        for line in named_views(step, self.words):
            targets = [self.variables[view_key(step, key)] for key in line.keys]
            held = still_holding(targets, line.keys, self.viewed, self.holds)
            if held:  # an earlier call has named these views
                self.library.views |= dict(zip(line.keys, held, strict=True))
                continue
            view, buffer = line.view, self.plan.buffers[line.view.buffer]
            source = self.library.views.get(line.source) or self.variables[view.buffer]
            words = words_of_heads(line, self.sizes) if line.heads else ()
            value = write_view(view, source, self.sizes, buffer, line.n_before, words)
            if line.split is not None:
                part, (parts, dim) = line.keys[0], line.split
                word = self.sizes.words_at(part, self.words.nodes[part].meta["val"].ndim)[dim]
                value = write_split(value, parts, dim, word, self.sizes)
            if line.unbind is not None:
                value = MethodCode(value, "unbind", (whole_number(line.unbind),))
            for key in line.keys:
                self.viewed[self._bind(view_key(step, key))] = key, view_key(step, key)
            self.library.views |= dict(zip(line.keys, targets, strict=True))
            self.seen_as.setdefault(view.buffer, []).extend(targets)
            before = lines[-1].said if lines and not targets[1:] else None
            if before is not None and before.targets == (*targets,) and before.value is not None:
                joined = begun_with(value, targets[0], before.value)
                if joined is not None and len(f"{targets[0]} = {joined}") <= WIDEST:
                    value = joined
                    lines.pop()
            lines.append(PythonLine.binding(targets, value))
        return lines
