"""What the proof of a Python text finds, and what it leaves alone."""

import ast
import textwrap

import pytest

from longhand.errors import ProofError, UntidyWarning
from longhand.proof import bindings as proof
from longhand.proof.bindings import binding_faults
from longhand.proof.python import prove_python, python_faults
from longhand.proof.scopes import kernel_faults

FAULTY = {
    "read after del": (
        """
        def launch(x):
            hidden = x.t()
            del x
            return empty(hidden.shape, device=x.device)
        """,
        "`x` is read after `del x` in line 4",
    ),
    "read after del on one path": (
        """
        def launch(x, n):
            if n:
                del x
            return x
        """,
        "`x` is read after `del x` in line 4",
    ),
    "read after del in the turn before": (
        """
        def launch(layers, x):
            for layer in layers:
                out = layer(x)
                del x
            return out
        """,
        "`x` is read after `del x` in line 5",
    ),
    "deleted twice": (
        """
        def launch(x):
            del x
            del x
        """,
        "`x` is deleted twice",
    ),
    "a field that is read after it was dropped": (
        """
        def again(saved):
            hidden = empty_like(saved.x)
            del saved.x
            return hidden, empty(2, device=saved.x.device)
        """,
        "`saved.x` is read after `del saved.x` in line 4",
    ),
    "a field of a record that was dropped, on one path": (
        """
        def again(saved, n):
            if n:
                del saved.layer2_1
            return saved.layer2_1.conv_out
        """,
        "`saved.layer2_1` is read after `del saved.layer2_1` in line 4",
    ),
    "a field that is dropped twice": (
        """
        def again(saved):
            del saved.x, saved.y
            del saved.x
        """,
        "`saved.x` is deleted twice",
    ),
    "bound on one path only": (
        """
        def launch(x, first):
            if first:
                norm = x.t()
            return norm
        """,
        "`norm` is read, and a path that binds no `norm` leads here",
    ),
    "bound by a loop that may not turn": (
        """
        def launch(xs):
            for x in xs:
                last = x.t()
            return last
        """,
        "`last` is read, and a path that binds no `last` leads here",
    ),
    "not bound when the try fails": (
        """
        def launch(x):
            try:
                y = x.t()
            except RuntimeError:
                print("no")
            return y
        """,
        "`y` is read, and a path that binds no `y` leads here",
    ),
    "read before it is bound": (
        """
        def launch(x):
            y = x * scale
            scale = 2
            return y * scale
        """,
        "`scale` is read, and a path that binds no `scale` leads here",
    ),
    "assigned for nothing": (
        """
        def launch(x):
            batch, seq = x.shape
            return batch
        """,
        "`seq` is assigned, and nothing reads it",
    ),
    "assigned over before it is read": (
        """
        def launch(x):
            y = x.t()
            y = x * 2
            return y
        """,
        "`y` is assigned, and nothing reads it",
    ),
    "assigned and only deleted": (
        """
        def launch(x):
            y = x.t()
            del y
        """,
        "`y` is assigned, and nothing reads it",
    ),
    "undefined": (
        """
        def launch(x):
            return x.view(tokens_size_1)
        """,
        "undefined name 'tokens_size_1'",
    ),
    "an unused import": ("import torch\n", "'torch' imported but unused"),
    "no Python": ("def launch(:\n", "no Python"),
}
SOUND = {
    "branches that both bind": """
        def launch(x, first):
            if first:
                y = x.t()
            else:
                y = x
            return y
        """,
    "a branch that leaves": """
        def launch(x, first):
            if first:
                y = x.t()
            else:
                raise ValueError(first)
            return y
        """,
    "a loop that carries": """
        def launch(layers, x):
            total = 0
            for layer in layers:
                x = layer(x)
                total += 1
            return x, total
        """,
    "what the last layer that a unit holds makes, and the last of some steps": """
        def forward(self, x):
            for block in self.stages[1].blocks[1:]:
                x, conv = block(x)
            for step in range(2, 5):
                y = conv + step
            return x, conv, y
        """,
    "what the last layer makes, of those from one on": """
        def forward(self, x):
            for layer in range(4, len(self.stages[2].blocks)):
                x, conv = self.stages[2].blocks[layer](x)
            return x, conv
        """,
    "a loop that only a break leaves": """
        def launch(x):
            while True:
                y = x.t()
                if y.sum():
                    break
            return y
        """,
    "a field of another record, and one that is there again": """
        def again(records, held):
            for saved in records:
                del saved.x
            held.layer.x = held.y
            del held.layer.x, held.y
            held.y = held.layer.z
            return held.y
        """,
    "a name of a comprehension, and a name that it hides": """
        def launch(xs):
            x = len(xs)
            return [x.t() for x in xs], x
        """,
    "del, and bound again": """
        def launch(x):
            y = x.t()
            del x
            x = y.t()
            del y
            return x
        """,
    "a function inside": """
        def launch(x):
            def later():
                return y
            y = x.t()
            return later
        """,
    "something that is tried": """
        import contextlib

        def launch(x):
            with contextlib.suppress(KeyError):
                return x["a"]
            y = x["b"]
            try:
                z = y.t()
            except RuntimeError as error:
                raise ValueError(str(error)) from None
            finally:
                y.clear()
            return z
        """,
}


