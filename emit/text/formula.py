"""What a kernel computes, for the first line of its file: ``activated = relu(batch_norm(conv2) + features)``.

In the user's operations where they say it, else as formulas of its body's values (emit/text/value_formula).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import PADDED_FOR_SPEED, Role
from longhand.emit.text.backward_words import backward_of
from longhand.emit.text.equations import equations_of
from longhand.emit.text.expression import Operator, Precedence, Text, infix, literal_text, number_operand
from longhand.emit.text.reference_ops import find_joins
from longhand.emit.text.textbook import CLOSED_FORMS, PRIMED, is_vector
from longhand.emit.text.title_lines import (
    MOST_EQUATIONS,
    Equation,
    are_said,
    in_words,
    laid_out,
    update_in_words,
)
from longhand.emit.text.value_formula import called, value_formulas
from longhand.lower.ir import Load, Reduce, Store
from longhand.schedule.named_plan import (
    SILENT,
    BufferNamer,
    KernelNames,
    KernelPurpose,
    aten_name,
    derivative_of_norm,
    derivative_word,
    numbers_of,
    op_word,
    provenance_of,
    purpose_of,
    reads_moved,
    rotated_half,
    walk_of,
)
from longhand.schedule.names.words import GradientWord, identifier, listed, plural
from longhand.schedule.plan import KernelPlan

_LONGEST = 96
_INFIX: Mapping[str, Operator] = {
    "add": infix("+", Precedence.SUM),
    "sub": infix("-", Precedence.SUM),
    "mul": infix("*", Precedence.PRODUCT),
    "div": infix("/", Precedence.PRODUCT),
    "pow": Operator("{0}**{1}", Precedence.UNARY, (Precedence.ATOM, Precedence.ATOM)),
    "neg": Operator("-{0}", Precedence.UNARY, (Precedence.UNARY,)),
    "le": infix("<=", Precedence.COMPARE),
}
# Views that only change how many dimensions there are, or the type: nothing that a formula would say.
_UNSAID_TEXT = """
    view _unsafe_view reshape _reshape_alias expand unsqueeze squeeze alias detach clone contiguous _to_copy to
    lift_fresh_copy lift_fresh flatten unflatten
