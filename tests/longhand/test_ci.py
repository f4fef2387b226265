"""The GitHub Action and the pre-commit hook, run as they would be: on a pull request's merge commit, in a clone."""

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


def run_action(folder, **inputs):
    """Each step's script under bash as the runner starts it; (exit code, annotations, summary)."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(one.get("default", "")) for name, one in action["inputs"].items()} | inputs
    summary = folder.parent / "summary.md"
    summary.write_text("")
    failed, annotations = 0, ""
    for step in action["runs"]["steps"]:
        if failed and step.get("if") != "always()":
            continue
        names = {key: given[text.strip("${} ").removeprefix("inputs.")] for key, text in step["env"].items()}
        assert (
            step["shell"] == "bash" and "${{" not in step["run"]
        )  # nothing that is given becomes part of a script
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=environment(GITHUB_STEP_SUMMARY=str(summary), GITHUB_BASE_REF="main", **names),
            capture_output=True,
            text=True,
        )
        annotations += done.stdout
        failed = failed or done.returncode
    return failed, annotations, summary.read_text()


@pytest.mark.parametrize(
    ("branch", "code", "annotated", "summed"),
    [
        ("edit", 0, "", "edited +1 -1 | "),
        ("wrong", 5, "title=longhand: wrong::", "WRONG"),
        ("stale", 1, "title=longhand: stale::", "No kernel changed"),
    ],
)
def test_the_action_on_a_pull_request(upstream, tmp_path, branch, code, annotated, summed):
    folder = merge_commit(upstream, branch, tmp_path / "clone")
    found, annotations, summary = run_action(folder)
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
