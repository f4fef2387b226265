"""A few of the random programs for CUDA, in Triton's interpreter; for more: ``python -m tests.fuzz.cuda``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.fuzz.arguments import Argument, Content, Layout
from tests.fuzz.cuda import main
from tests.fuzz.kinds import KINDS
from tests.fuzz.minimize import minimize
from tests.fuzz.programs import Known, Program, Writer, made_by, names_in, write_program
from tests.fuzz.statements import STATEMENTS, norm

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "0:8"],
        ["--seeds", "0:3", "--train"],
        ["--kind", "images", "--seeds", "0:3", "--train"],
        ["--kind", "attention", "--seeds", "0:2", "--train"],
        pytest.param(
            ["--kind", "images", "--side", "cpp", "--seeds", "0:40", "--train"], marks=pytest.mark.slow
        ),
        pytest.param(["--kind", "images", "--side", "compiled", "--seeds", "0:30"], marks=pytest.mark.slow),
        pytest.param(["--kind", "images", "--seeds", "3:100", "--train"], marks=pytest.mark.slow),
        pytest.param(["--kind", "attention", "--seeds", "2:100", "--train"], marks=pytest.mark.slow),
        pytest.param(["--seeds", "8:200"], marks=pytest.mark.slow),
        pytest.param(["--seeds", "3:60", "--train"], marks=pytest.mark.slow),
    ],
)
def test_random_programs_do_what_eager_does(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0, capsys.readouterr().out


def test_a_seed_is_a_program_in_any_process() -> None:
    code = "from tests.fuzz.test_random_cuda_programs import told; print(told())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == told()


def told() -> str:
    """Some programs, in one text."""
    return "\n".join(
        str(write(seed, seed % 2 == 0)) for write in KINDS.values() for seed in range(40)
    ).strip()


def test_programs_are_of_many_kinds() -> None:
    text = "".join(write_program(seed, STATEMENTS).text for seed in range(300))
    for word in (
        "cat(",
        "gather(",
        "cumsum(",
        "where(",
        ".sum(",
        "softmax(",
        "flip(",
        "[0] = ",
        "scatter",
        "to(",
        "cross_entropy(",
        "add_to(",
    ):
        assert word in text


def test_programs_of_images_and_attention_are_of_many_kinds() -> None:
    images = "".join(str(KINDS["images"](seed, True)) for seed in range(150))
    for word in (
        "conv2d(",
        "conv_transpose2d(",
        "conv3d(",
        "max_pool2d(",
        "avg_pool2d(",
        "batch_norm(",
        "groups=",
    ):
        assert word in images
    for word in (
        "interpolate(",
        "unfold(",
        "channels_last)",
        ".permute(0, 2, 3, 1)",
        "buffer",
        "part of channels",
    ):
        assert word in images
    attention = "".join(str(KINDS["attention"](seed, True)) for seed in range(60))
    for word in (
        "scaled_dot_product_attention(",
        "enable_gqa",
        "softmax(-1) @",
        "einsum",
        "cross_entropy(",
        "embedding(",
    ):
        assert word in attention


def test_a_weight_that_two_statements_read_is_one_parameter() -> None:
    programs = [KINDS["attention"](seed, True) for seed in range(100)]
    tied = [
        program
        for program in programs
        if any(sum(one.name in names_in(line) for line in program.statements) > 1 for one in program.weights)
    ]
    assert len(tied) > 10
    module = tied[0].make_model(0)
    assert isinstance(module, torch.nn.Module)
    assert {name for name, _ in module.named_parameters()} <= {one.name for one in tied[0].weights}


def test_a_program_shrinks_to_what_fails() -> None:
    shape = (4, 6)
    program = Program(
        seed=0,
        arguments=(
            Argument("x0", torch.float32, shape, Layout.TRANSPOSED),
            Argument("x1", torch.float32, shape, content=Content.SPECIAL),
        ),
        statements=("h0 = x0.sin()", "h1 = x1 + 1", "h2 = h0 + h1", "h3 = h2.flip(0)", "h4 = h3.sum(0)"),
        results=("h2", "h4"),
    )
    smallest = minimize(program, lambda one: any(".flip(0)" in line for line in one.statements))
    assert [line.partition(" = ")[2].partition(".")[2] for line in smallest.statements] == ["flip(0)"]
    assert len(smallest.arguments) == 1 and smallest.arguments[0].layout is Layout.CONTIGUOUS
    assert names_in(smallest.statements[0]) >= {smallest.arguments[0].name}


def test_no_statement_reads_other_elements_of_what_it_writes() -> None:
    """What that leaves is undefined: eager raises for some of it only."""
    n_written = 0
    for seed in (*range(150), 200562, 202148):
        program = write_program(seed, STATEMENTS)
        names = {"torch": torch, "F": torch.nn.functional}
        names |= {one.name: one.make(seed) for one in program.arguments}
        for statement in program.statements:
            if made_by(statement) is None:
                into = re.search(r"\b[xh]\d+\b", statement)[0]
                n_written += 1
                at = names[into].untyped_storage().data_ptr()
                others = names_in(statement) - {into}
                plain = {other for other in others if f"{other}.clone()" not in statement}
                assert all(names[other].untyped_storage().data_ptr() != at for other in plain), statement
                assert f"{into}[1:] = {into}[:-1]" not in statement
            exec(statement, names)
    assert n_written > 20


def test_what_picks_from_itself_is_not_run_where_it_would_be_large() -> None:
    """Seed 302443 took 447 GB while it was drawn, which ends a process that a smaller machine only refuses."""
    writer = Writer(0, [])
    writer.values["x0"] = torch.zeros(3, 9000, dtype=torch.int64)
    writer.known.append(Known("x0", is_exact=True))
    assert not writer.add("x0[:, x0]", is_exact=True)
    assert writer.add("x0 + x0", is_exact=True)
    assert not writer.add("x0.index_select(0, x0.view(-1))", is_exact=True)


def test_squares_that_no_float32_holds_are_not_asked_of_layer_norm() -> None:
    """Seed 422757: eager gives NaN or 0 by how many of its threads a row leaves idle."""
    n_norms = 0
    for seed in range(60):
        writer = Writer(seed, [])
        writer.values["x0"] = torch.tensor([1e30, 2.0, 3.0, float("inf") if seed % 2 else 1e30]).expand(2, 4)
        writer.known.append(Known("x0", is_exact=True))
        if norm(writer) and "layer_norm" in writer.statements[-1]:
            n_norms += 1
            assert writer.values[writer.known[-1].name].isnan().all() == bool(seed % 2)
    assert n_norms > 4
