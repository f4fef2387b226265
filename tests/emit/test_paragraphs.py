"""A statement of the user's stands above what it begins, once, and where it tells something."""

from __future__ import annotations

import dataclasses

from longhand.capture.graph import Provenance
from longhand.emit.module.paragraphs import (
    LineKind,
    Paragraph,
    PythonLine,
    WrittenParagraph,
    chosen,
    quotes_of,
    said_once,
)
from longhand.emit.text.quoting import quote_lines
from longhand.schedule.modules.titles import CalledModule
from longhand.schedule.names.unit_names import Quote

NORM, SCALE, LINEAR = (Quote("Layer.forward", text) for text in ("y = norm(x)", "y * 2", "self.proj(y)"))


def test_a_statement_is_quoted_where_it_begins() -> None:
    paragraphs = [Paragraph((NORM,), ["a"]), Paragraph((LINEAR,), ["b"]), Paragraph((NORM,), ["c"])]
    assert [one.quotes for one in said_once(paragraphs)] == [(NORM,), (LINEAR,), ()]


def test_a_paragraph_quotes_all_that_it_does_not_what_is_left_of_it() -> None:
    paragraphs = [Paragraph((NORM,), ["a"]), Paragraph((NORM, SCALE), ["b"])]
    assert [one.quotes for one in said_once(paragraphs)] == [(NORM,), (NORM, SCALE)]


def test_in_another_part_of_the_module_a_statement_is_quoted_again() -> None:
    paragraphs = [Paragraph((NORM,), ["a"], "layer[0]"), Paragraph((NORM,), ["b"], "layer[1]")]
    assert [one.quotes for one in said_once(paragraphs)] == [(NORM,), (NORM,)]


def test_of_many_statements_the_one_of_the_result_is_quoted() -> None:
    many = [Quote(f"Norm{n}.forward", f"y = step{n}(x)") for n in range(3)]
    assert chosen(many[:2], in_backward=False) == tuple(many[:2])  # two lines hold them
    assert chosen(many, in_backward=False) == (many[-1],)
    assert chosen(many, in_backward=True) == (many[0],)  # its result's gradient comes in
    ends = [Quote("Norm.forward", f"{word} = {word}_of(x)" + " + 1" * 12) for word in ("mean", "out")] + [
        NORM
    ]
    assert chosen(ends, in_backward=False) == (ends[1], NORM)  # what each function ends with
    again = dataclasses.replace(NORM, is_again=True)
    assert chosen([again, SCALE], in_backward=True) == (SCALE, again)
    assert chosen([again], in_backward=True) == (again,)


def test_what_goes_on_with_a_statement_is_more_of_its_paragraph() -> None:
    paragraphs = [Paragraph((NORM, SCALE), ["a"]), Paragraph((NORM,), ["b"]), Paragraph((), ["c"])]
    assert said_once(paragraphs) == [Paragraph((NORM, SCALE), ["a", "b"]), Paragraph((), ["c"])]


def test_the_call_of_a_kernel_stands_for_itself() -> None:
    launch = PythonLine("kernels.norm(x, out)", LineKind.LAUNCH)
    paragraphs = [Paragraph((NORM,), [launch]), Paragraph((NORM,), ["y = out.t()"])]
    assert said_once(paragraphs) == [paragraphs[0], Paragraph((), ["y = out.t()"])]


def test_a_statement_that_comes_back_begins_a_paragraph_without_words() -> None:
    paragraphs = [Paragraph((NORM,), ["a"]), Paragraph((LINEAR,), ["b"]), Paragraph((NORM,), ["c"])]
    assert said_once(paragraphs)[2] == Paragraph((), ["c"])


def test_calls_that_say_what_they_do_stand_together_without_statements() -> None:
    paragraphs = [
        Paragraph((one,), [line], "attn", is_evident=True)
        for one, line in [(NORM, "q = linear(x)"), (LINEAR, "k = linear(x)")]
    ]
    assert said_once(paragraphs) == [Paragraph((), ["q = linear(x)", "k = linear(x)"], "attn")]


def test_a_part_of_the_module_is_named_where_its_block_begins() -> None:
    parts = ["attn", "attn", "", "mlp", "mlp"]
    paragraphs = [
        Paragraph((Quote("Layer.forward", str(place)),), [str(place)], part)
        for place, part in enumerate(parts)
    ]
    assert [one.heading for one in said_once(paragraphs)] == ["attn", "", "", "mlp", ""]


