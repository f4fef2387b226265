"""What a kernel's docstring says of its traffic is what its text does: the loads of each tensor, counted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

GENERATED = Path(__file__).resolve().parents[2] / "generated"
TRITON = sorted(
    p for p in GENERATED.rglob("kernels/*.py") if ".base" not in p.parts and "@triton.jit" in p.read_text()
)


CLAUSE = re.compile(
    r"([\w, ]+?) (once from memory and again from the cache|once for each [\w, ]+?|where [\w, ]+? says?|once)"
    r"(?=$|, | and )"
)

# Of many tensors of one kind: how many there are.
COUNTED = re.compile(r"\b(?:the )?(\d+) (?:other )?(?:gradients|vectors|tensors)\b")


def said(text: str) -> tuple[set[str], set[str], set[str], set[str]]:
    """What a docstring says is read once, read again, kept in cache and picked out: the words of tensors.

    What is read for each of something, or where data say, may be read any number of times, as what is picked out.
    """
    line = " ".join(text.split()).rpartition("Reads ")[2]
    reads, _, kept = line.partition("; ")
    picked = {match[1] for match in re.finditer(r"(\w+) at [\w, ]+ twice", reads)}
    reads = re.sub(r" \([^)]*\)", "", reads.partition(", writes ")[0].partition(", adds to ")[0])
    once, again = set[str](), set[str]()
    for names, how in CLAUSE.findall(reads):
        (once if how == "once" else again if "again" in how else picked).update(words(names))
    return once, again, words(kept.partition(" stay")[0]), picked


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", COUNTED.sub("", text.replace("part of ", "")))) - {"and", ""}


def loads(path: Path) -> tuple[str, Counter[str], dict[str, list[str]]]:
    """The docstring; how often each pointer is loaded; the text of each load's mask, by pointer."""
    tree = ast.parse(path.read_text())
    found: Counter[str] = Counter()
    masks: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.load"):
            continue
        pointer = re.match(r"\w+", ast.unparse(node.args[0]))
        assert pointer is not None
        word = pointer[0].removesuffix("_ptr")
        found[word] += 1
        masks.setdefault(word, []).extend(ast.unparse(k.value) for k in node.keywords if k.arg == "mask")
    return ast.get_docstring(tree) or "", found, masks


def loaded_half_by_half(path: Path) -> set[str]:
    """What two loads take, the second of which begins half a row later: each element once."""
    places: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            places[node.targets[0].id] = ast.unparse(node.value)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.load":
            word, _, at = ast.unparse(node.args[0]).partition(" + ")
            found.setdefault(word.removesuffix("_ptr"), []).append(places.get(at, at))
    return {word for word, at in found.items() if len(at) == 2 and at[1] == f"{at[0]} + half"}


@pytest.mark.parametrize("path", TRITON, ids=lambda path: str(path.relative_to(GENERATED)))
def test_the_line_about_traffic_counts_the_loads(path: Path) -> None:
    docstring, found, masks = loads(path)
    halves = loaded_half_by_half(path)
    if "Reads " not in docstring:
        assert not found, "it loads, and does not say so"
        return
    once, again, kept, picked = said(docstring)
    tensors = {word for word in found if not word.endswith("partial")}
    bookkeeping = {"address", "tensor_of_block", "first_block", "n_elements"}  # of a launch over lists
    reads, _, stays = " ".join(docstring.split()).rpartition("Reads ")[2].partition("; ")
    reads = re.split(", writes | and writes |, adds to ", reads)[0]
    counts = [sum(map(int, COUNTED.findall(part))) for part in (reads, stays.partition(" stay")[0])]
    unnamed = tensors - bookkeeping - once - again - kept - picked
    assert len(unnamed) == sum(counts), f"{counts} are counted"
    if counts[1]:
        kept |= unnamed
    else:
        once |= unnamed
    picked &= tensors  # axes are no tensors
    assert once | again | kept | picked == tensors - bookkeeping
    for word in again:
        assert found[word] > 1, f"{word} is loaded once"
    for word in once:
        in_turn = len(set(masks.get(word, []))) == found[word]  # each piece under a mask of its own
        is_once = found[word] - (word in picked) == 1 or word in halves
        assert is_once or in_turn, f"{word} is loaded {found[word]} times"


@pytest.mark.parametrize("path", TRITON, ids=lambda path: str(path.relative_to(GENERATED)))
def test_sums_in_whatever_order_are_told(path: Path) -> None:
    """Whoever trains twice with one seed asks why the last bits differ."""
    text = path.read_text()
    tells = "in whatever order" in (ast.get_docstring(ast.parse(text)) or "")
    assert tells == ("tl.atomic_add(" in text)


