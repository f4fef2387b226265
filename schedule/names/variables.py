"""The Python variables of model.py: one for each buffer that is live, in the user's words.

A word may be used again once nothing reads what it stood for, as the user does (``x = x + attn; x = x + mlp``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from longhand.capture.graph import InputKind
from longhand.lower.ir import Extern, View
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.layers.model_steps import (
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    loops_of,
    plain_steps,
    records_apart,
)
from longhand.schedule.layers.saved_layers import SAVED, SavedLayers
from longhand.schedule.names.buffer_names import BufferNamer, told
from longhand.schedule.names.parameter_names import parameter_specs
from longhand.schedule.names.reached import Reached
from longhand.schedule.names.shared.layer_results import LayerResults, NameLayer, words_of_last
from longhand.schedule.names.shared.layers import AlikeInLayers
from longhand.schedule.names.value_origins import words_in_module
from longhand.schedule.names.view_names import lie_alike, named_views, view_key
from longhand.schedule.names.weight_names import keys_of_gradients, name_weights
from longhand.schedule.names.words import (
    OWN_WORDS,
    RESERVED_IN_MODULE,
    GradientWord,
    Scope,
    identifier,
    last_or_place,
    list_of,
    own_name,
)
from longhand.schedule.plan import Release, Repeat, Reuse, UnitPlan, buffers_made, buffers_read

# What the templates of model.py bind themselves.
TAKEN = OWN_WORDS


def name_variables(
    plan: UnitPlan,
    words: BufferNamer,
    steps: Sequence[ModelStep],
    saved: frozenset[str] = frozenset(),
    inside: NameLayer | None = None,
) -> dict[str, str]:
    """The variable of each buffer of forward() itself; what the module holds is not among them.

    Args:
        plan: The unit's.
        words: The captured graph's.
        steps: What forward() does.
        saved: Arguments that launch() hands to the backward pass after all steps: nothing else takes their words.
        inside: Names what is in a layer.
    """
    names: dict[str, str] = {}
    graph = plan.program.graph
    own = set() if graph.is_module else {own_name(graph.name)}
    # Arguments that are taken apart, and those whose names stand for something else.
    own |= {name for name, spec in parameter_specs(graph) if spec.num_leaves != 1 or name.endswith("_")}
    scope = Scope(RESERVED_IN_MODULE | TAKEN | own)
    of_layers = given_to_layers(steps)
    in_records: set[int] = set()
    loops = loops_of(steps)
    for key, word in list_names(steps).items():
        if any(loop.own and (loop.owner, loop.positions) == key for loop in loops):
            scope.take(word)  # what each layer saved, and its gradients
    for gradients in dict.fromkeys(gradients_word(loop, steps) for loop in loops if loop.own):
        scope.take(gradients)
    for loop in loops:
        if loop.record is not None:
            scope.take(loop.record.word)
            scope.take(SAVED)
            in_records |= loop.record.places
    _name_weights(words, names, scope, {*of_layers, *_made_in_loops(steps)})
    names |= of_layers
    of_paths = {entry.node for entry in graph.inputs if graph.is_module and not entry.is_given}
    entries = [entry for entry in graph.inputs if entry.node not in names and entry.node not in of_paths]
    lists = {one.steps[0] for loop in loops for one in loop.listed.values()}
    listed = {name: one for name, one in listed_inputs(graph).items() if one.steps[0] in lists}
    own_words = [entry for entry in entries if entry.part is None and entry.node not in listed_inputs(graph)]
    first = Counter(next(words.candidates(entry.node)) for entry in own_words)
    for entry in entries:
        if entry.part is not None:
            whole, place = entry.part
            names[entry.node] = Reached(names[whole], place)
        elif entry.node in listed:
            names[entry.node] = Reached(*listed[entry.node].steps)
        elif scope.is_free(words.saved_as(entry.node)):
            names[entry.node] = scope.take(words.saved_as(entry.node))
        elif entry.node in listed_inputs(graph):
            names[entry.node] = scope.pick([identifier(entry.target), *words.variables(entry.node)])
        elif first[next(words.candidates(entry.node))] > 1:  # nobody's: each says where it is made
            plain = [word for word in words.variables(entry.node) if word != words.saved_as(entry.node)]
            names[entry.node] = scope.pick([*words_in_module(words.module_of(entry.node), plain), *plain])
        elif entry.kind in (InputKind.ARGUMENT, InputKind.SIZE):
            names[entry.node] = scope.pick(words.variables(entry.node))
        else:
            names[entry.node] = scope.pick([identifier(entry.target.replace(".", "_")).upper()])
    held = {buffer for _, _, buffers in records_apart(steps) for buffer in buffers}
    # What has a word of its own here, too.
    handed_on = {buffer for loop in loops for buffer in _read_apart(loop)}
    kept = held | {
        result.buffer
        for place, result in enumerate(plan.results)
        if isinstance(result, View) and (place not in in_records or result.buffer in handed_on)
    }
    StepNamer(words, names, scope, kept | saved, inside=inside).name(steps)
    return names


def _read_apart(loop: Loop) -> set[str]:
    """What the last layer hands on of what the backward function reads by itself out of a record."""
    record = loop.record
    if record is None:
        return set()
    read = {record.buffers[position][field] for position, _ in record.others for field in record.made}
    return read.intersection(loop.repeat.outputs[-1])


def _name_weights(words: BufferNamer, names: dict[str, str], scope: Scope, inside: Collection[str]) -> None:
    """Names the weights of a backward pass and their gradients, but for those that only layers of loops have."""
    own = {buffer: path for buffer, path in words.weights.items() if buffer not in inside}
    if not own:
        return
    by_path = name_weights(own.values(), words.weights.values(), scope.is_free)
    names.update((buffer, by_path[path]) for buffer, path in own.items())  # no weight's own word is taken
    names.update((one, scope.take(GradientWord(names[one]))) for one in own if one not in words.inputs)


def _made_in_loops(steps: Sequence[ModelStep]) -> set[str]:
    """What loops hand on. What layers hand on that are called one by one has names as it is taken."""
    loops = [loop for loop in loops_of(steps) if not loop.is_apart]
    return {buffer for loop in loops for outputs in loop.repeat.outputs for buffer in outputs}


def list_names(steps: Sequence[ModelStep]) -> dict[tuple[str, tuple[int, ...]], str]:
    """By owner and positions of each loop: a word for its layers, ``blocks``, that no other loop has.

    It stands beside what the templates bind: the list ``encoder.layer`` is ``layers``, for ``layer`` is one of it.
    """
    loops = loops_of(steps)
    short = [_free(identifier(last_or_place(loop.owner)), "s") for loop in loops]
    owners = {
        word: {loop.owner for loop, own in zip(loops, short, strict=True) if own == word} for word in short
    }
    words = [
        word if len(owners[word]) == 1 else _free(identifier(loop.owner.replace(".", "_")), "_list")
        for loop, word in zip(loops, short, strict=True)
    ]
    return {
        (loop.owner, loop.positions): (
            word if words.count(word) == 1 else f"{word}_from_{min(loop.positions)}"
        )
        for loop, word in zip(loops, words, strict=True)
    }


def gradients_word(loop: Loop, steps: Sequence[ModelStep]) -> str:
    """The word of the dictionary of a loop's gradients: ``d_blocks``; layers in turn have one together."""
    words = list_names(steps)
    key = loop.owner, loop.positions
    others = [one for one in loops_of(steps) if one.owner == loop.owner]
    if loop.is_in_turn and all(one.is_in_turn for one in others):
        return f"d_{words[key].removesuffix(f'_from_{min(loop.positions)}')}"
    return f"d_{words[key]}"


