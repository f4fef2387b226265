"""Of the words in a kernel's name a function is called by those that say what is computed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from longhand.schedule.functions.inner_names import FunctionNames
from longhand.schedule.plan import Launch


def _site(*kernels: str) -> Any:
    steps = [Launch(kernel, (), ()) for kernel in kernels]
    return SimpleNamespace(steps=steps, calls={}, weights={}, given=())


@pytest.mark.parametrize(
    ("kernels", "name"),
    [
        (("make_x_avg_and_x_max", "softmax"), "attention_avg"),
        (("softmax", "column_sum_few_rows"), "attention_sum"),
    ],
)
def test_a_function_is_told_by_what_its_kernels_compute(kernels: tuple[str, ...], name: str) -> None:
    """They were attention_make and attention_rows."""
    names: Any = {one: SimpleNamespace(kernel=one) for one in ("softmax", *kernels)}
    functions = FunctionNames(names, "")
    alike: Any = SimpleNamespace(
        is_launch=False, class_name="Attention", sites=[SimpleNamespace(path=path) for path in ("a.0", "a.2")]
    )
    assert functions.of(alike, _site("softmax"), "attention", set()) == "attention"
    assert functions.of(alike, _site(*kernels), "attention", {"attention"}) == name