"""
# What a value inside a derivative is made by.
_VERBS: dict[Role | None, str] = {Role.NORMALIZED: "normalize"}
_OVER_AXES = frozenset({"sum", "mean", "amax", "amin"})  # of one element it is that element
_UNSAID = frozenset(_UNSAID_TEXT.split())


def op_equations(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> list[Equation]:
    """All results, in order, after what they are made of; none where some operation has no such form.

    Nor where a sum of the user's is none in the kernel: of equal elements it is one of them, so many times.
    """
    if sums_elsewhere(plan, words):
        return []
    writer = _FormulaWriter(plan, names, words)
    parts: list[Equation] = []
    for value in plan.body:
        if not isinstance(value, Store):
            continue
        if value.is_at_positions:
            return []
        node = words.nodes.get(words.origins.node_of(value.buffer))
        text = writer.text(node) if node is not None and value.mask is None else None
        if node is None or text is None or len(text.text) > _LONGEST:
            return []
        word = names.pointers[value.buffer]
        parts.append(Equation(word, text.text, is_result=True))
        if not provenance_of(node).role or provenance_of(node).gradient_of:
            writer.known[node] = Text(word)
    return [*writer.steps, *parts]


def sums_elsewhere(plan: KernelPlan, words: BufferNamer) -> bool:
    """Whether operations reduce values of which the kernel reduces none."""
    nodes = [words.nodes[name] for name in plan.origins if name in words.nodes]
    over = [node for node in nodes if aten_name(node) in _OVER_AXES]
    is_reducing = any(isinstance(value, Reduce) for value in plan.body)
    return not is_reducing and not all(_has_equal_shape(node, node.all_input_nodes[0]) for node in over)


class _FormulaWriter:
    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferNamer) -> None:
        self.inside = frozenset(plan.origins)
        self.names = names
        self.words = words
        self.taken = {*names.pointers.values()}
        body = plan.body
        self.parts = {word for place, word in names.values.items() if isinstance(body[place], Load)}
        self.numbers = numbers_of(body, {**names.scalars, **names.constants})
        self.steps: list[Equation] = []  # gradients on the way, which several results are computed from
        self.known: dict[fx.Node, Text] = {}
        written = {value.buffer for value in plan.body if isinstance(value, Store)}
        for pointer in plan.pointers:
            node = words.nodes.get(words.origins.source_of_layout(pointer.name))
            if node is not None and pointer.name not in written:
                self.known[node] = Text(names.pointers[pointer.name])

    def text(self, node: fx.Node) -> Text | None:
        """A value of the captured graph; None if it cannot be said."""
        if node in self.known:
            return self.known[node]
        name = aten_name(node)
        origin = provenance_of(node)
        # What is normalized may be an equal value that the layer computes again, and not this node.
        is_mask = name == "le" and node.name in self.inside  # where a relu's gradient is 0: no gradient
        if not is_mask and origin.differentiated and (node.name in self.inside or origin.role in _VERBS):
            inner = self._behind_views(node)
            return self._summed(inner) if aten_name(inner) == "sum" else self._derivative(node)
        if name == "getitem" and node.args[1] == 0:
            return self.text(node.args[0])  # type: ignore[arg-type]
        if name in SILENT and identifier(self.words.origins.local(node) or "_") in self.parts - self.taken:
            return Text(identifier(self.words.origins.local(node) or "_"))  # a part that has a line
        if name in _UNSAID and node.args and isinstance(node.args[0], fx.Node):
            return self.text(node.args[0])
        if name in SILENT and node.args and isinstance(node.args[0], fx.Node):
            return self._seen(node, node.args[0], name)
        if node.op != "call_function" or node.name not in self.inside:
            return None
        if name in ("cat", "concat"):
            return self._joined(node)
        operator = _INFIX.get(name)
        if operator is not None:
            if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("rounding_mode") is not None:
                return None
            given = self._all(node.args, node.name)
            return None if given is None else operator.apply(given)
        tensors = [argument for argument in node.args if isinstance(argument, fx.Node)]
        others = [argument for argument in node.args if isinstance(argument, list | tuple)]
        if not tensors or any(isinstance(item, fx.Node) for items in others for item in items):
            return None
        if name in _OVER_AXES and _has_equal_shape(node, tensors[0]):
            return self.text(tensors[0])
        main = [tensor for tensor in tensors if tensor is tensors[0] or not is_vector(tensor)]
        texts = self._all(main, node.name)
        if texts is None:
            return None
        function = called(op_word(node).word, self.names)
        return Text(f"{function}({', '.join(text.text for text in texts)})")

    def _derivative(self, node: fx.Node) -> Text | None:
        """``d_gelu(d_hidden, widen)``: what the nodes that together differentiate one op are given, gradients first."""
        origin = provenance_of(node)
        word = _VERBS.get(origin.role) or derivative_word(origin)
        given: dict[fx.Node, None] = {}
        waiting = [node]
        while waiting:
            for argument in waiting.pop(0).all_input_nodes:
                source = self._behind_views(argument)
                where = provenance_of(source)
                is_part = where.differentiates == origin.differentiates or _is_statistic(source)
                if is_part and source.op == "call_function" and source not in self.known:
                    waiting.append(source)
                elif not is_vector(source):
                    given[source] = None
        said = {source: self._step(source) or self.text(source) for source in given}
        texts = {source: text for source, text in said.items() if text is not None}
        if len(texts) < len(said):
            return None
        words = {text.text: source for source, text in texts.items()}
        gradients = {word for word, source in words.items() if self._is_gradient(source)}
        places = {text.text: place for place, text in enumerate(self.known.values())}
        ordered = sorted(words, key=lambda word: (word not in gradients, places.get(word, 0), word))
        closed = self._in_closed_form(origin.differentiated, texts)
        return closed or (Text(f"{word}({', '.join(ordered)})") if ordered else None)

    def _in_closed_form(self, function: str, texts: Mapping[fx.Node, Text]) -> Text | None:
        """``d_hidden * gelu'(x)``, ``probs * (d_probs - sum(d_probs * probs))``, of functions of one value."""
        gradients = {text for source, text in texts.items() if self._is_gradient(source)}
        given = {*texts.values()} - gradients
        form = CLOSED_FORMS.get(function.strip("_"))
        masks = [one for one in texts if one.meta["val"].dtype is torch.bool]  # of where it is 0: no x
        if form is None or masks or len(gradients) != 1 or len(given) != 1:
            return None
        d, x = gradients.pop(), given.pop()
        x_text = x.text if function in PRIMED else x.within(Precedence.ATOM)
        return Text(form.format(d=d.within(Precedence.PRODUCT), x=x_text), Precedence.PRODUCT)

    def _is_gradient(self, node: fx.Node) -> bool:
        return isinstance(next(self.words.candidates(node.name)), GradientWord)

    def _step(self, node: fx.Node) -> Text | None:
        """A gradient that another derivative goes on with, as a formula of its own: ``d_out = d_relu(d_y, y)``."""
        origin = provenance_of(node)
        if node in self.known or not origin.differentiated or not origin.gradient_of:
            return None
        word, text = next(self.words.candidates(node.name)), self._derivative(node)
        if text is None or word in self.taken:
            return None
        self.taken.add(word)
        self.steps.append(Equation(word, text.text, is_result=False))
        self.known[node] = Text(word)
        return self.known[node]

    def _summed(self, node: fx.Node) -> Text | None:
        """``sum(d_y * normalize(x))``: the gradient of a vector of a layer's; no sum over axes of one element."""
        whole = self._behind_views(node.all_input_nodes[0])
        is_product = (
            aten_name(whole) == "mul" and provenance_of(whole).differentiated and whole not in self.known
        )
        factors = [
            self._behind_views(factor) for factor in (whole.all_input_nodes if is_product else [whole])
        ]
        texts = [self._step(factor) or self.text(factor) for factor in factors]
        said = [text for text in texts if text is not None]
        if len(said) < len(texts):
            return None
        if _has_equal_shape(node, node.all_input_nodes[0]):
            return said[0] if len(said) == 1 else infix("*", Precedence.PRODUCT).apply(said)
        return Text(f"sum({' * '.join(text.text for text in said)})")

    def _behind_views(self, node: fx.Node) -> fx.Node:
        while node not in self.known and aten_name(node) in _UNSAID and isinstance(node.args[0], fx.Node):
            node = node.args[0]
        return node

    def _seen(self, node: fx.Node, source: fx.Node, name: str) -> Text | None:
        """A value through a view that moves its elements."""
        if name in ("transpose", "permute", "t"):
            whole = self.text(source)
            is_matrix = getattr(node.meta.get("val"), "ndim", 0) == 2
            return Text(f"{whole.within(Precedence.ATOM)}.t()") if whole is not None and is_matrix else whole
        # The first rows of a table, as many as there are positions.
        is_start = name == "slice" and (*node.args[2:3], None)[0] in (None, 0)
        is_whole = source.op == "placeholder" or source.meta.get(PADDED_FOR_SPEED, False)
        return self.known.get(source) if is_start and is_whole else None

    def _joined(self, node: fx.Node) -> Text | None:
        """``rotate_half(q)`` for the halves of one value in the other order, the second one negated."""
        pieces = node.args[0]
        if not isinstance(pieces, list | tuple):
            return None
        nodes = [piece for piece in pieces if isinstance(piece, fx.Node)]
        rotated = rotated_half(node)
        if rotated is not None and aten_name(nodes[0]) == "neg":
            whole = self.text(rotated)
            return None if whole is None else Text(f"rotate_half({whole.text})")
        texts = [text for piece in nodes if (text := self.text(piece)) is not None]
        return Text(f"cat({', '.join(text.text for text in texts)})") if len(texts) == len(pieces) else None

    def _all(self, arguments: Sequence[Any], of: str) -> list[Text] | None:
        """What an operation is given; None from the first on that cannot be said, or is longer than any formula."""
        texts: list[Text] = []
        for argument in arguments:
            text = self._argument(argument, of)
            if text is None or len(text.text) > _LONGEST:
                return None
            texts.append(text)
        return texts

    def _argument(self, argument: Any, of: str) -> Text | None:
        if isinstance(argument, fx.Node):
            return self.text(argument)
        if isinstance(argument, int | float):
            named = self.numbers.get((of, float(argument)))
            return Text(named) if named else number_operand(literal_text(argument))
        return None


