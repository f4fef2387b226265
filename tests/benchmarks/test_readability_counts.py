"""Each counter of benchmarks.readability on a text that has its thing once, and on one that a person would write."""

import pytest

from benchmarks.readability.baseline import regressions, table
from benchmarks.readability.counts import COUNTERS
from benchmarks.readability.depth import KERNELS, LINES, MOST, Growth
from benchmarks.readability.text import UnitText

KERNEL = '''"""{name}: {title}.

    Block.forward    y = x * 0.1234567

Reads x once, writes y once.
"""


def {name}_kernel(x_ptr, y_ptr, n):
    {body}


def {name}(x, y, n_rows, n_cols, eps):
    {name}_kernel[(1,)](x, y, n_rows, n_cols, eps)


def reference(x):
    return x
'''
MODEL = """
class Model:
    def forward(self, x):
        # Block.forward    y = self.norm(x)
        {line}
        return x
"""
LOADS = "y = tl.load(x_ptr)"
MOVED = """(
    x_ptr,  # fp16 (n, m)
    y_ptr,  # fp16 (m, n)
    )
    tl.store(y_ptr, tl.load(x_ptr))"""


def unit(name="softmax", title="y = softmax(x)", body=LOADS, line="pass"):
    files = {
        f"kernels/{name}.py": KERNEL.format(name=name, title=title, body=body),
        "kernels/__init__.py": "",
    }
    return UnitText("a/model", "cuda", {**files, "model.py": MODEL.format(line=line)})


def of_cpp(signature, body=""):
    written = unit()
    text = f'extern "C" void softmax({signature}) {{\n{body}\n}}\n'
    return UnitText("a/model", "cpu", {**written.files, "kernels/softmax.cpp": text})


CASES = {
    "chain names": (unit("cat_sub_ne"), 1),
    "chain names of two": (unit("mul_add"), 1),
    "chain names with a dtype": (unit("fp32_cat_mul"), 1),
    "chain names, not of a norm": (unit("add_layer_norm"), 0),
    "listing docstrings": (unit(title="add, sub and ne in one pass"), 1),
    "listing docstrings, not a formula": (unit(title="y = sum(x)"), 0),
    "wide lines": (unit(line=f"y = {'long_' * 20}x"), 1),
    "wide lines, of 110 columns": (unit(line=f"y = {'x' * 98}"), 0),
    "without input": (unit(body="y = tl.arange(0, 4)"), 1),
    "without input in C++": (of_cpp("float *__restrict__ y, long n"), 1),
    "without input, not where one is read": (of_cpp("const float *__restrict__ x, float *__restrict__ y"), 0),
    "unsaid orders": (unit(body=MOVED), 1),
    "unsaid orders, not where the formula says it": (unit(title="y = softmax(x.t())", body=MOVED), 0),
    "unsaid orders, not of axes that are the same": (unit(body=MOVED.replace("(n, m)", "(m, n)")), 0),
    "unsaid orders in C++": (of_cpp("\n  const float *x,  // (n, m)\n  float *y,  // (m, n)\n"), 1),
    "folded floats": (unit(body="y = tl.load(x_ptr) * 0.1767766952966369"), 1),
    "folded floats of a size": (of_cpp("const float *x", "y = sum / 96.0f;"), 1),
    "folded floats, not the user's": (unit(body="y = tl.load(x_ptr) * 0.1234567"), 0),
    "folded floats, not with a name": (
        of_cpp("const float *x", "constexpr float SQRT_2 = 1.41421356237f;"),
        0,
    ),
    "positional numbers": (unit(line="kernels.softmax(x, y, 4, n_cols, 1e-5)"), 1),
    "positional numbers, not two": (unit(line="kernels.softmax(x, y, 4, n_cols, eps=1e-5)"), 0),
    "forbidden names": (unit(body="selected = tl.load(x_ptr)"), 1),
    "forbidden names with a part": (unit(body="mean_value = tl.load(x_ptr)"), 1),
    "forbidden names, not words in them": (unit(body="valued = tl.load(x_ptr)"), 0),
    "glue": (unit(line="y = x.transpose(0, 1).transpose(1, 2)"), 1),
    "glue in two lines": (unit(line="x = x.reshape(4, 2)\n        x = x.view(8)"), 1),
    "glue, not once": (unit(line="y = x.transpose(0, 1).reshape(8)"), 0),
    "repeated quotes": (unit(line="y = x\n        # Block.forward    y = self.norm(x)"), 1),
    "repeated quotes, not others": (unit(line="y = x\n        # Block.forward    y = self.norm(y)"), 0),
    "unrolled layers": (unit(line="y = self.layers[0].weight + self.layers[1].weight"), 1),
    "unrolled layers, not what is fused with a neighbour": (
        unit(line="y = self.h[0].a + self.h[0].b + self.h[0].c\n        y = y + self.h[3].scale"),
        0,
    ),
    "unrolled layers, not the first alone": (unit(line="y = self.layers[0].weight + x.shape[1]"), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_counters(case):
    written, expected = CASES[case]
    word = next(word for word in COUNTERS if case.startswith(word))
    assert len(COUNTERS[word](written)) == expected


def test_more_than_before_is_a_regression_and_less_is_none():
    before = {"a cpu": {"kernels": 3, **dict.fromkeys(COUNTERS, 1)}}
    worse = {"a cpu": {**before["a cpu"], "glue": 2, "chain names": 0}}
    assert regressions(worse, before) == ["a cpu: glue: 2, before 1"]
    assert regressions(before, before) == []
    assert "does not have it" in regressions(before, {})[0]
    assert table(before)[-1] == ["all", "3", *["1"] * len(COUNTERS), *["0"] * len(MOST)]


def test_a_deep_model_may_be_somewhat_longer_and_no_more():
    before = {"a cpu": {"kernels": 3, **dict.fromkeys(COUNTERS, 0), LINES: 100}}
    longer = {"a cpu": {**before["a cpu"], LINES: 130}}
    assert regressions(longer, before) == []
    longer["a cpu"][LINES] = 131
    assert regressions(longer, before) == [f"a cpu: {LINES}: 131, before 100"]
    assert regressions(longer, longer) == [], "what was long before is no regression"


def test_percentages_of_lines_and_kernels():
    few = unit()
    many = UnitText(few.model, "cuda", {**few.files, "backward.py": few.files["model.py"]})
    assert Growth(few, many).percentages == {LINES: 200, KERNELS: 100}
