"""The GitHub Action and the pre-commit hook, run as they would be: on a pull request's merge commit, in a clone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.longhand import git

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
import torch

def scaled(x):
    return torch.softmax(x * {factor}, dim=-1) + 1.0

def make():
    torch.manual_seed(0)
    return scaled, (torch.randn(16, 32),)
"""


def environment(**more):
    binaries = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **more}


def longhand(folder, *words):
    done = subprocess.run(["longhand", *words], cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A repository: on `main` a unit, on `edit` a right edit, on `wrong` a wrong one, on `stale` a changed model."""
    folder = tmp_path_factory.mktemp("upstream")
    git.run(folder, "init", "-q", "-b", "main")
    (folder / "net.py").write_text(MODEL.format(factor=0.5))
    (folder / ".gitignore").write_text("__pycache__\n")
    longhand(folder, "generate", "net:make", "--out", "unit", "--no-run")
    git.commit(folder, "first")
    (kernel,) = folder.glob("unit/kernels/*.cpp")
    text = kernel.read_text()
    for branch, new in (
        ("edit", text.replace("GRAIN = 4096", "GRAIN = 8192")),
        ("wrong", text.replace("0.5f", "0.75f")),
    ):
        git.run(folder, "switch", "-qc", branch, "main")
        assert new != text
        kernel.write_text(new)
        git.commit(folder, branch)
    git.run(folder, "switch", "-qc", "stale", "main")
    (folder / "net.py").write_text(MODEL.format(factor=0.25))
    git.commit(folder, "stale")
    git.run(folder, "switch", "-q", "main")
    (folder / "other.txt").write_text("main went on\n")
    git.commit(folder, "other")
    return folder


def merge_commit(upstream, branch, folder):
    """What actions/checkout gives a pull request: a shallow clone of its merge with the target."""
    git.run(upstream, "switch", "-q", "--detach", "main")
    git.run(upstream, "merge", "-q", "--no-ff", "-m", "pull request", branch)
    git.run(upstream, "branch", "-f", f"pull-{branch}")
    git.run(upstream, "switch", "-q", "main")
    git.run(
        upstream,
        "clone",
        "-q",
        "--depth",
        "2",
        "--branch",
        f"pull-{branch}",
        f"file://{upstream}",
        str(folder),
    )
    return folder


def run_action(folder, number="", path="", **inputs):
    """Each step's script under bash as the runner starts it; (exit code, annotations, summary).

    Args:
        number: The pull request's.
        path: Where commands are looked for first.
    """
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(one.get("default", "")) for name, one in action["inputs"].items()} | inputs
    known = {f"inputs.{name}": value for name, value in given.items()}
    known |= {"github.event.pull_request.number": number, "steps.summary.outputs.file": ""}
    summary, output = folder.parent / "summary.md", folder.parent / "output"
    summary.write_text("")
    failed, annotations = 0, ""
    for step in action["runs"]["steps"]:
        if failed and step.get("if") != "always()":
            continue
        output.write_text("")
        names = {key: known[text.strip("${} ")] for key, text in step["env"].items()}
        assert (
            step["shell"] == "bash" and "${{" not in step["run"]
        )  # nothing that is given becomes part of a script
        told = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output), "GITHUB_BASE_REF": "main"}
        run_in = environment(**told, GITHUB_REPOSITORY="owner/repository", **names)
        run_in["PATH"] = f"{path}:{run_in['PATH']}" if path else run_in["PATH"]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=run_in,
            capture_output=True,
            text=True,
        )
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step['id']}.outputs.{name}"] = value
        annotations += done.stdout
        failed = failed or done.returncode
    return failed, annotations, summary.read_text()


GH = """#!{python}
import json, os, pathlib, sys
state = pathlib.Path(__file__).with_name("comments.json")
comments = json.loads(state.read_text())
words = sys.argv[1:]
assert words[0] == "api", words
if "--paginate" in words:
    assert words[2] == "repos/owner/repository/issues/7/comments" and "startswith(env.MARKER)" in words[-1]
    marker = os.environ["MARKER"]
    print("\\n".join(str(one["id"]) for one in comments if one["bot"] and one["body"].startswith(marker)))
else:
    way, place, body = words[words.index("--method") + 1], words[-3], words[-1]
    text = pathlib.Path(body.removeprefix("body=@")).read_text()
    if way == "POST":
        comments.append({{"id": len(comments) + 1, "bot": True, "body": text}})
    else:
        comments[int(place.rpartition("/")[2]) - 1]["body"] = text
    state.write_text(json.dumps(comments))
"""


def comments_of(folder, comments):
    """A folder with a `gh` that keeps a pull request's comments in a file; and that file."""
    tools = folder / "tools"
    tools.mkdir()
    state = tools / "comments.json"
    state.write_text(json.dumps(comments))
    (tools / "gh").write_text(GH.format(python=sys.executable))
    (tools / "gh").chmod(0o755)
    return tools, state


@pytest.mark.parametrize(
    ("branch", "code", "annotated", "summed"),
    [
        ("edit", 0, "", "edited +1 -1 | "),
        ("wrong", 5, "title=longhand: wrong::", "WRONG"),
        ("stale", 1, "title=longhand: stale::", "No kernel changed"),
    ],
)
def test_the_action_on_a_pull_request(upstream, tmp_path, branch, code, annotated, summed):
    """Without comments: none was asked for."""
    folder = merge_commit(upstream, branch, tmp_path / "clone")
    tools, state = comments_of(tmp_path, [])
    found, annotations, summary = run_action(folder, number="7", path=str(tools), comment="false", token="t")
    assert json.loads(state.read_text()) == []
    assert found == code, annotations + summary
    assert annotated in annotations and summed in summary
    assert annotated or "::" not in annotations
    assert not git.run(folder, "status", "--porcelain").strip()


def test_what_is_given_to_the_action_is_no_script(upstream, tmp_path):
    folder = merge_commit(upstream, "edit", tmp_path / "clone")
    code, _, _ = run_action(folder, units="unit; touch broken", sizes="$(touch broken)", verify="false")
    assert code == 2 and not (folder / "broken").exists()


@pytest.mark.parametrize(("branch", "code"), [("edit", 0), ("stale", 1)])
def test_the_hook_before_a_commit(upstream, tmp_path, branch, code):
    folder = merge_commit(upstream, branch, tmp_path / "clone")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["language"] == "system" and hook["pass_filenames"] is False
    done = subprocess.run(
        hook["entry"].split(), cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr


def test_one_comment_is_kept_current(upstream, tmp_path):
    """Made at the first run, updated at the next, others left alone."""
    marker = "<!-- longhand diff: one comment, kept current -->"
    tools, state = comments_of(tmp_path, [{"id": 1, "bot": False, "body": f"{marker} of a person"}])
    given = {"number": "7", "path": str(tools), "comment": "true", "verify": "false", "token": "t"}
    for turn, branch in enumerate(("wrong", "edit")):
        folder = merge_commit(upstream, branch, tmp_path / f"clone{turn}")
        run_action(folder, **given)
        comments = json.loads(state.read_text())
        assert len(comments) == 2 and comments[0]["body"].endswith("of a person")
        assert comments[1]["body"].startswith(f"{marker}\n### ")
        assert ("WRONG" in comments[1]["body"]) == (branch == "wrong")
