"""Random pairs of an edit and a change of the model, over units that longhand really writes.

Whatever is edited (a tunable, a comment, a number put in brackets; in kernels, in model.py, in the README) and
whatever changes in the model then, every edited line is in its file or in the folder of what was set aside, and the
report names its file. The models are captured and scheduled once; each pair is emitted with the names of the unit
that is on disk, and merged, as `generate` does.
"""

import functools
import random
import re
from pathlib import Path

import pytest

from longhand.capture.frontends.export import capture_export
from longhand.emit.cpp.syntax import syntax_errors
from longhand.emit.unit.files import emit_unit
from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.options import Device, Options, Target
from longhand.pipeline import plan_and_text
from longhand.schedule.names.unit import name_plans
from longhand.telling.clock import Clock
from longhand.verify.checking import inspect_edits
from tests.longhand import pair_models

N_PAIRS = 300
N_PAIRS_IN_CI = 8
INSPECTED = 20  # every so many pairs, the edited kernels run before the new unit stands, as in `generate`

TARGETS = (Target(Device.CPU), Target(Device.CUDA, "sm_90"))
_TUNABLE = re.compile(r"^(?:constexpr long )?([A-Z][A-Z_]*) = (\d+)(;?)", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])(\d+\.\d+f?)(?![\w.])")


@functools.cache
def plan_of(version, target):
    model, args = pair_models.make(version)
    options = Options(target)
    plan, _, _ = plan_and_text(
        lambda: capture_export(model, args, {}, target=target), options, Path("/nonexistent"), Clock()
    )
    return plan


_texts = {}


def text_of(version, target, ledger):
    key = (version, target, repr(ledger))
    if key not in _texts:
        _texts[key] = emit_unit(name_plans(plan_of(version, target), ledger=ledger))
    return _texts[key]


def body_lines(path, lines):
    """Where a line, or a comment behind one, may stand."""
    if path.endswith(".md"):
        return [i for i, line in enumerate(lines) if line and not line.startswith(("|", "#", "```"))]
    start = next((i for i, line in enumerate(lines) if line.startswith(("def ", "class ", "extern"))), 0)
    inside = [i for i in range(start, len(lines)) if lines[i].startswith("  ") and '"""' not in lines[i]]
    return [i for i in inside if not lines[i].endswith(("\\", ","))] or inside


def random_edit(rng, path, text, word):
    """The text with one line changed or one line more, and that line."""
    lines = text.splitlines()
    mark = "<!-- {} -->" if path.endswith(".md") else ("// {}" if path.endswith((".cpp", ".h")) else "# {}")
    tunables = [i for i, line in enumerate(lines) if _TUNABLE.match(line)] if "kernels/" in path else []
    bodies = body_lines(path, lines)
    numbers = [i for i in bodies if _NUMBER.search(lines[i]) and path.endswith((".cpp", ".py"))]
    kind = rng.random()
    if kind < 0.3 and tunables:
        place = rng.choice(tunables)
        value = 2 ** rng.randint(5, 12) if "WARPS" not in lines[place] else rng.choice((2, 16))
        lines[place] = _TUNABLE.sub(lambda match: match[0].replace(match[2], str(value)), lines[place])
        lines[place] += "" if mark[:2] in lines[place] else f"  {mark.format(word)}"
    elif kind < 0.5 and numbers and path != "model.py" and not path.endswith("__init__.py"):
        place = rng.choice(numbers)
        lines[place] = _NUMBER.sub(r"(\1)", lines[place], count=1)
    elif kind < 0.75:
        place = rng.choice(bodies)
        lines[place] += f"  {mark.format(word)}"
    else:
        place = rng.choice(bodies)
        indent = re.match(r" *", lines[place])[0]
        lines.insert(place, f"{indent}{mark.format(word)}")
    return "".join(f"{line}\n" for line in lines), lines[place]


def editable(out):
    found = [path.relative_to(out).as_posix() for path in sorted((out / "kernels").glob("*.*"))]
    kernels = [path for path in found if path.endswith((".py", ".cpp")) and "__init__" not in path]
    cpp = [path for path in kernels if path.endswith(".cpp")]
    return (cpp or kernels) * 3 + kernels + ["model.py", "README.md"]


def make_edits(rng, out):
    """Edits some files of a unit; the edited lines of each."""
    edited = {}
    for number in range(rng.randint(1, 4)):
        path = rng.choice(editable(out))
        before = (out / path).read_text()
        text, line = random_edit(rng, path, before, f"edit {number}")
        if line in before.splitlines():
            continue
        (out / path).write_text(text)
        edited.setdefault(path, []).append(line)
    # A later edit may have changed an edited line again.
    return {
        path: [line for line in lines if line in (out / path).read_text().splitlines()]
        for path, lines in edited.items()
    }


def check_pair(seed, out, versions, *, inspects=None):
    """One unit, some edits, a change of the model, and another; what became of the edited files."""
    rng = random.Random(seed)
    target = rng.choice(TARGETS)
    first, second, third = rng.sample(versions, 3)
    write_unit(text_of(first, target, None), out)
    edited = make_edits(rng, out)
    before = {path: (out / path).read_text() for path in edited}
    new = text_of(second, target, read_ledger(out))
    report = write_unit(new, out, inspects)
    outcomes = {file.path: file for file in report.files}
    moved: set[str] = set()
    for path, lines in edited.items():
        file = outcomes[path]
        context = f"{seed}: {target.device} {first} -> {second}: {path} {file}"
        assert not file.problem, context
        match file.outcome:
            case Outcome.CONFLICT:
                assert (out / path).read_text() == before[path], context
                assert (out / f"{path}.new").read_text() == new[path], context
            case Outcome.ASIDE:
                assert (out / "kernels/aside" / Path(path).name).read_text() == before[path], context
            case Outcome.KEPT | Outcome.MERGED:
                now = (out / path).read_text().splitlines()
                assert all(line in now for line in lines), context
                if path.endswith(".py"):
                    compile("\n".join(now), path, "exec")
            case Outcome.MOVED:
                home = home_of(path, report)
                now = (out / home).read_text().splitlines()
                assert all(line in now for line in renamed(lines, path, home)), context
                moved.add(home)
            case _:
                raise AssertionError(context)
    merged = [path for path in report.of(Outcome.MERGED) if path.endswith(".cpp")]
    assert not syntax_errors(out, [Path(path).stem for path in merged])
    if not report.has_conflicts:
        for path, content in new.items():
            if path not in edited and path not in moved and path != LOCK:
                found = (out / path).read_bytes()
                assert found == (content if isinstance(content, bytes) else content.encode()), path
        edited = {
            (home := home_of(path, report)): renamed(lines, path, home) for path, lines in edited.items()
        }
        check_once_more(out, edited, text_of(third, target, read_ledger(out)), f"{seed} -> {third}")
    return [file.outcome for file in outcomes.values() if file.path in before]


def home_of(path, report):
    """Where the edits of a file are now: its kernel may have another name."""
    return next((one.path for one in report.files if one.source == path), path)


def renamed(lines, path, home):
    """The lines as they stand where the kernel has its new name."""
    return [line.replace(Path(path).stem, Path(home).stem) for line in lines]


def check_once_more(out, edited, new, context):
    """The model changes again: the same lines are still somewhere."""
    report = write_unit(new, out)
    named = {file.path: file.outcome for file in report.files}
    for path, lines in edited.items():
        home = home_of(path, report)
        places = [out / home, *(out / "kernels/aside").glob(f"{Path(path).stem}*{Path(path).suffix}")]
        texts = [place.read_text().splitlines() for place in places if place.is_file()]
        wanted = (lines, renamed(lines, path, home))
        is_kept = any(all(line in text for line in each) for text in texts for each in wanted)
        assert is_kept, f"{context}: {path}"
        is_set_aside_before = path not in named
        assert is_set_aside_before or named[path] not in (Outcome.REPLACED, Outcome.REMOVED, Outcome.SAME)


def test_no_edit_is_lost_in_a_few_pairs(tmp_path):
    for seed in range(N_PAIRS_IN_CI):
        check_pair(seed, tmp_path / str(seed), ("first", "op after", "bfloat16"))


@pytest.mark.slow
def test_no_edit_is_lost_in_300_pairs(tmp_path, capsys):
    kinds = (Outcome.KEPT, Outcome.MERGED, Outcome.MOVED, Outcome.ASIDE, Outcome.CONFLICT)
    counts = dict.fromkeys(kinds, 0)
    for seed in range(N_PAIRS):
        inspects = inspect_edits if seed % INSPECTED == 0 else None
        for outcome in check_pair(seed, tmp_path / str(seed), pair_models.VERSIONS, inspects=inspects):
            counts[outcome] += 1
    with capsys.disabled():
        print({outcome.value: count for outcome, count in counts.items()})
    assert all(counts.values()), "each kind of outcome was seen"
