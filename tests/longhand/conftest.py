"""Fixtures of tests that compile."""

import pytest
import torch

import longhand
from longhand.capture.bytecode.hook import frame_hook
from tests.longhand import git, pair_models


@pytest.fixture(scope="module")
def one_cache(tmp_path_factory):
    """A cache folder for each file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGHAND_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def fresh(hook):
    """Nothing is compiled yet; and no test leaves the hook on."""
    longhand.reset()
    torch.manual_seed(0)
    yield
    assert frame_hook().pause() is None


@pytest.fixture(scope="session")
def first(tmp_path_factory):
    """A git repository with a unit of the first version of pair_models: copy it, leave it as it is."""
    folder = tmp_path_factory.mktemp("first")
    pair_models.generate("first", folder / "unit")
    git.run(folder, "init", "-q", "-b", "main")
    git.commit(folder, "first")
    return folder


@pytest.fixture(autouse=True)
def _trusted(monkeypatch):
    """These tests' repositories are the user's own: `check` may import their models."""
    monkeypatch.setenv("LONGHAND_TRUST", "1")
