"""A unit is built and installed where there is no compiler and no longhand; objects of it can be pickled."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import longhand
from longhand import cli
from longhand.deploy.building import levels_here

MODEL = "tests.longhand.manners_model:make"
# What a server has: torch, the wheel, no compiler, no cache, and an error where longhand is imported.
SERVE = """
import sys
sys.modules["longhand"] = None
sys.path.insert(0, sys.argv[1])
import torch
from scorer import Scorer
model = Scorer()
state, args, expected = torch.load(sys.argv[2])
model.load_state_dict(state)
with torch.no_grad():
    torch.testing.assert_close(model(*args), expected)
print("served", model.__class__.__module__)
"""


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("deployed") / "scorer"
    assert cli.run(["generate", MODEL, "--out", str(out), "--no-run", "--device", "cpu"]) == 0
    return out


@pytest.fixture(scope="module")
def call(made, tmp_path_factory):
    from tests.longhand.manners_model import make

    model, args = make()
    with torch.no_grad():
        expected = model(*args)
    path = tmp_path_factory.mktemp("call") / "call.pt"
    torch.save((model.state_dict(), args, expected), path)
    return path


def serve(place, call, tmp_path, **more):
    nothing = tmp_path / "nothing"
    nothing.mkdir(exist_ok=True)
    environment = {
        "PATH": str(nothing),
        "HOME": str(nothing),
        "XDG_CACHE_HOME": str(nothing),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", SERVE, str(place), str(call)],
        env={**environment, **more},
        capture_output=True,
        text=True,
        cwd=nothing,
    )


def test_a_wheel_runs_without_a_compiler_and_without_longhand(made, call, tmp_path, capsys):
    before = {
        path: path.read_bytes()
        for path in made.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    code, shown, error = run(capsys, "build", made, "--wheel", tmp_path / "dist", "--version", "2.1")
    assert code == 0, error
    (wheel,) = (tmp_path / "dist").iterdir()
    assert str(wheel) in shown and wheel.name.startswith("scorer-2.1-py3-none-linux_")
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = serve(site, call, tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("served scorer"), done.stderr
    assert {path: path.read_bytes() for path in before} == before
    assert not list(made.rglob("*.so"))
    names = zipfile.ZipFile(wheel).namelist()
    assert not any(".base" in name or "__pycache__" in name for name in names)
    # The unit as it stands needs a compiler, and says so.
    done = serve(made.parent, call, tmp_path)
    assert done.returncode != 0 and "C++ compiler" in done.stderr


def test_a_build_says_what_it_is_not_for(made, call, tmp_path, capsys):
    out = tmp_path / "scorer"
    assert (
        run(
            capsys,
            "build",
            made,
            "--out",
            out,
            *(word for level in levels_here()[:2] for word in ("--isa", level)),
        )[0]
        == 0
    )
    manifest = json.loads((out / "kernels/built/manifest.json").read_text())
    assert list(manifest["instructions"]) == list(levels_here()[:2])
    assert run(capsys, "build", made, "--out", out)[0] == 0, "an earlier build is replaced"
    kernel = next(out.glob("kernels/*.cpp"))
    text = kernel.read_text()
    kernel.write_text(text + "\n// edited\n")
    done = serve(tmp_path, call, tmp_path)
    assert done.returncode != 0 and "is not what was built" in done.stderr
    kernel.write_text(text)
    manifest = json.loads((out / "kernels/built/manifest.json").read_text())
    only = {**manifest, "instructions": {name: ["no_such_flag"] for name in manifest["instructions"]}}
    (out / "kernels/built/manifest.json").write_text(json.dumps(only))
    done = serve(tmp_path, call, tmp_path)
    assert "which this processor is not" in done.stderr
    (out / "kernels/built/manifest.json").write_text(json.dumps(manifest))
    built = next(out.rglob("*.so"))
    built.write_bytes(built.read_bytes()[:-9])
    assert "is damaged" in serve(tmp_path, call, tmp_path).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--out DIR, or --wheel DIR"),
        (("--out", "THERE"), "is no build of longhand's"),
        (("--out", "NEW", "--isa", "pentium"), "--isa 'pentium' is unknown"),
        (("--out", "NEW", "--name", "a-b"), "no name of a package"),
        (("--wheel", "NEW", "--version", "one"), "no version of a package"),
    ],
)
def test_what_cannot_be_built_is_told(made, tmp_path, capsys, words, told):
    (tmp_path / "THERE").mkdir()
    code, _, error = run(
        capsys, "build", made, *(tmp_path / word if word.isupper() else word for word in words)
    )
    assert code == 2 and told in error and not (tmp_path / "NEW").exists()


def test_an_edited_runtime_or_no_compiler_is_told(made, tmp_path, capsys, monkeypatch):
    unit = shutil.copytree(made, tmp_path / "unit")
    monkeypatch.setenv("CXX", "no-such-compiler")
    code, _, error = run(capsys, "build", unit, "--out", tmp_path / "out")
    assert code == 2 and "is not here" in error
    (unit / "runtime.py").write_text((unit / "runtime.py").read_text() + "\n# mine\n")
    code, _, error = run(capsys, "build", unit, "--out", tmp_path / "out")
    assert code == 2 and "runtime.py was edited" in error


def test_a_loaded_unit_is_pickled_and_found_again_elsewhere(made, tmp_path):
    from tests.longhand.manners_model import make

    original, args = make()
    model = longhand.load(made)()
    model.load_state_dict(original.state_dict())
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    torch.save(model, tmp_path / "model.pt")
    with torch.no_grad():
        torch.save((args, model(*args)), tmp_path / "call.pt")
    program = (
        "import pickle, sys, torch\nargs, expected = torch.load(sys.argv[1] + '/call.pt')\n"
        "for model in (pickle.load(open(sys.argv[1] + '/model.pkl', 'rb')),"
        " torch.load(sys.argv[1] + '/model.pt', weights_only=False)):\n"
        "    with torch.no_grad(): assert torch.equal(model(*args), expected)\n"
        "    assert list(model.state_dict())\nprint('same')"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.stdout.strip() == "same", done.stderr
    copy = pickle.loads(pickle.dumps(model))
    assert copy is not model and all(
        torch.equal(a, b) for a, b in zip(copy.parameters(), model.parameters(), strict=True)
    )


SETUP = """
from setuptools import setup
setup(name="served", version="1", packages=["served", "served.scorer", "served.scorer.kernels"],
      package_data={"": ["*.cpp", "*.h", "*.pt", "built/*", "built/*/*.so", "built/*/*.cubin", "longhand.lock"]})
"""


def test_the_recipe_for_package_data_in_the_docs_packs_all_that_a_unit_needs(made, tmp_path):
    docs = (Path(__file__).resolve().parents[2] / "docs/deployment.md").read_text()
    assert (
        '"*" = ["*.cpp", "*.h", "*.pt", "built/*", "built/*/*.so", "built/*/*.cubin", "longhand.lock"]'
        in docs
    )
    (tmp_path / "served").mkdir()
    (tmp_path / "served/__init__.py").write_text("")
    shutil.copytree(made, tmp_path / "served/scorer", ignore=shutil.ignore_patterns("__pycache__", ".base"))
    (tmp_path / "setup.py").write_text(SETUP)
    program = "import sys; sys.argv = ['setup.py', '-q', 'bdist_wheel']; exec(open('setup.py').read())"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = set(zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))).namelist())
    for path in (tmp_path / "served/scorer").rglob("*"):
        if path.suffix in (".py", ".cpp", ".h", ".pt"):
            assert path.relative_to(tmp_path).as_posix() in names