@pytest.mark.parametrize("name", FAULTY)
def test_it_finds(name):
    text, words = FAULTY[name]
    faults = python_faults({"model.py": textwrap.dedent(text).replace("empty(", "list(")})
    assert any(words in str(fault) for fault in faults)
    assert all(str(fault).startswith("model.py:") for fault in faults)


@pytest.mark.parametrize("name", SOUND)
def test_it_leaves_alone(name):
    assert python_faults({"model.py": textwrap.dedent(SOUND[name])}) == []


KERNEL = """
@fast_launch
@triton.jit
def gru_kernel(x_ptr, cell_x_start, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
{body}
"""


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("cell_x_start = row * n_cols\ntl.store(x_ptr + cell_x_start, row)", "cell_x_start"),
        ("at = row * n_cols\nat = tl.load(x_ptr + row)\ntl.store(x_ptr + at, row)", "at"),
        (
            "base = row * n_cols\nfor start in range(0, n_cols, BLOCK):\n"
            "    base = tl.load(x_ptr + start)\n    tl.store(x_ptr + start, base)",
            "base",
        ),
    ],
    ids=["a parameter", "a value", "a value in a loop"],
)
def test_a_kernel_gives_no_name_twice(body, name):
    tree = ast.parse(KERNEL.format(body=textwrap.indent(body, "    ")))
    (fault,) = kernel_faults("kernels/gru.py", tree)
    assert fault.name == name


def test_a_size_that_is_counted_in_64_bits_is_the_same_size():
    body = "    n_cols = tl.cast(n_cols, tl.int64)\n    tl.store(x_ptr + row * n_cols, row)"
    assert kernel_faults("kernels/gru.py", ast.parse(KERNEL.format(body=body))) == []
    (fault,) = kernel_faults("kernels/gru.py", ast.parse(KERNEL.format(body=body.replace("(n_cols", "(row"))))
    assert fault.name == "n_cols"


def test_what_loops_carry_or_compute_again_is_no_second_meaning():
    body = """
    row_max = float("-inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + col)
        new_max = tl.maximum(row_max, x)
        total += tl.exp(x - row_max)
        row_max = new_max
    for start in range(0, n_cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + col)
        tl.store(x_ptr + col, x - row_max)
    """
    assert kernel_faults("kernels/gru.py", ast.parse(KERNEL.format(body=body))) == []


def test_a_reference_may_turn_what_it_is_given():
    text = "def reference(q):\n    q = q.t()\n    return q\n"
    tree = ast.parse(text)
    assert kernel_faults("kernels/q.py", tree) == []
    assert binding_faults("kernels/q.py", tree, text) == []


def test_the_error_tells_where():
    with pytest.raises(ProofError, match=r"model\.py:2: undefined name 'y'.*report"):
        prove_python({"model.py": "def f():\n    return y\n", "README.md": "not Python"})


def test_what_is_only_untidy_is_a_warning():
    with pytest.warns(UntidyWarning, match=r"model\.py:1: 'torch' imported but unused"):
        prove_python({"model.py": "import torch\n"})


KNOWN = "def known(x):\n    y = x + 1\n    return y\n"
DELETED = "def known(x):\n    y = x + 1\n    del y\n    return y\n"


def test_a_function_of_another_text_is_not_looked_at_again(monkeypatch):
    """Most of a unit's runtime.py is that of the last unit."""
    binding_faults("runtime.py", ast.parse(KNOWN), KNOWN)
    looked: list[int] = []
    monkeypatch.setattr(proof._Scope, "_run", lambda scope, body: looked.append(len(body)))
    other = f"import os\n\n\n{KNOWN}"
    assert binding_faults("runtime.py", ast.parse(other), other) == []
    assert looked == [2]  # the text's own two statements


def test_a_fault_is_found_each_time_and_where_it_stands():
    for above in (0, 3, 3):
        text = "\n" * above + DELETED + KNOWN + "w = '\x0c\x1e'\n" + DELETED
        lines = [fault.line for fault in binding_faults("runtime.py", ast.parse(text), text)]
        assert lines == [above + line for line in (2, 4, 10, 12)]
