"""The project file's package list equals the tree, and a wheel holds what an installed longhand needs."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("capture", "emit", "lower", "schedule", "templates")


def packages_in_tree():
    found = {"longhand": "longhand"}
    for top in ("longhand", *ROOMS):
        for init in (ROOT / top).rglob("__init__.py"):
            folder = init.parent.relative_to(ROOT)
            name = ".".join(folder.parts)
            found[name if top == "longhand" else f"longhand.{name}"] = str(folder)
    return found


def test_the_package_list_is_the_tree():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(packages_in_tree())


def test_every_package_is_found_in_its_folder():
    folders = PROJECT["tool"]["setuptools"]["package-dir"]
    for package, folder in packages_in_tree().items():
        top = ".".join(package.split(".")[:2])
        inside = package[len(top) :].replace(".", "/")
        assert folders.get(package, folders.get(top, "") + inside) == folder


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    # In a process of its own: setuptools' warnings are of classes that xdist cannot send from worker to master.
    options = {"--build-option": ["build", "--build-base", str(out / "build")]}
    program = (
        "import sys; from setuptools import build_meta; sys.argv = ['setup.py'];"
        f"print(build_meta.build_wheel({str(out)!r}, {options!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    name = done.stdout.split()[-1]
    with zipfile.ZipFile(out / name) as wheel:
        return set(wheel.namelist())


def test_a_wheel_holds_every_module_and_template(wheel_names):
    for package, folder in packages_in_tree().items():
        for path in (ROOT / folder).iterdir():
            if path.suffix in (".py", ".jinja", ".h", ".typed"):
                assert f"{package.replace('.', '/')}/{path.name}" in wheel_names


def test_a_wheel_holds_nothing_else(wheel_names):
    tops = {name.split("/")[0] for name in wheel_names}
    assert tops == {"longhand", f"longhand-{PROJECT['project']['version']}.dist-info"}


def test_the_entry_points_exist():
    for group in (
        PROJECT["project"]["scripts"],
        PROJECT["project"]["entry-points"]["torch_dynamo_backends"],
    ):
        for target in group.values():
            module, _, name = target.partition(":")
            path = ROOT / Path(*module.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            assert f"def {name}(" in path.read_text()
