"""Every sample of the documentation is run; what cannot be run here says why. The site builds, its links lead on."""

import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest
import yaml

from longhand.cli.commands import commands
from tests.documented import PAGES, REASONS, ROOT, samples_of
from tests.played_pages import play, type_in

SAMPLES = [sample for page in PAGES for sample in samples_of(page)]
SEEN = [sample for sample in SAMPLES if not sample.hidden]
# tests/test_story.py plays it with examples/story.py, and compares the whole page.
STORY = ROOT / "docs/story.md"
PLAYED = [page for page in PAGES if page != STORY and any(one.is_run for one in samples_of(page))]
# Each takes at most ten seconds of processor time, most of which goes into importing torch.
QUICK = {"README.md", "graphs.md", "index.md", "install.md", "reports.md", "several_gpus.md"}


def test_samples_are_found():
    assert len(SEEN) > 90
    assert {"README.md", "editing.md", "index.md", "tutorial.md", "units.md"} <= {
        page.name for page in PLAYED
    }


def test_every_sample_is_run_or_says_why_not(capsys):
    """Prints which test each block belongs to."""
    homes = Counter(home_of(sample) for sample in SEEN)
    with capsys.disabled():
        print(f"\n{len(SEEN)} samples in {len({one.page for one in SEEN})} pages:")
        for home, count in sorted(homes.items()):
            print(f"  {count:3}  {home}")
        for sample in SEEN:
            if sample.mark == "not run":
                print(f"  not run: {sample}: {REASONS[sample.said]}")
    assert set(REASONS) == {sample.said for sample in SEEN if sample.mark == "not run"}


def home_of(sample):
    if sample.mark == "not run":
        return "not run"
    if sample.mark == "quoted":
        return "quoted"
    if sample.page == STORY:
        return "played by tests/test_story.py (slow)"
    if sample.kind == "yaml" or (sample.kind == "toml" and not sample.file):
        return "settings, read and compared with what they are for"
    if sample.is_run or sample.file:
        return f"run with its page ({'quick' if sample.page.name in QUICK else 'slow'})"
    raise AssertionError(f"{sample}: nothing runs it")


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
        for words in parts_of(command.text):
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


@pytest.mark.parametrize("sample", [one for one in SEEN if one.mark == "quoted"], ids=str)
def test_what_is_quoted_stands_there(sample):
    there, text = (ROOT / sample.said).read_text(), textwrap.dedent(sample.text)
    assert any(textwrap.indent(text, " " * depth) in there for depth in (0, 4, 8))


@pytest.mark.parametrize("sample", [one for one in SEEN if one.kind == "yaml"], ids=str)
def test_settings_name_what_the_action_and_the_hook_have(sample):
    read = yaml.safe_load(sample.text)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    if "repos" in read:
        assert {hook["id"] for repo in read["repos"] for hook in repo["hooks"]} <= hooks
    else:
        used = [
            step for step in read["jobs"]["longhand"]["steps"] if "path/to/longhand" in step.get("uses", "")
        ]
        assert used and all(set(step.get("with", {})) <= set(action["inputs"]) for step in used)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.name in QUICK else [pytest.mark.slow]) for page in PLAYED],
    ids=lambda page: page.name,
)
def test_samples_run(page, tmp_path):
    seen = [
        one
        for one in samples_of(page)
        if not one.hidden and (one.is_run or one.file) and one.mark != "not run"
    ]
    assert play(page, tmp_path) == len(seen)


FINE = """
<!-- run: echo 5 > five -->
```
$ seq 4 && cat five && (exit 3)
1
...
4 5
(exit code 3)
```

<!-- run: printf 'first 0.25 s\\nlast\\n' -->
```
first 0.75 s
```

<!-- python: x = 2 -->
```python
assert x == 2
```

```python
>>> int("y" * x)
ValueError: invalid literal for int() with base 10: 'yy'
```
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", None),
        ("(exit code 3)", "(exit code 2)", "exit code 3"),
        ("4 5", "4 - 5", "was not printed"),
        ("first 0.75 s", "last\nfirst", "was not printed"),
        ("assert x == 2", "assert x == 3", "AssertionError"),
        ("'yy'", "'y'", "exit code 1"),
        ('int("y" * x)', "int(x)", "no error"),
    ],
)
def test_a_wrong_page_is_found(tmp_path, old, new, fault):
    page = tmp_path / "page.md"
    page.write_text(FINE.replace(old, new))
    if fault is None:
        assert play(page, tmp_path) == 4
    else:
        with pytest.raises(AssertionError, match=fault):
            play(page, tmp_path)


# What stands in README under "Command line", in its order, and what is typed for it.
TYPED = {
    "longhand generate MODULE:FACTORY --out DIR": ["longhand generate net:make --out unit"],
    "longhand generate DIR... | --all": ["longhand generate unit", "longhand generate --all"],
    "longhand verify DIR": ["longhand verify unit"],
    "longhand bench DIR": ["longhand bench unit"],
    "longhand tune DIR": ["longhand tune unit --budget 5"],
    "longhand check --trust --verify [DIR ...]": [
        "longhand check --trust --verify",
        "longhand check --trust --verify unit",
    ],
    "longhand build DIR --wheel DIST": ["longhand build unit --wheel dist"],
    "longhand diff DIR": ["longhand diff unit"],
    "longhand eject FILE": ["longhand eject unit/kernels/gelu.cpp"],
    "longhand explain MODULE:FACTORY": ["longhand explain net:make"],
    "longhand view DIR [KERNEL]": ["longhand view unit", "longhand view unit gelu"],
    "longhand view DIR --html FILE --since REV": ["longhand view unit --html page.html --since HEAD"],
}


def test_every_command_of_the_readme_is_typed_below():
    shown = re.findall(r"^    (longhand .*?)  +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown == list(TYPED)


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path):
    """With a small network: `bench` and `tune` take seconds for it."""
    shutil.copy(ROOT / "tests/pages/net.py", tmp_path)
    asked = [command for commands_of_line in TYPED.values() for command in commands_of_line]
    committed = "git init -q && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm 'A unit'"
    for command in [asked[0], committed, *asked[1:]]:
        type_in(command, tmp_path)
    assert "</html>" in (tmp_path / "page.html").read_text()
    assert [wheel.name for wheel in (tmp_path / "dist").iterdir()] == ["unit-1.0-py3-none-linux_x86_64.whl"]


@pytest.mark.slow
def test_the_demo_of_the_readme_runs(tmp_path):
    """All that `make demo` does once it has set itself up, which needs the network; `make test` is what runs this."""
    binaries = Path(sys.executable).parent
    type_in(f"make -C {ROOT} demo STAMP= BIN={binaries} DEMO={tmp_path}/attention_cpu", tmp_path)
    assert (tmp_path / "attention_cpu/model.py").exists()


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
