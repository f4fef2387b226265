"""The words of layers that are one function: what they are together, and the variables inside that function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

from longhand.capture.graph import GradientPart
from longhand.schedule.layers.loops import record_of
from longhand.schedule.layers.model_steps import (
    Choice,
    Loop,
    LoopKey,
    ModelStep,
    loops_of,
    plain_steps,
    steps_of,
)
from longhand.schedule.layers.saved_layers import SAVED, SavedLayers
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.reached import Reached, list_holding
from longhand.schedule.names.shared.forward_parameters import users_of, words_of_forward
from longhand.schedule.names.shared.layer_results import LayerResults
from longhand.schedule.names.shared.layers import AlikeInLayers
from longhand.schedule.names.shared.next_layers import words_handed_on, words_of_following, words_of_preceding
from longhand.schedule.names.unit_names import LayerNames
from longhand.schedule.names.variables import (
    EVERY,
    TAKEN,
    StepNamer,
    given_to_layers,
    gradients_word,
    list_names,
)
from longhand.schedule.names.weight_names import inside_layer, name_weights
from longhand.schedule.names.words import RESERVED_IN_MODULE, GradientWord, Scope, identifier, list_of
from longhand.schedule.plan import Allocate, buffers_made, buffers_read

_D_OUTPUT = (
    "d_output",
)  # what a layer's backward is given, where the layer has another value of the output's name


def name_layers(
    steps: Sequence[ModelStep],
    words: BufferNamer,
    buffers: Mapping[str, str],
    records: Sequence[SavedLayers] = (),
    kept: Collection[str] = (),
) -> dict[LoopKey, LayerNames]:
    """The words of each of a function's loops.

    Args:
        steps: The function's.
        words: The graph's.
        buffers: The function's variables.
        records: Of a backward pass: what layers saved for it.
        kept: Buffers that are read after all steps.
    """
    lists, given = list_names(steps), given_to_layers(steps)
    names = {}
    following = _words_of_following(loops_of(steps), buffers.values())
    for loop in loops_of(steps):
        record = record_of(records, loop)
        nodes = record.nodes[loop.positions[0]] if record is not None else ()
        fields = dict(zip(nodes, record.fields, strict=True)) if record is not None else {}
        reached = {node: Reached.field_of(SAVED, field) for node, field in fields.items()}
        names[loop.key] = LayerNames(
            word=lists[loop.owner, loop.positions],
            gradients=gradients_word(loop, steps),
            variables=name_block(loop, words, fields, buffers) | reached,
            record=record,
            own=given.keys() & {buffer for run in loop.own for buffer in run},
            of_one=_names_of_one(loop, words, buffers, _read_from(loop, steps, words.inputs, kept)),
            following=following[loop.key],
        )
    return names


def _read_from(
    loop: Loop, steps: Sequence[ModelStep], given: Collection[str], kept: Collection[str]
) -> Callable[[str], bool]:
    """Whether something reads a buffer in a loop or after it that is made before it, or in another loop."""
    place = next(place for place, step in enumerate(steps) if loop in loops_of([step]))
    made = {
        buffer: number
        for number, step in enumerate(steps)
        for plain in plain_steps(step)
        for buffer in buffers_made(plain)
    }
    read = {
        buffer for step in steps[place:] for plain in plain_steps(step) for buffer in buffers_read(plain)
    }.union(kept)
    return lambda buffer: buffer in given or (buffer in read and made.get(buffer, place) <= place)


def _names_of_one(
    loop: Loop, words: BufferNamer, buffers: Mapping[str, str], is_read: Callable[[str], bool]
) -> dict[int, str]:
    """By place: the word for what one layer hands on, where the list of all layers' is what is named."""
    last = loop.repeat.outputs[-1]
    gathered = {place: list_holding(buffers[last[place]]) for place in loop.gathered}
    layer_words = {place: f"layer_{name.removeprefix(EVERY)}" for place, name in gathered.items()}
    if loop.own or loop.is_in_turn:
        return layer_words
    collected = {place: list_holding(buffers[last[place]]) for place in loop.collected}
    inside = LayerResults(lambda one, around: name_block(one, words, around=around), ()).of(loop, buffers)
    around = {name: variable for name, variable in buffers.items() if is_read(name)}
    return layer_words | {
        place: _singular(name, last[place], inside.get(place, ""), f"{loop.repeat.paths[-1]}.", words, around)
        for place, name in collected.items()
    }


def _singular(
    name: str, buffer: str, own: str, layer: str, words: BufferNamer, buffers: Mapping[str, str]
) -> str:
    """The word that a list's name is made of, told apart from a variable that is there already: ``ands`` has none."""
    candidates = chain([own] * bool(own), words.variables(buffer, layer, is_of_all=True))
    word = next((word for word in candidates if list_of(word) == name), f"one_of_{name}")
    # Lists of other loops, too: what the loop binds would take their place while they are still read.
    others = {list_holding(variable) for other, variable in buffers.items() if other != buffer}
    taken = others | RESERVED_IN_MODULE
    return next(
        one for one in (word, f"layer_{word}", f"one_of_{name}", f"each_of_{name}") if one not in taken
    )


