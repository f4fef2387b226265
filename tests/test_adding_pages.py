"""The pages that tell how to add something name files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("adding_*.md"))
NAMED = re.compile(r"`((?:\w+/)+(?:[\w.]+)?)`")


def missing(text: str) -> list[str]:
    """The files and folders that a page names and that do not exist."""
    return [name for name in NAMED.findall(text) if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_file_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    assert len(set(NAMED.findall(text))) >= 8
    assert not missing(text)
    assert f"({page.name})" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_a_file_that_is_gone_is_found():
    assert missing("`lower/ops.py`, `lower/no_such_ops.py`, `no_such_room/`") == [
        "lower/no_such_ops.py",
        "no_such_room/",
    ]


def test_the_pages():
    assert [page.stem for page in PAGES] == [
        "adding_a_contraction_template",
        "adding_a_fusion_rule",
        "adding_a_kernel_schedule",
        "adding_a_naming_rule",
        "adding_a_python_version",
        "adding_a_target",
        "adding_an_op",
    ]
