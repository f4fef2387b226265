"""Random programs train as in eager: results, gradients, what is written, what shares memory.

``python -m tests.autograd.test_random_programs 300 400`` runs others; a difference is printed with seed and program.
Even seeds go through Dynamo, odd ones through longhand's own capture.
"""

from __future__ import annotations

import functools
import itertools
import logging
import random
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree

from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from tests.autograd.random_programs import COLS, ROWS, program

# 0: a constant of a function that the backward reads. 18: a copy beside a reduction over rows. 182: the gradient of a
# result is that of an argument. 1318: two pieces that end at the same number, one of them halfway.
SEEDS = (0, 18, 182, 1318, *range(201, 207))
TOLERANCE = 1e-9  # of the largest number: everything is float64


def arguments(seed):
    """(leaves, arguments): the second matrix is another leaf, the first one again, or a view of something."""
    draw = random.Random(seed + 1_000_000)
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows, cols, grad=True):
        return torch.randn(rows, cols, generator=generator, dtype=torch.float64).requires_grad_(grad)

    x, other, w, buffer = (
        matrix(ROWS, COLS),
        matrix(ROWS, COLS),
        matrix(COLS, COLS),
        matrix(ROWS, COLS, False),
    )
    w.requires_grad_(draw.random() < 0.8)
    v = torch.linspace(0.5, 2, COLS, dtype=torch.float64)
    seconds = [lambda: other, lambda: x, lambda: x.detach(), lambda: other.detach(), lambda: other * 1]
    y = draw.choice(seconds)()
    return [x, other, w], (x, y, w, v, buffer)


def seen(run, seed):
    """What can be seen of a step: everything by name, tensors detached; and which tensors share memory."""
    leaves, given = arguments(seed)
    torch.manual_seed(seed)
    results = run(*given)
    tensors = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    found = {"results": [leaf if not isinstance(leaf, torch.Tensor) else None for leaf in results]}
    found["types"] = [(one.dtype, tuple(one.shape), one.requires_grad) for one in tensors]
    storages = [one.untyped_storage().data_ptr() for one in (*given, *tensors)]
    found["shared"] = [a == b for a, b in itertools.combinations(storages, 2)]
    found |= {f"result {place}": one.detach().clone() for place, one in enumerate(tensors)}
    found |= {f"argument {place} afterwards": one.detach().clone() for place, one in enumerate(given)}
    carrying = [one for one in tensors if one.requires_grad and one.dtype.is_floating_point]
    if carrying:
        generator = torch.Generator().manual_seed(seed)
        weights = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in carrying]
        sum((one * weight).sum() for one, weight in zip(carrying, weights, strict=True)).backward()
    found |= {f"gradient {place}": leaf.grad for place, leaf in enumerate(leaves)}
    return found


def compare(seed):
    """Runs a program in eager and compiled; None where eager itself raises, else the text of what differs."""
    text = program(seed)
    namespace = {"torch": torch, "F": F}
    exec(compile(text, f"<string program {seed}>", "exec"), namespace)
    function = namespace["program"]
    try:
        expected = seen(function, seed)
    except (RuntimeError, TypeError, ValueError):
        return None
    torch.compiler.reset()
    reports = []
    if seed % 2:
        compiled = captured(function, report=reports.append)
    else:
        compiled = torch.compile(function, backend=functools.partial(longhand_backend, report=reports.append))
    found = seen(compiled, seed)
    for key, wanted in expected.items():
        if not isinstance(wanted, torch.Tensor) or found[key] is None:
            is_same = found[key] is wanted if wanted is None else found[key] == wanted
        elif wanted.dtype.is_floating_point:
            scale = max(1.0, wanted.abs().max().item())
            is_same = (found[key] - wanted).abs().max().item() <= TOLERANCE * scale
        else:
            is_same = torch.equal(found[key], wanted)
        if not is_same:
            return f"{key}: {found[key]} is not {wanted}"
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_trains_as_in_eager(seed, hook, caplog):
    with caplog.at_level(logging.CRITICAL), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        difference = compare(seed)
    if difference is None:
        pytest.skip("eager raises")
    assert not difference, f"seed {seed}: {difference}\n{program(seed)}"


def main() -> None:
    """Runs the seeds from the first argument to the second."""
    counts = {"right": 0, "eager raises": 0, "different": 0}
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for seed in range(*map(int, sys.argv[1:3])):
        try:
            difference = compare(seed)
        except Exception as error:
            difference = f"{type(error).__name__}: {error}"
        counts["eager raises" if difference is None else "different" if difference else "right"] += 1
        if difference:
            print(f"seed {seed}: {difference}\n{program(seed)}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