def name_block(
    loop: Loop,
    words: BufferNamer,
    fields: Mapping[str, str] | None = None,
    around: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of a repeated block's forward(), by the buffers of its pattern; its weights left out.

    Args:
        loop: The layers.
        words: The graph's.
        fields: Of a backward pass: by placeholder the word of what the layer saved, after which its gradient is called.
        around: The variables of the function around the loop, whose words all layers have for what they are all given.
    """
    fields, around = fields or {}, around or {}
    record = {SAVED} if loop.record is not None else set()
    scope = Scope(RESERVED_IN_MODULE | record | TAKEN - {"block", "layer"})
    made = {
        buffer for step in steps_of(loop) for plain in plain_steps(step) for buffer in buffers_made(plain)
    }
    names = {
        gradient: scope.take(GradientWord(fields[value]))
        for gradient, value in words.differentiated.items()
        if value in fields and gradient in made
    }
    alike = AlikeInLayers.of(loop, words)
    given = (*(loop.own[0] if loop.own else ()), *loop.inputs, *loop.listed, *loop.shared)
    if loop.preceding is not None:
        of_it = {buffer: loop.preceding.trained.get(words.weights.get(buffer, "")) for buffer in made}
        module = f"previous_{next(words_of_preceding(loop.preceding))}"
        names |= {name: scope.take(GradientWord(f"{module}_{kind}")) for name, kind in of_it.items() if kind}
    _name_weights_inside(loop, alike, names, scope, made.union(given))
    is_backward = bool(fields or loop.own)
    readers = {} if is_backward else users_of(given, words)
    users = words_of_forward(readers, loop.repeat.paths[loop.pattern], words)
    outside = {} if is_backward else _carried_outside(loop, around)
    twin_of = {} if is_backward else _only_saved(loop)
    saved = loop.own[0] if loop.own else ()
    for place, buffer in enumerate(given):
        if place == len(saved):
            names |= _gradients_of_saved(words, {name: names[name] for name in saved}, made - {*names}, scope)
        if buffer in names:
            continue
        if scope.is_free(outside.get(buffer, "")):
            names[buffer] = scope.take(outside[buffer])
            continue
        own = alike.variables(twin_of.get(buffer, buffer))
        if buffer in loop.shared and around.get(buffer, "").isidentifier():
            own = chain([around[buffer]], own)
        elif fields and buffer in loop.inputs and not scope.is_free(next(alike.variables(buffer))):
            own = chain(_D_OUTPUT * _is_whole_gradient(buffer, words), own)
        own = chain([users[buffer]] if buffer in users else [], own)
        names[buffer] = scope.pick(own if buffer not in loop.inputs else words_handed_on(loop.following, own))
    if loop.preceding is not None:
        module = scope.pick(f"previous_{word}" for word in words_of_preceding(loop.preceding))
        names |= {name: Reached(module, f".{kind}") for name, kind in loop.preceding.weights.items()}
    for buffer, path in loop.previous.items():
        names[buffer] = scope.pick(words_of_one_before(path))
    if (behind := loop.following) is not None:
        for buffer, kind in behind.weights.items():
            names[buffer] = scope.pick(f"next_{word}_{kind}" for word in words_of_following(behind))
    # Of steps that only some layers do, each takes words of its own.
    steps: list[ModelStep] = []
    apart: set[str] = set()
    for step in steps_of(loop):
        steps += step.steps if isinstance(step, Choice) else [step]
        if isinstance(step, Choice):
            apart |= {one.buffer for one in step.steps if isinstance(one, Allocate)}
    StepNamer(words, names, scope, (*loop.outputs, *loop.saved), apart, alike).name(steps)
    names |= _for_the_next_layer(loop, names, scope)
    targets = [around.get(buffer, "") for buffer in loop.repeat.outputs[-1]]
    return names | as_called(loop.outputs, targets, names, scope)


def _only_saved(loop: Loop) -> dict[str, str]:
    """By input that a layer is given to save, and does not read: what it hands on in its place."""
    read = {name for step in loop.run for name in buffers_read(step)}
    carried = zip(loop.inputs, loop.carried, strict=False)
    return {name: loop.outputs[source] for name, source in carried if name not in read}


def _gradients_of_saved(
    words: BufferNamer, saved: Mapping[str, str], made: Collection[str], scope: Scope
) -> dict[str, str]:
    """The words for the gradients of what a layer saved for its backward pass: after what they are the gradients of."""
    return {
        gradient: scope.take(GradientWord(saved[value]))
        for gradient, value in words.differentiated.items()
        if value in saved and gradient in made and scope.is_free(GradientWord(saved[value]))
    }


def _carried_outside(loop: Loop, around: Mapping[str, str]) -> dict[str, str]:
    """By input: what the function around the layers calls what one of them hands to the next."""
    last = loop.repeat.outputs[-1]
    words = {
        buffer: around.get(last[source], "")
        for buffer, source in zip(loop.inputs, loop.carried, strict=False)
    }
    is_one = len({*words.values()}) == len(words)
    return {buffer: word for buffer, word in words.items() if word.isidentifier()} if is_one else {}


def as_called(
    outputs: Sequence[str], targets: Sequence[str], names: Mapping[str, str], scope: Scope
) -> dict[str, str]:
    """Other words for what a function returns, where one of its words is the caller's for another of the results.

    They are the caller's words, if nothing in the function has these.

    Args:
        outputs: The buffers that it returns.
        targets: What the caller calls them.
        names: What the function does.
        scope: The function's names.
    """
    own = [names[buffer] for buffer in outputs]
    pairs = list(zip(own, targets, strict=True))
    crossed = {word for word, target in pairs if word in targets and word != target}
    if not crossed:
        return {}
    others = {word for buffer, word in names.items() if buffer not in outputs}
    usable = [
        one.isidentifier() and one not in others and (one in own or scope.is_free(one)) for one in targets
    ]
    if all(usable) and len({*targets}) == len(targets) and len({*outputs}) == len(outputs):
        return dict(zip(outputs, targets, strict=True))
    instead = {word: f"layer_{word}" for word in crossed}
    free = {word for word, new in instead.items() if new not in others and scope.is_free(new)}
    return {buffer: instead[names[buffer]] for buffer in outputs if names[buffer] in free}


def _for_the_next_layer(loop: Loop, names: Mapping[str, str], scope: Scope) -> dict[str, str]:
    """``next_residual``: what layers that end in the next one's norm hand on, after what that one calls it."""
    told: dict[str, str] = {}
    for buffer, source in zip(loop.inputs, loop.carried, strict=True) if loop.following is not None else ():
        output, word = loop.outputs[source], f"next_{names[buffer]}"
        if names[output] != names[buffer] and scope.is_free(word) and output not in told:
            told[output] = scope.take(word)
    return told


def _is_whole_gradient(buffer: str, words: BufferNamer) -> bool:
    """Whether a value is a gradient with all its parts. What the forward pass made, or makes again here, is none."""
    is_gradient = isinstance(next(words.candidates(buffer)), GradientWord)
    return is_gradient and words.provenance(buffer).part is GradientPart.WHOLE


def words_of_one_before(path: str) -> Iterator[str]:
    """``previous_lab_scale``: a weight of the layer before; with more of its path where another one ends alike."""
    parts = path.split(".")
    for start in range(max(0, len(parts) - 2), -1, -1):
        yield identifier(f"previous_{'_'.join(parts[start:])}")


def _words_of_following(loops: Sequence[Loop], taken: Collection[str]) -> dict[LoopKey, str]:
    """By the key of a loop: the word for the modules behind its layers, or before them, told of one and of all of them.

    It is no variable where the layers are called. Of several loops each has the list that it belongs to in its word:
    ``encoder_norm``.
    """
    plain = {loop.key: _plain_words_of_following(loop) for loop in loops}
    n_alike = Counter(words[0] for words in plain.values() if words)
    found = {loop.key: "" for loop in loops}
    used = {*taken}
    for loop in (loop for loop in loops if plain[loop.key]):
        first, *others = plain[loop.key]
        *around, last = loop.owner.split(".")
        whose = [f"{'_'.join(parts)}_{first}" for parts in (around, (*around, last)) if any(parts)]
        told = [*map(identifier, whose), first] if n_alike[first] > 1 else [first]
        words = (*told, *others, *(f"module_{n}" for n in range(2, len(used) + 3)))
        word = next(word for word in words if not {f"{word}s", f"next_{word}"} & used)
        used |= {f"{word}s", f"next_{word}"}
        found[loop.key] = word
    return found


def _plain_words_of_following(loop: Loop) -> list[str]:
    if loop.following is not None:
        return [*words_of_following(loop.following)]
    return [*words_of_preceding(loop.preceding)] if loop.preceding is not None else []


def _of_neighbour(path: str, *, is_before: bool) -> str:
    """``previous_last_weight``, ``next_weight``: a weight of the layer before or behind."""
    *_, module, kind = ["", *path.split(".")]
    return identifier(f"previous_{module}_{kind}") if is_before else f"next_{kind}"


def _name_weights_inside(
    loop: Loop, alike: AlikeInLayers, names: dict[str, str], scope: Scope, inside: Collection[str]
) -> None:
    """Names a layer's weights and their gradients after what they are in the layer.

    What is another weight for each layer is the next one's, of the norm behind it, or the previous one's.
    """
    words = alike.words
    outside = {
        buffer: _of_neighbour(path, is_before=alike.is_of_one_before(buffer))
        for buffer, path in words.weights.items()
        if buffer in inside and buffer not in names and not alike.has_one_path(buffer)
    }
    for buffer, word in outside.items():
        names[buffer] = scope.pick([word if buffer in words.inputs else GradientWord(word)])
    paths = {
        buffer: inside_layer(path, loop.owner, loop.positions) or path
        for buffer, path in words.weights.items()
        if buffer in inside and buffer not in names
    }
    if not paths:
        return
    by_path = name_weights(paths.values(), (), scope.is_free)
    for buffer, path in paths.items():
        names[buffer] = scope.take(by_path[path] if buffer in words.inputs else GradientWord(by_path[path]))
