"""Sizes that no word tells are read from a tensor: ``conv.shape[1]``."""

from __future__ import annotations

from longhand.emit.text.python_code import NameCode, SizeText, whole_number
from longhand.emit.text.told_sizes import leading_axes, read_from


def texts(*sizes: int | str, n_dims: int, every: bool = False) -> list[str]:
    written = [
        SizeText(whole_number(size), is_number=True) if isinstance(size, int) else SizeText(NameCode(size))
        for size in sizes
    ]
    dims = range(n_dims - len(sizes), n_dims)
    return [str(size.code) for size in read_from("conv", n_dims, dims, written, every)]


def test_large_numbers_are_told_by_the_tensor() -> None:
    assert texts("batch", 49, 64, n_dims=3) == ["batch", "conv.shape[1:].numel()"]


def test_small_numbers_beside_large_ones_are_one_span() -> None:
    assert texts("batch", 4, 64, n_dims=3) == ["batch", "conv.shape[1:].numel()"]


def test_a_function_of_several_sizes_reads_small_numbers_too() -> None:
    assert texts("batch", 4, "dim", n_dims=3, every=True) == ["batch", "conv.shape[1]", "dim"]


def test_pixels_are_counted_by_the_tensor() -> None:
    assert texts(8, 8, n_dims=4) == ["conv.shape[2:].numel()"]


def test_a_tensors_first_dimensions_tell_the_axes_that_they_are() -> None:
    sizes = {"n_batches": 2, "n_heads": 4, "n_positions": 19, "n_pairs": 3, "n_cols": 2}
    told = leading_axes([*sizes], sizes, [2, 4, 19, 6], ("batch", None, "seq", "rotary_dim"))
    assert list(told) == [("n_batches", 2, "batch"), ("n_positions", 19, "seq")]
    assert not list(leading_axes(["n_rows", "n_cols"], {"n_rows": 6, "n_cols": 4}, [24], ("dim",)))