def _free(word: str, ending: str) -> str:
    return f"{word}{ending}" if word in RESERVED_IN_MODULE | TAKEN else word


def given_to_layers(steps: Sequence[ModelStep]) -> dict[str, str]:
    """What only one layer of a backward pass reads, and how the function around the loop would reach it."""
    outside = (
        plain
        for step in steps
        if not isinstance(step, Loop | FirstCall | LayerCall)
        for plain in plain_steps(step)
    )
    elsewhere = {buffer for plain in outside for buffer in buffers_read(plain)}
    words = list_names(steps)
    return {
        buffer: Reached(words[loop.owner, loop.positions], position, place)
        for loop in loops_of(steps)
        for position, run in zip(loop.positions, loop.own, strict=False)
        for place, buffer in enumerate(run)
        if buffer not in elsewhere
    }


EVERY = "every_"  # before the word of what every layer of a backward pass hands on


class StepNamer:
    """Names what steps make, in order.

    Args:
        words: The graph's.
        names: The variables so far; more are added.
        scope: The names that are taken.
        kept: Buffers that are read after the steps.
        apart: Buffers that some layers make anew: there they never are what the others write over.
        alike: Of a layer's steps: what the layers call alike.
        inside: Names what is in a layer that steps call.
    """

    def __init__(
        self,
        words: BufferNamer,
        names: dict[str, str],
        scope: Scope,
        kept: Iterable[str],
        apart: Iterable[str] = (),
        alike: AlikeInLayers | None = None,
        inside: NameLayer | None = None,
    ) -> None:
        self.words = words
        self.alike = alike or AlikeInLayers(words)
        self.layer = self.alike.layer
        self.names = names
        self.scope = scope
        self.kept = frozenset(kept)
        self.apart = frozenset(apart)
        self.layers = LayerResults(inside, self.kept)
        self.steps: Sequence[ModelStep] = ()
        self.of_several: set[str] = set()  # words that several of what is kept would have
        self.handed_on: set[str] = set()  # buffers whose word a later one took over while it was in use

    def name(self, steps: Sequence[ModelStep]) -> None:
        last_use = _last_uses(steps, self.kept)
        self.steps = steps
        firsts = Counter(next(self.alike.variables(buffer)) for buffer in self._kept_apart())
        self.of_several = {word for word, count in firsts.items() if count > 1}
        for number, step in enumerate(steps):
            if isinstance(step, Release):
                continue
            dying = [buffer for buffer, last in last_use.items() if last == number and buffer in self.names]
            # The result of a library call may take the word of what the call reads last: neither is needed twice.
            early = isinstance(step, Extern | Loop | FirstCall | LayerCall)
            seen_as = self._name_views(step, dying) if isinstance(step, Extern) else []
            if early:
                self._release(dying)
            if isinstance(step, Reuse) and step.in_place and step.of not in self.kept:
                self._keep_word(step)
            if isinstance(step, Loop):
                self._name_loop(step, last_use, number)
                self._release(name for name in step.repeat.outputs[-1] if last_use.get(name) == number)
            else:
                if isinstance(step, LayerCall) and step.loop.own:
                    self._name_gradients(step.loop, step.number)
                unread = self._unread_results(step, last_use, number)
                of_call = self.layers.of_call(step, self.names) if isinstance(step, LayerCall) else {}
                for buffer in (made for plain in plain_steps(step) for made in buffers_made(plain)):
                    if buffer and buffer not in self.names and buffer not in unread:
                        self.names[buffer] = self.scope.pick(
                            chain(of_call.get(buffer, ()), self._candidates(buffer))
                        )
            if not early:
                self._release(dying)
            self.scope.release(*seen_as)

    def _kept_apart(self) -> list[str]:
        """What is kept of what modules below make, which may be called alike: ``k_proj`` of two attentions."""
        own = self.layer.removesuffix(".")
        made = sorted(self.kept.intersection(self.words.nodes).difference(self.words.inputs))
        return [name for name in made if self.words.module_of(name) not in ("", own)]

    def _candidates(self, buffer: str) -> Iterator[str]:
        """Its words; first those that say whose it is, where others that are kept have the same one."""
        plain = next(self.alike.variables(buffer))
        if plain in self.of_several and buffer in self.kept:
            words = [plain] if self.layer else [plain, *told(self.words, buffer)]
            yield from words_in_module(self.words.module_of(buffer), words, self.layer)
        yield from self.alike.variables(buffer)

    def _unread_results(self, step: ModelStep, last_use: Mapping[str, int], number: int) -> set[str]:
        """What a library call returns besides and nothing reads: ``_``."""
        if not isinstance(step, Extern) or len(step.outputs) < 2:
            return set()
        return {buffer for buffer in step.outputs if last_use.get(buffer) == number}

    def _name_views(self, step: Extern, dying: list[str]) -> list[str]:
        """Names the views that get lines before the call; the names of those that hold them still.

        A view may take the word of what it is taken of (``q = q.view(...)``) if that is not read again; `dying` loses
        what gave its word away. Where its own word is another value's still, it keeps the old one.
        """
        held: list[str] = []
        for line in named_views(step, self.words):
            old, source = list[str](), line.source
            if line.is_last and source in held:
                held.remove(source)
                old = [self.names[view_key(step, source)]]
            elif line.is_last and source in dying and source not in self.kept | self.handed_on:
                dying.remove(source)
                old = [self.names[source]]
            self.scope.release(*old)
            for key in line.keys:
                local = self.words.provenance(key).local or "view"
                further = [*old[len(line.keys) - 1 :], f"{local}_view", f"viewed_{local}", f"{local}_as_seen"]
                self.names[view_key(step, key)] = self.scope.pick([local, *further])
                held.append(key)
        return [self.names[view_key(step, key)] for key in held]

    def _keep_word(self, step: Reuse) -> None:
        """Keeps the word of what is changed in place, if the user does, unless strides of the old one may be read."""
        buffers, old = self.words.origins.buffers, self.names.get(step.of, "")
        if step.buffer in {*self.names, *self.apart} or not lie_alike(buffers[step.of], buffers[step.buffer]):
            return
        if next(iter(self.words.candidates(step.buffer)), None) == old and old.isidentifier():
            self.names[step.buffer] = old
            self.handed_on.add(step.of)

    def _release(self, buffers: Iterable[str]) -> None:
        for buffer in buffers:
            if buffer not in self.kept | self.handed_on:
                self.scope.release(self.names[buffer])

    def _name_loop(self, loop: Loop, last_use: dict[str, int], number: int) -> None:
        """What the loop carries keeps its variable; lists take the plural."""
        if loop.own:
            for layer in range(len(loop.positions)):
                self._name_gradients(loop, layer)
        first, last = loop.repeat.inputs[0], loop.repeat.outputs[-1]
        inside = self.layers.of(loop, self.names)
        for place, buffer in enumerate(last):
            if place in loop.collected and loop.own:
                continue
            own = inside.get(place, "")
            if place in loop.collected or place in loop.gathered:
                of_all = self.words.variables(buffer, f"{loop.repeat.paths[-1]}.", is_of_all=True)
                words = chain([own] * bool(own), of_all)
                is_gathered = place in loop.gathered
                word = self.scope.pick(f"{EVERY}{word}" if is_gathered else list_of(word) for word in words)
                for layer, run in enumerate(loop.repeat.outputs):
                    self.names[run[place]] = Reached(word, layer)
                continue
            if place in loop.carried:
                begin = first[loop.carried.index(place)]
                variable = self.names.get(begin, "")
                if own and variable != own and self.scope.is_free(own):
                    if last_use.get(begin) == number and self._is_free_since(begin, own, last_use):
                        self.names[begin] = own  # under two words its memory would outlive the first layer
                    self.names[buffer] = self.scope.take(own)
                    continue
                # Two results of the loop cannot keep the word of one input.
                if variable.isidentifier() and last_use.get(begin) == number and self.scope.is_free(variable):
                    self.names[buffer] = self.scope.take(variable)
                    continue
            self.names[buffer] = self.scope.pick(words_of_last(own, self.alike.variables(buffer)))
        if loop.record is not None:
            self._name_saved(loop.record)

    def _name_saved(self, record: SavedLayers) -> None:
        """What the backward function reads by itself of what a layer of the loop saves: ``saved_blocks[0].up``."""
        for position, place in record.others:
            for field in record.made:
                buffer = record.buffers[position][field]
                if buffer not in self.names:
                    self.names[buffer] = Reached(record.word, place, f".{record.fields[field]}")

    def _is_free_since(self, buffer: str, word: str, last_use: Mapping[str, int]) -> bool:
        """Whether a step makes a buffer, and from there on nothing else is called by a word."""
        made = next(
            (
                place
                for place, step in enumerate(self.steps)
                if not isinstance(step, Loop | FirstCall | LayerCall)
                and any(buffer in buffers_made(plain) for plain in plain_steps(step))
            ),
            None,
        )
        others = [name for name, own in self.names.items() if own == word]
        return made is not None and all(last_use.get(name, made) < made for name in others)

    def _name_gradients(self, loop: Loop, number: int) -> None:
        """What a layer of a backward pass returns for its weights: ``d_blocks[3]["fc.weight"]``."""
        word, position = gradients_word(loop, self.steps), loop.positions[number]
        for key, collected in zip(keys_of_gradients(loop, self.words.weights), loop.collected, strict=True):
            self.names[loop.repeat.outputs[number][collected]] = Reached(word, position, f'["{key}"]')


def _last_uses(steps: Sequence[ModelStep], kept: frozenset[str]) -> dict[str, int]:
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for plain in plain_steps(step):
            given = plain.inputs[0] if isinstance(plain, Repeat) else ()  # some of it only to be saved
            for buffer in (*given, *buffers_read(plain), *buffers_made(plain)):
                last[buffer] = number
    return {buffer: number for buffer, number in last.items() if buffer not in kept}
