"""The run over every sample: parts that add up, and books that are continued."""

from __future__ import annotations

from pathlib import Path

from tests.autograd.sample_book import AT_ONCE, Book, Job
from tests.autograd.sample_work import Settings
from tests.autograd.sample_workers import _Queue

ROW = {"op": "exp", "dtype": "float32", "sample": 3, "door": "COMPILE", "train": True, "outcome": "RIGHT"}
FIRST: Job = ("exp", "float32", 0)


def finished(first: int, drawn: object = (None, 0)) -> dict[str, object]:
    said = {"op": "exp", "dtype": "float32", "first": first, "finished": True, "samples": 3 * AT_ONCE}
    return said | {"drawn": list(drawn)}  # type: ignore[call-overload]


def left(book: Book, part: tuple[int, int] = (1, 1)) -> list[Job]:
    queue, found = _Queue([FIRST], book, Settings(None, 0, part=part)), []
    while (job := queue.next()) is not None:
        found.append(job)
    return found


def test_a_book_is_continued(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", [None, 0])
    assert left(book) == [FIRST]
    book.add(ROW)
    book.add(finished(0))
    with (tmp_path / "book").open("a") as file:
        file.write('{"op": "exp", "dty')  # it was ended here
    book = Book(tmp_path / "book", [None, 0])
    assert book.known(FIRST).places == {(3, "COMPILE", True)}
    assert sorted(left(book)) == [("exp", "float32", AT_ONCE), ("exp", "float32", 2 * AT_ONCE)]


def test_what_earlier_books_know_is_not_done_again(tmp_path: Path) -> None:
    Book(tmp_path / "earlier", [None, 0]).add(finished(0))
    book = Book(tmp_path / "book", [None, 0], [tmp_path / "earlier"])
    assert FIRST not in left(book)
    assert FIRST in left(Book(tmp_path / "book", [2, 0], [tmp_path / "earlier"]))  # other samples


def test_parts_add_up(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", [None, 0])
    book.add(finished(0) | {"finished": False})  # only counted
    parts = [left(book, (number, 5)) for number in range(1, 6)]
    assert sorted(job for part in parts for job in part) == [
        ("exp", "float32", place * AT_ONCE) for place in range(3)
    ]


def test_all_samples_are_counted_once_nothing_is_left(tmp_path):
    book = Book(tmp_path / "book", [None, 0])
    jobs = [("add", "float32", 0), ("mul", "float32", 0)]
    common = {"dtype": "float32", "finished": True, "drawn": [None, 0]}
    book.add(common | {"op": "add", "first": 0, "samples": 30})
    book.add(common | {"op": "mul", "first": 0, "samples": 4})
    assert book.n_samples(jobs) is None  # the second piece of add is left
    book.add(common | {"op": "add", "first": 24, "samples": 30})
    assert book.n_samples(jobs) == 34
    assert book.n_samples([*jobs, ("sub", "float32", 0)]) is None
