"""Random programs train as in eager: results, gradients, what is written, what shares memory.

``python -m tests.autograd.test_random_programs 300 400`` runs others; a difference is printed with seed and program.
From 100000 on they have every kind of statement, and each is called several times, with other arguments.
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

import longhand
from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from tests.autograd import program_calls
from tests.autograd.random_programs import COLS, FIRST_WIDE, ROWS, program

# 0: a constant of a function that the backward reads. 18: a copy beside a reduction over rows. 182: the gradient of a
# result is that of an argument. 1318: two pieces that end at the same number, one of them halfway. 100001: a write into
# what a list of positions gave. 100031: dropout that nothing reads. 100038: a result whose derivative is zero.
SEEDS = (0, 18, 182, 1318, *range(201, 207), 100_001, 100_031, 100_038)
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
    if seed >= FIRST_WIDE:
        rounds = [
            functools.partial(program_calls.seen, seed=seed + number, kind=kind)
            for number, kind in enumerate(program_calls.kinds(seed))
        ]
    else:
        rounds = [functools.partial(seen, seed=seed)]
    try:
        wanted = [one(function) for one in rounds]
    except (RuntimeError, TypeError, ValueError):
        return None
    torch.compiler.reset()
    longhand.reset()
    compiled = captured(function) if seed % 2 else torch.compile(function, backend=longhand_backend)
    for one, expected in zip(rounds, wanted, strict=True):
        if difference := _difference(one(compiled), expected):
            kind = one.keywords.get("kind")
            return f"{kind.name}: {difference}" if kind else difference
    return ""


def _difference(found, expected):
    """What differs, in words. A backward pass that eager refuses (what it kept was written to) may be right here."""
    for key, wanted in expected.items():
        if "backward raises" in expected and (key == "backward raises" or key.startswith("gradient")):
            continue
        if key not in found or not _is_same(found[key], wanted):
            return f"{key}: {found.get(key)} is not {wanted}"
    return ", ".join(key for key in found if key not in expected)


def _is_same(found, wanted):
    if not isinstance(wanted, torch.Tensor) or found is None:
        return found is wanted if wanted is None else found == wanted
    if wanted.dtype.is_floating_point:
        numbers = wanted[wanted.isfinite()]
        scale = max(1.0, numbers.abs().max().item()) if numbers.numel() else 1.0
        return torch.allclose(found, wanted, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
    return torch.equal(found, wanted)


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
