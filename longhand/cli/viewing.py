"""`longhand view`: a unit's files and one of its kernels, or its review page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from longhand.cli import screen
from longhand.cli.bench_file import read_times
from longhand.cli.styles import report
from longhand.emit.unit.lock_file import read_lock
from longhand.errors import OptionError, OutputError
from longhand.review.page_content import page_of
from longhand.review.rendering import render_page
from longhand.review.serving import serve
from longhand.review.unit_content import content_at, content_on_disk


def view(
    folder: Path,
    kernel: str | None,
    file: Path | None,
    port: int | None,
    since: str | None,
    until: str | None,
    bench_file: Path | None,
    *,
    is_json: bool,
) -> int:
    """Shows them; nothing of the unit runs.

    Raises:
        OptionError: Options that do not go together, or a revision that is not there.
        OutputError: The page cannot be written.
    """
    is_page = file is not None or port is not None
    if (since or until or bench_file) and not is_page:
        raise OptionError("--since, --until and --bench go with --html or --serve.")
    if until and not since:
        raise OptionError("--until goes with --since.")
    if is_page and (kernel or is_json):
        raise OptionError("KERNEL and --json do not go with --html and --serve: the page has all kernels.")
    if not is_page:
        return _show(folder, kernel, is_json=is_json)

    def page() -> str:
        return page_text(folder, since, until, bench_file)

    if file is not None:
        text = page()
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{file} cannot be written: {error.strerror or error}.") from error
        click.echo(f"{file}: the review page of {folder}, {len(text.encode()) / 1000:.0f} kB")
    if port is not None:
        page()  # what is wrong is told here, not in the browser
        serve(page, port, lambda address: click.echo(f"{folder}: {address} (Ctrl-C ends it)"))
    return 0


def page_text(folder: Path, since: str | None, until: str | None, bench_file: Path | None) -> str:
    """The review page.

    Raises:
        UnitError: There is no unit.
        OptionError: A revision is not there, or the times are none.
    """
    unit = content_at(folder, until, "--until") if until else content_on_disk(folder)
    before = content_at(folder, since, "--since") if since else None
    if until and not unit.lock:
        raise OptionError(f"--until {until!r}: {folder} was no unit then.")
    words = f"{since} to {until}" if until else f"since {since}" if since else ""
    times = read_times(bench_file) if bench_file else None
    return render_page(page_of(folder, unit, before=before, since=words, times=times))


def _show(folder: Path, kernel: str | None, *, is_json: bool) -> int:
    read_lock(folder)
    if not is_json:
        screen.show_unit(folder, kernel)
        return 0
    files, text = screen.files_of(folder), screen.kernel_of(folder, kernel)
    report(
        json.dumps(
            {
                "unit": str(folder),
                "files": dict(files),
                "kernel": {"path": text[0], "text": text[1]} if text else None,
            },
            indent=1,
        )
    )
    return 0
