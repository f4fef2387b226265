"""A statement of the user's stands above what it begins, once."""

from __future__ import annotations

from longhand.emit.module.paragraphs import LineKind, Paragraph, PythonLine, said_once
from longhand.schedule.names.unit_names import Quote

NORM, SCALE, LINEAR = (Quote("Layer.forward", text) for text in ("y = norm(x)", "y * 2", "self.proj(y)"))


def test_a_statement_is_quoted_where_it_begins() -> None:
    paragraphs = [Paragraph((NORM,), ["a"]), Paragraph((SCALE, NORM), ["b"]), Paragraph((LINEAR,), ["c"])]
    assert [one.quotes for one in said_once(paragraphs, True)] == [(NORM,), (SCALE,), (LINEAR,)]


def test_what_goes_on_with_a_statement_is_more_of_its_paragraph() -> None:
    paragraphs = [Paragraph((NORM, SCALE), ["a"]), Paragraph((NORM,), ["b"]), Paragraph((), ["c"])]
    assert said_once(paragraphs, True) == [Paragraph((NORM, SCALE), ["a", "b"]), Paragraph((), ["c"])]


def test_the_call_of_a_kernel_stands_for_itself() -> None:
    launch = PythonLine("kernels.norm(x, out)", LineKind.LAUNCH)
    paragraphs = [Paragraph((NORM,), [launch]), Paragraph((NORM,), ["y = out.t()"])]
    assert said_once(paragraphs, True) == [paragraphs[0], Paragraph((), ["y = out.t()"])]


def test_a_statement_that_comes_back_begins_a_paragraph_without_words() -> None:
    paragraphs = [Paragraph((NORM,), ["a"]), Paragraph((LINEAR,), ["b"]), Paragraph((NORM,), ["c"])]
    assert said_once(paragraphs, True)[2] == Paragraph((), ["c"])


def _layers(*paths: str) -> list[Paragraph]:
    return [Paragraph((quote,), [path], path) for path in paths for quote in (NORM, LINEAR)]


def test_a_layer_that_does_the_same_is_headed_by_its_path_once() -> None:
    found = said_once(_layers("body.0.block", "body.1.block"), True)
    assert [one.lines for one in found[2:]] == [["# body[1]", "body.1.block", "body.1.block"]]


def test_no_path_is_that_of_all_layers_of_a_loop() -> None:
    assert said_once(_layers("body.0.block", "body.1.block"), False)[2].lines == ["body.1.block"] * 2


def test_a_module_without_parts_heads_nothing() -> None:
    assert said_once(_layers("body.0.ln_1", "body.0.ln_2"), True)[2].lines == ["body.0.ln_2"] * 2


def test_the_list_of_layers_heads_nothing() -> None:
    assert said_once(_layers("norm.0.block", "layers.0.block"), True)[2].lines == ["layers.0.block"] * 2
