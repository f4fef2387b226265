"""What git has of a unit at a revision: read as data, with nothing of the repository's own configuration run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from longhand.emit.unit.lock_file import LARGEST_TEXT
from longhand.errors import OptionError

# A repository's own configuration may name programs to run.
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_REGULAR = ("100644", "100755")
_MOST_FILES = 5_000


def need_revision(folder: Path, revision: str, option: str = "--since") -> None:
    """Raises OptionError where git knows no such revision in the repository of a folder, or where there is no git."""
    commit = f"{revision}^{{commit}}"
    if _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", commit) is None:
        raise OptionError(f"{option} {revision!r}: git knows no such revision here.")


def file_at(folder: Path, revision: str, path: str) -> bytes | None:
    """A regular file of a folder at a revision that is there; None if it was not there, or is no regular file."""
    listed = _git(folder, "ls-tree", "-z", "-l", "--end-of-options", revision, f"./{path}")
    entries = _entries(listed or b"")
    if len(entries) != 1:
        return None
    return _git(folder, "cat-file", "blob", next(iter(entries.values())))


def files_at(folder: Path, revision: str) -> dict[str, bytes]:
    """Every regular file below a folder at a revision that is there, by path; none where it was not there.

    Raises:
        OptionError: They are more, or longer, than a unit's files are.
    """
    listed = _git(folder, "ls-tree", "-r", "-z", "-l", "--end-of-options", revision, "./")
    entries = _entries(listed or b"")
    if len(entries) > _MOST_FILES:
        raise OptionError(f"{folder} has {len(entries)} files at {revision}: that is no unit.")
    contents = {path: _git(folder, "cat-file", "blob", name) for path, name in entries.items()}
    return {path: content for path, content in contents.items() if content is not None}


def _entries(listed: bytes) -> dict[str, str]:
    """Of what ``ls-tree -z -l`` printed: the objects of regular files of bounded size, by path."""
    entries = {}
    for entry in listed.split(b"\0"):
        facts, _, path = entry.partition(b"\t")
        words = facts.decode().split()
        if len(words) == 4 and words[0] in _REGULAR and words[3].isdigit() and int(words[3]) <= LARGEST_TEXT:
            entries[path.decode(errors="replace")] = words[2]
    return entries


def _git(folder: Path, *words: str) -> bytes | None:
    """What a command of git prints; None where it fails."""
    try:
        ran = subprocess.run([*_GIT, *words], cwd=folder, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout
