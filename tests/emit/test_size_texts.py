"""Sizes that no word tells are read from a tensor: ``conv.shape[1]``."""

from __future__ import annotations

from longhand.emit.text.python_code import NameCode, SizeText, whole_number
from longhand.emit.text.told_sizes import read_from


def texts(*sizes: int | str, n_dims: int, every: bool = False) -> list[str]:
    written = [
        SizeText(whole_number(size), is_number=True) if isinstance(size, int) else SizeText(NameCode(size))
        for size in sizes
    ]
    dims = range(n_dims - len(sizes), n_dims)
    return [str(size.code) for size in read_from("conv", n_dims, dims, written, every)]


def test_large_numbers_are_told_by_the_tensor() -> None:
    assert texts("batch", 49, 64, n_dims=3) == ["batch", "conv.shape[1]", "conv.shape[-1]"]


def test_small_numbers_stay() -> None:
    assert texts("batch", 4, 64, n_dims=3) == ["batch", "4", "conv.shape[-1]"]


def test_a_function_of_several_sizes_reads_small_numbers_too() -> None:
    assert texts("batch", 4, "dim", n_dims=3, every=True) == ["batch", "conv.shape[1]", "dim"]


def test_pixels_are_counted_by_the_tensor() -> None:
    assert texts(8, 8, n_dims=4) == ["conv.shape[2:].numel()"]
