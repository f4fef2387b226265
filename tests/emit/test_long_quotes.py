"""Very long statements are quoted without the last arguments of their calls; the review page still finds them."""

from __future__ import annotations

import pytest

from longhand.emit.module.paragraphs import quote_lines
from longhand.review.statement_links import _by_function
from longhand.schedule.names.unit_names import Quote, shortened

_NORM = (
    "x = F.batch_norm(x, self.running_mean if not self.training or self.track_running_stats else None, "
    "self.running_var if not self.training or self.track_running_stats else None, self.weight, self.bias, "
    "bn_training, exponential_average_factor, self.eps)"
)
_MANY = f"x = f({', '.join(f'argument_{n}={n}' for n in range(40))})"
_NO_CALL = " + ".join(["a_very_long_name_of_something"] * 9)
_HEAD = f"with {_MANY[4:]}:"


@pytest.mark.parametrize("statement", [_NORM, _MANY])
def test_last_arguments_are_left_out(statement: str) -> None:
    text = shortened(statement)
    assert text.endswith(", ...)") and len(text) <= 110
    assert statement.startswith(text.removesuffix(", ...)"))


@pytest.mark.parametrize("statement", ["x = F.relu(x)", _NO_CALL, _HEAD, f"x = f({'b' * 220})"])
def test_others_are_quoted_whole(statement: str) -> None:
    assert shortened(statement) == statement


def test_comments_have_the_short_form_and_the_page_knows_it() -> None:
    (line,) = quote_lines((Quote("Norm.forward", _NORM),), 140)
    assert line == f"Norm.forward    {shortened(_NORM)}"
    ((text, whole),) = _by_function([f"Norm.forward    {_NORM}"])["Norm.forward"]
    assert text == shortened(_NORM) and whole.endswith(_NORM)