def rolled(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(torch.roll(x, 3, dims=-1)) * 2.0


def gated(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def rotated(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * 2.0 + torch.cat([-second, first], dim=-1)


def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * by


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (rolled, (torch.randn(30, 12),), "Reads x once, writes"),
        (gated, (torch.randn(30, 12),), "Reads x once, writes"),
        (rotated, (torch.randn(30, 12),), "Reads x once from memory and again from the cache, writes"),
        (
            scaled,
            (torch.randn(30, 12), torch.tensor(2.0)),
            "Reads x once, writes product once; by stays in cache.",
        ),
    ],
)
def test_parts_are_read_in_turn_and_overlaps_again(
    emit: Any, device: str, function: Any, args: Any, wanted: str
) -> None:
    files = emit(function, args, device=device)
    texts = [
        str(text) for path, text in files.items() if path.startswith("kernels/") and "Reads " in str(text)
    ]
    assert len(texts) == 1
    assert wanted in " ".join(texts[0].replace("//", "").split()), texts[0]


def first_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[:, :5]) * y


def every_other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, 0::3].exp(), y], dim=-1) * 2.0


def joined_in_part(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A copy reads what is under a condition; what is left out there is told by the condition alone."""
    return torch.cat([x[:, :5], y], dim=-1).sin()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (first_columns, (torch.randn(30, 12), torch.randn(30, 5)), "Reads y once and part of x once, writes"),
        (every_other, (torch.randn(30, 12), torch.randn(30, 4)), "Reads y once and part of x once, writes"),
        (joined_in_part, (torch.randn(30, 12), torch.randn(30, 9)), "Reads y once and part of x once, wr"),
        (joined_in_part, (torch.randn(30, 5), torch.randn(30, 9)), "Reads x and y once, writes"),
    ],
)
def test_what_is_read_in_part_is_not_said_to_be_read(
    emit: Any, device: str, function: Any, args: Any, wanted: str
) -> None:
    files = emit(function, args, device=device)
    text = "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))
    assert wanted in " ".join(text.replace("//", "").split()), text


def looked_up(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.relu(table[ids])


def by_head(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The table's rows are those of positions, and read for each head."""
    return torch.softmax(x.transpose(1, 2) + table[:, None, :], -1).transpose(1, 2) * 2.0


def angles(x: torch.Tensor, inv_freq: torch.Tensor) -> torch.Tensor:
    """The frequencies are read for every row, at places that are computed."""
    freqs = torch.arange(x.shape[0], dtype=torch.float32)[:, None] * inv_freq
    return x * torch.cat((freqs, freqs), dim=-1).cos()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (
            looked_up,
            (torch.randint(9, (30,)), torch.randn(9, 12)),
            "Reads ids once and table where ids says, writes",
        ),
        (
            angles,
            (torch.randn(30, 12), torch.randn(6)),
            "Reads x once, writes product once; inv_freq stays in cache",
        ),
    ],
)
def test_once_is_said_of_what_is_read_once(
    emit: Any, device: str, function: Any, args: Any, wanted: str
) -> None:
    text = "\n".join(
        str(t) for path, t in emit(function, args, device=device).items() if path.startswith("kernels/")
    )
    assert wanted in " ".join(text.replace("//", "").split()), text


def pooled(x: torch.Tensor, scale: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x * scale, 2) + skip


def test_a_map_that_is_added_to_windows_is_no_vector(emit: Any) -> None:
    args = torch.randn(2, 3, 9, 9), torch.randn(3, 1, 1), torch.randn(2, 3, 4, 4)
    texts = (
        str(text) for path, text in emit(pooled, args, device="cuda").items() if path.startswith("kernels/")
    )
    text = " ".join(next(text for text in texts if "tl.load" in text).split())
    assert "Reads x and skip once, writes " in text and "; scale stays in cache." in text


def summed(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.tanh(sum(tensors[1:], tensors[0]))


def with_vectors(x: torch.Tensor, *vectors: torch.Tensor) -> torch.Tensor:
    for vector in vectors:
        x = torch.tanh(x) * vector
    return x


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (summed, [torch.randn(6, 48)] * 8, "Reads the 8 tensors once, writes"),
        (
            with_vectors,
            [torch.randn(6, 48), *(torch.randn(48) for _ in range(5))],
            "once; the 5 vectors stay in cache.",
        ),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_of_many_tensors_it_is_said_what_they_are(
    emit: Any, device: str, function: Any, args: list[torch.Tensor], wanted: str
) -> None:
    args = [one.clone() for one in args]
    files = emit(function, tuple(args), device=device)
    text = "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))
    assert wanted in " ".join(text.replace("//", "").split()), text
