"""One path, one kernel: whatever a merge makes of two ledgers, no kernel's file is written over another's."""

import json
import random
from pathlib import Path

import pytest
import torch

import longhand
from longhand.emit.unit.files import _refuse_clash
from longhand.emit.unit.lock_file import LOCK, sides
from longhand.emit.unit.merge import plan_merge
from longhand.emit.unit.on_disk import UnitOnDisk
from longhand.errors import EditError, LonghandError
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check
from tests.emit.merge_units import bytes_of, version

MODEL = """import torch


class Two(torch.nn.Module):
    def forward(self, x):
        first = torch.tanh(x) + 1
        return torch.softmax(first @ x, -1)


def small():
    torch.manual_seed(0)
    return Two().eval(), (torch.randn(8, 8),)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    (folder / "two_kernels.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        generate()
        yield folder


def generate():
    import two_kernels

    model, args = two_kernels.small()
    with torch.no_grad():
        longhand.generate(model, args, out="unit", device="cpu", factory="two_kernels:small")
        torch.testing.assert_close(longhand.load("unit")()(*args), model(*args))


def renamed(lock, key, name):
    """The lock as a branch has it that called this kernel so."""
    found = json.loads(json.dumps(lock))
    old = found["ledger"][key]["kernel"]
    found["ledger"][key]["kernel"] = name
    found["kernels"] = {name if word == old else word: k for word, k in found["kernels"].items()}
    return found


@pytest.mark.parametrize("has_markers", [False, True])
def test_two_kernels_that_a_merge_gave_one_name(repository, has_markers):
    path = Path("unit", LOCK)
    generate()
    lock = json.loads(path.read_text())
    assert check(Path("unit")).staleness is Staleness.CURRENT
    (name, _), (_, other) = list(lock["kernels"].items())[:2]
    merged = renamed(lock, other, name)
    text = json.dumps(merged, indent=1)
    if has_markers:
        text = f"<<<<<<< ours\n{json.dumps(lock)}\n=======\n{text}\n>>>>>>> theirs\n"
    path.write_text(text)
    assert check(Path("unit")).staleness is not Staleness.CURRENT, "before generate ran"
    generate()
    names = [entry["kernel"] for entry in json.loads(path.read_text())["ledger"].values()]
    assert len(set(names)) == len(names) == len(lock["kernels"])
    assert check(Path("unit")).staleness is Staleness.CURRENT


def test_a_lock_of_another_branch_is_not_current(repository):
    path = Path("unit", LOCK)
    generate()
    text = path.read_text()
    lock = json.loads(text)
    gone = next(iter(lock["ledger"]))
    path.write_text(json.dumps({**lock, "ledger": {k: v for k, v in lock["ledger"].items() if k != gone}}))
    found = check(Path("unit"))
    assert found.staleness is not Staleness.CURRENT and found.changes[0].path == LOCK
    path.write_text(text)
    assert check(Path("unit")).staleness is Staleness.CURRENT


def test_a_clash_names_both():
    with pytest.raises(EditError, match="Two kernels are called Scale: one and other"):
        _refuse_clash({"one": "scale", "other": "Scale"})


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 60 else pytest.mark.slow) for seed in range(300)]
)
def test_random_merges(seed):
    """Texts of three sides, cut and joined at random with git's markers between: an answer in words, or a unit."""
    source = random.Random(seed)
    old, mine, new = (bytes_of(version(gelu=source.randint(1, 3), norm=4)) for _ in range(3))
    found = dict(old)
    for path in source.sample(sorted(old), 3):
        lines = (mine.get(path, b"") + new.get(path, b"")).splitlines(keepends=True)
        for _ in range(source.randint(1, 4)):
            mark = source.choice(
                (b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"||||||| c\n", b"\r\n", b"\0", b"\xff")
            )
            lines.insert(source.randint(0, len(lines)), mark)
        found[path] = b"".join(lines)
        assert 1 <= len(sides(found[path])) <= 2
    for path in source.sample(sorted(found), source.randint(0, 2)):
        del found[path]
    try:
        plan = plan_merge(UnitOnDisk.of(found), new)
    except LonghandError:
        return
    assert set(new) - set(plan.contents) <= set(plan.carried) or plan.report.has_conflicts