def test_a_block_goes_on_behind_what_the_module_itself_does() -> None:
    paragraphs = [
        Paragraph((Quote("Layer.forward", text),), [text], part)
        for text, part in [("a", "mlp"), ("b", ""), ("c", "mlp")]
    ]
    assert [one.heading for one in said_once(paragraphs)] == ["mlp", "", ""]


def test_a_heading_stands_above_the_statement() -> None:
    (one,) = WrittenParagraph.of([Paragraph((NORM,), ["a"], "layers[0].attn")])
    assert one.comment == ("layers[0].attn", "Layer.forward    y = norm(x)")


def _of_modules(*names: str, is_product: bool = False) -> Paragraph:
    modules = tuple(CalledModule(("body", name[-1]), name[:-1]) for name in names)
    lines = [PythonLine(name, LineKind.PLAIN if is_product else LineKind.LAUNCH) for name in names]
    return Paragraph((), [*lines], is_evident=is_product, modules=modules, is_product=is_product)


def test_modules_of_one_holder_go_under_one_title_from_product_to_product() -> None:
    paragraphs = [
        _of_modules("Conv0", is_product=True),
        _of_modules("Conv0"),  # its bias
        _of_modules("Norm1", "ReLU2"),
        _of_modules("Conv3", is_product=True),
        _of_modules("Norm4"),
        _of_modules("Linear5", is_product=True),  # a product alone says what it is
    ]
    titles = ["body[0] to body[2]: Conv, Norm, ReLU", "", "body[3] and body[4]: Conv, Norm", "", ""]
    assert [one.heading for one in said_once(paragraphs)] == titles
    assert said_once(paragraphs)[0].lines == ["Conv0", "Conv0"]


def test_backwards_a_group_of_modules_ends_with_its_product() -> None:
    paragraphs = [
        _of_modules("Norm4"),
        _of_modules("Conv3", is_product=True),
        _of_modules("ReLU2", "Norm1"),
        _of_modules("Conv0", is_product=True),
    ]
    found = said_once(paragraphs, in_backward=True)
    titles = ["body[3] and body[4]: Conv, Norm", "", "body[0] to body[2]: Conv, Norm, ReLU", ""]
    assert [one.heading for one in found] == titles


def test_what_a_backward_pass_computes_again_is_said_to_be() -> None:
    forward = Provenance("y = norm(x)", "Layer.forward")
    derivative = dataclasses.replace(forward, differentiates="y")
    (again,), (first,), (mixed,) = (
        quotes_of(stated, in_backward)
        for stated, in_backward in (([forward], True), ([forward], False), ([forward, derivative], True))
    )
    assert quote_lines((again,), 90) == ["again: Layer.forward    y = norm(x)"]
    assert quote_lines((first,), 90) == quote_lines((mixed,), 90) == ["Layer.forward    y = norm(x)"]
    assert again != first  # which is quoted beside it
    (part,) = quotes_of([forward], True, parts={("Layer.forward", "y = norm(x)")})
    assert quote_lines((part,), 90) == ["again, for Layer.forward    y = norm(x)"]


def test_that_something_is_computed_again_is_said_each_time() -> None:
    again = dataclasses.replace(NORM, is_again=True)
    paragraphs = [
        Paragraph((NORM,), ["a"]),
        Paragraph((again,), ["b"]),
        Paragraph((NORM,), ["c"]),
        Paragraph((again,), ["d"], "attn"),
        Paragraph((LINEAR,), ["e"]),
        Paragraph((again,), ["again e"]),
        Paragraph((NORM, again), ["f"]),
    ]
    said = said_once(paragraphs, in_backward=True)
    assert [(one.quotes, one.heading, one.lines) for one in said] == [
        ((NORM,), "", ["a"]),
        ((again,), "", ["b"]),
        ((), "", ["c"]),  # the derivative goes on, apart
        ((again,), "attn", ["d"]),
        ((LINEAR,), "", ["e"]),
        ((), "again", ["again e"]),
        ((NORM, again), "", ["f"]),
    ]


def test_a_module_that_is_called_again_is_told_so() -> None:
    unfold, linear = (
        CalledModule(("body", "0"), "Unfold", is_again=True),
        CalledModule(("body", "1"), "Linear"),
    )
    line = PythonLine("kernels.gather(img, out)", LineKind.LAUNCH)
    paragraphs = [
        Paragraph((), ["d_bias"], modules=(linear,)),
        Paragraph((), [line], modules=(unfold,)),
        Paragraph((), ["d_weight"], modules=(linear,), is_evident=True, is_product=True),
    ]
    said = said_once(paragraphs, in_backward=True)
    assert [one.heading for one in said] == ["body[1]: Linear", "again: body[0]: Unfold", ""]