def _is_statistic(node: fx.Node) -> bool:
    """Whether a value is a norm's mean or rstd, or the norm that has them: a formula says what is normalized."""
    is_whole = isinstance(node.meta.get("val"), tuple | list)
    return is_whole or (node.target is operator.getitem and bool(node.args[1] != 0))


def _has_equal_shape(node: fx.Node, other: fx.Node) -> bool:
    """Whether two values have the same sizes, those of one element left out: one summed over these is the other."""
    values = [one.meta.get("val") for one in (node, other)]
    shapes = [[str(size) for size in one.shape] for one in values if isinstance(one, torch.Tensor)]
    told = [[size for size in shape if size != "1"] for shape in shapes]
    return len(told) == 2 and told[0] == told[1]


_WIDEST = 102  # of a file's first line: the kernel's name and the title
_TWO_LINES = 200
_MOST_INSTEAD_OF_OPS = 5  # equations, where the user's operations fit
_MOST_STEPS_OF_NORM = 3  # where the user's operations fit: ``rstd``, ``normalized`` and ``d_normalized``
_LONGEST_EQUATION = 180  # two lines
_MUCH_SHORTER = 0.7  # of the length: then the user's operations say it better than their arithmetic


def title_of(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> str:
    """What the kernel computes, in one line."""
    purpose = purpose_of(plan, words)
    is_called_so = purpose is not None and names.kernel.startswith(purpose.value)
    if purpose is KernelPurpose.TO_CHANNELS_LAST and is_called_so and len(plan.pointers) == 2:
        source, made = (names.pointers[pointer.name] for pointer in plan.pointers)
        return f"{made} = {source} with its channels last in memory{walk_of(plan, names)}."
    if purpose is KernelPurpose.FILL_PADDING:
        padded = listed(names.pointers[pointer.name] for pointer in plan.pointers)
        return f"writes zeros to the padding of {padded}{_place(plan, names)}."
    if purpose is KernelPurpose.ROW_STATISTICS:
        return "each row's mean and spread, from those of its pieces."
    if purpose is KernelPurpose.BATCH_STATISTICS:
        return "each channel's mean and 1 / deviation, from those of its pieces; the running ones follow."
    return _padded(plan, names, words) or _moved(plan, names) or _computed(plan, names, words)


def _moved(plan: KernelPlan, names: KernelNames) -> str:
    """``out[batch, position, head, col] = q[batch, head, position, col].``, of what only changes places."""
    match plan.body:
        case (Load() as load, Store() as store) if not (load.mask or store.mask or store.adds):
            pointers = {pointer.name: pointer for pointer in plan.pointers}
            read, written = pointers[load.buffer].dims, pointers[store.buffer].dims
        case _:
            return ""
    is_plain = not any(address.values or address.reversed for address in plan.addresses.values())
    if not read or not written or read == written or not is_plain:
        return ""
    from_, to = (", ".join(names.axes[axis].index for axis in dims) for dims in (read, written))
    title = f"{names.pointers[store.buffer]}[{to}] = {names.pointers[load.buffer]}[{from_}]."
    return title if len(title) <= _TWO_LINES - len(names.kernel) else ""


def _place(plan: KernelPlan, names: KernelNames) -> str:
    """``, n_cols columns from unscaled_d_logits_offset on``: where what is filled lies in each row."""
    starts = [names.ints[parameter.name] for parameter in plan.ints if parameter.axis is None]
    if len(starts) != 1 or len(plan.cols) != 1:
        return ""
    axis = names.axes[plan.cols[0].name]
    return f", {axis.size} {'columns' if axis.index == 'col' else plural(axis.index)} from {starts[0]} on"


def _padded(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> str:
    """``padded_weight = token_embedding, with zeros after its n_filled rows.``"""
    joins, _ = find_joins(plan, names, words)
    stores = [value for value in plan.body if isinstance(value, Store)]
    join = joins.get(stores[0].value) if len(stores) == 1 else None
    if join is None or join.fill != 0 or len(join.pieces) != 1 or join.ranges[0].start is not None:
        return ""
    load, end = plan.body[join.pieces[0]], join.ranges[0].end
    if not isinstance(load, Load) or end is None:
        return ""
    made, source = names.pointers[stores[0].buffer], names.pointers[load.buffer]
    filled, axis = names.scalars[end], names.axes[join.axis]
    return f"{made} = {source}, with zeros after its {filled} {plural(axis.index)}."


def _computed(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> str:
    """The results as formulas of values, else of the user's operations, else the operations in words."""
    how, of_values = walk_of(plan, names), value_formulas(plan, names, words)
    # The user's operations do not say in which order a kernel reads axes.
    is_lone = sum(isinstance(value, Store) for value in plan.body) == 1
    is_moved = (of_values or is_lone) and reads_moved(plan, names)
    is_said = is_moved and (of_values or equations_of(plan, names, words))
    of_ops = [] if is_said else op_equations(plan, names, words)
    exact, coarse = ("; ".join(map(str, some)) for some in (of_values, of_ops))
    is_coarser = coarse and exact and len(coarse) < _MUCH_SHORTER * len(exact)
    room = _WIDEST - len(names.kernel)
    for formula in (coarse, exact) if is_coarser else (exact, coarse):
        if formula and len(formula) <= room:
            return f"{formula}{how}." if len(formula) + len(how) <= room else f"{formula}."
    if plan.schedule.is_over_lists:
        return f"{update_in_words(plan, names)}."
    if len(of_values) == 1 and not is_coarser:
        return f"{exact}."
    equations = equations_of(plan, names, words)
    if len(equations) == 1 and len(str(equations[0])) <= _TWO_LINES - len(names.kernel):
        return f"{equations[0]}{how}."
    is_short = all(len(str(one)) <= _LONGEST_EQUATION for one in equations)
    backward, n_steps = backward_of(plan, words), sum(not one.is_result for one in equations)
    is_norm = bool(derivative_of_norm(plan))  # whose formula is known from textbooks
    most = _MOST_INSTEAD_OF_OPS if coarse else MOST_EQUATIONS
    if is_norm and n_steps <= _MOST_STEPS_OF_NORM:
        most = MOST_EQUATIONS
    if 1 < len(equations) <= most and is_short:
        return laid_out(equations, how, room, backward)
    if of_ops and len(coarse) <= _TWO_LINES - len(names.kernel):
        return laid_out(of_ops, how, room, backward) if len(of_ops) > 1 else f"{coarse}."
    if 1 < len(equations) <= MOST_EQUATIONS and is_short:
        return laid_out(equations, how, room, backward)
    if is_short and len(equations) > MOST_EQUATIONS and are_said(equations, names):
        return laid_out(equations, how, room, backward)
    return f"{in_words(plan, names, backward)}{how}."
