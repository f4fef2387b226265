"""The text of C++ kernels, one of each style, as a reviewer sees it: tests/golden/*.cpp (`pytest --update-golden`)."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longhand.emit.cpp.format import LINE_LENGTH, format_cpp
from longhand.emit.cpp.headers import CppSource
from longhand.emit.cpp.kernel import print_cpp_headers, print_cpp_kernel
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.names.unit_names import Quote
from tests.emit.cpp_kernels import plain_names
from tests.emit.test_cpp_text import add_layer_norm, bias_gelu
from tests.schedule import nests

GOLDEN = Path(__file__).parents[1] / "golden"


def _planned(name: str, make: nests.NestMaker) -> CppSource:
    plan, _ = plan_kernel(make.nest(), make.buffers, nests.CPU)
    return print_cpp_kernel(plan, plain_names(plan, name))


def _centered_with_sums() -> nests.NestMaker:
    """Rows less their mean, and the sums down the columns of what that makes."""
    make = nests.NestMaker(row=700, col=100)
    x = make.load("x", "row col")
    centered = x - make.reduce(nests.ReduceOp.SUM, x, "col") / make.axis_size("col")
    make.store("y", "row col", centered)
    make.store("sums", "col", make.reduce(nests.ReduceOp.SUM, centered * x, "row"))
    return make


def _product_with_sums() -> nests.NestMaker:
    make = nests.NestMaker(row=700, col=100)
    product = make.load("x", "row col") * make.load("y", "row col")
    make.store("product", "row col", product)
    make.store("sums", "col", make.reduce(nests.ReduceOp.SUM, product, "row"))
    return make


KERNELS: dict[str, Callable[[], CppSource]] = {
    "add_layer_norm": lambda: print_cpp_kernel(*add_layer_norm()),
    "bias_gelu": lambda: print_cpp_kernel(*bias_gelu(torch.bfloat16)),
    "cross_entropy": lambda: _planned("cross_entropy", nests.cross_entropy(6, 50)),
    "full_sum": lambda: _planned("full_sum", nests.full_sum(300, 300)),
    "centered_with_sums": lambda: _planned("centered_with_sums", _centered_with_sums()),
    "product_with_sums": lambda: _planned("product_with_sums", _product_with_sums()),
    "column_sum": lambda: _planned("column_sum", nests.column_sum(700, 100)),
    "softmax_over_channels": lambda: _planned("softmax_over_channels", nests.softmax_over_channels(2, 6, 19)),
    "transpose_add": lambda: _planned("transpose_add", nests.transpose_add(35, 21)),
    "rotary": lambda: _planned("rotary", nests.rotary(2, 5, 3, 4)),
    "integer_rows": lambda: _planned("integer_rows", nests.integer_rows(6, 20)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_the_golden_one(name: str, update_golden: bool) -> None:
    text = format_cpp(KERNELS[name]())
    golden = GOLDEN / f"{name}.cpp"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("name", KERNELS)
def test_text_reads_well(name: str) -> None:
    source = KERNELS[name]()
    text = format_cpp(source)
    assert format_cpp(text) == text
    assert max(map(len, text.splitlines())) <= LINE_LENGTH
    body = text[text.index('extern "C"') :]
    code = re.sub(r"//.*", "", body)
    assert not re.findall(r"(?<![\w.])\d{2,}(?![\w.])", code), "a bare number"
    assert len(body.splitlines()) <= 80
    for header in re.findall(r'#include "(.*)"', text):
        assert header in print_cpp_headers([source])


def test_headers_declare_what_is_called_and_not_what_a_comment_quotes() -> None:
    plan, names = bias_gelu(torch.float32)
    quoted = dataclasses.replace(names, quotes=(Quote("Model.forward", "y = torch.pow(torch.sin(x), 2)"),))
    source = print_cpp_kernel(plan, quoted)
    header = print_cpp_headers([source])["vector_math.h"]
    assert "torch.pow(torch.sin(x), 2)" in source
    assert "vector_erf(" in header and "pow(" not in header and "sin(" not in header


@pytest.mark.parametrize("flags", [["-march=x86-64"], ["-march=x86-64-v3"]])
def test_builds_without_warnings_for_older_processors(flags: list[str], tmp_path: Path) -> None:
    sources = {name: make() for name, make in KERNELS.items()}
    texts = {name: format_cpp(source) for name, source in sources.items()}
    for header, text in print_cpp_headers(sources.values()).items():
        (tmp_path / header).write_text(format_cpp(text, header))
    everything = "\n".join(re.sub(r"constexpr long \w+ = .*", "", text) for text in texts.values())
    tunables = {name for text in texts.values() for name in re.findall(r"constexpr long (\w+) =", text)}
    constants = "".join(f"constexpr long {name} = 64;\n" for name in sorted(tunables))
    (tmp_path / "all.cpp").write_text(constants + everything)
    compiler = shutil.which("g++")
    assert compiler is not None
    command = [
        compiler,
        "-std=c++20",
        "-O1",
        "-fopenmp",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-c",
        "all.cpp",
        "-o",
        "all.o",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
