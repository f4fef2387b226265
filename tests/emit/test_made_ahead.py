"""Where a forward pass only makes what its derivative reads, the statement above says that this is all."""

from __future__ import annotations

from longhand.capture.graph import Provenance
from longhand.emit.module.paragraphs import quotes_of
from longhand.emit.text.quoting import quote_lines

_NORM = Provenance("x = self.norm(x)", "Layer.forward")
_NORMALIZED = Provenance("x = self.norm(x)", "Layer.forward", differentiates="batch_norm", gradient_of="")
_MASK = Provenance("x = self.act(x)", "Layer.forward", differentiates="relu")


def test_what_is_made_for_the_backward_pass_alone_says_so() -> None:
    quotes = quotes_of([_NORMALIZED], in_backward=False, is_kept=True)
    assert quote_lines(quotes, 100) == ["for backward.py: Layer.forward    x = self.norm(x)"]
    assert quotes != quotes_of([_NORM], in_backward=False)  # they are no one paragraph


def test_what_the_forward_pass_reads_itself_is_its_own() -> None:
    quotes = quotes_of([_NORMALIZED], in_backward=False, is_kept=False)
    assert quote_lines(quotes, 100) == ["Layer.forward    x = self.norm(x)"]


def test_beside_anything_else_it_goes_unsaid() -> None:
    quotes = quotes_of([_NORM, _NORMALIZED, _MASK], in_backward=False)
    assert quote_lines(quotes, 100) == ["Layer.forward    x = self.norm(x)"]


def test_in_the_backward_pass_it_is_the_derivative() -> None:
    quotes = quotes_of([_NORMALIZED], in_backward=True)
    assert quote_lines(quotes, 100) == ["Layer.forward    x = self.norm(x)"]
