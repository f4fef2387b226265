"""Checks the unit: ``python -m <package>.check [KERNEL ...]``, from the folder that holds the package.

Every kernel is compared with its PyTorch reference within a call of the model on random weights and inputs,
and the model's results with those of the same model that runs references in place of kernels. A result may
be no farther from the reference in float64 than twice what the reference in the tensors' own types is, or a
few units in the last place. Prints a table; exits with 1 if something is wrong.
"""

import sys

import torch

from . import kernels
from .kernels.gelu_residual import reference as gelu_residual_reference
from .model import gelu_residual

DEVICE = "cpu"
SEED = 0
LAST_PLACES = 4


def make_arguments():
    """The tensors of one call, drawn at random."""
    torch.manual_seed(SEED)
    x = torch.randn(4096, 2048)
    bias = torch.randn(2048)
    residual = torch.randn(4096, 2048)
    return x, bias, residual


def run():
    """One call of the model: the tensors that it returns, and those it was given, which may have changed."""
    arguments = make_arguments()
    x, bias, residual = arguments
    with torch.no_grad():
        results = gelu_residual(x, bias, residual)
    return list(tensors_in((results, arguments)))


def tensors_in(value):
    """The tensors in nested containers, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(vars(value))


def window(tensor, shape, stride, offset=0):
    """The part of a tensor's memory that a kernel sees, in the kernel's own shape."""
    return tensor.as_strided(shape, stride, tensor.storage_offset() + offset)


# For each kernel: what its reference is given, and where what the reference returns belongs.


def gelu_residual_windows(x, bias, residual, out, n_rows, n_cols):
    read = {
        "x": window(x, (n_rows, n_cols), (n_cols, 1)),
        "bias": window(bias, (n_cols,), (1,)),
        "residual": window(residual, (n_rows, n_cols), (n_cols, 1)),
    }
    written = [window(out, (n_rows, n_cols), (n_cols, 1))]
    return read, written


KERNELS = {
    "gelu_residual": (gelu_residual_windows, gelu_residual_reference),
}


def as_double(read):
    """The same arguments with float64 for every floating-point tensor."""
    return {
        name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in read.items()
    }


def results_of(reference, read):
    """What a reference returns, as a list."""
    found = reference(**read)
    return list(found) if isinstance(found, tuple) else [found]


def differences(found, exact, plain):
    """How far each element is from `exact`, where float64 and the tensors' own types agree: on what is
    finite, on each whole number and comparison.

    Elsewhere (an overflow that float64 does not have, a comparison that rounding decides) `found` must be
    what `plain` is, or a decision that `exact` takes too; else the difference is infinite.
    """
    is_rounded = plain.is_floating_point()
    found, exact, plain = torch.broadcast_tensors(found.double(), exact.double(), plain.double())
    agree = exact.isfinite() & plain.isfinite() if is_rounded else exact == plain
    same = (found == plain) | (found.isnan() & plain.isnan())
    if not is_rounded:
        same |= found == exact
    difference = torch.where(agree, (found - exact).abs(), torch.where(same, 0.0, torch.inf))
    return torch.where(difference.isnan(), torch.inf, difference)


def error(found, exact, plain):
    """The largest difference."""
    return differences(found, exact, plain).max().item() if found.numel() else 0.0


def allowed(found, exact, plain, factor=2):
    """How far `found` may be from `exact`, given the reference in the tensors' own types."""
    if not found.is_floating_point():
        return 0.0
    finite = exact[exact.isfinite() & plain.isfinite()]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    return factor * error(plain, exact, plain) + LAST_PLACES * torch.finfo(found.dtype).eps * scale


def first_mismatch(found, exact, plain, limit):
    """The first element that is farther from `exact` than `limit`: its index and both values, in words."""
    wrong = (differences(found, exact, plain) > limit).nonzero()
    if not len(wrong):
        return ""
    index = tuple(wrong[0].tolist())
    return f"at {list(index)}: {found[index].item():.9g}, expected {exact[index].item():.9g}"


def compared(name, sizes, found, exact, plain, limit):
    """One row of what is checked: what, its sizes, the error, what is allowed, and the first mismatch."""
    return name, sizes, error(found, exact, plain), limit, first_mismatch(found, exact, plain, limit)


def with_check(name, kernel, report):
    """`kernel`, compared with its reference once for each set of sizes that it is called with."""
    windows, reference = KERNELS[name]
    seen = set()

    def checked(*given, **named):
        sizes = tuple(value for value in (*given, *named.values()) if not isinstance(value, torch.Tensor))
        if sizes in seen:
            kernel(*given, **named)
            return
        seen.add(sizes)
        read, written = windows(*given, **named)
        read = {
            key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in read.items()
        }
        kernel(*given, **named)
        exact, plain = results_of(reference, as_double(read)), results_of(reference, read)
        for found, one_plain, one_exact in zip(written, plain, exact, strict=True):
            one_plain = torch.as_tensor(one_plain, dtype=found.dtype, device=found.device).expand_as(found)
            one_exact = torch.as_tensor(one_exact, device=found.device).expand_as(found)
            report(*compared(name, sizes, found, one_exact, one_plain, allowed(found, one_exact, one_plain)))

    return checked


def with_reference(name, prepare):
    """A stand-in for a kernel that runs its reference on what `prepare` makes of the arguments."""
    windows, reference = KERNELS[name]

    def stand_in(*given, **named):
        read, written = windows(*given, **named)
        for target, value in zip(written, results_of(reference, prepare(read)), strict=True):
            target.copy_(torch.as_tensor(value))

    return stand_in


def run_with(replacement):
    """One call of the model with every kernel replaced."""
    originals = {name: getattr(kernels, name) for name in KERNELS}
    try:
        for name, kernel in originals.items():
            setattr(kernels, name, replacement(name, kernel))
        return run()
    finally:
        for name, kernel in originals.items():
            setattr(kernels, name, kernel)


def check_kernels(names):
    """Rows for these kernels, each within one call of the model; the others are run by their references."""
    rows = []

    def replacement(name, kernel):
        if name in names:
            return with_check(name, kernel, lambda *row: rows.append(row))
        return with_reference(name, dict)

    run_with(replacement)
    return rows


def check_model():
    """Rows for the model's results: with its kernels, against itself on references in float64."""
    found = run()
    exact = run_with(lambda name, kernel: with_reference(name, as_double))
    plain = run_with(lambda name, kernel: with_reference(name, dict))
    rows = []
    for place, (one, one_plain, one_exact) in enumerate(zip(found, plain, exact, strict=True)):
        limit = allowed(one, one_exact, one_plain, factor=4)
        rows.append(
            compared(f"the model, tensor {place}", tuple(one.shape), one, one_exact, one_plain, limit)
        )
    return rows


def main(names):
    """Check the named kernels, or all of them and the model; the exit code."""
    unknown = [name for name in names if name not in KERNELS]
    if unknown:
        print(f"There is no kernel {unknown[0]}. There are: {', '.join(KERNELS)}")
        return 2
    rows = check_kernels(names or list(KERNELS)) + ([] if names else check_model())
    is_right = True
    for name, sizes, difference, limit, mismatch in rows:
        verdict = "ok" if difference <= limit else "WRONG"
        is_right &= difference <= limit
        numbers = ", ".join(f"{size:g}" for size in sizes)
        print(f"{verdict:<5}  {name:<40}  ({numbers})  error {difference:.2g}, allowed {limit:.2g}")
        if mismatch:
            print(f"       first mismatch {mismatch}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
