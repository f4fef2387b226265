"""Every sample of the documentation is run; what cannot be run here is read. The site builds, its links lead on."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from longhand.cli.commands import commands
from tests.documented import PAGES, ROOT, samples_of

SAMPLES = [sample for page in PAGES for sample in samples_of(page)]
# Their samples are played elsewhere: the story by itself, editing by tests/longhand/test_edit_story.py and others.
PLAYED = {"story.md", "editing.md"}
RUN = [
    page
    for page in PAGES
    if page.name not in PLAYED
    and any(one.kind in ("python", "console") and not one.reason for one in samples_of(page))
]


def test_samples_are_found():
    assert len(SAMPLES) > 80
    assert {"index.md", "tutorial.md", "sizes.md", "profiling.md"} <= {page.name for page in RUN}


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.kind == "python"], ids=str)
def test_python_is_python(sample):
    text = sample.text
    if text.startswith(">>>"):
        text = "\n".join(line[4:] for line in text.splitlines() if line.startswith((">>>", "...")))
    try:
        ast.parse(text)
    except (IndentationError, SyntaxError):
        ast.parse("def quoted(self):\n" + re.sub("^", "    ", text, flags=re.MULTILINE))


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.kind == "console"], ids=str)
def test_commands_are_known_with_their_options(sample):
    for command in sample.commands:
        for words in parts_of(command):
            if words[:1] != ["longhand"] or set(words) & {"--help", "--version"}:
                continue
            context = click.Context(commands, info_name="longhand")
            name, one, args = commands.resolve_command(context, words[1:])
            one.make_context(name, args, parent=context)


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.kind in ("yaml", "toml")], ids=str)
def test_settings_can_be_read(sample):
    assert yaml.safe_load(sample.text) if sample.kind == "yaml" else tomllib.loads(sample.text)


def parts_of(command):
    """The words of each command of a line, without the variables that it is given."""
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = "#" if " #" in command else ""
    found = [[]]
    for word in reader:
        if set(word) <= set("();<>|&"):
            found.append([])
        elif found[-1] or not re.match(r"\w+=", word):
            found[-1].append(word)
    return found


def test_what_is_not_run_says_why():
    for sample in SAMPLES:
        if sample.reason:
            assert len(sample.reason) > 10, sample


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_samples_run(page, tmp_path):
    """In order, in one folder; each block of Python goes on where the last one ended."""
    python = ["import sys; sys.path.insert(0, '.')\n"]
    for sample in samples_of(page):
        if sample.file and sample.kind in ("python", "toml", "yaml"):
            path = tmp_path / sample.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(sample.text)
        elif sample.reason:
            continue
        elif sample.kind == "python":
            python.append(sample.text)
            path = tmp_path / "samples_in_order.py"
            path.write_text("".join(python))
            succeeds([sys.executable, str(path)], tmp_path, sample)
        elif sample.kind == "console":
            for command in sample.commands:
                succeeds(["bash", "-euo", "pipefail", "-c", command], tmp_path, sample)


def succeeds(command, folder, sample):
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment |= {"LONGHAND_CHECKOUT": str(ROOT)}  # for what a page does unseen
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{sample}: {command[-1]}\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="the site needs mkdocs-material")
def test_the_site_builds_without_warnings(tmp_path):
    words = ["-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {name: (tmp_path / "site" / f"{name}.html").read_text() for name in ("api", "cli", "gallery")}
    assert "longhand.mark_dynamic" in made["api"] and "StaleUnitWarning" in made["api"]
    for unit in (ROOT / "generated").rglob("longhand.lock"):
        name = "_".join(unit.parent.relative_to(ROOT / "generated").parts)
        assert f"review/{name}.html" in made["gallery"]
        assert (tmp_path / "site/review" / f"{name}.html").read_text().startswith("<!")
    assert "longhand handoff" in made["cli"] and "gpt_train_cuda" in made["gallery"]


def test_every_page_is_in_the_sites_navigation():
    shown = set(re.findall(r"[\w]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {page.name for page in PAGES if page.name != "README.md"} <= shown
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            known = (page.parent / link).exists() or link in ("api.md", "cli.md", "gallery.md")
            assert known, f"{page.name}: {link}"
