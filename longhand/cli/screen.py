"""What the command line shows: within 80 columns, readable without colours."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.tree import Tree

from longhand.cli.merge_screen import show_merge
from longhand.cli.terminal import Verbosity, is_plain, verbosity
from longhand.emit.text.quoting import visible, visible_line
from longhand.emit.unit.lock_file import leaves, read_regular
from longhand.errors import UnitError
from longhand.staleness.load_time import listed_briefly
from longhand.telling.summary import Summary
from longhand.tune.bench import ModelTimes
from longhand.tune.kernel_times import KernelTime
from longhand.verify.verification import Verification

_MAX_WIDTH = 80
_LISTED_CALLS = 8


def console(*, stderr: bool = False) -> Console:
    """A terminal of at most 80 columns, without colours of its own."""
    colours: dict[str, Any] = {"no_color": True, "color_system": None} if is_plain() else {}
    terminal = Console(**colours, stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False)
    terminal.width = min(terminal.width, _MAX_WIDTH)
    return terminal


class Show(Protocol):
    """Shows what is being done at the moment, and how much of it is done."""

    def __call__(self, now: str, done: int = 0, total: int = 0) -> None: ...


@contextlib.contextmanager
def working(what: str, number: int = 1, of: int = 1) -> Iterator[Show]:
    """Shows on stderr what takes a while: with -v a line for each step, else one line where stderr is a terminal.

    Args:
        what: All of it.
        number: Which of several that is.
        of: How many there are.
    """
    terminal = console(stderr=True)
    title = f"{what} ({number} of {of})" if of > 1 else what

    def words(now: str, done: int = 0, total: int = 0) -> str:
        return f"{title}: {f'{done + 1} of {total}, ' if total else ''}{now}" if now else title

    if verbosity() is Verbosity.VERBOSE:
        begin = time.monotonic()

        def tell(now: str, done: int = 0, total: int = 0) -> None:
            click.echo(f"{time.monotonic() - begin:6.1f} s  {words(now, done, total)}", err=True)

        tell("")
        yield tell
    elif verbosity() is Verbosity.QUIET or not terminal.is_terminal:
        yield lambda *_: None
    else:
        columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
        with Progress(*columns, console=terminal, transient=True) as progress:
            task = progress.add_task(title)
            yield lambda now, done=0, total=0: progress.update(task, description=words(now, done, total))


def show_summary(summary: Summary) -> None:
    """What `generate` made."""
    terminal = console()
    terminal.print(str(summary))
    if summary.in_torch:
        terminal.print(f"  in PyTorch calls, which is a bug in longhand: {', '.join(summary.in_torch)}")
    for call in summary.fallbacks[:_LISTED_CALLS]:
        terminal.print(f"  {call.target} x{call.count}: {call.reason}")
    if len(summary.fallbacks) > _LISTED_CALLS:
        terminal.print(f"  and {len(summary.fallbacks) - _LISTED_CALLS} more: see README.md there")
    if summary.trial:
        terminal.print(f"  {summary.trial}")
    if summary.report:
        terminal.print(summary.report.rstrip(), soft_wrap=True)
    terminal.print(str(summary.timings).replace(" (of which ", "\n(of which "))
    show_merge(summary.merge, summary.out)


def show_verification(result: Verification) -> None:
    """What `verify` compared."""
    terminal = console()
    mismatches, remarks = [], dict[str, list[str]]()
    if result.is_interpreted:
        part = f", {result.part}" if result.part else ""
        terminal.print(f"There is no GPU here: on the CPU, the kernels in Triton's interpreter{part}.\n")
    if result.whole:
        table = Table("", "error", "eager's", "allowed", "", box=None, pad_edge=False)
        for comparison in result.whole:
            verdict = "ok" if comparison.is_right else f"WRONG {comparison.note}".strip()
            numbers = (
                f"{number:.2e}" for number in (comparison.error, comparison.eager_error, comparison.bound)
            )
            table.add_row(comparison.name, *numbers, verdict)
            if comparison.remark:
                remarks.setdefault(comparison.remark, []).append(comparison.name)
            if not comparison.is_right and comparison.mismatch:
                mismatches.append(f"{comparison.name} {comparison.mismatch}")
        terminal.print(f"against the eager original, in float64 ({result.seconds:.1f} s):")
        terminal.print(table)
        for remark, several in remarks.items():
            terminal.print(f"{listed_briefly(several)}: {remark}.", soft_wrap=True)
        terminal.print()
    table = Table("", "sizes", "error", "allowed", "s", "", box=None, pad_edge=False)
    for name in dict.fromkeys(check.name for check in result.kernels):
        each = [check for check in result.kernels if check.name == name]
        worst = max(each, key=lambda check: (not check.is_right, check.error - check.allowed))
        sizes = f"{len(each)} sets" if len(each) > 1 else ", ".join(f"{size:g}" for size in worst.sizes)
        seconds = f"{worst.seconds:.2f}" if worst.seconds else ""
        verdict = "ok" if worst.is_right else "WRONG"
        table.add_row(name, sizes, f"{worst.error:.2e}", f"{worst.allowed:.2e}", seconds, verdict)
        mismatches += [
            f"{name}{f' at {check.at}' if check.at else ''} {check.mismatch}"
            for check in each
            if check.mismatch
        ]
    terminal.print("each kernel against longhand's own reference, in float64:")
    terminal.print(table)
    if result.sizes:
        terminal.print(f"also at other sizes: {'; '.join(result.sizes)}")
    for mismatch in mismatches:
        terminal.print(f"first mismatch of {mismatch}", soft_wrap=True)


def show_times(model: ModelTimes) -> None:
    """What `bench` measured."""
    times = model.times
    table = Table("", "median ms", "noise", "min ms", "speedup", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    baseline = next(iter(times.values()))
    for name, measured in times.items():
        ratio, noise = baseline.median / measured.median, baseline.noise + measured.noise
        is_told_apart = measured is baseline or abs(ratio - 1) > noise
        speedup = f"{ratio:.2f}x" if is_told_apart else f"{ratio:.2f}x, within noise"
        table.add_row(
            name, f"{measured.median:.3f}", f"{100 * measured.noise:.1f}%", f"{measured.minimum:.3f}", speedup
        )
    console().print(table)
    for name, error in model.left_out.items():
        console().print(f"{name} does not run here: {error}", markup=False)


def show_kernel_times(times: Mapping[str, KernelTime]) -> None:
    """What `bench` measured of each kernel."""
    is_edited = any(timed.base for timed in times.values())
    unedited = ["unedited ms"] if is_edited else []
    table = Table("kernel", "ms", "noise", *unedited, "GB/s", "of a copy", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, measured in times.items():
        base = [f"{measured.base.median:.4f}" if measured.base else ""] if is_edited else []
        share = f"{100 * measured.share:.0f}%"
        noise = f"{100 * measured.times.noise:.1f}%"
        table.add_row(name, f"{measured.times.median:.4f}", noise, *base, f"{measured.gb_per_s:.1f}", share)
    console().print(table)


def times_as_json(model: ModelTimes | None, kernels: Mapping[str, KernelTime]) -> str:
    """The same, for programs: milliseconds, GB/s, and the share of the copy bandwidth."""
    return json.dumps(
        {
            "model": {
                name: {"ms": one.median, "min_ms": one.minimum, "noise": one.noise}
                for name, one in (model.times if model else {}).items()
            },
            "left_out": model.left_out if model else {},
            "kernels": {
                name: {
                    "ms": one.times.median,
                    "min_ms": one.times.minimum,
                    "noise": one.times.noise,
                    "base_ms": one.base.median if one.base else None,
                    "gb_per_s": one.gb_per_s,
                    "share_of_copy": one.share,
                }
                for name, one in kernels.items()
            },
        },
        indent=1,
    )


def show_unit(folder: Path, kernel: str | None) -> None:
    """The unit's tree and the text of one kernel.

    Raises:
        UnitError: There is no such kernel.
    """
    text = kernel_of(folder, kernel)
    tree = Tree(visible(str(folder)))
    for path, n_lines in files_of(folder):
        tree.add(visible(f"{path}  {n_lines} lines" if n_lines is not None else path))
    console().print(tree)
    if text:
        click.echo("\n".join(["", str(folder / text[0]), "", *map(visible_line, text[1].splitlines())]))


def files_of(folder: Path) -> list[tuple[str, int | None]]:
    """(path, lines) of a unit's files; None for what is no text."""
    files: list[tuple[str, int | None]] = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_dir() or relative.parts[0] in (".base", "__pycache__") or "__pycache__" in relative.parts:
            continue
        is_text = path.suffix in (".py", ".cpp", ".h", ".md") and path.is_file() and not leaves(path, folder)
        files.append((relative.as_posix(), len(read_regular(path).splitlines()) if is_text else None))
    return files


def kernel_of(folder: Path, kernel: str | None) -> tuple[str, str] | None:
    """(path, text) of one kernel, by default the first; None if there are none.

    Raises:
        UnitError: There is no such kernel.
    """
    kernels = [
        folder / path
        for path, n_lines in files_of(folder)
        if n_lines is not None and path.startswith("kernels/") and path.endswith((".py", ".cpp"))
    ]
    kernels = [path for path in kernels if path.name != "__init__.py"]
    # Of a kernel with a C++ file and its Python face, the C++ is the one to read.
    kernels.sort(key=lambda path: (path.suffix != ".cpp", path.name))
    paths = [path for path in kernels if kernel in (None, path.stem, path.name)]
    if not paths and kernel is not None:
        raise UnitError(f"{folder} has no kernel {kernel!r}.", hint=f"It has: {_stems(kernels)}.")
    if not paths:
        return None
    return paths[0].relative_to(folder).as_posix(), read_regular(paths[0]).decode(errors="replace")


def _stems(kernels: list[Path]) -> str:
    return ", ".join(sorted({path.stem for path in kernels})) or "none"
